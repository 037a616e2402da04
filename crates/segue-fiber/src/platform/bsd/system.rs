//! Reservations and advices of macOS and FreeBSD.
//!
//! Used by `unix/memory.rs`, `unix/altstack.rs`, and by `native/region.rs` and `native/trim.rs`.

#![allow(unsafe_code)] // System calls.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;

use crate::platform::unix::check;

/// Inaccessible memory is not accounted in any case.
pub(in crate::platform) const RESERVED: c_int = 0;

/// Does nothing: another allocator's heap is its own.
pub(crate) fn release_heap() {}

/// Does nothing: there are no huge pages to switch off.
///
/// # Safety
/// None is needed here.
pub(in crate::platform) unsafe fn prepare_reservation(_start: *mut c_void, _size: usize) {}

/// There are no guards but inaccessible pages.
///
/// # Safety
/// None is needed here.
pub(crate) unsafe fn make_stacks(
    _all: Range<usize>,
    _stacks: &mut dyn ExactSizeIterator<Item = (Range<usize>, Range<usize>)>,
) -> io::Result<usize> {
    Ok(0)
}

/// Gives the memory of all ranges back, when the kernel needs some.
///
/// # Safety
/// The ranges are accessible parts of reservations, and nobody uses the memory.
pub(crate) unsafe fn discard(ranges: &mut dyn Iterator<Item = Range<usize>>) -> io::Result<()> {
    for range in ranges {
        // SAFETY: by the contract nobody uses the memory.
        check(unsafe { libc::madvise(range.start as *mut _, range.len(), libc::MADV_FREE) })?;
    }
    Ok(())
}

/// Gives the memory of one range back, on the stack of which the caller runs.
///
/// # Safety
/// The range ends far enough below the caller's frames for a call of the kernel.
#[inline(always)]
pub(crate) unsafe fn discard_below(range: Range<usize>) {
    // SAFETY: by the contract nobody uses the memory. If the kernel refuses, the pages stay.
    unsafe { libc::madvise(range.start as *mut _, range.len(), libc::MADV_FREE) };
}

/// How large the frame is that the kernel writes for a signal.
pub(in crate::platform) fn signal_frame() -> usize {
    libc::MINSIGSTKSZ
}
