//! The worker loop and the policies that run on it.
//!
//! A scheduler is one or more workers, each an OS thread with a [`Policy`] (what runs next) and a
//! [`Park`](segue_core::Park) (how to idle). Everything else is written once, in the worker loop: starting and switching fibers, mail
//! from other threads, sleeping without losing a wake-up, timers, fairness, the closures that idle workers take from busy ones.
//!
//! Reading order: `policies/sim.rs`, with `explore/course.rs`, is a whole scheduler; then `policy.rs`, `worker.rs`, `local.rs` (the contract as fibers see it),
//! `inbox.rs` and `group.rs` (the two protocols between threads), `fork.rs`; `explore/mod.rs`, the search for schedules that fail.
//!
//! * [`Builder::run`]: a scheduler on the calling thread and others; [`Builder::pool`]: on threads of its own.
//! * [`Builder::driven`]: driven by the caller's own loop. [`move_to`]: a part of a fiber under another scheduler.
//! * [`Sim`]: seeded schedules, simulated time, deadlock reports. [`Explore`]: the same program under many schedules.
//! * Fork-join with [`join`].
//! * [`hosted`]: a fiber without a worker, run by a foreign executor as a future.

mod driven;
mod explore;
mod fork;
mod frame;
mod group;
mod handle;
mod hosted;
#[doc(hidden)]
pub mod inbox;
mod local;
mod policies;
mod policy;
mod runtime;
mod summons;
mod worker;

pub use driven::{Driven, Polled};
#[doc(hidden)]
pub use explore::test_name;
pub use explore::{BadSchedule, Cause, Explore, Explored, Failure, Leaks, Schedule, Shrunk, Verdict};
pub use fork::{join, try_join};
pub use handle::{Handle, move_to};
pub use hosted::{Hosted, hosted};
pub use local::{Stuck, try_yield};
pub use policies::{
    ByDeadline, ByPriority, Class, Deadlock, Due, Fair, Fifo, GangTooLarge, Ganged, Gangs, Hierarchical, Lifo, Ordered,
    Part, Priority, RoundRobin, Share, Sim, Stealing,
};
pub use policy::{AHEAD, Goes, Idle, Policy, Seat, Started, Task, Why};
pub use runtime::{Builder, MakePark, Pool};
pub use segue_fiber::{self as fiber, Backtrace, StackConfig};
