//! `connect`, `accept` and `accept4`: the calls that can't be told not to wait.
//!
//! Used by std's sockets, and by C.
//!
//! The kernel has no flag by which one such call says that it must not block; it goes by the flag
//! of the open file, which is shared and is not ours to change. So:
//!
//! | | where the worker has a ring | elsewhere |
//! | --- | --- | --- |
//! | connect | flies in it | a thread for blocking calls makes it; a cancellation shuts the socket down, which ends the call |
//! | accept | flies in it | readiness is waited for; then, under a lock of this process's, it is looked at once more, and the call is made |
//!
//! Under the lock nobody of this program who goes through here can take the connection between the
//! look and the call. Somebody else can: another process, or a plain thread in its own accept. Then
//! the call blocks the worker until the next connection. A ring has no such gap.
#![allow(unsafe_code)] // The C library's functions, defined anew.

use crate::descriptor::{Half, does_not_block, is_ready, option};
use crate::raw::raw;
use crate::scope::{Outcome, Patience, admit, carry_out, is_active, outcome};
use rustix::net::SocketAddrAny;
use segue_core::{Blocking, Cancelled};
use socket2::{SockAddr, SockAddrStorage};
use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::ptr;
use std::sync::{Mutex, TryLockError};

/// An error of a flight, as `errno`; what a time-out is called differs. `None` if there was no
/// flight.
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
    // SAFETY: the caller's.
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
            Patience::count();
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
            match accept_if_ready(patience.fd(), call) {
                Err(libc::EAGAIN) => patience.wait(Half::Read)?,
                Err(libc::EINTR) => {}
                done => return done,
            }
        }
    }) as c_int
}

/// Takes a connection if there is one. Another process may take it before the call does, which
/// blocks then: nobody else waits for that call.
fn accept_if_ready(fd: c_int, call: impl Fn(c_int) -> isize) -> Outcome {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = match ONE.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(libc::EAGAIN),
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Ok(alone) => alone,
    };
    if is_ready(fd, Half::Read) { outcome(call(fd)) } else { Err(libc::EAGAIN) }
}

/// Writes an address where a caller of `accept` wants it.
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
    // SAFETY: the caller's: there is room for as much as it says; and the address is as long.
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
    // SAFETY: the caller's.
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
    // SAFETY: both have as many bytes; and what is there is what a system call would be given.
    unsafe {
        ptr::copy_nonoverlapping(addr.cast::<u8>(), (&raw mut storage).cast::<u8>(), length as usize);
        Some(SockAddr::new(storage, length))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(fd: c_int, addr: *const libc::sockaddr, length: libc::socklen_t) -> c_int {
    // SAFETY: the caller's.
    let call = |fd: c_int| unsafe { raw!(SYS_connect, fd, addr, length) };
    if !is_active() || does_not_block(fd) {
        return call(fd) as c_int;
    }
    // To set the peer of datagrams takes no time.
    let waits = matches!(option::<c_int>(fd, libc::SO_TYPE), Some(libc::SOCK_STREAM | libc::SOCK_SEQPACKET));
    // SAFETY: the caller's.
    let Some(to) = (unsafe { address(addr, length) }).filter(|to| waits && to.family() != libc::AF_UNSPEC as _) else {
        return call(fd) as c_int;
    };
    carry_out(|| {
        admit()?;
        Patience::count();
        let mut patience = Patience::new(fd);
        let deadline = patience.deadline(Half::Write);
        let fd = match patience.file() {
            Ok(file) => match file.connect(&to, deadline) {
                Some(Ok(())) => return Ok(0),
                // It was begun before, and a ring does not wait for that.
                Some(Err(error)) if error.raw_os_error() == Some(libc::EALREADY) => file.as_fd().as_raw_fd(),
                Some(Err(error)) if let Some(error) = number(&error, libc::EINPROGRESS) => return Err(error),
                _ => file.as_fd().as_raw_fd(),
            },
            Err(_) => fd,
        };
        connect_elsewhere(fd, &to)
    }) as c_int
}

/// Has another thread make the call.
fn connect_elsewhere(fd: c_int, to: &SockAddr) -> Outcome {
    let cut = Cell::new(false);
    let end = || {
        cut.set(true);
        // SAFETY: no memory is named.
        unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
    };
    // SAFETY: the address is there until this returns. The thread has an `errno` of its own.
    let call = || outcome(unsafe { raw!(SYS_connect, fd, to.as_ptr(), to.len()) });
    match Blocking::new().on_cancel(end).run(call) {
        Ok(_) if cut.get() => Err(libc::ECANCELED),
        Ok(done) => done,
        Err(_) => Err(libc::ECANCELED),
    }
}
