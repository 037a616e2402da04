//! The hooks of a scheduler: what is called on its workers' threads.
//!
//! Used by the worker loop around its sleeps, and by `run`, where threads start and stop.
//!
//! # What a hook may do
//!
//! It is foreign code on a worker's thread outside of its fibers, at places where the worker has
//! said that it sleeps. A fiber that it made ready in the ordinary way would go straight to the
//! policy, and the worker would sleep with the fiber in its queue. So no worker runs on the thread
//! while a hook does: what it wakes is woken by mail, as from any other thread, and the mail ends
//! the sleep.

use crate::worker::common::without_worker;
use segue_core::WaitsFor;
use segue_core::chain::barrier;
use segue_core::unwind::NoUnwind;
use std::sync::Arc;

pub(crate) type Hook = Option<Arc<dyn Fn(usize) + Send + Sync>>;

/// What is called when.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) start: Hook,
    pub(crate) stop: Hook,
    pub(crate) park: Hook,
    pub(crate) unpark: Hook,
}

impl Hooks {
    #[inline]
    pub(crate) fn call(&self, worker: usize, which: impl Fn(&Self) -> &Hook) {
        if let Some(hook) = which(self) {
            let no_unwind = no_unwind();
            // Nor does it leave the rest of this to an effect: the worker before may end.
            barrier(WaitsFor::new("a hook of a scheduler"), || without_worker(|| hook(worker)));
            no_unwind.disarm();
        }
    }
}

segue_core::impl_debug!([] Hooks);

/// Ends the process if a hook unwinds.
pub(crate) fn no_unwind() -> NoUnwind {
    NoUnwind::new("a hook of a scheduler panicked; the scheduler can't go on")
}
