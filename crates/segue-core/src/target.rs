//! Where a caller's jobs go: to the scheduler of its fiber, else to the default runtime, else to a thread each.
//!
//! Used by `scope`, and by the umbrella crate, which says what the default is.

use crate::async_task::Accept;
use crate::family::Family;
use crate::fiber;
use crate::job::Job;
use crate::preempt::preemption_point;
use crate::scheduler::Scheduler;
use crate::thread;
use std::sync::{Arc, OnceLock};

/// Hands a job to a scheduler, unless the caller is a fiber that panics: it could not wait for the job, so it runs it.
#[inline]
pub(crate) fn submit(scheduler: &Target<'_>, job: Job, family: &Family) {
    match fiber::running() {
        Some(fiber) if fiber.must_not_suspend() => family.enter_context(|| job.run()),
        _ => {
            scheduler.spawn(job);
            preemption_point();
        }
    }
}

/// Starts the default runtime, or finds it started: what accepts its jobs, and the family of what is detached there.
pub type StartDefault = fn() -> (fn(Job), &'static Family);

static DEFAULT: OnceLock<StartDefault> = OnceLock::new();

/// Says where plain threads spawn. The first call counts; `start` is called at each spawn, and is to start the runtime once.
pub fn set_default(start: StartDefault) {
    // Whoever came first keeps it.
    let _ = DEFAULT.set(start);
}

/// Hands a job to the default runtime, or to a thread of its own if there is none: for schedulers that start nothing themselves.
pub fn spawn_by_default(job: Job) {
    match DEFAULT.get() {
        Some(start) => start().0(job),
        None => thread::scheduler().spawn(job),
    }
}

/// Where the jobs of async tasks go that belong to no scheduler.
pub(crate) fn default_accepts() -> Arc<dyn Accept> {
    struct Default;
    impl Accept for Default {
        fn accept(&self, job: Job) {
            spawn_by_default(job);
        }
    }
    Arc::new(Default)
}

/// Whether [`set_default`] was called.
#[must_use]
pub fn has_default() -> bool {
    DEFAULT.get().is_some()
}

/// Where the caller's jobs go.
pub(crate) enum Target<'a> {
    Scheduler(&'a dyn Scheduler),
    Default(fn(Job)),
}

impl Target<'_> {
    #[inline]
    pub(crate) fn spawn(&self, job: Job) {
        match self {
            Self::Scheduler(scheduler) => scheduler.spawn(job),
            Self::Default(accept) => accept(job),
        }
    }

    pub(crate) fn accepts(&self) -> Arc<dyn Accept> {
        match self {
            Self::Scheduler(scheduler) => scheduler.accepts(),
            Self::Default(_) => default_accepts(),
        }
    }
}

/// Where the caller spawns, and the family of what it detaches.
#[inline]
pub(crate) fn place<'a>() -> (Target<'a>, *const Family) {
    // The scheduler outlives the running fiber, in which the result is used.
    match fiber::running() {
        Some(fiber) => (Target::Scheduler(fiber.scheduler()), fiber.family()),
        None => match DEFAULT.get() {
            Some(start) => {
                let (accept, family) = start();
                (Target::Default(accept), family)
            }
            None => (Target::Scheduler(thread::scheduler()), thread::family()),
        },
    }
}
