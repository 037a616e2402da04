//! Memory from `VirtualAlloc`, each call behind a function that takes addresses, and the state of
//! a stack between its coroutines.
//!
//! Used by `native/region.rs`, and by `native/coroutine.rs` where coroutines begin and end.
//!
//! A stack keeps the pages that the kernel has given when its coroutine ends. The next one has to
//! find the guard page, or a panic deep in its calls would be an exception outside of the stack. So
//! a line at the slot's end has the limit, above all coroutines. All zero bits, as in memory never
//! used, say that the stack has its first pages.

#![allow(unsafe_code)] // System calls.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use segue_core::switch::{Bounds, PREPARED, Resting, set_bounds};
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_GUARD, PAGE_READWRITE, VirtualAlloc, VirtualFree, VirtualProtect,
};

use super::{check, processor};

/// That of the processor.
const PAGE: usize = 4096;

/// So much of a new stack is committed, above the guard page: label, coroutine and header take less
/// than a page.
pub(super) const FIRST: usize = 2 * PAGE;

/// How many bytes at a slot's end are kept for [`Kept`]: a cache line.
pub(crate) const KEPT: usize = 64;

/// The state of a stack while no coroutine is there.
#[repr(C)]
pub(super) struct Kept {
    /// The lowest address that may be accessed; zero for that of a new stack.
    pub limit: usize,
    /// The slot's lowest address.
    pub lowest: usize,
    /// How many bytes at the low end handlers of an overflow may use: of the guard all but a page.
    guaranteed: usize,
}

impl Kept {
    /// Of the slot that ends there.
    pub fn of(end: usize) -> *mut Kept {
        ptr::with_exposed_provenance_mut(end - KEPT)
    }
}

pub(crate) fn page_size() -> usize {
    PAGE
}

/// Reserves address space that can't be accessed, takes no memory and is not accounted. Pages that
/// the kernel commits as a stack grows have the access of the reservation.
pub(crate) fn reserve(size: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: new memory where the kernel likes: touches nothing that exists.
    let start = unsafe { VirtualAlloc(ptr::null(), size, MEM_RESERVE, PAGE_READWRITE) };
    start.expose_provenance();
    NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)
}

/// Ends a reservation.
///
/// # Safety
/// `start` is that of a [`reserve`], and nobody uses the memory any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, _size: usize) {
    // SAFETY: it is a reservation of ours, which nobody uses, as the contract says.
    let result = unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
    debug_assert_ne!(result, 0);
}

/// Makes part of a reservation a stack that grows: its first pages, and a guard page below.
///
/// # Safety
/// The range is that of a slot without its guard, and nobody uses the slot.
pub(crate) unsafe fn make_accessible(range: Range<usize>) -> io::Result<()> {
    let first = range.end - FIRST;
    let guard = (first - PAGE) as *const _;
    // SAFETY: by the contract nobody uses the memory, which is reserved.
    if unsafe { VirtualAlloc(guard, PAGE + FIRST, MEM_COMMIT, PAGE_READWRITE) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the page was just committed.
    unsafe { make_guard(first) }
}

/// Makes the page below an address a guard page.
///
/// # Safety
/// The page is committed and part of a reservation, and nobody uses the memory.
pub(super) unsafe fn make_guard(above: usize) -> io::Result<()> {
    let mut before = 0;
    // SAFETY: by the contract nobody uses the memory.
    check(unsafe { VirtualProtect((above - PAGE) as *const _, PAGE, PAGE_READWRITE | PAGE_GUARD, &mut before) })
}

/// A coroutine has been prepared, which is told the bounds of its stack.
///
/// # Safety
/// The stack with this top belongs to the caller, and `rests` was prepared there and has not gone
/// on. `guard` tells the slot's guard.
#[inline]
pub(crate) unsafe fn begins(rests: Resting, top: NonNull<u8>, guard: impl FnOnce() -> Option<Range<usize>>) {
    let end = end_of(top);
    let kept = Kept::of(end);
    // SAFETY: the slot's end is accessible and belongs to the caller. All bits are valid. The limit
    // is the last one of the stack, below which the kernel's guard page lies, or that of a new one.
    unsafe {
        if (*kept).limit == 0 {
            let guard = guard().expect("a stack is a slot");
            kept.write(Kept { limit: end - FIRST, lowest: guard.start, guaranteed: guard.len() - PAGE });
        }
        let Kept { limit, lowest, guaranteed } = kept.read();
        set_bounds(rests, Bounds { guaranteed, lowest, limit, base: rests.addr() + PREPARED });
    }
}

/// A coroutine is about to leave its stack for ever, which keeps the pages that were touched.
///
/// # Safety
/// The caller runs on the stack with this top.
#[inline]
pub(crate) unsafe fn ends(top: NonNull<u8>) {
    // SAFETY: the slot's end belongs to the coroutine that runs there.
    unsafe { (*Kept::of(end_of(top))).limit = processor::limit() };
}

/// The end of the slot with this top, which is less than a page below.
fn end_of(top: NonNull<u8>) -> usize {
    top.addr().get().next_multiple_of(PAGE)
}
