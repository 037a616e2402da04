//! What runs here: the current fiber, or a plain thread, with the context and the family that it is
//! inside of.
//!
//! Used by everything that waits or spawns, and by schedulers, which say which fiber is the current
//! one.
#![allow(unsafe_code)] // The current header is reached by its address.

use crate::chain::barrier;
use crate::chain::deferred_wakers;
use crate::contract::fiber::{Fiber, WaitsFor};
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::local;
use crate::spawn::family::Family;
use crate::thread::plain;
use crate::tree::cancelled::Cancelled;
use crate::tree::context::Context;
use crate::values::locals;
use std::cell::Cell;
use std::ptr;

local!(static CURRENT: Cell<*const Fiber> = Cell::new(ptr::null()));
// Of the plain thread, while no fiber runs on it.
local!(static CONTEXT: Cell<*const Context> = Cell::new(ptr::null()));
local!(static FAMILY: Cell<*const Family> = Cell::new(ptr::null()));

/// Calls `f` with the running fiber; on a plain thread, with a header that stands for the thread
/// meanwhile.
///
/// It is an operation: no computation is captured across it by an effect or a generator, since `f`
/// has a borrow of the fiber.
#[inline]
#[track_caller]
pub fn with_current<R>(f: impl FnOnce(&Fiber) -> R) -> R {
    barrier(WaitsFor::new("a look at the running fiber"), || on_current(f))
}

/// As [`with_current`], for code of ours.
#[inline]
pub(crate) fn on_current<R>(f: impl FnOnce(&Fiber) -> R) -> R {
    with_running(|fiber| match fiber {
        Some(fiber) => f(fiber),
        None => plain::with_header(f),
    })
}

/// The running fiber's header, or null on a plain thread.
#[inline]
pub fn current() -> *const Fiber {
    CURRENT.with(Cell::get)
}

/// Calls `f` with the running fiber; with `None` on a plain thread. For code of ours: nothing is
/// captured inside of `f`.
#[inline(always)]
pub(crate) fn with_running<R>(f: impl FnOnce(Option<&Fiber>) -> R) -> R {
    // SAFETY: the slot is null, or has the header of the fiber that runs this (clause 3), which
    // stays in place until its job has returned (clause 4), and so for longer than this call.
    f(unsafe { current().as_ref() })
}

/// Makes `fiber` the current one on this thread and gives back what was.
///
/// # Safety
/// For schedulers. A header that is made current stays in place until another, or null, is.
#[inline]
pub unsafe fn set_current(fiber: *const Fiber) -> *const Fiber {
    CURRENT.with(|current| current.replace(fiber))
}

/// Runs `f` as if on a plain thread: a wait in it blocks the thread and suspends no fiber. For code
/// of ours, or behind a barrier.
pub(crate) fn as_plain_thread<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: null is always allowed.
    let fiber = unsafe { set_current(ptr::null()) };
    let _restore = at_end(|| {
        // SAFETY: it was current before, and its fiber has not moved on since: it is what runs
        // this, since nothing is captured across this.
        unsafe { set_current(fiber) };
    });
    f()
}

/// Runs `f` in place as a plain thread would, in the caller's contexts: a wait in it blocks the
/// thread, and what it spawns goes where plain threads spawn.
///
/// # Cancellation
/// `f` sees the caller's.
///
/// It is an operation: no computation is captured across it by an effect or a generator.
#[track_caller]
pub fn run_as_thread<R>(f: impl FnOnce() -> R) -> R {
    let fiber = with_running(|fiber| fiber.map(|fiber| (fiber.context(), fiber.family())));
    match fiber {
        Some((context, family)) => {
            // SAFETY: they are the fiber's, which goes on after this.
            let run = || as_plain_thread(|| unsafe { within(context, family, f) });
            barrier(WaitsFor::new("a call that runs as on a plain thread"), run)
        }
        None => f(),
    }
}

