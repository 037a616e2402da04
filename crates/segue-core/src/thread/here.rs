//! The caller, a fiber or a plain thread: looks at its header, gives up its turn, leaves its
//! contexts.
//!
//! Used by everything that waits or spawns, and by schedulers with fibers that call blocking code.
#![allow(unsafe_code)] // The current header is reached by its address.

use crate::chain::barrier;
use crate::chain::deferred_wakers;
use crate::contract::current::{current, set_current, with_running};
use crate::contract::fiber::Fiber;
use crate::primitives::at_end::at_end;
use crate::primitives::marks::{CARRIES, Crossing};
use crate::primitives::waits_for::WaitsFor;
use crate::thread::plain;
use crate::tree::cancelled::Cancelled;
use crate::tree::membership::leave_contexts;
use crate::tree::reports::forget_job;
use crate::values::locals;
use std::ptr;

/// Calls `f` with the running fiber; on a plain thread, with a header that stands for the thread
/// meanwhile.
///
/// This is an operation: no effect and no generator captures a computation across it, since `f` has
/// a borrow of the fiber.
#[inline]
#[track_caller]
pub fn with_current<R>(f: impl FnOnce(&Fiber) -> R) -> R {
    barrier(WaitsFor::new("a look at the running fiber"), || on_current(f))
}

/// As [`with_current`], for code of ours.
#[inline(always)]
pub(crate) fn on_current<R>(f: impl FnOnce(&Fiber) -> R) -> R {
    // Not by `with_running`, since its closure may become a function.
    // SAFETY: the slot is null, or has the header of the fiber that runs this (clauses 3 and 4).
    match unsafe { current().as_ref() } {
        Some(fiber) => f(fiber),
        None => plain::with_header(f),
    }
}

/// Runs `f` as if on a plain thread: a wait in `f` blocks the thread and suspends no fiber.
///
/// # Safety
/// Nothing is captured across this call: `f` is code of ours, or the call is behind a barrier.
pub(crate) unsafe fn as_plain_thread<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: null is always allowed.
    let fiber = unsafe { set_current(ptr::null()) };
    let _restore = at_end(|| {
        // SAFETY: this fiber was current before, and has not moved on since: the fiber runs this
        // function, and nothing is captured across that, by the contract.
        unsafe { set_current(fiber) };
    });
    f()
}

/// Runs `f` in place as a plain thread would, in the caller's contexts: a wait in `f` blocks the
/// thread, and spawns go where plain threads spawn.
///
/// # Cancellation
/// `f` sees the caller's.
///
/// This is an operation: no effect and no generator captures a computation across it.
#[track_caller]
pub fn run_as_thread<R>(f: impl FnOnce() -> R) -> R {
    let fiber = with_running(|fiber| fiber.map(|fiber| (fiber.context(), fiber.family())));
    match fiber {
        Some((context, family)) => {
            // SAFETY: they are the fiber's, which goes on after this.
            let within = || unsafe { plain::within(context, family, f) };
            // SAFETY: this is called behind the barrier.
            let run = || unsafe { as_plain_thread(within) };
            barrier(WaitsFor::new("a call that runs as on a plain thread"), run)
        }
        None => f(),
    }
}

/// Runs `f`, which is all that the fiber does, and leaves every context. For
/// [`Work`](crate::scheduling::Work) with a maker that waits, before the maker is told: the
/// contexts may end then.
///
/// The fiber-local values are dropped after `f`.
///
/// `f` has left the contexts that it entered, which scopes and the like see to; a computation that
/// is captured inside of a context has taken that context along.
///
/// # Safety
/// The caller is where the work begins: in no frame further out has the work entered a context, or
/// borrowed a fiber-local value.
///
/// ```compile_fail,E0133
/// segue_core::scheduling::retire(|| ());
/// ```
#[inline]
pub unsafe fn retire<R>(f: impl FnOnce() -> R) -> R {
    let f = || {
        let result = f();
        // The panic hook has reported a panic; its own drop may panic again.
        // SAFETY: the work ends here, and has borrowed no value further out.
        unsafe { locals::end(std::mem::forget) };
        result
    };
    // SAFETY: the contract of that is the same, and `f` ends the values itself.
    unsafe { retire_ended(f) }
}

/// As [`retire`], for an `f` that has ended the fiber-local values itself.
///
/// # Safety
/// As for [`retire`].
#[inline]
pub(crate) unsafe fn retire_ended<R>(f: impl FnOnce() -> R) -> R {
    let result = f();
    forget_job();
    leave_contexts();
    result
}

/// Gives up the turn: other ready fibers of this scheduler run first.
///
/// A plain thread yields to the operating system.
///
/// # Cancellation
/// *No effect*: a cancelled fiber does not yield.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Examples
///
/// ```
/// segue_core::yield_now()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[inline(always)] // As `give_up_turn`.
pub fn yield_now() -> Result<(), Cancelled> {
    // Not by `on_current`, since its closure would become a function.
    // SAFETY: the slot is null, or has the header of the fiber that runs this (clauses 3 and 4).
    match unsafe { current().as_ref() } {
        Some(fiber) => yield_of(fiber),
        None => yield_of_thread(),
    }
}

#[inline(never)]
fn yield_of_thread() -> Result<(), Cancelled> {
    plain::with_header(yield_of)
}

#[inline(always)] // As `give_up_turn`.
fn yield_of(fiber: &Fiber) -> Result<(), Cancelled> {
    if fiber.is_cancelled() {
        return Err(fiber.cancelled());
    }
    if fiber.must_not_suspend() {
        return Err(fiber.refused());
    }
    give_up_turn(fiber);
    Ok(())
}

/// Lets others run before `fiber`, the calling one, which may be suspended, goes on.
///
/// Inlined, so that the switch is in the frame of the fiber that yields: two fibers that yield in
/// different loops need 9.8 ns a yield so, and 24 if the switch is a call away, measured on a Xeon.
#[inline(always)]
pub(crate) fn give_up_turn(fiber: &Fiber) {
    deferred_wakers::let_go();
    if fiber.marks.has(CARRIES) {
        return give_up_turn_carrying(fiber);
    }
    // SAFETY: the fiber is the calling one, and may be suspended.
    if let Some(switch) = unsafe { fiber.scheduler().yield_now(fiber) } {
        // SAFETY: the switch is made at once.
        unsafe { switch.make() };
    }
    fiber.refill();
}

/// The rest of `give_up_turn`, of a fiber that carries something. Apart, since two calls more would
/// keep the compiler from inlining the other.
#[cold]
#[inline(never)]
fn give_up_turn_carrying(fiber: &Fiber) {
    fiber.marks.cross(Crossing::Leaves);
    // SAFETY: the fiber is the calling one, and may be suspended.
    if let Some(switch) = unsafe { fiber.scheduler().yield_now(fiber) } {
        // SAFETY: the switch is made at once.
        unsafe { switch.make() };
    }
    fiber.marks.cross(Crossing::Returns);
    fiber.refill();
}
