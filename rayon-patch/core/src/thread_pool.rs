//! `ThreadPool`, and what the current thread is.
//!
//! Used by applications.

use crate::broadcast::{BroadcastContext, broadcast_at, spawn_broadcast_at};
use crate::place::{self, Place};
use crate::registry::{Registry, mine, threads_of_fiber};
use crate::scope::{Scope, ScopeFifo};
use crate::spawning::spawn_in;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A pool of workers of its own. Dropped, it ends when the last job that was spawned in it has.
pub struct ThreadPool {
    registry: Arc<Registry>,
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool").field("num_threads", &self.current_num_threads()).finish()
    }
}

impl ThreadPool {
    /// Builds one.
    ///
    /// # Errors
    /// As for [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    #[deprecated(note = "Use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: crate::Configuration) -> Result<Self, Box<dyn Error>> {
        configuration.build()
    }

    pub(crate) fn of(registry: Arc<Registry>) -> Self {
        Self { registry }
    }

    fn place(&self) -> Place {
        Place::of(&self.registry)
    }

    /// Whether the calling thread is this pool's number 0, and no worker.
    fn is_first(&self) -> bool {
        mine().is_some_and(|(registry, is_first)| is_first && Arc::ptr_eq(&registry, &self.registry))
            && segue_sched::worker_index().is_none()
    }

    /// Runs `op` in the pool, and returns what it returned: what it calls of rayon's runs there.
    ///
    /// # Panics
    /// If `op` does.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(2).build()?;
    /// assert_eq!(pool.install(rayon_core::current_num_threads), 2);
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        if self.is_first() { op() } else { self.registry.call(op) }
    }

    /// As [`broadcast`](crate::broadcast()), in this pool.
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        broadcast_at(self.place(), op)
    }

    /// How many threads it has.
    #[must_use]
    pub fn current_num_threads(&self) -> usize {
        self.registry.threads()
    }

    /// The number of the calling thread, if it is one of this pool's.
    #[must_use]
    pub fn current_thread_index(&self) -> Option<usize> {
        let is_mine = self.registry.handle().is_current();
        if is_mine || self.is_first() { place::index() } else { None }
    }

    /// As [`current_thread_has_pending_tasks`], if the calling thread is one of this pool's.
    #[must_use]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.current_thread_index().map(|_| current_thread_has_pending_tasks().unwrap_or(false))
    }

    /// As [`join`](crate::join()), in this pool.
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.install(|| crate::join(oper_a, oper_b))
    }

    /// As [`scope`](crate::scope()), in this pool.
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| Scope::open_at(self.place(), op))
    }

    /// As [`scope_fifo`](crate::scope_fifo), in this pool.
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        self.install(|| ScopeFifo::open_at(self.place(), op))
    }

    /// As [`in_place_scope`](crate::in_place_scope), whose jobs run in this pool.
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        Scope::open_at(self.place(), op)
    }

    /// As [`in_place_scope_fifo`](crate::in_place_scope_fifo), whose jobs run in this pool.
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        ScopeFifo::open_at(self.place(), op)
    }

    /// As [`spawn`](crate::spawn()), in this pool.
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_in(&self.place(), Box::new(op), false);
    }

    /// As [`spawn_fifo`](crate::spawn_fifo), in this pool.
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn_in(&self.place(), Box::new(op), true);
    }

    /// As [`spawn_broadcast`](crate::spawn_broadcast), in this pool.
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        spawn_broadcast_at(&self.place(), op);
    }

    /// As [`yield_now`], if the calling thread is one of this pool's.
    pub fn yield_now(&self) -> Option<Yield> {
        self.current_thread_index().and_then(|_| yield_now())
    }

    /// As [`yield_local`], if the calling thread is one of this pool's.
    pub fn yield_local(&self) -> Option<Yield> {
        self.yield_now()
    }
}

/// How many threads a pool can have.
#[must_use]
pub fn max_num_threads() -> usize {
    1 << 16
}

/// How many threads the current pool has: that of the calling fiber, else the global one.
#[must_use]
pub fn current_num_threads() -> usize {
    threads_of_fiber().unwrap_or_else(|| Place::here().threads())
}

/// The number of the calling thread in its pool, if it belongs to one.
#[must_use]
pub fn current_thread_index() -> Option<usize> {
    place::index()
}

/// Whether something waits for its turn on the calling thread, if that belongs to a pool.
#[must_use]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    match segue_sched::worker_has_more() {
        Some(more) => Some(more),
        None => place::index().map(|_| false),
    }
}

/// What a yield has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// Something else had its turn.
    Executed,
    /// There seemed to be nothing.
    Idle,
}

/// Lets others have a turn on the calling thread, if it belongs to a pool.
///
/// It is the fiber that waits meanwhile, and not its frame: what runs has its own stack.
pub fn yield_now() -> Option<Yield> {
    let Some(more) = segue_sched::worker_has_more() else { return place::index().map(|_| Yield::Idle) };
    let yielded = segue_core::shield(segue_core::yield_now).is_ok();
    Some(if more && yielded { Yield::Executed } else { Yield::Idle })
}

/// As [`yield_now`]: fibers know no difference.
pub fn yield_local() -> Option<Yield> {
    yield_now()
}
