//! Jobs that nobody waits for.
//!
//! Used by `spawn` and `spawn_fifo`.
//!
//! A pool has two queues of jobs. Each job comes with a fiber that takes one out: not necessarily
//! the one that it came with, so that the order is the queue's and not the scheduler's. A job that
//! is never taken, since its scheduler has ended, is dropped with the pool.

use crate::place::Place;
use crate::registry::Registry;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

type Job = Box<dyn FnOnce() + Send>;

/// The two queues of a pool.
#[derive(Default)]
pub(crate) struct Queues {
    newest_first: Mutex<VecDeque<Job>>,
    oldest_first: Mutex<VecDeque<Job>>,
}

/// A job of this pool's is to be run. It keeps the pool.
struct Ticket {
    registry: Arc<Registry>,
    is_fifo: bool,
}

impl Ticket {
    fn take(&self) -> Option<Job> {
        let queues = &self.registry.queues;
        if self.is_fifo {
            queues.oldest_first.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        } else {
            queues.newest_first.lock().unwrap_or_else(PoisonError::into_inner).pop_back()
        }
    }

    fn run(self) {
        if let Some(job) = self.take()
            && let Err(payload) = catch_unwind(AssertUnwindSafe(job))
        {
            self.registry.report(payload);
        }
    }
}

/// Has a closure run, in this order among those of its pool.
pub(crate) fn spawn_in(place: &Place, job: Job, is_fifo: bool) {
    let Some(registry) = &place.registry else {
        // A scheduler of somebody else's, which has no panic handler.
        drop(place.handle.spawn(move || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
                crate::registry::global().report(payload);
            }
        }));
        return;
    };
    let queue = if is_fifo { &registry.queues.oldest_first } else { &registry.queues.newest_first };
    queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
    let ticket = Ticket { registry: Arc::clone(registry), is_fifo };
    drop(place.handle.spawn(move || ticket.run()));
}

/// Has `func` run on the pool, and does not wait for it. A panic goes to the pool's panic handler,
/// or ends the process.
///
/// # Examples
///
/// ```
/// let (send, receive) = std::sync::mpsc::channel();
/// rayon_core::spawn(move || send.send(42).unwrap());
/// assert_eq!(receive.recv(), Ok(42));
/// ```
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    spawn_in(&Place::here(), Box::new(func), false);
}

/// As [`spawn`], behind those that were spawned so before.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    spawn_in(&Place::here(), Box::new(func), true);
}
