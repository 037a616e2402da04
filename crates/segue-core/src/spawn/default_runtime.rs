//! Where a caller's jobs go: to the scheduler of its fiber, else to the default runtime, else to a
//! thread each.
//!
//! Used by `scope`, and by the umbrella crate, which says what the default is.
#![allow(unsafe_code)] // A family is reached by its address.

use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::contract::job::Job;
use crate::contract::scheduler::Spawn;
use crate::contract::thread;
use crate::contract::tree::family::Family;
use crate::sim::preemption::preemption_point;
use std::ptr;
use std::sync::{Arc, OnceLock};

/// Where the caller spawns.
pub(crate) struct Origin<'a> {
    /// `None` on a plain thread.
    fiber: Option<&'a Fiber>,
    pub(crate) spawner: &'a dyn Spawn,
    /// What the caller detaches belongs to it.
    pub(crate) family: Option<&'a Family>,
}

impl Origin<'_> {
    /// Hands over a job, unless the caller is a fiber that panics: it could not wait for the job,
    /// so it runs it.
    #[inline]
    pub(crate) fn submit(&self, job: Job, family: &Family) {
        match self.fiber {
            Some(fiber) if fiber.must_not_suspend() => run_in_place(job, family),
            _ => {
                self.spawner.spawn(job);
                preemption_point();
            }
        }
    }
}

#[cold]
#[inline(never)]
fn run_in_place(job: Job, family: &Family) {
    family.enter_context(|| job.run());
}

/// Starts the default runtime, or finds it started: its spawner, and the family of what is detached
/// there.
pub type StartDefault = fn() -> (&'static dyn Spawn, &'static Family);

static DEFAULT: OnceLock<StartDefault> = OnceLock::new();

/// Says where plain threads spawn. The first call counts; `start` is called at each spawn, and is
/// to start the runtime once.
pub fn set_default(start: StartDefault) {
    // The first caller keeps it.
    let _ = DEFAULT.set(start);
}

/// The spawner of the default runtime, or of plain threads if there is none: for schedulers that
/// start nothing themselves.
#[must_use]
pub fn default_spawner() -> &'static dyn Spawn {
    &Default
}

/// Asks for the default runtime at each spawn, since it starts late.
struct Default;

impl Spawn for Default {
    fn spawn(&self, job: Job) {
        match DEFAULT.get() {
            Some(start) => start().0.spawn(job),
            None => thread::scheduler().spawner().spawn(job),
        }
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        match DEFAULT.get() {
            Some(start) => start().0.share(),
            None => Arc::new(Self),
        }
    }
}

/// Whether [`set_default`] was called.
#[must_use]
pub fn has_default() -> bool {
    DEFAULT.get().is_some()
}

/// Calls `f` with where the caller spawns. Once: `f` carries what is spawned, which is to stay in
/// registers.
#[inline(always)]
pub(crate) fn with_origin<R>(f: impl FnOnce(Origin<'_>) -> R) -> R {
    current::with_running(|fiber| {
        let (spawner, family) = match fiber {
            Some(fiber) => (fiber.scheduler().spawner(), fiber.detaches_to()),
            None => match DEFAULT.get().map(|start| start()) {
                Some((spawner, family)) => (spawner, Some(family)),
                // SAFETY: the family of the job that this thread runs, which outlives the job (J5).
                None => (default_spawner(), unsafe { current::family().as_ref() }),
            },
        };
        f(Origin { fiber, spawner, family })
    })
}

/// The address of a family, or null.
#[inline]
pub(crate) fn address(family: Option<&Family>) -> *const Family {
    family.map_or(ptr::null(), ptr::from_ref)
}