/// Runs `f`, which is all that the fiber does, and leaves every context. For a
/// [`Work`](crate::scheduling::Work) that its maker waits for, before it tells the maker: the
/// contexts may end then.
///
/// The fiber-local values are dropped after `f`.
///
/// `f` has left the contexts that it entered, which scopes and the like see to; a computation that
/// is captured inside of one has taken it along.
///
/// # Safety
/// It is called where the work begins: in no frame further out has the work entered a context, or
/// borrowed a fiber-local value.
///
/// ```compile_fail,E0133
/// segue_core::scheduling::retire(|| ());
/// ```
#[inline]
pub unsafe fn retire<R>(f: impl FnOnce() -> R) -> R {
    retire_ended(|| {
        let result = f();
        // The panic hook has reported a panic; its own drop may panic again.
        locals::end(std::mem::forget);
        result
    })
}

/// As [`retire`], for an `f` that has ended the fiber-local values itself.
#[inline]
pub(crate) fn retire_ended<R>(f: impl FnOnce() -> R) -> R {
    let result = f();
    leave_contexts();
    result
}

/// Leaves every context.
#[inline]
pub(crate) fn leave_contexts() {
    leave_context(ptr::null());
    // SAFETY: none.
    unsafe { enter_context(ptr::null()) };
}

/// Has the running fiber, if there is one, leave `context`, or any for null.
#[inline]
pub(crate) fn leave_context(context: *const Context) {
    with_running(|fiber| {
        if let Some(fiber) = fiber {
            fiber.leave_context(context);
        }
    });
}

/// Whether the caller runs on a fiber, and not on a plain thread.
#[must_use]
#[inline]
pub fn in_fiber() -> bool {
    !current().is_null()
}

/// Gives up the turn: other ready fibers of this scheduler run first.
///
/// On a plain thread it yields to the operating system.
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
    on_current(|fiber| {
        if fiber.is_cancelled() {
            return Err(fiber.cancelled());
        }
        if fiber.must_not_suspend() {
            return Err(fiber.refused());
        }
        give_up_turn(fiber);
        Ok(())
    })
}

/// Lets others run before `fiber`, the calling one, which may be suspended, goes on.
///
/// Inlined, so that the switch is in the frame of what yields: two fibers that yield in different
/// loops need 9.8 ns a yield so, and 24 if it is a call away, measured on a Xeon.
#[inline(always)]
pub(crate) fn give_up_turn(fiber: &Fiber) {
    deferred_wakers::let_go();
    // SAFETY: it is the calling one.
    if let Some(switch) = unsafe { fiber.scheduler().yield_now(fiber) } {
        // SAFETY: at once.
        unsafe { switch.make() };
    }
    fiber.refill();
}

/// Makes `context` the innermost one of whatever runs, fiber or thread, and gives back what was.
///
/// # Safety
/// It is null, or in place until the caller has entered another one.
#[inline]
pub(crate) unsafe fn enter_context(context: *const Context) -> *const Context {
    with_running(|fiber| match fiber {
        // SAFETY: as the caller promises.
        Some(fiber) => unsafe { fiber.enter_context(context) },
        None => CONTEXT.with(|slot| slot.replace(context)),
    })
}

/// The innermost context of whatever runs; null if there is none.
#[inline]
pub(crate) fn context() -> *const Context {
    with_running(|fiber| fiber.map_or_else(|| CONTEXT.with(Cell::get), Fiber::context))
}

/// An address that the running fiber, or the plain thread, has to itself as long as it runs.
pub(crate) fn caller() -> *const () {
    let fiber = current();
    if fiber.is_null() { CONTEXT.with(|here| ptr::from_ref(here).cast()) } else { fiber.cast() }
}

/// The family that what the caller detaches belongs to; null if none.
#[inline]
pub(crate) fn family() -> *const Family {
    with_running(|fiber| fiber.map_or_else(|| FAMILY.with(Cell::get), Fiber::family))
}

/// Calls `f` in a context and a family, on a plain thread.
///
/// # Safety
/// Both are null, or in place until `f` has ended or has left them.
pub(crate) unsafe fn within<R>(context: *const Context, family: *const Family, f: impl FnOnce() -> R) -> R {
    let surround = |(context, family)| {
        let outer = CONTEXT.with(|slot| slot.replace(context));
        (outer, FAMILY.with(|slot| slot.replace(family)))
    };
    let outer = surround((context, family));
    let _restore = at_end(|| _ = surround(outer));
    f()
}

/// The context and the family that this thread is inside of, as a plain one.
pub(crate) fn surroundings_of_thread() -> (*const Context, *const Family) {
    (CONTEXT.with(Cell::get), FAMILY.with(Cell::get))
}
