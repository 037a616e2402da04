//! `connect`, `accept` and `accept4`: the calls that can't be told not to wait.
//!
//! Used by std's sockets, and by C.
//!
//! The kernel has no flag by which one such call says that it must not block; the flag of the open
//! file decides, which is shared and is not ours to change. So:
//!
//! | | where the worker has a ring | elsewhere |
//! | --- | --- | --- |
//! | connect | flies in it, but for Unix sockets | a thread that a cancellation interrupts makes the call |
//! | accept | flies in it | readiness is waited for; then such a thread makes the call |
//!
//! A Unix socket that is to be connected to a full queue is ready for ever: a ring tries again and
//! again before giving the call to a thread of its own, and a cancel in between is lost.
//!
//! **The race to fear**: between the look at a listener and the call another accept takes the
//! connection, that of another fiber, thread or process. Then the call waits for the next
//! connection, on its thread: the worker, and other accepts, go on.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::call::{Outcome, admit, carry_out, count_wait, elsewhere, outcome};
use crate::descriptor::{Half, does_not_block, duplicate, duplicate_or_wait, is_ready, option};
use crate::mark::is_active;
use crate::patience::Patience;
use crate::raw::raw;
use rustix::net::{SocketAddrAny, SocketFlags};
use segue_core::Cancelled;
use segue_io::foreign::Accepted;
use socket2::{SockAddr, SockAddrStorage};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::ptr;

/// An error of a flight, as `errno`; the name of a time-out differs. `None` if there was no flight.
fn number(error: &io::Error, late: c_int) -> Option<c_int> {
    match error.raw_os_error() {
        Some(number) => Some(number),
        None if Cancelled::caused(error) => Some(libc::ECANCELED),
        None if error.kind() == io::ErrorKind::TimedOut => Some(late),
        None => None,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(
    fd: c_int,
    addr: *mut libc::sockaddr,
    length: *mut libc::socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let call = |fd: c_int| unsafe { raw!(SYS_accept4, fd, addr, length, flags) };
    let listens = || option::<c_int>(fd, libc::SO_ACCEPTCONN) == Some(1);
    if !is_active() || does_not_block(fd) || !listens() {
        return call(fd) as c_int;
    }
    carry_out(|| {
        admit()?;
        let mut patience = Patience::new(fd);
        let deadline = patience.deadline(Half::Read);
        if let Ok(file) = patience.file() {
            count_wait();
            match file.accept(flags, deadline) {
                Some(Ok((accepted, peer))) => {
                    // SAFETY: the caller's, as the kernel would write there.
                    unsafe { write_address(peer, addr, length) };
                    return Ok(accepted.into_raw_fd() as isize);
                }
                Some(Err(error)) if let Some(error) = number(&error, libc::EAGAIN) => return Err(error),
                _ => {}
            }
        }
        loop {
            match accept_if_ready(patience.fd(), flags) {
                Ok((accepted, peer)) => {
                    // SAFETY: the caller's, as the kernel would write there.
                    unsafe { write_address(peer, addr, length) };
                    return Ok(accepted.into_raw_fd() as isize);
                }
                Err(libc::EAGAIN) => patience.wait(Half::Read)?,
                Err(libc::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }) as c_int
}

/// Takes a connection if there is one, on another thread.
fn accept_if_ready(fd: c_int, flags: c_int) -> Outcome<Accepted> {
    if !is_ready(fd, Half::Read) {
        return Err(libc::EAGAIN);
    }
    let (listener, flags) = (duplicate(fd)?, SocketFlags::from_bits_retain(flags.cast_unsigned()));
    elsewhere("a connection", true, move || {
        rustix::net::acceptfrom_with(&listener, flags).map_err(rustix::io::Errno::raw_os_error)
    })
}

/// Writes an address to the place that a caller of `accept` names.
///
/// # Safety
/// As for `accept`.
unsafe fn write_address(peer: Option<SocketAddrAny>, addr: *mut libc::sockaddr, length: *mut libc::socklen_t) {
    if addr.is_null() || length.is_null() {
        return;
    }
    let (from, has) = match &peer {
        Some(peer) => (peer.as_ptr().cast::<u8>(), peer.addr_len()),
        None => (ptr::null(), 0),
    };
    // SAFETY: the caller's: there is room for the given length; and the address is as long.
    unsafe {
        let room = *length;
        if has > 0 {
            ptr::copy_nonoverlapping(from, addr.cast::<u8>(), has.min(room) as usize);
        }
        *length = has;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept(fd: c_int, addr: *mut libc::sockaddr, length: *mut libc::socklen_t) -> c_int {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    unsafe { accept4(fd, addr, length, 0) }
}

/// An address that is no longer than addresses are.
///
/// # Safety
/// There are so many bytes.
unsafe fn address(addr: *const libc::sockaddr, length: libc::socklen_t) -> Option<SockAddr> {
    if addr.is_null()
        || length as usize > size_of::<SockAddrStorage>()
        || (length as usize) < size_of::<libc::sa_family_t>()
    {
        return None;
    }
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: both have as many bytes; and the content is that for a system call.
    unsafe {
        ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast::<u8>(), length as usize);
        Some(SockAddr::new(storage, length))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, addr: *const libc::sockaddr, length: libc::socklen_t) -> c_int {
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let call = |fd: c_int| unsafe { raw!(SYS_connect, fd, addr, length) };
    if !is_active() || does_not_block(fd) {
        return call(fd) as c_int;
    }
    // To set the peer of datagrams takes no time.
    let waits = matches!(option::<c_int>(fd, libc::SO_TYPE), Some(libc::SOCK_STREAM | libc::SOCK_SEQPACKET));
    // SAFETY: by the contract of this function, which stands at the head of the crate.
    let Some(to) = (unsafe { address(addr, length) }).filter(|to| waits && to.family() != libc::AF_UNSPEC as _) else {
        return call(fd) as c_int;
    };
    carry_out(|| {
        admit()?;
        let mut patience = Patience::new(fd);
        let deadline = patience.deadline(Half::Write);
        if to.family() != libc::AF_UNIX as libc::sa_family_t
            && let Ok(file) = patience.file()
        {
            count_wait();
            match file.connect(&to, deadline) {
                Some(Ok(())) => return Ok(0),
                Some(Err(error)) if let Some(error) = number(&error, libc::EINPROGRESS) => return Err(error),
                _ => {}
            }
        }
        let socket = loop {
            match duplicate_or_wait(patience.fd()) {
                Err(libc::EAGAIN) => patience.pause(deadline)?,
                made => break made?,
            }
        };
        // SAFETY: the address is the closure's own.
        let call = move || outcome(unsafe { raw!(SYS_connect, socket.as_raw_fd(), to.as_ptr(), to.len()) });
        elsewhere("a connection to be made", false, call)
    }) as c_int
}
