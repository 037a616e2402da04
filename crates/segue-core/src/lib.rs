//! The contract between schedulers and everything that waits.
//!
//! This crate knows no policies and no I/O, of stacks the [`switch`] alone, and depends on nothing.
//! The only queue of work here belongs to the threads for blocking calls. It says how any scheduler
//! suspends and continues its waiting computations, and has all that follows from that alone. With
//! no scheduler installed everything works on plain threads.
//!
//! A tour, in reading order:
//!
//! * [`Trigger`]: one wait meets one signal, in one atomic word. [`Link`]: a trigger passes its
//!   signal on to another.
//! * [`Fiber`]: the header of a running fiber, and the way to the current one.
//! * [`Attributes`]: values that fibers carry for their policy, inherited by their children.
//! * [`Scheduler`](scheduling::Scheduler): the contract for suspending a fiber; `thread` implements
//!   it for plain threads.
//! * [`Source`]: the contract for waits, in six steps. [`wait`] follows from them for fibers and
//!   threads, [`SourceFuture`] for tasks, [`Or`], [`Map`] and [`FilterMap`] are sources made of
//!   others, [`guard`] and [`with_nack`] of closures, [`future_source`] of a future, and
//!   [`Waitable`] is a source in the hands of a user. [`merge`]: several that are waited for over
//!   and over.
//! * [`admit`]: the first step of an operation, so that nobody starves.
//! * [`WaitQueue`]: the one queue under every structure, and [`Operation`], the part that a
//!   structure writes. [`Timers`](scheduling::Timers): the clock; [`Deadline`]: a point in time.
//! * `cancel`: the tree of contexts: [`Cancelled`] with its reason, [`CancelToken`], [`timeout`],
//!   [`shield`], [`finally`].
//! * [`scope`], [`try_scope`] and [`spawn`]: the owners of fibers. [`Job`](scheduling::Job): a
//!   closure that has not started; [`JoinHandle`]: its result, joined or awaited.
//! * [`spawn_task`]: a future that a scheduler runs next to its fibers.
//! * [`wait_future`]: a fiber or thread that waits for any `Future`.
//! * [`blocking`]: calls that block their thread, made by fibers.
//! * [`Park`](scheduling::Park): how a worker idles. [`preemption_point`], [`outside_work`] and
//!   [`kernel_wait`](drivers::kernel_wait): the messages for simulators.
//! * The crate `segue-conformance`: the contract as a test suite for any scheduler.
//!
//! A structure in a few lines, at which fibers, threads and tasks meet:
//!
//! ```
//! use segue_core::{WaitQueue, WaitsFor, Waitable, timeout, wait_future};
//! use std::time::Duration;
//!
//! static COINS: WaitQueue<u32, u32> = WaitQueue::new(0);
//!
//! let three = || {
//!     let waits_for = WaitsFor::new("three coins");
//!     Waitable::new(COINS.source(waits_for, |coins| *coins >= 3, std::mem::take))
//! };
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
//! Applications use the crate `segue`, which re-exports the needed parts.

mod blocking;
mod cancel;
pub mod chain;
mod contract;
pub mod drivers;
mod primitives;
mod sim;
mod spawn;
mod thread;
mod timers;
mod tree;
mod values;
mod wait;

