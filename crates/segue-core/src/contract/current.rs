//! The current slot: which fiber runs on this thread.
//!
//! Used by everything that waits or spawns, and by schedulers, which say which fiber is the current
//! one. On a plain thread the slot is null; so it is where a fiber's code runs as a plain thread's
//! would (`as_plain_thread` in `thread/here.rs`). Such a thread has two more slots, the context and
//! the family that the thread is inside of, which a fiber has in its header.
#![allow(unsafe_code)] // The current header is reached by its address.

use crate::contract::fiber::Fiber;
use crate::contract::job::Place;
use crate::contract::slots::{ContextHead, FamilyId};
use crate::primitives::atomic::local;
use std::cell::Cell;
use std::ptr;

local!(static CURRENT: Cell<*const Fiber> = Cell::new(ptr::null()));
// The slots of the plain thread, while no fiber runs on it.
local!(pub(crate) static CONTEXT: Cell<*const ContextHead> = Cell::new(ptr::null()));
local!(pub(crate) static FAMILY: Cell<FamilyId> = Cell::new(FamilyId::NONE));

/// The running fiber's header, or null on a plain thread.
#[inline]
pub fn current() -> *const Fiber {
    CURRENT.with(Cell::get)
}

/// Calls `f` with the running fiber; with `None` on a plain thread. For code of ours: no effect or
/// generator in `f` suspends the computation up to a handler outside.
#[inline(always)]
pub(crate) fn with_running<R>(f: impl FnOnce(Option<&Fiber>) -> R) -> R {
    // SAFETY: the slot is null, also in `as_plain_thread`, or has the header of the fiber that runs
    // this (clause 3), which stays until its job has returned (clause 4): longer than this call.
    f(unsafe { current().as_ref() })
}

/// Makes `fiber` the current one on this thread and gives back the one before.
///
/// # Safety
/// For schedulers. A header that is made current stays in place until another, or null, is.
#[inline]
pub unsafe fn set_current(fiber: *const Fiber) -> *const Fiber {
    CURRENT.with(|current| current.replace(fiber))
}

/// Whether the caller runs on a fiber, and not on a plain thread.
#[must_use]
#[inline]
pub fn in_fiber() -> bool {
    !current().is_null()
}

/// Makes `context` the innermost one of the running fiber or plain thread; returns the one before.
///
/// # Safety
/// The context is null, or in place until the caller has entered another one.
#[inline]
pub(crate) unsafe fn enter_context(context: *const ContextHead) -> *const ContextHead {
    with_running(|fiber| match fiber {
        // SAFETY: as the caller promises.
        Some(fiber) => unsafe { fiber.enter_context(context) },
        None => CONTEXT.with(|slot| slot.replace(context)),
    })
}

/// The innermost context of the running fiber or plain thread; null if there is none.
#[inline]
pub(crate) fn context() -> *const ContextHead {
    with_running(|fiber| fiber.map_or_else(|| CONTEXT.with(Cell::get), Fiber::context))
}

/// The family of the fibers that the caller detaches: spawns without a scope that owns them.
#[inline]
pub(crate) fn family() -> FamilyId {
    with_running(|fiber| fiber.map_or_else(|| FAMILY.with(Cell::get), Fiber::family))
}

impl Place {
    /// Where the caller is now.
    #[inline]
    #[must_use]
    pub fn here() -> Self {
        Self(context())
    }
}

impl Fiber {
    /// Whether to switch stacks now would carry this thread's panic count into another fiber, or
    /// would use up the resume of a wait that is being registered. For schedulers with ways to
    /// suspend of their own, about the running fiber.
    #[must_use]
    #[inline]
    pub fn must_not_suspend(&self) -> bool {
        (std::thread::panicking() || !self.waits_on.get().is_null()) && !self.stands_for_thread()
    }

    /// Whether this header, the caller's, stands for a plain thread: it is never in the slot then.
    #[cold]
    #[inline(never)]
    fn stands_for_thread(&self) -> bool {
        !ptr::eq(current(), self)
    }
}
