//! Gives back the pages of a running coroutine's stack that lie below its frames.
//!
//! Used by whoever calls [`segue_core::trim_stack`] on such a stack.

#![allow(unsafe_code)] // Tells the kernel what is not needed of the stack that this runs on.

use super::{registry, sys};

/// More than what lies below a local variable of [`trim`] while it calls the kernel: the rest of
/// its frame, the frame of the call's wrapper, and the 128 bytes that a leaf uses without saying.
const MARGIN: usize = 1024;

#[inline(never)]
pub(super) fn trim() {
    let here = 0u8;
    let below = std::hint::black_box(&raw const here).addr() - MARGIN;
    let Some(slot) = registry::find(below) else { return };
    let end = below & !(sys::page_size() - 1);
    if end > slot.bottom {
        // SAFETY: the range lies in a slot, above its guard, and ends on a page's border below the
        // frames that are in use: this one is the innermost but for the wrapper, which `MARGIN`
        // covers. What is below is written before it is read.
        unsafe { libc::madvise(slot.bottom as *mut _, end - slot.bottom, libc::MADV_DONTNEED) };
    }
}