// For users and writers of structures.
pub use blocking::pool::{set_blocking_idle, set_blocking_limit};
pub use blocking::{Blocking, blocking};
pub use cancel::cancellation::{Cancellation, Finishing, Told, Watch, finishing_source, is_finishing};
pub use cancel::token::CancelToken;
pub use cancel::{deadline, finally, shield, shield_for, timeout};
pub use contract::current::in_fiber;
pub use contract::fiber::Fiber;
pub use contract::trigger::Link;
pub use contract::trigger::{MAX_ARM, Outcome, Trigger};
pub use contract::wakeup::Wakeup;
pub use primitives::atomic;
pub use primitives::payload::{Panic, describe_panics};
pub use primitives::shared_pair::Half;
pub use primitives::stack::trim_stack;
pub use primitives::switch;
pub use primitives::waits_for::{Object, Owner, WaitsFor, WaitsOn};
pub use sim::external_work::{OutsideWork, outside_work};
pub use sim::preemption::preemption_point;
pub use spawn::builder::{OfThreads as Builder, spawn, spawn_task};
pub use spawn::failure::{Failure, ScopeError};
pub use spawn::join_error::JoinError;
pub use spawn::join_handle::JoinHandle;
pub use spawn::panic_names::name_fibers_in_panics;
pub use spawn::scope::{Scope, scope};
pub use spawn::task::Joining;
pub use spawn::try_scope::{TryScope, try_scope};
pub use thread::here::{with_current, yield_now};
pub use tree::cancelled::{Cancelled, Overran, TimedOut};
pub use tree::context::is_cancelled;
pub use tree::extent::Extent;
pub use values::attributes::{Attribute, Attributes, Spread, attribute, attributes};
pub use values::locals::{AccessError, FiberLocal};
pub use wait::admission::{admit, check};
pub use wait::any_of::{AnyOf, Slots, any_of, any_of_biased};
pub use wait::arms::{Arms, OneOf};
pub use wait::deadline::{Alarm, Deadline, after, at, now, sleep};
pub use wait::draw::random;
pub use wait::filter_map::FilterMap;
pub use wait::future::SourceFuture;
pub use wait::future_source::future_source;
pub use wait::guarded::{Guarded, guard};
pub use wait::holders::{BoxSlot, BoxSource, LocalBoxSource, Map};
pub use wait::merge::{Merge, merge};
pub use wait::nack::{Fate, Nack, Watched, with_nack};
pub use wait::no_suspend::no_suspend;
pub use wait::parts::Parts;
pub use wait::queue::{Brings, Guard, Node, Operation, Take, Unlocked, WaitQueue, Waiting};
pub use wait::retreat::Retreat;
pub use wait::select::{Either, Or};
pub use wait::source::{Ended, Source, Waitable, registered, wait, wait_until};
pub use wait::ticks::{Missed, Ticks, interval};
pub use wait::waker::{wait_future, wait_future_shielded};

/// The parts of a [`Builder`]'s type: where a fiber starts, and when the fiber begins.
pub mod build {
    pub use crate::spawn::begin::{Begin, Delayed};
    pub use crate::spawn::builder::Builder;
    pub use crate::spawn::default_runtime::{DefaultRuntime, Threads};
    pub use crate::spawn::place::{
        Daemon, Detached, Fallible, Host, Infallible, Local, On, Owner, Place, Within, WithinOn,
    };
}

/// For writers of schedulers and runtimes: the contract, the jobs and families that they are
/// handed, the parks that their workers idle in, and the words of their workers about the thread.
pub mod scheduling {
    pub use crate::chain::deferred_wakers::{afresh, wake_after_interrupt, wake_task};
    pub use crate::contract::clock::Clock;
    pub use crate::contract::current::{current, set_current};
    pub use crate::contract::fiber::{Scheduler, Spawn, Wake};
    pub use crate::contract::job::{Job, JobHeader, Name, Place, Work};
    pub use crate::contract::park::{Park, Unpark};
    pub use crate::contract::slots::FamilyId;
    #[doc(hidden)]
    pub use crate::primitives::doubt::Doubt;
    pub use crate::primitives::lock::{Lock, LockGuard};
    pub use crate::primitives::marks::Crossing;
    pub use crate::primitives::per_process::{OfProcess, PerProcess};
    pub use crate::primitives::stack::set_stack_trimmer;
    pub use crate::sim::preemption::{PreemptionPoints, is_simulated, preemption_point_in_body, set_preemption};
    pub use crate::spawn::builder::stack_size_of;
    pub use crate::spawn::default_runtime::{StartDefault, thread_spawner};
    pub use crate::spawn::family::Family;
    #[doc(hidden)]
    pub use crate::spawn::panic_names::name_fibers_in_debug_builds;
    pub use crate::spawn::scope::scope_over;
    pub use crate::spawn::spare::{keep_spares, settle};
    pub use crate::spawn::try_scope::try_scope_over;
    pub use crate::thread::here::{retire, run_as_thread};
    pub use crate::thread::waiting::{WaitingThread, waiting_threads};
    pub use crate::timers::Timers;
    pub use crate::timers::of_threads::thread_timers;
    pub use crate::values::carried::{carry, set_carrier};
    pub use crate::wait::admission::begin_turn;
    pub use crate::wait::executor::{AsTask, Executor};
    pub use crate::wait::no_suspend::no_suspend_in_body;
    pub use crate::wait::park::WaitPark;
}

/// Where the panic of foreign code must not get any further: it stays inside, or it ends the
/// process.
pub mod unwind {
    pub use crate::chain::unwind::{__rust_begin_short_backtrace, NoUnwind, abort, contain};
}
