//! Memory from `mmap`, each call behind a function that takes addresses.
//!
//! Used by `native/region.rs`, and by `altstack` for its one mapping.

#![allow(unsafe_code)] // System calls.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use super::check;
use crate::platform::system;
use segue_core::switch::Resting;

pub(crate) fn page_size() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    // SAFETY: no preconditions.
    *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize)
}

/// Reserves inaccessible address space that takes no memory and is not accounted.
pub(crate) fn reserve(size: usize) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON | system::RESERVED;
    // SAFETY: a new mapping where the kernel likes: touches nothing that exists.
    let start = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is the mapping just made.
    unsafe { system::prepare_reservation(start, size) };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Ends a reservation.
///
/// # Safety
/// `start` and `size` are those of a [`reserve`], and nobody uses the memory any more.
pub(crate) unsafe fn unmap(start: NonNull<u8>, size: usize) {
    // SAFETY: it is a mapping of ours, which nobody uses, as the contract says.
    let result = unsafe { libc::munmap(start.as_ptr().cast(), size) };
    debug_assert_eq!(result, 0);
}

/// Makes part of a reservation readable and writable: a stack, or several with their guards.
///
/// # Safety
/// The range lies in a [`reserve`]d one, and nobody relies on a fault there.
pub(crate) unsafe fn make_accessible(range: Range<usize>) -> io::Result<()> {
    // SAFETY: the range is reserved, and has no guard, as the contract says.
    check(unsafe { libc::mprotect(range.start as *mut _, range.len(), libc::PROT_READ | libc::PROT_WRITE) })
}

/// How many bytes the system keeps at a slot's end: none.
pub(crate) const KEPT: usize = 0;

/// A coroutine has been prepared. The kernel does not ask for the bounds of stacks.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(crate) unsafe fn begins(_rests: Resting, _top: NonNull<u8>, _guard: impl FnOnce() -> Option<Range<usize>>) {}

/// A coroutine is about to leave its stack for ever.
///
/// # Safety
/// None is needed here.
#[inline(always)]
pub(crate) unsafe fn ends(_top: NonNull<u8>) {}
