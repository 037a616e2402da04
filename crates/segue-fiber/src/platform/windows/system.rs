//! Making stacks, and giving their memory back.
//!
//! Used by `native/region.rs` and `native/trim.rs`.

#![allow(unsafe_code)] // System calls.

use std::io;
use std::ops::Range;

use windows_sys::Win32::System::Memory::{MEM_DECOMMIT, MEM_RESET, PAGE_READWRITE, VirtualAlloc, VirtualFree};

use super::memory::{self, FIRST, Kept};
use super::processor;

/// Does nothing: the heap gives large blocks back by itself.
pub(crate) fn release_heap() {}

/// Makes new stacks of slots that were never used. Guards split nothing here.
///
/// # Safety
/// The stacks are parts of a reservation, and nobody uses the memory.
pub(crate) unsafe fn make_stacks(
    _all: Range<usize>,
    stacks: &mut dyn Iterator<Item = (Range<usize>, Range<usize>)>,
) -> io::Result<bool> {
    for (_, stack) in stacks {
        // SAFETY: the stack is a slot without its guard, which nobody uses, by the contract.
        unsafe { memory::make_accessible(stack)? };
    }
    Ok(true)
}

/// Makes new stacks of those that have been used. The first pages stay committed, so that the stack
/// can be used at once; the kernel is told that their content is not needed.
///
/// # Safety
/// The ranges are slots without their guards, and nobody uses the memory.
pub(crate) unsafe fn discard(ranges: &mut dyn Iterator<Item = Range<usize>>) -> io::Result<()> {
    for Range { end, .. } in ranges {
        let first = end - FIRST;
        // SAFETY: the slot's end is accessible, and belongs to the caller.
        let Kept { limit, lowest, .. } = unsafe { Kept::of(end).read() };
        if limit == 0 {
            continue;
        }
        // SAFETY: as above. What the kernel finds in a page that is reset is this, or all zeros.
        unsafe { (*Kept::of(end)).limit = 0 };
        let mut kept = first;
        if limit < first {
            kept = first - memory::page_size();
            // SAFETY: by the contract nobody uses the memory, which is reserved, from the slot's
            // start on. The page above was touched, and becomes the guard page.
            unsafe { VirtualFree(lowest as *mut _, kept - lowest, MEM_DECOMMIT) };
        }
        // SAFETY: the range is committed, and by the contract nobody needs its content but for the
        // limit, which is zero in any case.
        unsafe { VirtualAlloc(kept as *const _, end - kept, MEM_RESET, PAGE_READWRITE) };
        if limit < first {
            // SAFETY: the page is committed, and nobody uses it.
            unsafe { memory::make_guard(first)? };
        }
    }
    Ok(())
}

/// Gives the memory of one range back, on the stack of which the caller runs: the guard page moves
/// up.
///
/// # Safety
/// The range is a part of the stack, from its bottom on, and ends below the caller's frames.
pub(crate) unsafe fn discard_below(range: Range<usize>) {
    let page = memory::page_size();
    // A page for the calls below; and a stack has its first pages at least.
    let limit = (range.end - page).min(processor::base().next_multiple_of(page) - FIRST);
    if limit - page <= range.start || processor::limit() >= limit {
        return;
    }
    // SAFETY: the memory below the new limit lies below the caller's frames by more than a page,
    // and was touched: the guard page is further down. If the kernel refuses, all stays.
    unsafe {
        if memory::make_guard(limit).is_ok() {
            processor::set_limit(limit);
            VirtualFree(range.start as *mut _, limit - page - range.start, MEM_DECOMMIT);
        }
    }
}
