//! Gives back the pages of a running coroutine's stack that lie below its frames.
//!
//! Called by [`segue_core::trim_stack`] on such a stack.

#![allow(unsafe_code)] // Tells the kernel what is not needed of the stack that this runs on.

use super::registry;
use crate::platform::{memory, system};

/// More than the memory below a local variable of [`trim`] during its call of the kernel: the rest
/// of its frame and that of `syscall`, and the 128 bytes that a leaf uses without a word.
const MARGIN: usize = 1024;

#[inline(never)]
pub(super) fn trim() {
    let local = 0u8;
    let here = std::hint::black_box(&raw const local).addr();
    let Some(slot) = registry::find(here) else { return };
    let end = (here - MARGIN) & !(memory::page_size() - 1);
    if end > slot.bottom {
        // SAFETY: the range lies in a slot, above its guard, and ends on a page's border below the
        // frames that are in use: this one is the innermost but for that of the kernel's call,
        // which `MARGIN` covers. Memory below is written before it is read.
        unsafe { system::discard_below(slot.bottom..end) };
    }
}
