//! [`Plan`]: the parts that the workers of one scheduler are made from, and how a worker's thread
//! starts.
//!
//! Made by the entry points of `Runtime`; used on the thread of each worker.

use crate::recorder::Ink;
use crate::run::monitor::Watch;
use crate::run::processors::Processors;
use crate::run::service::Service;
use crate::worker::group::Group;
use crate::worker::hooks::Hooks;
use crate::worker::local::Local;
use crate::worker::policy::Policy;
use crate::worker::run_loop::Worker;
use segue_core::scheduling::{Park, Timers};
use segue_fiber::{StackArena, StackPool};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A closure that makes parks.
pub trait MakePark: Fn() -> io::Result<Self::Park> {
    /// The type of the parks.
    type Park: Park;
}

impl<K: Park, F: Fn() -> io::Result<K>> MakePark for F {
    type Park = K;
}

/// The way by which a worker says whether the start has succeeded.
pub(super) type Report = Arc<dyn Fn(io::Result<()>) + Send + Sync>;

/// The reports of the workers that have started so far.
#[derive(Default)]
struct Starts {
    running: usize,
    /// That of a worker that could not start.
    error: Option<io::Error>,
    /// Whether each worker has said so, or has dropped its report.
    complete: bool,
}

/// Collects the workers' reports, and waits until each worker has said that the start has
/// succeeded, or has dropped its report.
pub(super) fn starts(workers: usize) -> (Report, impl FnOnce() -> io::Result<()>) {
    let starts = Arc::new((Mutex::new(Starts::default()), Condvar::new()));
    let all_started = {
        let starts = Arc::clone(&starts);
        move || {
            let (state, changed) = &*starts;
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let waits = |starts: &mut Starts| starts.error.is_none() && !starts.complete;
            let mut state = changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
            match state.error.take() {
                Some(error) => Err(error),
                None if state.running == workers => Ok(()),
                None => Err(io::Error::other("a worker's policy panicked")),
            }
        }
    };
    let changes = Changes(starts);
    (Arc::new(move |outcome| changes.note(outcome)), all_started)
}

/// Changes the starts, at last when the workers have dropped their reports.
struct Changes(Arc<(Mutex<Starts>, Condvar)>);

impl Changes {
    fn change(&self, change: impl FnOnce(&mut Starts)) {
        let (state, changed) = &*self.0;
        change(&mut state.lock().unwrap_or_else(PoisonError::into_inner));
        changed.notify_all();
    }

    fn note(&self, outcome: io::Result<()>) {
        let mut other = None;
        self.change(|starts| match outcome {
            Ok(()) => starts.running += 1,
            Err(error) if starts.error.is_none() => starts.error = Some(error),
            Err(error) => other = Some(error),
        });
        // A user's drop, which runs under no lock.
        drop(other);
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.change(|starts| starts.complete = true);
    }
}

/// The parts that the workers of one scheduler are made from.
pub(super) struct Plan<F> {
    pub(super) group: Arc<Group>,
    pub(super) arena: Arc<StackArena>,
    pub(super) name: String,
    pub(super) park: F,
    pub(super) hooks: Hooks,
    pub(super) processors: Option<Processors>,
    pub(super) watch: Option<Arc<Watch>>,
    /// The number of the scheduler, and the size of each worker's ring, or zero.
    pub(super) recorder: (u64, usize),
}

impl<F> Plan<F> {
    pub(super) fn name(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    pub(super) fn local<P: Policy>(&self, index: usize, policy: P, timers: Timers) -> Local<P> {
        let local = Local::new(Arc::clone(&self.group), index, policy, timers, StackPool::new(Arc::clone(&self.arena)));
        let (number, size) = self.recorder;
        if size != 0 {
            local.common.pen.dip(Ink::new(size, &self.name, number, index));
        }
        local
    }
}

impl<F: MakePark> Plan<F> {
    /// Makes the calling thread that of this worker, until the service is dropped.
    pub(super) fn start<P: Policy>(&self, local: &mut Local<P>) -> io::Result<(F::Park, Service<'_>)> {
        let park = self.park(local.common.index)?;
        local.hooks = self.hooks.clone();
        Ok((park, Service::begin(&self.hooks, local.common.index, self.processors.as_ref())?))
    }

    /// Makes the park of worker `index`, on its thread.
    pub(super) fn park(&self, index: usize) -> io::Result<F::Park> {
        let park = (self.park)()?;
        if let Some(watch) = &self.watch {
            watch.admit(index)?;
        }
        Ok(park)
    }

    /// A worker's thread: says whether the start has succeeded, and works until the group stops.
    pub(super) fn work<P: Policy>(&self, index: usize, policy: &impl Fn() -> P, report: Report) {
        // Before the report, since a policy may panic here.
        let mut local = self.local(index, policy(), Timers::real());
        let start = segue_fiber::ensure_alternate_stack().and_then(|()| self.start(&mut local));
        let (started, outcome) = match start {
            Ok(started) => (Some(started), Ok(())),
            Err(error) => (None, Err(error)),
        };
        // The thread that starts the scheduler waits for this.
        report(outcome);
        drop(report);
        if let Some((park, _service)) = started {
            // Dropped before the last hook is called.
            let local = local;
            Worker::parked(&local, park, None).run(None);
        }
    }
}
