//! The mark of the calling fiber: whether calls of the C library are to suspend this fiber.
//!
//! Used by every function that is defined here, before anything else. `lib.rs` has the idea.
#![allow(unsafe_code)] // To enter the scope is its caller's promise.

use segue_core::drivers::{is_unblocked, unblocked};
use segue_io::foreign;
use std::sync::atomic::{AtomicU32, Ordering};

/// The process in which a fiber was marked last. The number orders nothing: a child of a fork has a
/// number of its own, and so finds another one here.
static HOME: AtomicU32 = AtomicU32::new(0);

/// Runs `f` with the mark on the calling fiber.
///
/// # Safety
/// As for [`crate::unblock`].
#[track_caller]
pub(crate) unsafe fn enter<R>(f: impl FnOnce() -> R) -> R {
    HOME.store(foreign::process(), Ordering::Relaxed);
    // SAFETY: `unblocked` asks for what `crate::unblock` asks of its callers.
    unsafe { unblocked(f) }
}

/// Whether the calling fiber has the mark and may be suspended, in the process that has set the
/// mark. Nothing else of a call happens before this.
#[inline(always)]
pub(crate) fn is_active() -> bool {
    is_unblocked() && HOME.load(Ordering::Relaxed) == foreign::process()
}
