//! The contract between schedulers and everything that waits.
//!
//! This crate knows no stacks, no ready queues and no I/O, and depends on nothing. It says how a computation that
//! waits is suspended and continued by whatever scheduler it belongs to, and what follows from that alone. With no scheduler
//! installed everything works on plain threads.
//!
//! A tour, in reading order:
//!
//! * [`Trigger`]: one wait meets one signal, in one atomic word. [`Link`]: a trigger passes its signal on to another.
//! * [`Fiber`]: the header of what runs, and the way to the current one.
//! * [`Attributes`]: what fibers carry for their policy, inherited by their children.
//! * [`Scheduler`]: the methods of whoever can suspend; `thread` implements them for plain threads.
//! * [`Source`]: what can be waited for, in six steps. [`wait`] follows from them for fibers and threads, [`SourceFuture`] for tasks, [`Or`] and
//!   [`Map`] are sources made of others, and [`Waitable`] is a source in the hands of a user.
//! * [`admit`]: what an operation does first, so that nobody starves.
//! * [`WaitQueue`]: the one queue under every structure, and [`Operation`], what a structure writes. [`Timers`]: the clock; [`Deadline`]: a point in time.
//! * `cancel`: the tree of contexts: [`Cancelled`] with its reason, [`CancelToken`], [`timeout`], [`shield`], [`finally`].
//! * [`scope`] and [`spawn`]: who owns whom. [`Job`]: a closure that has not started; [`JoinHandle`]: its result, joined or awaited.
//! * [`spawn_task`]: a future that a scheduler runs next to its fibers.
//! * [`wait_future`]: a fiber or thread that waits for any `Future`.
//! * [`blocking`]: calls that block their thread, made by fibers.
//! * [`Park`]: how a worker idles. [`preemption_point`] and [`outside_work`]: what simulators have to be told.
//! * [`conformance`]: the contract as a test suite for any scheduler.
//!
//! A structure in a few lines, at which fibers, threads and tasks meet:
//!
//! ```
//! use segue_core::{WaitQueue, WaitsFor, Waitable, timeout, wait_future};
//! use std::time::Duration;
//!
//! static COINS: WaitQueue<u32, u32> = WaitQueue::new(0);
//!
//! let three = || Waitable::new(COINS.source(WaitsFor::new("three coins"), |coins| *coins >= 3, |coins| std::mem::take(coins)));
//! // Nobody pays: the wait is cancelled.
//! assert!(timeout(Duration::from_millis(1), || three().wait()).unwrap_err().timed_out());
//!
//! let task = std::thread::spawn(move || wait_future(async move { three().await }));
//! let mut coins = COINS.lock();
//! *coins.state() += 4;
//! coins.notify_one(0);
//! drop(coins);
//! assert_eq!(task.join().unwrap(), Ok(4));
//! ```
//!
//! Applications use the crate `segue`, which re-exports what they need.

mod async_task;
pub mod atomic;
mod attributes;
mod blocking;
mod budget;
mod cancel;
#[cfg(not(loom))]
pub mod conformance;
mod context;
mod crew;
mod deferred;
mod either;
mod family;
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
mod outside;
mod pair;
mod park;
mod patience;
mod preempt;
mod scheduler;
mod scope;
mod source;
mod spare;
mod target;
mod task;
mod thread;
mod time;
mod trigger;
mod unwind;
mod wait_queue;
mod waker;

pub use async_task::Accept;
pub use attributes::{Attribute, Attributes, attribute, attributes};
pub use blocking::{Blocking, blocking, set_blocking_idle, set_blocking_limit};
pub use budget::admit;
pub use cancel::{CancelToken, Cancelled, check, deadline, finally, is_cancelled, shield, timeout};
pub use deferred::{wake_after_interrupt, wake_task};
pub use either::{Either, Or};
pub use family::Family;
pub use fiber::{Fiber, WaitsFor, current, in_fiber, retire, run_as_thread, set_current, with_current, yield_now};
pub use future::SourceFuture;
pub use job::{Job, JobHeader, Name, Place, Work};
pub use link::Link;
pub use map::Map;
pub use outside::{OutsideWork, outside_work};
pub use pair::Half;
pub use park::{Park, Unpark, WaitPark};
pub use preempt::{PreemptionPoints, preemption_point};
pub use scheduler::{Scheduler, Wake};
pub use scope::{Builder, Scope, scope, spawn, spawn_task};
pub use source::{Ended, Source, Waitable, registered, wait, wait_until};
pub use spare::{keep_spares, settle};
pub use target::{StartDefault, has_default, set_default, spawn_by_default};
pub use task::{JoinError, JoinHandle, Joining};
pub use thread::thread_timers;
pub use time::{Alarm, Deadline, TimedOut, Timers, after, at, now, sleep};
pub use trigger::{MAX_ARM, Outcome, Trigger, Wakeup};
/// For schedulers and bridges that call foreign code.
#[doc(hidden)]
pub use unwind::{NoUnwind, contain};
pub use wait_queue::{Guard, Node, Operation, Take, WaitQueue, Waiting};
pub use waker::{Executor, TaskFiber, set_task, wait_future, wait_future_shielded};
