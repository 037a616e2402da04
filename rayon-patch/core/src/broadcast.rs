//! Closures that run on each worker.
//!
//! Used by applications, to set up what is each thread's own.

use crate::place::{Place, on_worker};
use crate::scope::Scope;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// What a broadcast's closure is told.
#[derive(Debug)]
pub struct BroadcastContext<'a> {
    index: usize,
    threads: usize,
    /// It belongs to one thread.
    marker: PhantomData<&'a mut *const ()>,
}

impl BroadcastContext<'_> {
    pub(crate) fn new(index: usize, threads: usize) -> Self {
        Self { index, threads, marker: PhantomData }
    }

    /// The number of the thread that this call is for, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many threads there are.
    #[must_use]
    pub fn num_threads(&self) -> usize {
        self.threads
    }
}

/// Runs `op` on each worker, and returns all results, in the order of the workers.
///
/// # Panics
/// If `op` does, when all have ended.
///
/// # Examples
///
/// ```
/// let indices = rayon_core::broadcast(|context| context.index());
/// assert_eq!(indices, (0..rayon_core::current_num_threads()).collect::<Vec<_>>());
/// ```
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    let op = &op;
    on_worker(move || broadcast_at(Place::here(), op))
}

pub(crate) fn broadcast_at<OP, R>(place: Place, op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    let results: Vec<Mutex<Option<R>>> = (0..place.threads()).map(|_| Mutex::new(None)).collect();
    Scope::open_at(place, |scope| {
        let (op, results) = (&op, &results);
        scope.spawn_broadcast(move |_, context| {
            let index = context.index();
            let result = op(context);
            *results[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
    });
    let taken = results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
    taken.map(|result| result.expect("the scope has waited for it")).collect()
}

/// Has `op` run on each worker, and does not wait for it. A panic goes to the pool's panic handler,
/// or ends the process.
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    spawn_broadcast_at(&Place::here(), op);
}

pub(crate) fn spawn_broadcast_at<OP>(place: &Place, op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    let op = Arc::new(op);
    for index in 0..place.threads() {
        let (op, threads, registry) = (Arc::clone(&op), place.threads(), place.registry.clone());
        drop(place.handle.spawn_at(place.worker_for(index), move || {
            let ran = catch_unwind(AssertUnwindSafe(|| op(BroadcastContext::new(index, threads))));
            drop(op);
            if let Err(payload) = ran {
                registry.as_ref().unwrap_or_else(|| crate::registry::global()).report(payload);
            }
        }));
    }
}
