//! The mark on a fiber whose calls of the C library are to suspend it.
//!
//! Set and read by the crate `segue-unblock`, which defines those calls. The mark lies in the
//! fiber's header, so that the other fibers of the thread are without it.
#![allow(unsafe_code)] // To set it is a promise about the code inside.

use crate::chain::barrier;
use crate::contract::current::with_running;
use crate::primitives::at_end::at_end;
use crate::primitives::marks::UNBLOCKED;
use crate::primitives::waits_for::WaitsFor;

/// Runs `f`, in which the calling fiber has the mark. On a plain thread this only runs `f`.
///
/// What `f` spawns is without it. Nothing is captured across it by an effect or a generator: who
/// handles an effect outside would have the mark, too.
///
/// # Safety
/// If something in the program heeds the mark: `f` is fit for being suspended in any call of the C
/// library that can block, as `segue_unblock::unblock` says in detail.
///
/// # Cancellation
/// `f` sees the caller's; what it returns is returned.
///
/// # Examples
///
/// ```
/// use segue_core::drivers::{is_unblocked, unblocked};
/// use segue_core::in_fiber;
///
/// // SAFETY: no call in it can block.
/// let inside = unsafe { unblocked(is_unblocked) };
/// assert_eq!(inside, in_fiber());
/// ```
#[track_caller]
pub unsafe fn unblocked<R>(f: impl FnOnce() -> R) -> R {
    marked(true, f)
}

/// Runs `f`, in which the calling fiber is without the mark: for what carries out such a call, and
/// makes some itself.
///
/// # Cancellation
/// `f` sees the caller's; what it returns is returned.
///
/// # Examples
///
/// ```
/// use segue_core::drivers::{is_unblocked, not_unblocked};
///
/// assert!(!not_unblocked(is_unblocked));
/// ```
#[track_caller]
pub fn not_unblocked<R>(f: impl FnOnce() -> R) -> R {
    marked(false, f)
}

#[track_caller]
fn marked<R>(mark: bool, f: impl FnOnce() -> R) -> R {
    // The fiber that comes back is the one that goes in: nothing is captured in between.
    let set = |mark| with_running(|fiber| fiber.map(|fiber| fiber.marks.replace(UNBLOCKED, mark)));
    let Some(before) = set(mark) else { return f() };
    let _restore = at_end(|| _ = set(before));
    barrier(WaitsFor::new("code whose blocking calls suspend its fiber"), f)
}

/// Whether the caller is a fiber that has the mark, and may be suspended now. A look at a
/// thread-local variable without a destructor, so that it can be called at any time.
#[must_use]
#[inline]
pub fn is_unblocked() -> bool {
    with_running(|fiber| fiber.is_some_and(|fiber| fiber.marks.has(UNBLOCKED) && !fiber.must_not_suspend()))
}
