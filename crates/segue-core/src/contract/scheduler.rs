//! The contract between a scheduler and everything that waits.
//!
//! Implemented by all that can suspend a fiber: schedulers, plain threads, bridges. Called by the
//! structures, never by applications. `docs/contract.md` has the numbered clauses.
// Every structure's soundness rests on the contract, hence unsafe to implement.
#![allow(unsafe_code)]

use crate::contract::fiber::Fiber;
use crate::contract::job::Job;
use crate::contract::timers::Timers;
use crate::contract::tree::family::Family;
use crate::primitives::switch::Switch;
use std::ptr::NonNull;
use std::sync::Arc;

/// Suspends and continues fibers.
///
/// # Safety
/// An implementation keeps every clause of `docs/contract.md`. Memory safety rests on these:
///
/// 1. `suspend` returns after exactly one `wake(.., Resume)` that was called since its beginning or
///    is still unconsumed, or after [`Fiber::interrupted`] has answered `true` for this fiber, and
///    not before.
/// 2. A fiber runs on one OS thread from its start to its end.
/// 3. While a fiber runs, [`with_current`](crate::with_current) on its thread yields that fiber,
///    and the former one is current again after its suspension. On a plain thread there is none.
/// 4. A fiber's header stays in place until its job has returned and no `wake` is under way.
pub unsafe trait Scheduler {
    /// Suspends the calling fiber until its resume. The suspension comes in the call, with the
    /// answer `None`; or the answer is the [`Switch`] that suspends.
    ///
    /// # Safety
    /// `fiber` is the calling one, belongs to this scheduler, and exactly one [`Wake::Resume`] will
    /// be sent for this call. The caller makes the switch at once.
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch>;

    /// Makes a fiber ready, or its thread look for a cancellation. Never waits; any thread.
    ///
    /// For [`Wake::Interrupt`] the scheduler calls [`Fiber::interrupted`] on the fiber's own thread
    /// some time later, and makes the fiber ready if that answers `true`. Interrupts may be merged.
    ///
    /// # Safety
    /// For [`Wake::Resume`]: the caller has won the right to resume this suspension, once. For
    /// [`Wake::Interrupt`]: the caller holds the lock of a context that the fiber is a member of.
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake);

    /// Lets other ready fibers run before the calling one goes on: in the call, or by the returned
    /// switch.
    ///
    /// # Safety
    /// `fiber` is the calling one, of this scheduler. The caller makes the switch at once.
    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch>;

    /// The receiver of the jobs that its fibers spawn.
    fn spawner(&self) -> &dyn Spawn;

    /// The timers that fibers of this scheduler wait on: also its clock.
    fn timers(&self) -> &Timers;

    /// Makes a ready fiber of a job at once, on a stack of the calling thread, or gives the job
    /// back, to be run in the call: the content need not be `Send` (25).
    fn start_here(&self, job: Job) -> Result<(), Job> {
        Err(job)
    }

    /// Whether this is its runtime's family, which is in place while there are fibers or jobs (26).
    fn keeps(&self, _family: &Family) -> bool {
        false
    }

    /// The running fiber would leave something to its thread's park for which it must wait. Answers
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
    /// A spawner that can't have the job started drops that job: then its joiner is told.
    fn spawn(&self, job: Job);

    /// A spawner that any thread may use, for as long as that thread keeps one. An async task hands
    /// its next poll to this one at its wake-up.
    ///
    /// A scheduler that takes no jobs from other threads shares the
    /// [default runtime's](crate::scheduling::default_spawner).
    fn share(&self) -> Arc<dyn Spawn + Send + Sync>;
}

/// Why a fiber is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The awaited event has come.
    Resume,
    /// Its context was cancelled: look.
    Interrupt,
}
