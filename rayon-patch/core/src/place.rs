//! Where a caller's jobs go.
//!
//! Used by all functions that are not a pool's.

use crate::registry::{Registry, global, global_if_there, mine};
use segue_sched::Handle;
use std::sync::Arc;

/// A scheduler, with the registry that it belongs to, if it does.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) handle: Handle,
    pub(crate) registry: Option<Arc<Registry>>,
}

impl Place {
    /// That of a registry.
    pub(crate) fn of(registry: &Arc<Registry>) -> Self {
        Self { handle: registry.handle().clone(), registry: Some(Arc::clone(registry)) }
    }

    /// That of the calling fiber; `None` elsewhere.
    pub(crate) fn of_fiber() -> Option<Self> {
        let handle = Handle::current()?;
        let registry = mine().map(|(registry, _)| registry).or_else(|| Some(Arc::clone(global_if_there()?)));
        let registry = registry.filter(|registry| *registry.handle() == handle);
        Some(Self { handle, registry })
    }

    /// That of the calling fiber, else that of the pool that the thread belongs to.
    pub(crate) fn here() -> Self {
        Self::of_fiber().unwrap_or_else(|| Self::of(&registry_of_thread()))
    }

    /// How many threads it counts.
    pub(crate) fn threads(&self) -> usize {
        self.registry.as_ref().map_or_else(|| self.handle.workers(), |registry| registry.threads())
    }

    /// The number of its first worker.
    pub(crate) fn first(&self) -> usize {
        self.registry.as_ref().map_or(0, |registry| registry.first())
    }
}

/// The pool that a plain thread belongs to.
pub(crate) fn registry_of_thread() -> Arc<Registry> {
    mine().map_or_else(|| Arc::clone(global()), |(registry, _)| registry)
}

/// The number of the calling thread in its pool.
pub(crate) fn index() -> Option<usize> {
    match (segue_sched::worker_index(), Place::of_fiber()) {
        (Some(worker), Some(place)) => Some(worker + place.first()),
        _ => mine().and_then(|(_, is_first)| is_first.then_some(0)),
    }
}

/// Runs `op` on a worker: in place on a fiber, else on the thread's pool. The look does not touch
/// what workers share: each fork makes it.
pub(crate) fn on_worker<R: Send>(op: impl FnOnce() -> R + Send) -> R {
    if segue_sched::worker_index().is_some() { op() } else { registry_of_thread().call(op) }
}

impl Place {
    /// The worker that does what is for the thread with this number: one of those that there are,
    /// if that thread is none.
    pub(crate) fn worker_for(&self, index: usize) -> usize {
        index.saturating_sub(self.first()).min(self.handle.workers() - 1)
    }
}
