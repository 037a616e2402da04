//! The contract between a scheduler and everything that waits.
//!
//! Implemented by what can suspend a fiber: schedulers, plain threads, bridges. Called by the
//! structures, never by applications. `docs/contract.md` has the numbered clauses.
// The contract is what every structure's soundness rests on, hence unsafe to implement.
#![allow(unsafe_code)]

use crate::contract::clock::Clock;
use crate::contract::fiber::Fiber;
use crate::contract::job::Job;
use crate::contract::slots::FamilyId;
use crate::primitives::switch::Switch;
use std::ptr::NonNull;
use std::sync::Arc;

/// Suspends and continues fibers.
///
/// # Safety
/// An implementation keeps every clause of `docs/contract.md`. Memory safety rests on these:
///
/// 1. `suspend` returns after exactly one `wake(.., Resume)` that was called since it was entered
///    or is still unconsumed, or after [`Fiber::interrupted`] has answered `true` for it, and not
///    before.
/// 2. A fiber runs on one OS thread from its start to its end.
/// 3. While a fiber runs, [`with_current`](crate::with_current) on its thread yields that
///    fiber, and what was current before is current again when it is suspended. On a plain thread
///    there is none.
/// 4. A fiber's header stays in place until the job that it runs has returned and no `wake` is
///    under way.
pub unsafe trait Scheduler {
    /// Suspends the calling fiber until it is resumed. It does so in the call, and answers `None`;
    /// or it answers with the [`Switch`] that does so.
    ///
    /// # Safety
    /// `fiber` is the calling one, it belongs to this scheduler, and exactly one [`Wake::Resume`]
    /// will be sent for this call. The caller makes the switch at once.
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch>;

    /// Makes a fiber ready, or its thread look whether it was cancelled. Never waits; any thread.
    ///
    /// For [`Wake::Interrupt`] the scheduler calls [`Fiber::interrupted`] on the fiber's own thread
    /// some time later, and makes the fiber ready if that answers `true`. Interrupts may be merged.
    ///
    /// # Safety
    /// For [`Wake::Resume`]: the caller has won the right to resume this suspension, once. For
    /// [`Wake::Interrupt`]: the caller holds the lock of a context that the fiber is a member of.
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake);

    /// Lets other ready fibers run before the calling one goes on: in the call, or by the switch
    /// that it answers with.
    ///
    /// # Safety
    /// `fiber` is the calling one, of this scheduler. The caller makes the switch at once.
    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch>;

    /// What accepts the jobs that its fibers spawn.
    fn spawner(&self) -> &dyn Spawn;

    /// The timers that fibers of this scheduler wait on: also its clock.
    fn timers(&self) -> &dyn Clock;

    /// Makes a ready fiber of a job at once, on a stack of the calling thread, or gives the job
    /// back, to be run in the call: what is behind it need not be `Send` (25).
    fn start_here(&self, job: Job) -> Result<(), Job> {
        Err(job)
    }

    /// Whether this is its runtime's family, which is in place while it has fibers or jobs (26).
    fn keeps(&self, _family: FamilyId) -> bool {
        false
    }

    /// The running fiber would leave something to its thread's park that it must wait for. Answers
    /// whether the thread idles there and nowhere else; then the park is polled soon.
    fn leave_to_park(&self) -> bool {
        false
    }
}

/// Accepts jobs for a scheduler.
pub trait Spawn {
    /// Accepts a job, to be started some time later. Never waits, never runs the job itself, and
    /// does not unwind.
    ///
    /// A spawner that can't have the job started drops it: then its joiner is told.
    fn spawn(&self, job: Job);

    /// A spawner that any thread may use, for as long as it keeps it. An async task hands its next
    /// poll to this one when it is woken.
    ///
    /// A scheduler that takes no jobs from other threads shares the
    /// [default runtime's](crate::scheduling::default_spawner).
    fn share(&self) -> Arc<dyn Spawn + Send + Sync>;
}

/// Why a fiber is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// What it waited for has come.
    Resume,
    /// Its context was cancelled: look.
    Interrupt,
}
