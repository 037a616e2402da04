//! Making stacks, and giving their memory back.
//!
//! Used by `native/region.rs` and `native/trim.rs`.

#![allow(unsafe_code)] // System calls.

use std::io;
use std::ops::Range;

use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_DECOMMIT, MEM_RESET, PAGE_READWRITE, VirtualAlloc, VirtualFree,
};

use super::memory::{self, FIRST, Kept};
use super::processor;

/// Does nothing: the heap gives large blocks back by itself.
pub(crate) fn release_heap() {}

/// So much below its caller's frames [`discard_below`] leaves, for the calls of the system, which
/// other programs may have wrapped.
const MARGIN: usize = 32 * 1024;

/// Makes new stacks of slots that were never used, and says of how many: fewer than all where the
/// system can promise no more memory. Guards split nothing here.
///
/// # Errors
/// There is no memory for a single one.
///
/// # Safety
/// The stacks are parts of a reservation, and nobody uses the memory.
pub(crate) unsafe fn make_stacks(
    _all: Range<usize>,
    stacks: &mut dyn ExactSizeIterator<Item = (Range<usize>, Range<usize>)>,
) -> io::Result<usize> {
    let mut made = 0;
    for (_, stack) in stacks {
        // SAFETY: the stack is a slot without its guard, which nobody uses, by the contract.
        match unsafe { memory::make_accessible(stack) } {
            Ok(()) => made += 1,
            Err(error) if made == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(made)
}

/// Makes new stacks of those that have been used. The first pages stay committed, so that the stack
/// can be used at once; the kernel is told that their content is not needed.
///
/// # Safety
/// The ranges are slots without their guards, and nobody uses the memory.
pub(crate) unsafe fn discard(ranges: &mut dyn Iterator<Item = Range<usize>>) -> io::Result<()> {
    let mut result = Ok(());
    for Range { end, .. } in ranges {
        let first = end - FIRST;
        // SAFETY: the slot's end is accessible, and belongs to the caller.
        let Kept { limit, lowest, .. } = unsafe { Kept::of(end).read() };
        if limit == 0 {
            continue;
        }
        if limit < first {
            let guard = first - memory::page_size();
            // SAFETY: the page was touched, and nobody uses it.
            unsafe { VirtualAlloc(guard as *const _, memory::page_size(), MEM_RESET, PAGE_READWRITE) };
            // SAFETY: as above. Without this guard the stack stays as it is, with its limit.
            if let Err(error) = unsafe { memory::make_guard(first) } {
                result = Err(error);
                continue;
            }
            // SAFETY: by the contract nobody uses the memory, which is reserved, from the slot's
            // start on.
            unsafe { VirtualFree(lowest as *mut _, guard - lowest, MEM_DECOMMIT) };
        }
        // SAFETY: as above. A page that is reset has this afterwards, or all zeros.
        unsafe { (*Kept::of(end)).limit = 0 };
        // SAFETY: the range is committed, and by the contract nobody needs its content but for the
        // limit, which is zero in any case.
        unsafe { VirtualAlloc(first as *const _, FIRST, MEM_RESET, PAGE_READWRITE) };
    }
    result
}

/// Gives the memory of one range back, on the stack of which the caller runs: the guard page moves
/// up.
///
/// # Safety
/// The range is a part of the stack, from its bottom on, and ends below the caller's frames.
pub(crate) unsafe fn discard_below(range: Range<usize>) {
    let page = memory::page_size();
    // A stack has its first pages at least.
    let mut limit = (range.end - MARGIN).min(processor::base().next_multiple_of(page) - FIRST);
    let before = processor::limit();
    if limit - page <= range.start || before >= limit {
        return;
    }
    // SAFETY: the memory below the new limit lies below the caller's frames by the margin, and was
    // touched: the guard page is further down. If the kernel refuses, all stays. A call that goes
    // deeper than the margin touches the new guard page, and the kernel lowers the limit. Then that
    // limit stays; and if the guard page below was freed, it is made again.
    unsafe {
        if memory::make_guard(limit).is_err() {
            return;
        }
        match processor::limit() {
            same if same == before => processor::set_limit(limit),
            lowered => limit = lowered,
        }
        if limit - page <= range.start {
            return;
        }
        VirtualFree(range.start as *mut _, limit - page - range.start, MEM_DECOMMIT);
        let after = processor::limit();
        if after < limit {
            VirtualAlloc((after - page) as *const _, page, MEM_COMMIT, PAGE_READWRITE);
            let _ = memory::make_guard(after);
        }
    }
}
