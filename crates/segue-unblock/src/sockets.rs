//! `recv`, `send` and their forms with addresses; and how flags of such calls are kept.
//!
//! Used by std's sockets, by C, and by `messages`.
//!
//! A call with `MSG_DONTWAIT` is passed through, and so is a receive that never waits, of urgent
//! data or of errors. Every attempt is made with that flag, and the others are kept:
//!
//! | flag | how |
//! | --- | --- |
//! | `MSG_WAITALL` | a receive of a stream goes on with the rest until all is there |
//! | `MSG_WAITALL` with `MSG_PEEK` | all is peeked at again, until there is enough, or the end |
//! | `MSG_FASTOPEN` | the first attempt begins to connect; the next ones send, and say that they would block until the connection is there |
//! | `MSG_NOSIGNAL` | set for the rest of a send, since the kernel raises no SIGPIPE when something was sent |
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::buffers::check_room;
use crate::call::{Outcome, admit, carry_out, outcome};
use crate::descriptor::{Half, does_not_block, is_stream, poll};
use crate::mark::is_active;
use crate::patience::Patience;
use crate::raw::raw;
use crate::transfer::all;
use crate::transfer::until_done;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

/// Whether a receive with these flags is to suspend its caller.
pub(crate) fn receive_is_ours(fd: c_int, flags: c_int) -> bool {
    flags & (libc::MSG_OOB | libc::MSG_ERRQUEUE) == 0 && send_is_ours(fd, flags)
}

/// Whether a send with these flags is to suspend its caller.
pub(crate) fn send_is_ours(fd: c_int, flags: c_int) -> bool {
    is_active() && flags & libc::MSG_DONTWAIT == 0 && !does_not_block(fd)
}

/// Whether a receive goes on until all is there. One of packets has the whole of its packet.
pub(crate) fn waits_for_all(fd: c_int, flags: c_int) -> bool {
    flags & libc::MSG_WAITALL != 0 && is_stream(fd)
}

/// The flags of the attempts of a send.
pub(crate) struct Sending(Cell<c_int>);

impl Sending {
    pub(crate) fn new(flags: c_int) -> Self {
        Self(Cell::new(flags | libc::MSG_DONTWAIT))
    }

    /// Makes an attempt, when so much was sent.
    pub(crate) fn attempt(&self, moved: usize, call: impl FnOnce(c_int) -> isize) -> Outcome {
        let flags = self.0.get();
        let rest = if moved > 0 { flags & !libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL } else { flags };
        match outcome(call(rest)) {
            // The connection was begun, and nothing was sent.
            Err(libc::EINPROGRESS) if rest & libc::MSG_FASTOPEN != 0 => {
                self.0.set(flags & !libc::MSG_FASTOPEN);
                Err(libc::EAGAIN)
            }
            done => done,
        }
    }
}

/// Peeks until so many bytes are there, or no more will come; `attempt` peeks at the bytes so far.
#[track_caller]
pub(crate) fn peek_all(
    patience: &mut Patience,
    total: impl Fn() -> usize,
    mut attempt: impl FnMut(c_int) -> Outcome,
) -> Outcome {
    loop {
        // Asked before the peek, which then sees all that came before the end.
        let over = libc::POLLRDHUP | libc::POLLHUP | libc::POLLNVAL;
        let is_over = poll(patience.fd(), libc::POLLRDHUP) & over != 0;
        let seen = attempt(patience.fd());
        match seen {
            Ok(count) if is_over || count == 0 || count.cast_unsigned() >= total() => return seen,
            // To wait for more is to pause: the bytes so far make the socket ready.
            Ok(_) | Err(libc::EAGAIN) => {
                if let Err(error) = patience.wait(Half::Read) {
                    return seen.map_err(|_| error);
                }
            }
            Err(libc::EINTR) => {}
            Err(_) => return seen,
        }
    }
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
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let through = || unsafe { raw!(SYS_recvfrom, fd, buf, length, flags, addr, addr_length) };
    if !receive_is_ours(fd, flags) {
        return through();
    }
    let attempt = |fd: c_int, moved: usize| {
        let (addr, addr_length) = if moved == 0 { (addr, addr_length) } else { (ptr::null_mut(), ptr::null_mut()) };
        let (buf, flags) = (buf.wrapping_byte_add(moved), flags | libc::MSG_DONTWAIT);
        // SAFETY: the caller's; of the buffer the part that is left.
        outcome(unsafe { raw!(SYS_recvfrom, fd, buf, length - moved, flags, addr, addr_length) })
    };
    carry_out(|| {
        if !waits_for_all(fd, flags) {
            return until_done(fd, Half::Read, |fd| attempt(fd, 0));
        }
        if flags & libc::MSG_PEEK == 0 {
            return all(fd, Half::Read, || length, attempt);
        }
        admit()?;
        peek_all(&mut Patience::new(fd), || length, |fd| attempt(fd, 0))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recv(fd: c_int, buf: *mut c_void, length: usize, flags: c_int) -> isize {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { recvfrom(fd, buf, length, flags, ptr::null_mut(), ptr::null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __recv_chk(fd: c_int, buf: *mut c_void, length: usize, room: usize, flags: c_int) -> isize {
    check_room(length, room);
    // SAFETY: by the contract of this function, which stands at the head of the crate.
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
    // SAFETY: by the contract of this function, which stands at the head of the crate.
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
    if !send_is_ours(fd, flags) {
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return unsafe { raw!(SYS_sendto, fd, buf, length, flags, addr, addr_length) };
    }
    let sending = Sending::new(flags);
    let attempt = |fd: c_int, moved: usize| {
        let buf = buf.wrapping_byte_add(moved);
        // SAFETY: the caller's; of the buffer the part that is left.
        sending.attempt(moved, |flags| unsafe { raw!(SYS_sendto, fd, buf, length - moved, flags, addr, addr_length) })
    };
    carry_out(|| all(fd, Half::Write, || length, attempt))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn send(fd: c_int, buf: *const c_void, length: usize, flags: c_int) -> isize {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { sendto(fd, buf, length, flags, ptr::null(), 0) }
}
