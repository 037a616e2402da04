//! `read`, `write` and their vectored and fortified forms: for pipes, terminals and sockets.
//!
//! Used by std's pipes, files and standard input, and by C.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::buffers::{MAX_SLICES, Slice, check_room, rest, total};
use crate::call::carry_out;
use crate::descriptor::{self, Half, Manner};
use crate::mark::is_active;
use crate::raw::raw;
use crate::sockets::sendto;
use crate::transfer::{all, until_done};
use std::ffi::{c_int, c_void};
use std::ptr;

/// The standard output and errors are passed through: std holds a lock while it writes there.
fn is_standard_output(fd: c_int) -> bool {
    fd == 1 || fd == 2
}

/// # Safety
/// As for `readv`; `through` makes that call, also for code that is not unblocked.
#[track_caller]
unsafe fn read_slices(fd: c_int, iov: *const Slice, count: c_int, through: impl Fn() -> isize) -> isize {
    let manner = if is_active() { descriptor::manner(fd) } else { Manner::Through };
    if manner == Manner::Through || !(1..=MAX_SLICES).contains(&count) {
        return through();
    }
    carry_out(|| {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        until_done(fd, Half::Read, |fd| unsafe { descriptor::try_read(fd, manner, iov, count) })
    })
}

/// # Safety
/// As for `writev`; `through` makes that call, also for code that is not unblocked.
#[track_caller]
unsafe fn write_slices(fd: c_int, iov: *const Slice, count: c_int, through: impl Fn() -> isize) -> isize {
    let passes = !is_active() || is_standard_output(fd);
    let manner = if passes { Manner::Through } else { descriptor::manner(fd) };
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
                    // SAFETY: by the contract of this function, at the head of the crate.
                    return unsafe { descriptor::try_write(fd, manner, false, iov, count) };
                }
                let rest = rest(list(), moved);
                // SAFETY: parts of the caller's buffers.
                unsafe { descriptor::try_write(fd, manner, true, rest.as_ptr(), rest.len() as c_int) }
            },
        )
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let through = || unsafe { raw!(SYS_read, fd, buf, count) };
    let iov = Slice { iov_base: buf, iov_len: count };
    // SAFETY: the list is here; its one buffer is the caller's.
    unsafe { read_slices(fd, &raw const iov, 1, through) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, iov: *const Slice, count: c_int) -> isize {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let through = || unsafe { raw!(SYS_readv, fd, iov, count) };
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { read_slices(fd, iov, count, through) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, count: usize) -> isize {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let through = || unsafe { raw!(SYS_write, fd, buf, count) };
    if count == 0 && is_active() && descriptor::manner(fd) == Manner::Socket {
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
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let through = || unsafe { raw!(SYS_writev, fd, iov, count) };
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { write_slices(fd, iov, count, through) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(fd: c_int, buf: *mut c_void, count: usize, room: usize) -> isize {
    check_room(count, room);
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { read(fd, buf, count) }
}
