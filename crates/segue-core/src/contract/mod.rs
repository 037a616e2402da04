//! The contract: what a scheduler implements ([`scheduler`], [`park`]), what it is handed
//! ([`fiber`], [`job`]), and the one meeting of a wait and a signal ([`trigger`]).

pub(crate) mod attributes;
pub mod chain;
pub(crate) mod current;
pub(crate) mod deferred_wakers;
pub(crate) mod executor;
pub(crate) mod fiber;
pub(crate) mod job;
pub(crate) mod lazy_timer;
pub(crate) mod locals;
pub(crate) mod park;
pub(crate) mod scheduler;
pub(crate) mod stack;
pub(crate) mod stand_in;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod tree;
pub(crate) mod trigger;
pub mod unwind;
