//! What kind of thing a descriptor leads to, and how it is asked without waiting.
//!
//! Used by `scope` and by the functions for one descriptor.
//!
//! All calls are raw system calls, or functions of the C library that are not defined here.
#![allow(unsafe_code)] // System calls about descriptors that are numbers.

use crate::bytes::total;
use crate::raw::raw;
use crate::scope::{Outcome, outcome};
use std::ffi::{c_int, c_short};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Read,
    Write,
}

/// How a `read` or `write` of a descriptor is made so that it does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not at all: it does not block, or is a file or directory, or nothing.
    Through,
    /// By the calls for sockets.
    Socket,
    Pipe,
    /// A terminal, a device, what the kernel has made without a name.
    Stream,
}

/// The descriptor with this number, if it can be one.
pub(crate) fn borrow<'a>(fd: c_int) -> io::Result<BorrowedFd<'a>> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it may be closed, and then the system calls that it is for say so: those of
    // `Foreign`, which makes a duplicate and uses that.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Whether calls on it don't wait, as those on what is no descriptor.
pub(crate) fn does_not_block(fd: c_int) -> bool {
    // SAFETY: no memory is named.
    let flags = unsafe { raw!(SYS_fcntl, fd, libc::F_GETFL) };
    flags == -1 || flags as c_int & libc::O_NONBLOCK != 0
}

/// What it leads to.
pub(crate) fn manner(fd: c_int) -> Manner {
    if does_not_block(fd) {
        return Manner::Through;
    }
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is room for the answer.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } == -1 {
        return Manner::Through;
    }
    // SAFETY: it was written.
    match unsafe { stat.assume_init() }.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Manner::Socket,
        // What has no name has no type either: events, timers, signals, epolls.
        libc::S_IFIFO => Manner::Pipe,
        libc::S_IFCHR | 0 => Manner::Stream,
        _ => Manner::Through,
    }
}

/// An option of a socket that is a number.
pub(crate) fn option<T: Copy + Default>(fd: c_int, name: c_int) -> Option<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>() as libc::socklen_t);
    // SAFETY: there is room for so many bytes, of numbers of which all values are good.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    (done == 0).then_some(value)
}

/// How long a call may wait, by the socket's own time-out; `None` for ever, and for what is no
/// socket.
pub(crate) fn timeout(fd: c_int, half: Half) -> Option<Duration> {
    let name = if half == Half::Read { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    let [seconds, micros] = option::<[i64; 2]>(fd, name)?;
    let timeout = Duration::from_secs(seconds.try_into().ok()?) + Duration::from_micros(micros.try_into().ok()?);
    (!timeout.is_zero()).then_some(timeout)
}

/// What the kernel says of it at this moment, or when it says something.
fn poll(fd: c_int, half: Half, at_once: bool) -> Option<c_short> {
    let events = if half == Half::Read { libc::POLLIN } else { libc::POLLOUT };
    let mut asked = libc::pollfd { fd, events, revents: 0 };
    // The kernel writes what is left of it.
    let mut none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let timeout = if at_once { &raw mut none } else { ptr::null_mut() };
    // SAFETY: the entry is there for the length of the call.
    let found = unsafe { raw!(SYS_ppoll, &raw mut asked, 1_usize, timeout, ptr::null::<u8>(), 8_usize) };
    (found == 1).then_some(asked.revents)
}

/// Whether a call would not block, or would fail.
pub(crate) fn is_ready(fd: c_int, half: Half) -> bool {
    poll(fd, half, true).is_some()
}

/// Whether a call would fail.
pub(crate) fn has_failed(fd: c_int, half: Half) -> bool {
    poll(fd, half, true).is_some_and(|events| events & (libc::POLLERR | libc::POLLNVAL) != 0)
}

/// Blocks the thread until a call would not.
pub(crate) fn block(fd: c_int, half: Half) {
    let _ = poll(fd, half, false);
}

/// Whether a call was refused because it can't be told not to wait.
fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Err(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::ESPIPE))
}

/// What goes into a pipe without waiting, if it is ready at all, and in one piece.
const PIPE_BUF: usize = 4096;

/// Reads, or says `EAGAIN`.
///
/// # Safety
/// As for `readv`.
pub(crate) unsafe fn try_read(fd: c_int, manner: Manner, iov: *const libc::iovec, count: c_int) -> Outcome {
    // SAFETY: the caller's. A position of -1 is the descriptor's own.
    let tried = outcome(unsafe { raw!(SYS_preadv2, fd, iov, count as usize, -1_i64, -1_i64, libc::RWF_NOWAIT) });
    if !is_refused(&tried) {
        return tried;
    }
    if manner == Manner::Socket {
        let mut header = header(iov, count as usize);
        // SAFETY: the caller's.
        return outcome(unsafe { raw!(SYS_recvmsg, fd, &raw mut header, libc::MSG_DONTWAIT) });
    }
    // Another thread can be faster; on what can't be told not to wait, that is all there is.
    if !is_ready(fd, Half::Read) {
        return Err(libc::EAGAIN);
    }
    // SAFETY: the caller's.
    outcome(unsafe { raw!(SYS_readv, fd, iov, count as usize) })
}

/// Writes what there is room for, or says `EAGAIN`.
///
/// # Safety
/// As for `writev`; there is at least one buffer.
pub(crate) unsafe fn try_write(fd: c_int, manner: Manner, iov: *const libc::iovec, count: c_int) -> Outcome {
    // SAFETY: the caller's.
    let tried = outcome(unsafe { raw!(SYS_pwritev2, fd, iov, count as usize, -1_i64, -1_i64, libc::RWF_NOWAIT) });
    if !is_refused(&tried) {
        return tried;
    }
    if manner == Manner::Socket {
        let header = header(iov, count as usize);
        // SAFETY: the caller's.
        return outcome(unsafe { raw!(SYS_sendmsg, fd, &raw const header, libc::MSG_DONTWAIT) });
    }
    if !is_ready(fd, Half::Write) {
        return Err(libc::EAGAIN);
    }
    if manner != Manner::Pipe {
        return write_elsewhere(fd, List(iov), count);
    }
    // SAFETY: the kernel has looked at the list, or has refused before it did; the caller's.
    let list = unsafe { std::slice::from_raw_parts(iov, count as usize) };
    if total(list) <= PIPE_BUF {
        // SAFETY: the caller's.
        return outcome(unsafe { raw!(SYS_writev, fd, iov, count as usize) });
    }
    let first = list.iter().find(|slice| slice.iov_len > 0).unwrap_or(&list[0]);
    // SAFETY: the caller's.
    outcome(unsafe { raw!(SYS_write, fd, first.iov_base, first.iov_len.min(PIPE_BUF)) })
}

/// A list of buffers, for another thread.
struct List(*const libc::iovec);

// SAFETY: whoever sends it waits for the thread, and leaves the buffers alone meanwhile.
unsafe impl Send for List {}

/// Has another thread write. A terminal that is ready has room for a byte, and nobody says for how
/// many more: the rest would wait, here perhaps for a reader of this very worker.
fn write_elsewhere(fd: c_int, list: List, count: c_int) -> Outcome {
    let write = move || {
        let List(iov) = { list };
        // SAFETY: the caller of `try_write` names buffers that are there until it returns.
        outcome(unsafe { raw!(SYS_writev, fd, iov, count as usize) })
    };
    segue_core::blocking(write).unwrap_or(Err(libc::ECANCELED))
}

/// A message of bytes alone.
pub(crate) fn header(iov: *const libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all fields are numbers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = iov.cast_mut();
    header.msg_iovlen = count as _;
    header
}
