//! The parts of a [`Dump`].
//!
//! Made by `take.rs`; read by users, by the texts, and by the search for cycles.

use segue_core::WaitsFor;
use segue_fiber::{Backtrace, Unanswered};
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// The fibers of all schedulers, and the plain threads that wait: by [`dump`](crate::dump).
///
/// As text by [`Display`](fmt::Display), in which fibers with equal stacks stand together; as JSON
/// by [`to_json`](Self::to_json).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dump {
    /// In the order in which they began.
    pub schedulers: Vec<SchedulerDump>,
    /// The plain threads that sleep in a wait.
    pub threads: Vec<ThreadDump>,
    /// Fibers and threads that wait for each other, and do so until a wait is cancelled.
    ///
    /// Each was seen twice, in the same waits. A lock counts as that of the fiber that has locked:
    /// a cycle may be none if the guard was sent to another fiber, or if the system has stopped a
    /// thread for milliseconds in the middle of a lock.
    ///
    /// Of mutexes, writers, cells that are being initialised, joins and scopes the owners are
    /// known; not known are readers, those that lock on a plain thread by `try_lock` or a source,
    /// and fibers that own something while they wait as a thread: during a panic, in
    /// [`blocking_here`](crate::blocking_here) or in `run_as_thread`. Deadlocks of these are
    /// missed, as is a wait for one of several things, with a time limit for instance.
    pub deadlocks: Vec<Cycle>,
    /// How long the dump has taken.
    pub took: Duration,
    /// Why there is less than everything.
    pub note: Option<&'static str>,
}

/// A scheduler in a [`Dump`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SchedulerDump {
    /// Counts the schedulers of the process, from 1.
    pub number: u64,
    /// The name by [`Runtime::name`](crate::Runtime::name).
    pub name: String,
    /// All that have not ended.
    pub workers: Vec<WorkerDump>,
    /// The closures that have not started, and are offered to the workers.
    pub closures: Vec<ClosureDump>,
}

/// A worker in a [`Dump`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerDump {
    /// Its number in its scheduler.
    pub index: usize,
    /// Where the worker was met.
    pub state: WorkerState,
    /// Its fibers.
    pub fibers: Vec<FiberDump>,
    /// The calls of its thread, if that was interrupted in a turn.
    pub stack: Option<Backtrace>,
}

/// Where a worker was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerState {
    /// In no turn: asleep, mostly.
    Idle,
    /// Between two turns, to which the worker has come within ten milliseconds.
    Turning,
    /// In a turn that is longer than that, or in that of the caller. Its other fibers can't run
    /// before the end of this turn.
    Busy,
    /// Its thread does not answer, and its fibers are not listed.
    Silent(Unanswered),
}

/// The state of a fiber in a [`Dump`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FiberState {
    /// On its thread, or the host of a scheduler that is.
    Running,
    /// In a wait. The wait may be over already, if another fiber of the same worker has ended that
    /// since: then the fiber is ready.
    Waiting,
    /// Resumed from another thread, and not yet seen by its worker.
    Woken,
    /// Ready: the fiber has given up its turn, or has not begun.
    Ready,
}

/// A fiber in a [`Dump`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FiberDump {
    /// No other fiber of the process has this number.
    pub number: u64,
    /// The number in reports, which the scheduler gave.
    pub id: u64,
    /// The name; of a long name the beginning.
    pub name: Option<String>,
    /// The state.
    pub state: FiberState,
    /// Its wait.
    pub waits_for: Option<WaitsFor>,
    /// The address of that thing, if known.
    pub object: Option<usize>,
    /// The owner of that thing, if there is one that is known.
    pub owner: Option<OwnerDump>,
    /// Whether the wait is for the kernel: a socket, a pipe, a signal.
    pub is_for_kernel: bool,
    /// For how long the fiber has been suspended, to some ten milliseconds; not for one that runs.
    pub age: Option<Duration>,
    /// Where the spawn was called.
    pub spawned_at: Option<&'static Location<'static>>,
    /// The address of the scope, or of the scheduler, of the fiber. A fiber that waits for
    /// the fibers of a scope has this as its object.
    pub scope: Option<usize>,
    /// Its calls, from its last one to the beginning of the fiber.
    pub stack: Option<Backtrace>,
    /// The address of its job, by which its joiner is found.
    pub(crate) job: Option<usize>,
    /// Counts its waits.
    pub(crate) wait: u64,
}

/// The owner of a thing in a [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnerDump {
    /// Its number: that of a fiber or a thread.
    pub number: u64,
    /// "fiber `name`", or as much as is known.
    pub name: String,
    /// Where the owner has locked, in a debug build.
    pub locked_at: Option<&'static Location<'static>>,
}

/// A plain thread in a [`Dump`], which sleeps in a wait.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ThreadDump {
    /// No other thread, and no fiber, of the process has this number.
    pub number: u64,
    /// The thread's name.
    pub name: Option<String>,
    /// Its wait.
    pub waits_for: WaitsFor,
    /// The address of that thing, if known.
    pub object: Option<usize>,
    /// The owner of that thing, if there is one that is known.
    pub owner: Option<OwnerDump>,
    /// For how long the thread has slept.
    pub age: Duration,
    pub(crate) sleep: u64,
}

/// A closure in a [`Dump`] that has not started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClosureDump {
    /// The name for its fiber.
    pub name: Option<String>,
    /// Where the spawn was called.
    pub spawned_at: Option<&'static Location<'static>>,
    /// The worker to which the closure was sent, or that offers the closure; `None` if that came
    /// from outside.
    pub worker: Option<usize>,
}

/// Waiters of which each waits for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cycle {
    /// The waiters, in this order.
    pub waiters: Vec<Waiter>,
}

/// A fiber or a thread in a [`Cycle`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// Its number.
    pub number: u64,
    /// "fiber `name`", or its number and scheduler.
    pub name: String,
    /// Its wait.
    pub waits_for: WaitsFor,
    /// The address of the thing.
    pub object: usize,
    /// Where the next one has locked the thing, in a debug build.
    pub locked_at: Option<&'static Location<'static>>,
}

impl Dump {
    /// All fibers.
    pub fn fibers(&self) -> impl Iterator<Item = &FiberDump> {
        self.schedulers.iter().flat_map(|it| &it.workers).flat_map(|it| &it.fibers)
    }
}

impl FiberDump {
    /// "fiber `name`", or its number.
    pub(crate) fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("fiber `{name}`"),
            None => format!("fiber {}", self.id),
        }
    }
}

impl ThreadDump {
    pub(crate) fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("thread `{name}`"),
            None => "a thread without a name".to_owned(),
        }
    }
}

impl fmt::Display for WorkerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("in no turn"),
            Self::Turning => f.write_str("takes turns"),
            Self::Busy => f.write_str("in one turn, for which all else there waits"),
            Self::Silent(why) => write!(f, "its fibers are not listed: {why}"),
        }
    }
}

impl fmt::Display for FiberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "runs",
            Self::Waiting => "waits",
            Self::Woken => "woken",
            Self::Ready => "ready",
        })
    }
}
