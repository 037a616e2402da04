//! The wait for a `Future` in a fiber that is itself a task of an executor: the awaited future is
//! polled with the task's own waker, and each poll of the task is one of the future.
//!
//! Used by `waker.rs`, which has the wait of everybody else.
#![allow(unsafe_code)] // The executor's methods are unsafe to call.

use crate::chain::barrier;
use crate::chain::deferred_wakers;
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::primitives::marks::{CARRIES, Crossing};
use crate::primitives::waits_for::WaitsFor;
use crate::tree::cancelled::Cancelled;
use crate::wait::executor::{AsTask, Executor};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Calls `f` with the calling fiber and its task, if there is one.
#[inline(always)]
fn as_task<R>(f: impl FnOnce(&Fiber, &AsTask) -> R) -> Option<R> {
    // Not by `with_running`, since its closure may become a function.
    // SAFETY: as there: the slot is null, or has the header of the fiber that runs this.
    let fiber = unsafe { current::current().as_ref() }?;
    Some(f(fiber, fiber.as_task()?))
}

/// The waker of the task that the calling fiber is.
#[inline(always)]
fn task_waker(waits_for: WaitsFor) -> Option<Rc<Waker>> {
    match as_task(|_, task| task.waker())? {
        Some(waker) => Some(waker),
        None => ask_for_waker(waits_for),
    }
}

/// As `task_waker`, of the executor. To clone the waker is foreign code, which has a borrow of the
/// fiber.
#[cold]
#[inline(never)]
fn ask_for_waker(waits_for: WaitsFor) -> Option<Rc<Waker>> {
    // SAFETY: the fiber is the calling one, and one of the executor's, as its scheduler has said.
    barrier(waits_for, || as_task(|fiber, task| unsafe { task.executor().task_waker(fiber) }))
}

/// Polls a future with the wakers of the task that the calling fiber is, until the future is ready
/// or the wait fails; `None` if the fiber is no task, or no more. Each waker is counted, since a
/// future that itself suspends the fiber in its poll has that waker for longer than the task's
/// poll.
///
/// After each poll of the future, and of the task, the wait looks up its fiber and waker anew. A
/// computation that was captured in the poll may go on in another fiber, which is no task or has
/// wakers of its own. And a future that suspends the fiber goes on in a later poll of the task,
/// perhaps with another waker. In both cases the waker that the future knows wakes nobody, so the
/// wait polls the future again.
#[inline(always)] // A fiber that goes on returns from one call less, which is predicted wrongly.
pub(super) fn drive<F: Future>(mut future: Pin<&mut F>, waits_for: WaitsFor) -> Option<Result<F::Output, Cancelled>> {
    while let Some(waker) = task_waker(waits_for) {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(Ok(output));
            }
            // Before the look whether the task was polled meanwhile: a waker may wait.
            deferred_wakers::let_go();
            if !wakes_task(&waker) {
                break;
            }
            if let Some(Err(cancelled)) = as_task(|fiber, task| pend(fiber, task.executor())) {
                return Some(Err(cancelled));
            }
            if !wakes_task(&waker) {
                break;
            }
        }
    }
    None
}

/// Whether the calling fiber is a task, and is known to be woken by this waker.
#[inline(always)]
fn wakes_task(waker: &Rc<Waker>) -> bool {
    as_task(|_, task| task.is_woken_by(waker)).unwrap_or(false)
}

/// Suspends the calling fiber, which is a task, until that is polled again.
#[inline(always)] // As `drive`.
fn pend(fiber: &Fiber, executor: &dyn Executor) -> Result<(), Cancelled> {
    if fiber.must_not_suspend() {
        return Err(fiber.refused());
    }
    // A member before the look: so an interrupt finds the task, and has it polled.
    fiber.join_context();
    if fiber.is_cancelled() {
        return Err(fiber.cancelled());
    }
    if fiber.marks.has(CARRIES) {
        pend_carrying(fiber, executor);
    // SAFETY: the fiber is the calling one, and one of the executor's, as its scheduler has said.
    } else if let Some(switch) = unsafe { executor.pend(fiber) } {
        // SAFETY: at once.
        unsafe { switch.make() };
    }
    fiber.refill();
    Ok(())
}

/// The suspension in `pend`, of a fiber that carries something.
#[cold]
#[inline(never)]
fn pend_carrying(fiber: &Fiber, executor: &dyn Executor) {
    fiber.marks.cross(Crossing::Leaves);
    // SAFETY: the fiber is the calling one, and one of the executor's: `pend` passes no other.
    if let Some(switch) = unsafe { executor.pend(fiber) } {
        // SAFETY: at once.
        unsafe { switch.make() };
    }
    fiber.marks.cross(Crossing::Returns);
}
