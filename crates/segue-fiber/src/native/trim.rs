//! Gives back the pages of a running coroutine's stack that lie below its frames.
//!
//! Called by [`segue_core::trim_stack`] on such a stack.

#![allow(unsafe_code)] // Tells the kernel what is not needed of the stack that this runs on.

use std::arch::asm;
use std::ops::Range;

use super::{registry, sys};

/// More than what lies below a local variable of [`trim`] while it calls the kernel: the rest of
/// its frame and that of [`discard`], and the 128 bytes that a leaf uses without saying.
const MARGIN: usize = 1024;

#[inline(never)]
pub(super) fn trim() {
    let local = 0u8;
    let here = std::hint::black_box(&raw const local).addr();
    let Some(slot) = registry::find(here) else { return };
    let end = (here - MARGIN) & !(sys::page_size() - 1);
    if end > slot.bottom {
        // SAFETY: the range lies in a slot, above its guard, and ends on a page's border below the
        // frames that are in use: this one is the innermost but for `discard`, which `MARGIN`
        // covers. What is below is written before it is read.
        unsafe { discard(slot.bottom..end) };
    }
}

/// Tells the kernel that these pages are not needed. If it refuses, as for memory that is locked,
/// they stay.
///
/// Not by the C library: its function may be replaced by one with large frames.
///
/// # Safety
///
/// Nobody reads what is there before writing it.
#[inline(always)]
unsafe fn discard(pages: Range<usize>) {
    let (start, length) = (pages.start, pages.len());
    // SAFETY: as the caller promises; a system call changes no other registers than these.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") libc::SYS_madvise => _,
            in("rdi") start,
            in("rsi") length,
            in("rdx") libc::MADV_DONTNEED,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") libc::SYS_madvise,
            inlateout("x0") start => _,
            in("x1") length,
            in("x2") libc::MADV_DONTNEED,
            options(nostack),
        );
    }
}
