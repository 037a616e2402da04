//! The system calls for memory, each behind a function that takes addresses.
//!
//! Used by `region`, and `altstack` for its one mapping.

#![allow(unsafe_code)] // System calls.

use std::ffi::c_int;
use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// `MADV_GUARD_INSTALL`, Linux 6.13: the range faults when accessed, without being a mapping of its
/// own.
pub(super) const GUARD_INSTALL: c_int = 102;

/// `PIDFD_SELF_THREAD`, Linux 6.14: stands for the calling thread, and so for its memory. Before
/// that, each range takes a call of its own.
const PIDFD_SELF: c_int = -10_000;

pub(crate) fn page_size() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    // SAFETY: no preconditions.
    *PAGE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize)
}

/// Asks the C library's allocator to give free memory inside of its heap back to the kernel. By
/// itself the allocator does so only at the heap's end. Has no effect with another allocator.
pub(crate) fn release_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The result of a call of the C library.
pub(super) fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reserves inaccessible address space that takes no memory and is not accounted.
pub(super) fn reserve(size: usize) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping where the kernel likes: touches nothing that exists.
    let start = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is the mapping just made. A kernel without huge pages refuses, which is as
    // good.
    unsafe { libc::madvise(start, size, libc::MADV_NOHUGEPAGE) };
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Ends a reservation.
///
/// # Safety
/// `start` and `size` are those of a [`reserve`], and nobody uses the memory any more.
pub(super) unsafe fn unmap(start: NonNull<u8>, size: usize) {
    // SAFETY: it is a mapping of ours, which nobody uses, as the contract says.
    let result = unsafe { libc::munmap(start.as_ptr().cast(), size) };
    debug_assert_eq!(result, 0);
}

/// Makes part of a reservation readable and writable.
///
/// # Safety
/// The range lies in a [`reserve`]d one, and nobody relies on a fault there.
pub(super) unsafe fn make_accessible(range: Range<usize>) -> io::Result<()> {
    // SAFETY: the range is reserved, and has no guard, as the contract says.
    check(unsafe { libc::mprotect(range.start as *mut _, range.len(), libc::PROT_READ | libc::PROT_WRITE) })
}

/// Makes part of a reservation inaccessible.
///
/// # Safety
/// The range lies in a [`reserve`]d one, and nobody uses the memory.
pub(super) unsafe fn make_inaccessible(range: Range<usize>) -> io::Result<()> {
    // SAFETY: the range is reserved, and nobody uses the memory, as the contract says.
    check(unsafe { libc::mprotect(range.start as *mut _, range.len(), libc::PROT_NONE) })
}

/// Applies an advice to all ranges, `N` to a system call.
///
/// # Safety
/// The ranges lie in [`reserve`]d ones, and nobody uses the memory.
pub(super) unsafe fn advise_all<const N: usize>(
    ranges: &mut dyn Iterator<Item = Range<usize>>,
    advice: c_int,
) -> io::Result<()> {
    let mut batch = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; N];
    loop {
        let mut count = 0;
        for (place, range) in batch.iter_mut().zip(&mut *ranges) {
            *place = libc::iovec { iov_base: range.start as *mut _, iov_len: range.len() };
            count += 1;
        }
        if count == 0 {
            return Ok(());
        }
        let batch = &batch[..count];
        // SAFETY: the ranges are reserved and unused, by the contract of this function.
        unsafe {
            if !advise_batch(batch, advice) {
                for range in batch {
                    advise_one(range, advice)?;
                }
            }
        }
        if count < N {
            return Ok(());
        }
    }
}

/// # Safety
/// As for [`advise_all`].
unsafe fn advise_one(range: &libc::iovec, advice: c_int) -> io::Result<()> {
    loop {
        // SAFETY: the range is reserved, and nobody uses the memory, as the contract says.
        match check(unsafe { libc::madvise(range.iov_base, range.iov_len, advice) }) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            result => return result,
        }
    }
}

/// All ranges in one system call; `false` if the kernel did only a part, and the caller goes on one
/// by one. Both advices may be repeated.
///
/// # Safety
/// As for [`advise_all`].
unsafe fn advise_batch(batch: &[libc::iovec], advice: c_int) -> bool {
    if batch.len() < 2 {
        return false;
    }
    let total: usize = batch.iter().map(|range| range.iov_len).sum();
    // SAFETY: the vector is valid for reads; its ranges are reserved and unused, as the contract
    // says.
    let done = unsafe { libc::syscall(libc::SYS_process_madvise, PIDFD_SELF, batch.as_ptr(), batch.len(), advice, 0) };
    done == total as libc::c_long
}
