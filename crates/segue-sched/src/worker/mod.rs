//! A worker: an OS thread with fibers, a policy that orders them, and the contract as they see it.
//!
//! [`run_loop`] has the loop, [`local`] the contract, [`inbox`] and [`group`] the protocols between
//! threads, [`policy`] what a policy is.

pub(crate) mod asks;
pub(crate) mod block_in_place;
pub(crate) mod checkpoint;
pub(crate) mod common;
pub(crate) mod ebb;
pub(crate) mod forks;
pub(crate) mod group;
pub(crate) mod header;
pub(crate) mod hooks;
pub(crate) mod inbox;
pub(crate) mod index;
pub(crate) mod local;
mod no_unwind;
mod offers;
pub(crate) mod placing;
pub(crate) mod policy;
pub(crate) mod residents;
pub(crate) mod roll;
pub(crate) mod roster;
pub(crate) mod run_loop;
pub(crate) mod seat;
mod slice;
pub(crate) mod snapshot;
pub(crate) mod stack_job;
pub(crate) mod stuck;
