//! The worker loop and its policies.
//!
//! A scheduler is one or more workers, each an OS thread with a [`Policy`] (the next fiber) and a
//! [`Park`](segue_core::scheduling::Park) (how to idle). Everything else is written once, in the
//! worker loop: starting and switching fibers, mail from other threads, sleeping without losing a
//! wake-up, timers, fairness, the closures that idle workers take from busy ones.
//!
//! Reading order: `plain.rs`, a whole scheduler in one file, which shares nothing with the others;
//! then the room `worker`: `policy.rs`, `run_loop`, `local` (the contract as fibers see it),
//! `inbox.rs` and `group/mod.rs` (the two protocols between threads), `placing.rs` (where closures
//! start); `join`; `explore/sim.rs` and `explore/mod.rs`, the simulator and the search for
//! schedules that fail.
//!
//! # Which policy
//!
//! | policy | for | order on a worker | new closures run on | starves |
//! | --- | --- | --- | --- | --- |
//! | [`Stealing`], the default | computation on all processors | started fibers first in, first out; closures newest first; in turn | any worker that is idle, or has fewer fibers | nobody |
//! | [`Fifo`] | many fibers that wait a lot | first in, first out | the spawner's worker | nobody |
//! | [`Lifo`] | trees of fibers, depth first | newest first, a yielding one last | the spawner's worker | nobody; if strict, old ones |
//! | [`RoundRobin`] | many alike, spread evenly; chains, in runs | first in, first out, or another | each worker in turn | nobody |
//! | [`ByPriority`] | work that must not wait behind other work | highest [`Priority`] | the spawner's worker, or an idle one | if strict, less urgent ones; with relief nobody |
//! | [`ByDeadline`] | requests with times to be met | earliest [`Due`] | the spawner's worker, or an idle one | nobody |
//! | [`Fair`] | several parties, each with its share of the time | the group that has used least by its [`Share`] | the spawner's worker, or an idle one | nobody |
//! | [`Hierarchical`] | parts that want different policies | the child that has used least by its share, then its own | as in the child | as in the child |
//! | [`Sim`], not on workers | tests | drawn from a seed | one thread | nobody, with luck |
//!
//! A policy of one's own is a [`Policy`]: `examples/policy.rs` has one in under forty lines, and a
//! check; in `examples/gangs.rs` the workers' policies share a table. [`Ordered`] is a collection
//! for those that sort.
//!
//! # Entry points
//!
//! * [`Runtime::run`]: a scheduler on the calling thread and others; [`Runtime::pool`]: on threads
//!   of its own.
//! * [`Runtime::driven`]: driven by the caller's own loop. [`move_to`]: a part of a fiber under
//!   another scheduler.
//! * [`Sim`]: seeded schedules, simulated time, deadlock reports. [`Explore`]: the same program
//!   under many schedules.
//! * Fork-join with [`join()`]; parallel loops and sorts in [`par`]. Long computations with a
//!   [`checkpoint`] now and then.
//! * [`recorder`]: the last events of each worker, kept all the time.
//! * [`Runtime::monitor`]: reports of workers that are stuck in a fiber. [`Runtime::on_park`] and
//!   its like: hooks. [`Runtime::pin`]: a processor for each worker.
//! * [`host()`]: whether fibers have stacks or threads in this build.
//! * [`hosted`]: a fiber without a worker, run by a foreign executor as a future.
//! * [`Plain`]: the plainest scheduler, to read first.

mod dump;
mod explore;
mod hosted;
mod join;
pub mod par;
mod plain;
mod policies;
pub mod recorder;
mod run;
mod worker;

pub use dump::dump;
pub use dump::parts::{
    ClosureDump, Cycle, Dump, FiberDump, FiberState, OwnerDump, SchedulerDump, ThreadDump, Waiter, WorkerDump,
    WorkerState,
};
pub use explore::{
    BadSchedule, Cause, Deadlock, Explore, Explored, Failure, Leaks, Schedule, Shrunk, Sim, Verdict, settle,
};
pub use hosted::{Hosted, hosted, hosted_as};
pub use join::context::{FnContext, join_context, try_join_context};
pub use join::{is_wanted, join, offer_forks, try_join};
pub use plain::Plain;
pub use policies::{
    ByDeadline, ByPriority, Class, Due, Fair, Fifo, Hierarchical, Lifo, Ordered, Priority, RoundRobin, Share, Stealing,
};
pub use run::default::{DefaultPool, default_pool, run, runtime};
pub use run::driven::{Driven, Polled};
pub use run::handle::Handle;
pub use run::moving::move_to;
pub use run::plan::MakePark;
pub use run::pool::{Pool, WorkerThread};
pub use run::report::{StuckWorker, Survivors};
pub use run::runtime::Runtime;
pub use run::shutdown::Shutdown;
pub use segue_fiber::{self as fiber, Backtrace, Host, StackConfig, host};
pub use worker::block_in_place::blocking_here;
pub use worker::checkpoint::checkpoint;
pub use worker::index::{worker_has_more, worker_index};
pub use worker::policy::{Goes, Idle, Policy, Seat, Started, Task, Why};
pub use worker::stuck::Stuck;
