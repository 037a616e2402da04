//! [`Plan`]: the parts that the workers of one scheduler are made from, and how a worker's thread
//! starts.
//!
//! Made by the entry points of `Runtime`; used on the thread of each worker.

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
use std::sync::{Arc, mpsc};

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

/// Collects the workers' reports, and waits until each worker has said that the start has
/// succeeded, or has dropped its report.
///
/// Behind pointers, so that the channel is compiled here and not in each program that starts a
/// scheduler.
pub(super) fn starts(workers: usize) -> (Report, Box<dyn FnOnce() -> io::Result<()>>) {
    let (report, started) = mpsc::channel();
    let all_started = move || {
        let mut running = 0;
        for outcome in started {
            outcome?;
            running += 1;
        }
        if running == workers { Ok(()) } else { Err(io::Error::other("a worker's policy panicked")) }
    };
    // Nobody listens any more if another one could not start.
    (Arc::new(move |outcome| drop(report.send(outcome))), Box::new(all_started))
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
}

impl<F> Plan<F> {
    pub(super) fn name(&self, index: usize) -> String {
        format!("{}-{index}", self.name)
    }

    pub(super) fn local<P: Policy>(&self, index: usize, policy: P, timers: Timers) -> Local<P> {
        Local::new(Arc::clone(&self.group), index, policy, timers, StackPool::new(Arc::clone(&self.arena)))
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
