//! Concurrency in straight-line code.
//!
//! A program is written as if every call blocked; what blocks is only the fiber. Fibers of different
//! schedulers and plain threads meet at the same structures, because these are written against one small contract for suspending and
//! resuming, and not against a runtime.
//!
//! ```
//! # #[cfg(feature = "sched")] {
//! use segue::sync::promise;
//!
//! let answer = segue::run(|| {
//!     let (resolver, promised) = promise();
//!     segue::spawn(move || resolver.fill(6 * 7));
//!     *promised.wait().unwrap()
//! });
//! assert_eq!(answer, 42);
//! # }
//! ```
//!
//! * Start: [`run`], [`runtime`], [`Pool`]; one scheduler or several in a program.
//! * Fibers: [`spawn`], [`scope`], [`join`], [`yield_now`], [`sleep`].
//! * Meet: [`sync`].
//! * Stop: [`Cancelled`] is the error of every wait; [`CancelToken`], [`shield`], [`check`].
//! * The world: [`net`].
//! * Test: [`Sim`] runs the same code under seeded schedules with simulated time.
//!
//! Without default features only `segue-core` is used: the structures work, and fibers are plain threads.

#[cfg(feature = "sched")]
mod runtime;
mod spawn;
pub mod sync;

#[cfg(feature = "sched")]
pub use runtime::{default_pool, run, runtime};
#[cfg(feature = "sched")]
pub use segue_sched::{self as sched, Fifo, Pool, Sim, StackConfig, Stealing};

#[cfg(feature = "io")]
pub use segue_io::net;

pub use segue_core::{
    self as core, CancelToken, Cancelled, Either, JoinError, JoinHandle, Scope, TimedOut, Waitable, after, at, check,
    deadline, finally, is_cancelled, now, shield, sleep, timeout,
};
pub use spawn::{Builder, join, scope, spawn, yield_now};

/// The programs of the README, run as tests.
#[cfg(all(doctest, feature = "io"))]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeDoctests;
