//! The contract between a scheduler and everything that waits.
//!
//! Implemented by whoever can suspend what is running: the schedulers of `segue-sched`, plain threads, bridges. Called
//! by the structures, never by applications. `docs/contract.md` has the numbered clauses.
#![allow(unsafe_code)] // The contract is what every structure's soundness rests on, hence unsafe to implement.

use crate::async_task::Accept;
use crate::fiber::Fiber;
use crate::job::Job;
use crate::target;
use crate::time::Timers;
use std::ptr::NonNull;
use std::sync::Arc;

/// Suspends and continues fibers.
///
/// # Safety
/// An implementation keeps every clause of `docs/contract.md`. The ones that memory safety rests on:
///
/// 1. `suspend` returns after exactly one `wake(.., Resume)` that was called since it was entered or is still
///    unconsumed, or after [`Fiber::interrupted`] has answered `true` for it, and not before.
/// 2. A fiber runs on one OS thread from its start to its end.
/// 3. While a fiber runs, [`with_current`](crate::fiber::with_current) on its thread yields that fiber, and what was
///    current before is current again when it is suspended. On a plain thread there is none.
/// 4. A fiber's header stays in place until the job that it runs has returned and no `wake` is under way.
pub unsafe trait Scheduler {
    /// Suspends the calling fiber until it is resumed.
    ///
    /// # Safety
    /// `fiber` is the calling one, it belongs to this scheduler, and exactly one [`Wake::Resume`] will be sent for this call.
    unsafe fn suspend(&self, fiber: &Fiber);

    /// Makes a fiber ready again, or makes its own thread look whether it was cancelled. From any thread; never waits.
    ///
    /// For [`Wake::Interrupt`] the scheduler calls [`Fiber::interrupted`] on the fiber's own thread some time
    /// later, and makes the fiber ready if that answers `true`. Interrupts may be merged.
    ///
    /// # Safety
    /// For [`Wake::Resume`]: the caller has won the right to resume this suspension, once.
    /// For [`Wake::Interrupt`]: the caller holds the lock of a context that the fiber is a member of.
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake);

    /// Lets other ready fibers run before the calling one goes on.
    ///
    /// # Safety
    /// `fiber` is the calling one, and it belongs to this scheduler.
    unsafe fn yield_now(&self, fiber: &Fiber);

    /// Accepts a job, to be started some time later. Never waits, and never runs the job itself.
    ///
    /// A scheduler that can't start it drops it; whoever waits for it is then told.
    fn spawn(&self, job: Job);

    /// Where the jobs of async tasks go that are woken, by whichever thread, while the scheduler lasts. By default to the default runtime, as what plain threads spawn.
    fn accepts(&self) -> Arc<dyn Accept> {
        target::default_accepts()
    }

    /// The timers that fibers of this scheduler wait on: also its clock.
    fn timers(&self) -> &Timers;

    /// Lets other ready fibers run before the calling one goes on, or not: for simulators. Called where the fiber might as well have been
    /// preempted, and only while there are [`PreemptionPoints`](crate::PreemptionPoints).
    ///
    /// # Safety
    /// As for [`yield_now`](Scheduler::yield_now).
    unsafe fn preemption_point(&self, _fiber: &Fiber) {}
}

/// Why a fiber is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// What it waited for has come.
    Resume,
    /// Its context was cancelled: look.
    Interrupt,
}
