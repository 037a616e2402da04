//! Jobs of scopes that are for one worker each.
//!
//! Used by `scope.rs`, for broadcasts.
//!
//! They lie in one list. Each comes with a fiber, sent to its worker, that has a [`Ticket`] for the
//! oldest job of that worker: its own, or another's, since a fiber that waits for a scope and can't
//! suspend takes jobs of its worker, too. No other fiber of this worker has a turn meanwhile, and
//! of two such fibers, each on a worker that the other waits for, neither would go on. A ticket
//! that is dropped, since its scheduler has ended, drops a job.

use crate::scope::Job;
use segue_sched::{Handle, worker_index};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

struct Targeted {
    handle: Handle,
    worker: usize,
    job: Job,
}

static JOBS: Mutex<VecDeque<Targeted>> = Mutex::new(VecDeque::new());

/// Takes the oldest job of a worker's out.
fn take(handle: &Handle, worker: usize) -> Option<Job> {
    let mut jobs = JOBS.lock().unwrap_or_else(PoisonError::into_inner);
    let at = jobs.iter().position(|targeted| targeted.worker == worker && targeted.handle == *handle)?;
    jobs.remove(at).map(|targeted| targeted.job)
}

/// The oldest job that is for the worker of the calling fiber.
pub(crate) fn take_here() -> Option<Job> {
    take(&Handle::current()?, worker_index()?)
}

/// The right to one job of this worker of this scheduler, until it is used.
struct Ticket(Option<(Handle, usize)>);

impl Ticket {
    fn take(&mut self) -> Option<Job> {
        let (handle, worker) = self.0.take()?;
        take(&handle, worker)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// Has a job run on this worker.
pub(crate) fn send(handle: &Handle, worker: usize, job: Job) {
    let targeted = Targeted { handle: handle.clone(), worker, job };
    JOBS.lock().unwrap_or_else(PoisonError::into_inner).push_back(targeted);
    let mut ticket = Ticket(Some((handle.clone(), worker)));
    drop(handle.spawn_at(worker, move || {
        if let Some(job) = ticket.take() {
            job.run();
        }
    }));
}
