//! rayon-core's public functions on Segue's workers.
//!
//! Used by applications through `[patch.crates-io]`: then rayon, unmodified, and all crates that
//! use it run their loops on the workers of the fiber that calls them, beside its fibers; and what
//! runs in them may wait for anything of Segue's, which suspends a fiber and blocks no thread.
//!
//! ```toml
//! [patch.crates-io]
//! rayon-core = { git = "..." }
//! ```
//!
//! # Where it runs
//!
//! | caller | its loops run on |
//! | --- | --- |
//! | a fiber of a scheduler of Segue's, whichever | the workers of that scheduler |
//! | a fiber of a [`ThreadPool`] | the pool's workers |
//! | a plain thread | the global pool: Segue's default runtime, unless [`ThreadPoolBuilder::build_global`] or `RAYON_NUM_THREADS` says otherwise |
//!
//! # What differs from rayon-core
//!
//! * A job that waits, for other jobs or for anything else of Segue's, is a fiber that is
//!   suspended: its worker runs other fibers, on their own stacks, and never a stranger's job on
//!   top of the waiting frame. So a lock of Segue's may be held across `join`.
//! * Jobs that were spawned are taken newest first (`spawn`) or oldest first (`spawn_fifo`) in each
//!   scope and in each pool. Among several scopes, and beside fibers that wait, Segue's scheduler
//!   has the order.
//! * [`ThreadPoolBuilder::stack_size`] is the size of the fibers' stacks, of which little is used
//!   until it is needed; two mebibytes if nothing is said. On a fiber of Segue's own a loop runs on
//!   that fiber's stack, and others of its scheduler, which are 256 KiB unless `StackConfig` or
//!   `SEGUE_STACK_SIZE` says otherwise: programs that recurse deeply want more.
//! * [`ThreadPoolBuilder::use_current_thread`]: the thread counts as number 0, and what it calls
//!   runs on the pool's other workers while it waits. A pool of that thread alone has one more, for
//!   that.
//! * A pool's closures run in the caller's cancellation contexts where the caller waits for them
//!   (`join`, `install`); what is spawned is cancelled by the end of its scheduler alone.

mod broadcast;
mod builder;
mod configuration;
mod joining;
mod place;
mod registry;
mod scope;
mod spawning;
mod targeted;
mod thread_pool;

pub use broadcast::{BroadcastContext, broadcast, spawn_broadcast};
pub use builder::{CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadPoolBuildError, ThreadPoolBuilder, ThreadSpawn};
#[allow(deprecated)]
pub use configuration::{Configuration, initialize};
pub use joining::{join, join_context};
pub use scope::{Scope, ScopeFifo, in_place_scope, in_place_scope_fifo, scope, scope_fifo};
pub use segue_sched::FnContext;
pub use spawning::{spawn, spawn_fifo};
pub use thread_pool::{
    ThreadPool, Yield, current_num_threads, current_thread_has_pending_tasks, current_thread_index, max_num_threads,
    yield_local, yield_now,
};
