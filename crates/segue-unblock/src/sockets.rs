//! `recv`, `send` and their forms with addresses, messages and lists of messages.
//!
//! Used by std's sockets, and by C.
//!
//! A call with `MSG_DONTWAIT` is passed through, and so is one that never waits, for urgent data or
//! for errors, and one that connects first (`MSG_FASTOPEN`). `MSG_WAITALL` is kept: a receive of a
//! stream goes on until all is there, but for two kinds that are passed through, since they can't
//! be put together from parts: to peek for all, and to wait for all together with control data.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::bytes::{all, check_room, rest, total};
use crate::descriptor::{Half, does_not_block, header, option};
use crate::raw::raw;
use crate::scope::{Outcome, Patience, admit, carry_out, is_active, outcome, until_done};
use crate::sleeps::duration;
use segue_core::now;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

const PLAIN: c_int = libc::MSG_DONTWAIT | libc::MSG_OOB | libc::MSG_ERRQUEUE | libc::MSG_FASTOPEN;

/// Whether such a call on this descriptor is to suspend its caller.
fn is_ours(fd: c_int, flags: c_int) -> bool {
    is_active() && flags & PLAIN == 0 && !does_not_block(fd)
}

/// Whether a receive goes on until all is there. One of packets has the whole of its packet.
fn waits_for_all(fd: c_int, flags: c_int) -> bool {
    flags & libc::MSG_WAITALL != 0 && option::<c_int>(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    fd: c_int,
    buf: *mut c_void,
    length: usize,
    flags: c_int,
    addr: *mut libc::sockaddr,
    addr_length: *mut libc::socklen_t,
) -> isize {
    // SAFETY: the caller's.
    let through = || unsafe { raw!(SYS_recvfrom, fd, buf, length, flags, addr, addr_length) };
    if !is_ours(fd, flags) {
        return through();
    }
    let waits = waits_for_all(fd, flags);
    if waits && flags & libc::MSG_PEEK != 0 {
        return through();
    }
    let attempt = |fd: c_int, moved: usize| {
        let (addr, addr_length) = if moved == 0 { (addr, addr_length) } else { (ptr::null_mut(), ptr::null_mut()) };
        let (buf, flags) = (buf.wrapping_byte_add(moved), flags | libc::MSG_DONTWAIT);
        // SAFETY: the caller's; of the buffer the part that is left.
        outcome(unsafe { raw!(SYS_recvfrom, fd, buf, length - moved, flags, addr, addr_length) })
    };
    carry_out(|| match waits {
        false => until_done(fd, Half::Read, |fd| attempt(fd, 0)),
        true => all(fd, Half::Read, || length, attempt),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, buf: *mut c_void, length: usize, flags: c_int) -> isize {
    // SAFETY: the caller's.
    unsafe { recvfrom(fd, buf, length, flags, ptr::null_mut(), ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(fd: c_int, buf: *mut c_void, length: usize, room: usize, flags: c_int) -> isize {
    check_room(length, room);
    // SAFETY: the caller's.
    unsafe { recv(fd, buf, length, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    buf: *mut c_void,
    length: usize,
    room: usize,
    flags: c_int,
    addr: *mut libc::sockaddr,
    addr_length: *mut libc::socklen_t,
) -> isize {
    check_room(length, room);
    // SAFETY: the caller's.
    unsafe { recvfrom(fd, buf, length, flags, addr, addr_length) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sendto(
    fd: c_int,
    buf: *const c_void,
    length: usize,
    flags: c_int,
    addr: *const libc::sockaddr,
    addr_length: libc::socklen_t,
) -> isize {
    if !is_ours(fd, flags) {
        // SAFETY: the caller's.
        return unsafe { raw!(SYS_sendto, fd, buf, length, flags, addr, addr_length) };
    }
    let attempt = |fd: c_int, moved: usize| {
        let (buf, flags) = (buf.wrapping_byte_add(moved), flags | libc::MSG_DONTWAIT);
        // SAFETY: the caller's; of the buffer the part that is left.
        outcome(unsafe { raw!(SYS_sendto, fd, buf, length - moved, flags, addr, addr_length) })
    };
    carry_out(|| all(fd, Half::Write, || length, attempt))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, buf: *const c_void, length: usize, flags: c_int) -> isize {
    // SAFETY: the caller's.
    unsafe { sendto(fd, buf, length, flags, ptr::null(), 0) }
}

/// The buffers of a message that the kernel has accepted.
///
/// # Safety
/// It was.
unsafe fn slices<'a>(message: *const libc::msghdr) -> &'a [libc::iovec] {
    // SAFETY: the kernel has read both.
    unsafe {
        match (*message).msg_iov.is_null() {
            true => &[],
            false => std::slice::from_raw_parts((*message).msg_iov, (*message).msg_iovlen as _),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
    if !is_ours(fd, flags) {
        // SAFETY: the caller's.
        return unsafe { raw!(SYS_sendmsg, fd, message, flags) };
    }
    let flags = flags | libc::MSG_DONTWAIT;
    // SAFETY: it is asked for when something was sent.
    let list = || unsafe { slices(message) };
    let attempt = |fd: c_int, moved: usize| {
        if moved == 0 {
            // SAFETY: the caller's.
            return outcome(unsafe { raw!(SYS_sendmsg, fd, message, flags) });
        }
        // Control data has gone with the first byte; a stream has no addresses.
        let rest = rest(list(), moved);
        let message = header(rest.as_ptr(), rest.len());
        // SAFETY: parts of what the caller has named.
        outcome(unsafe { raw!(SYS_sendmsg, fd, &raw const message, flags) })
    };
    carry_out(|| all(fd, Half::Write, || total(list()), attempt))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's.
    let through = || unsafe { raw!(SYS_recvmsg, fd, message, flags) };
    if !is_ours(fd, flags) || message.is_null() {
        return through();
    }
    let waits = waits_for_all(fd, flags);
    // SAFETY: the caller's message can be read.
    if waits && (flags & libc::MSG_PEEK != 0 || unsafe { !(*message).msg_control.is_null() }) {
        return through();
    }
    let flags = flags | libc::MSG_DONTWAIT;
    // SAFETY: it is asked for when something was received.
    let list = || unsafe { slices(message) };
    let attempt = |fd: c_int, moved: usize| {
        if moved == 0 {
            // SAFETY: the caller's.
            return outcome(unsafe { raw!(SYS_recvmsg, fd, message, flags) });
        }
        let rest = rest(list(), moved);
        let mut message = header(rest.as_ptr(), rest.len());
        // SAFETY: parts of what the caller has named.
        outcome(unsafe { raw!(SYS_recvmsg, fd, &raw mut message, flags) })
    };
    carry_out(|| match waits {
        false => until_done(fd, Half::Read, |fd| attempt(fd, 0)),
        true => all(fd, Half::Read, || total(list()), attempt),
    })
}

/// Moves messages one batch after the other, until all are moved or it fails; how many, if any.
fn batches(
    patience: &mut Patience,
    half: Half,
    count: usize,
    is_enough: impl Fn() -> bool,
    mut attempt: impl FnMut(c_int, usize) -> Outcome,
) -> Outcome {
    admit()?;
    let mut moved = 0;
    let failed = loop {
        match attempt(patience.fd(), moved) {
            Ok(more) => {
                moved += more.cast_unsigned();
                if more == 0 || moved >= count || is_enough() {
                    return Ok(moved.cast_signed());
                }
            }
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) => {
                if let Err(error) = patience.wait(half) {
                    break error;
                }
            }
            Err(error) => break error,
        }
    };
    if moved > 0 { Ok(moved.cast_signed()) } else { Err(failed) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if !is_ours(fd, flags) {
        // SAFETY: the caller's.
        return unsafe { raw!(SYS_sendmmsg, fd, messages, count, flags) } as c_int;
    }
    let attempt = |fd: c_int, moved: usize| {
        let (from, left, flags) = (messages.wrapping_add(moved), count - moved as c_uint, flags | libc::MSG_DONTWAIT);
        // SAFETY: the caller's; those that are left.
        outcome(unsafe { raw!(SYS_sendmmsg, fd, from, left, flags) })
    };
    carry_out(|| batches(&mut Patience::new(fd), Half::Write, count as usize, || false, attempt)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller's, if it is there.
    let limit = unsafe { timeout.as_ref() }.map(duration);
    if !is_ours(fd, flags) || limit == Some(None) {
        // SAFETY: the caller's.
        return unsafe { raw!(SYS_recvmmsg, fd, messages, count, flags, timeout) } as c_int;
    }
    let deadline = limit.flatten().and_then(|limit| now().checked_add(limit));
    let attempt = |fd: c_int, moved: usize| {
        let (to, left, flags) = (messages.wrapping_add(moved), count - moved as c_uint, flags | libc::MSG_DONTWAIT);
        // SAFETY: the caller's; those that are left.
        outcome(unsafe { raw!(SYS_recvmmsg, fd, to, left, flags, ptr::null_mut::<libc::timespec>()) })
    };
    // As in the kernel, its time-out is looked at when something has come.
    let is_enough = || flags & libc::MSG_WAITFORONE != 0 || deadline.is_some_and(|at| at <= now());
    carry_out(|| batches(&mut Patience::new(fd), Half::Read, count as usize, is_enough, attempt)) as c_int
}
