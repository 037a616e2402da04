//! `read`, `write` and their vectored and fortified forms: for pipes, terminals and sockets.
//!
//! Used by std's pipes, files and standard input, and by C.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::descriptor::{self, Half, Manner};
use crate::raw::raw;
use crate::scope::{Outcome, Patience, admit, carry_out, is_active, until_done};
use crate::sockets::sendto;
use std::ffi::{c_int, c_void};
use std::ptr;

type Slice = libc::iovec;

/// What the kernel takes at most.
pub(crate) const MAX_SLICES: c_int = 1024;

unsafe extern "C" {
    /// The C library's end of a program whose buffer would overflow.
    #[cfg(target_env = "gnu")]
    fn __chk_fail() -> !;
}

/// Ends the program if a call would write past its buffer, as the fortified forms promise.
pub(crate) fn check_room(asked: usize, room: usize) {
    if asked > room {
        #[cfg(target_env = "gnu")]
        // SAFETY: it takes nothing, and does not return.
        unsafe {
            __chk_fail()
        }
        #[cfg(not(target_env = "gnu"))]
        std::process::abort()
    }
}

/// The standard output and errors are passed through: std holds a lock while it writes there.
fn is_standard_output(fd: c_int) -> bool {
    fd == 1 || fd == 2
}

/// What is left of a list when so many bytes are gone.
pub(crate) fn rest(list: &[Slice], mut moved: usize) -> Vec<Slice> {
    let left = list.iter().filter_map(|slice| {
        let skipped = moved.min(slice.iov_len);
        moved -= skipped;
        let (base, length) = (slice.iov_base.wrapping_byte_add(skipped), slice.iov_len - skipped);
        (length > 0).then_some(Slice { iov_base: base, iov_len: length })
    });
    left.collect()
}

/// How many bytes are in a list.
pub(crate) fn total(list: &[Slice]) -> usize {
    list.iter().map(|slice| slice.iov_len).fold(0, usize::saturating_add)
}

/// Makes a transfer, and goes on with the rest of it, until all is moved, the end has come, or it
/// fails. What was moved before an error is what the call returns, as the kernel has it.
///
/// `attempt` gets the number that the descriptor has at the moment, and how much was moved; `total`
/// is asked when something was.
#[track_caller]
pub(crate) fn all(
    fd: c_int,
    half: Half,
    total: impl Fn() -> usize,
    attempt: impl FnMut(c_int, usize) -> Outcome,
) -> Outcome {
    admit()?;
    go_on(&mut Patience::new(fd), half, 0, total, attempt)
}

/// Goes on with a transfer of which so much was moved.
#[track_caller]
pub(crate) fn go_on(
    patience: &mut Patience,
    half: Half,
    mut moved: usize,
    total: impl Fn() -> usize,
    mut attempt: impl FnMut(c_int, usize) -> Outcome,
) -> Outcome {
    let failed = loop {
        match attempt(patience.fd(), moved) {
            Ok(count) => {
                patience.moved();
                moved += count.cast_unsigned();
                segue_core::drivers::charge(count.cast_unsigned() / 4096);
                if count == 0 || moved >= total() {
                    return Ok(moved.cast_signed());
                }
            }
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => match patience.wait(half) {
                // The error is for the next call.
                Ok(()) if moved > 0 && descriptor::has_failed(patience.fd()) => return Ok(moved.cast_signed()),
                Ok(()) => {}
                Err(error) => break error,
            },
            Err(error) => break error,
        }
    };
    if moved > 0 { Ok(moved.cast_signed()) } else { Err(failed) }
}

/// # Safety
/// As for `readv`; `through` makes that call.
#[track_caller]
unsafe fn read_slices(fd: c_int, iov: *const Slice, count: c_int, through: impl Fn() -> isize) -> isize {
    let manner = descriptor::manner(fd);
    if manner == Manner::Through || !(1..=MAX_SLICES).contains(&count) {
        return through();
    }
    carry_out(|| {
        // SAFETY: the caller's.
        until_done(fd, Half::Read, |fd| unsafe { descriptor::try_read(fd, manner, iov, count) })
    })
}

/// # Safety
/// As for `writev`; `through` makes that call.
#[track_caller]
unsafe fn write_slices(fd: c_int, iov: *const Slice, count: c_int, through: impl Fn() -> isize) -> isize {
    let manner = if is_standard_output(fd) { Manner::Through } else { descriptor::manner(fd) };
    if manner == Manner::Through || !(1..=MAX_SLICES).contains(&count) {
        return through();
    }
    // SAFETY: something was moved, so the kernel has read the list.
    let list = || unsafe { std::slice::from_raw_parts(iov, count as usize) };
    carry_out(|| {
        all(
            fd,
            Half::Write,
            || total(list()),
            |fd, moved| {
                if moved == 0 {
                    // SAFETY: the caller's.
                    return unsafe { descriptor::try_write(fd, manner, false, iov, count) };
                }
                let rest = rest(list(), moved);
                // SAFETY: parts of what the caller has named.
                unsafe { descriptor::try_write(fd, manner, true, rest.as_ptr(), rest.len() as c_int) }
            },
        )
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: the caller's.
    let through = || unsafe { raw!(SYS_read, fd, buf, count) };
    if !is_active() {
        return through();
    }
    let iov = Slice { iov_base: buf, iov_len: count };
    // SAFETY: the list is here; its one buffer is the caller's.
    unsafe { read_slices(fd, &raw const iov, 1, through) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, iov: *const Slice, count: c_int) -> isize {
    // SAFETY: the caller's.
    let through = || unsafe { raw!(SYS_readv, fd, iov, count) };
    if !is_active() {
        return through();
    }
    // SAFETY: the caller's.
    unsafe { read_slices(fd, iov, count, through) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, count: usize) -> isize {
    // SAFETY: the caller's.
    let through = || unsafe { raw!(SYS_write, fd, buf, count) };
    if !is_active() {
        return through();
    }
    if count == 0 && descriptor::manner(fd) == Manner::Socket {
        // It may be a packet; of a list without a byte none is made.
        // SAFETY: nothing is named.
        return unsafe { sendto(fd, buf, 0, 0, ptr::null(), 0) };
    }
    let iov = Slice { iov_base: buf.cast_mut(), iov_len: count };
    // SAFETY: the list is here; its one buffer is the caller's, and is only read.
    unsafe { write_slices(fd, &raw const iov, 1, through) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, iov: *const Slice, count: c_int) -> isize {
    // SAFETY: the caller's.
    let through = || unsafe { raw!(SYS_writev, fd, iov, count) };
    if !is_active() {
        return through();
    }
    // SAFETY: the caller's.
    unsafe { write_slices(fd, iov, count, through) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: c_int, buf: *mut c_void, count: usize, room: usize) -> isize {
    check_room(count, room);
    // SAFETY: the caller's.
    unsafe { read(fd, buf, count) }
}
