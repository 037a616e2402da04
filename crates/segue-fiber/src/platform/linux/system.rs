//! The memory calls of Linux alone: guard regions, and ranges in batches.
//!
//! Used by `unix/memory.rs` and `unix/altstack.rs`.

#![allow(unsafe_code)] // System calls.

use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use crate::platform::unix::check;

/// A reservation is not accounted.
pub(in crate::platform) const RESERVED: c_int = libc::MAP_NORESERVE;

/// `MADV_GUARD_INSTALL`, Linux 6.13: the range faults when accessed, without being a mapping of its
/// own.
const GUARD_INSTALL: c_int = 102;

/// An advice that no kernel knows. Emulators of user programs say yes to any advice, and do
/// nothing.
const UNKNOWN: c_int = 0x5e9_0e00;

/// `PIDFD_SELF_THREAD`, Linux 6.14: stands for the calling thread, and so for its memory. Before
/// that, each range takes a call of its own.
const PIDFD_SELF: c_int = -10_000;

/// How many ranges go into one system call.
const BATCH: usize = 128;

/// Asks the C library's allocator to give free memory inside of its heap back to the kernel. By
/// itself the allocator does so only at the heap's end. Has no effect with another allocator.
pub(crate) fn release_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Switches huge pages off in a new reservation.
///
/// # Safety
/// The range is a mapping of the caller's.
pub(in crate::platform) unsafe fn prepare_reservation(start: *mut c_void, size: usize) {
    // SAFETY: by the contract. A kernel without huge pages refuses, which is as good.
    unsafe { libc::madvise(start, size, libc::MADV_NOHUGEPAGE) };
}

/// Makes a range accessible in which stacks lie, all but their guards, which fault without mappings
/// of their own. Returns how many; none, with all as before, where the kernel can't: an older one,
/// an emulated one, or for memory that is locked.
///
/// # Safety
/// The range is a part of a reservation, and nobody uses the memory.
pub(crate) unsafe fn make_stacks(
    all: Range<usize>,
    stacks: &mut dyn ExactSizeIterator<Item = (Range<usize>, Range<usize>)>,
) -> io::Result<usize> {
    let count = stacks.len();
    // SAFETY: by the contract nobody relies on the guards yet.
    unsafe { protect(&all, libc::PROT_READ | libc::PROT_WRITE)? };
    // SAFETY: by the contract.
    if unsafe { install_guards(&mut stacks.map(|(guard, _)| guard))? } {
        return Ok(count);
    }
    // SAFETY: by the contract nobody uses the memory.
    unsafe { protect(&all, libc::PROT_NONE)? };
    Ok(0)
}

/// # Safety
/// The range is a part of a reservation, and nobody uses the memory or relies on a fault there.
unsafe fn protect(range: &Range<usize>, access: c_int) -> io::Result<()> {
    // SAFETY: the range is ours and nobody relies on its content or a fault there, as the contract
    // says.
    check(unsafe { libc::mprotect(range.start as *mut _, range.len(), access) })
}

/// Makes all ranges fault; `false` where the kernel can't. Then some ranges may fault already.
///
/// # Safety
/// The ranges are parts of reservations, and nobody uses the memory.
unsafe fn install_guards(ranges: &mut dyn Iterator<Item = Range<usize>>) -> io::Result<bool> {
    static ANSWERS: OnceLock<bool> = OnceLock::new();
    // SAFETY: concerns no memory.
    let refuses = || unsafe { libc::madvise(ptr::null_mut(), 0, UNKNOWN) } != 0;
    if !*ANSWERS.get_or_init(refuses) {
        return Ok(false);
    }
    // SAFETY: by the contract these are ranges that nobody uses.
    match unsafe { advise_all(ranges, GUARD_INSTALL) } {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives the memory of all ranges back.
///
/// # Safety
/// The ranges are accessible parts of reservations, and nobody uses the memory.
pub(crate) unsafe fn discard(ranges: &mut dyn Iterator<Item = Range<usize>>) -> io::Result<()> {
    // SAFETY: by the contract these are ranges that nobody uses.
    unsafe { advise_all(ranges, libc::MADV_DONTNEED) }
}

/// Gives the memory of one range back, on the stack of which the caller runs. By number: `madvise`
/// itself may be replaced by a function with large frames. If the kernel refuses, as for memory
/// that is locked, the pages stay.
///
/// # Safety
/// The range ends far enough below the caller's frames for a call of the kernel.
#[inline(always)]
pub(crate) unsafe fn discard_below(range: Range<usize>) {
    // SAFETY: by the contract nobody uses the memory.
    unsafe { libc::syscall(libc::SYS_madvise, range.start, range.len(), libc::MADV_DONTNEED) };
}

/// How large the frame is that the kernel writes for a signal.
pub(in crate::platform) fn signal_frame() -> usize {
    // SAFETY: no preconditions.
    (unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize).max(libc::MINSIGSTKSZ)
}

/// Applies an advice to all ranges, many to a system call.
///
/// # Safety
/// The ranges are parts of reservations, and nobody uses the memory.
unsafe fn advise_all(ranges: &mut dyn Iterator<Item = Range<usize>>, advice: c_int) -> io::Result<()> {
    let mut batch = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; BATCH];
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
        if count < BATCH {
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
