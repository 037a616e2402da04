//! The completion driver: an io_uring of a worker, for requests of its fibers.
//!
//! Used by ops on sockets and by calls of files. `flying` has the idea, the states of a flight and
//! the ring itself; it knows neither ops nor sockets, but for the [`Limited`] that a socket keeps.

mod files;
mod flight;
mod flying;
mod limited;
mod queues;
mod request;
mod sends;
mod setup;
mod worker;

pub(crate) use files::{CURSOR, OpenHow, StatRoom};
pub(crate) use flying::{Flown, LazyRing, Ring};
pub(crate) use limited::Limited;
pub(crate) use request::{Answer, Request};
pub(crate) use sends::{Rule, Way};
pub(crate) use worker::{expire, of_caller, set};

#[cfg(test)]
pub(crate) use {setup::tests::RESTRICTED, worker::here};
