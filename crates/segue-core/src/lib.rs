//! The contract between schedulers and everything that waits.
//!
//! This crate knows no stacks, no ready queues and no I/O, and depends on nothing. It says how a computation that
//! waits is suspended and continued by whatever scheduler it belongs to, and what follows from that alone. With no scheduler
//! installed everything works on plain threads.
//!
//! A tour, in reading order:
//!
//! * [`Trigger`]: one wait meets one signal, in one atomic word.
//! * [`Fiber`]: the header of what runs, and the way to the current one.
//! * [`Scheduler`]: the five methods of whoever can suspend; `thread` implements them for plain threads.
//! * [`Source`]: what can be waited for; [`WaitQueue`]: the one queue under every structure; [`Timers`]: the clock.
//! * `cancel`: the tree of contexts; [`scope`] and [`spawn`]: who owns whom.
//! * [`Job`]: a closure that has not started; [`JoinHandle`]: its result.
//! * [`wait_future`]: a fiber or thread that waits for any `Future`.
//! * [`Park`]: how a worker idles.
//! * [`conformance`]: the contract as a test suite for any scheduler.
//!
//! Applications use the crate `segue`, which re-exports what they need.

pub mod atomic;
mod cancel;
#[cfg(not(loom))]
pub mod conformance;
mod either;
mod fiber;
mod future;
mod job;
mod link;
mod list;
#[cfg(not(loom))]
mod lock;
#[cfg(loom)]
#[path = "lock_model.rs"]
mod lock;
mod map;
mod pair;
mod park;
mod scheduler;
mod scope;
mod source;
mod spare;
mod task;
mod thread;
mod time;
mod trigger;
mod wait_queue;
mod waker;

pub use cancel::{
    CancelToken, Cancelled, check, deadline, finally, is_cancelled, shield, timeout, wake_after_interrupt, wake_task,
};
pub use either::{Either, Or};
pub use fiber::{Fiber, WaitsFor, current, in_fiber, retire, set_current, with_current, yield_now};
pub use future::SourceFuture;
pub use job::{Job, JobHeader, Name, Place, Work};
pub use link::Link;
pub use map::Map;
pub use pair::Half;
pub use park::{Park, Unpark, WaitPark};
pub use scheduler::{Scheduler, Wake};
pub use scope::{Builder, Family, Scope, StartDefault, default_runtime, scope, set_default, spawn, spawn_by_default};
pub use source::{Ended, Source, Waitable, wait, wait_until};
pub use spare::{keep_spares, settle};
pub use task::{JoinError, JoinHandle, Joining};
pub use thread::thread_timers;
pub use time::{Alarm, Deadline, TimedOut, Timers, after, at, now, sleep};
pub use trigger::{MAX_ARM, Outcome, Trigger, Wakeup};
pub use wait_queue::{Guard, Node, Operation, Take, WaitQueue, Waiting};
pub use waker::{wait_future, wait_future_shielded};
