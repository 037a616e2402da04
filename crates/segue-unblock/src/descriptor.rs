//! The kind of thing behind a descriptor, and its calls without waiting.
//!
//! Used by `patience` and by the functions for one descriptor.
//!
//! All calls are raw system calls, or functions of the C library that are not defined here.
#![allow(unsafe_code)] // System calls about descriptors that are numbers.

use crate::buffers::total;
use crate::call::{Outcome, elsewhere, outcome};
use crate::raw::raw;
use std::ffi::{c_int, c_short};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// The direction of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Read,
    Write,
}

/// The way of a `read` or `write` without a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not at all: the descriptor does not block, or is a file or directory, or nothing.
    Through,
    /// By the calls for sockets.
    Socket,
    Pipe,
    /// A terminal, a device, an event counter and the like. Few of them can be told not to wait.
    Stream,
}

/// Whether calls on it don't wait, as those on a number that is no descriptor.
pub(crate) fn does_not_block(fd: c_int) -> bool {
    // SAFETY: no memory is named.
    let flags = unsafe { raw!(SYS_fcntl, fd, libc::F_GETFL) };
    flags == -1 || flags as c_int & libc::O_NONBLOCK != 0
}

/// Its kind.
pub(crate) fn manner(fd: c_int) -> Manner {
    if does_not_block(fd) {
        return Manner::Through;
    }
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: there is room for the answer.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } == -1 {
        return Manner::Through;
    }
    // SAFETY: the kernel has written the field.
    let stat = unsafe { stat.assume_init() };
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => Manner::Socket,
        libc::S_IFIFO => Manner::Pipe,
        libc::S_IFCHR if is_memory(stat.st_rdev) => Manner::Through,
        // A file without a name has no type either: events, timers, signals, epolls.
        libc::S_IFCHR | 0 => Manner::Stream,
        _ => Manner::Through,
    }
}

/// Whether a device is `/dev/null`, `zero`, `full` or `urandom`.
fn is_memory(device: libc::dev_t) -> bool {
    libc::major(device) == 1 && matches!(libc::minor(device), 3 | 5 | 7 | 9)
}

/// A duplicate: the file behind the number at this moment, through all changes of the number.
pub(crate) fn duplicate(fd: c_int) -> Outcome<OwnedFd> {
    // SAFETY: no memory is named.
    let made = outcome(unsafe { raw!(SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the descriptor is a new one, and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(made as c_int) })
}

/// The same, for a call that is made again after a wait if there is none to be had at the moment.
pub(crate) fn duplicate_or_wait(fd: c_int) -> Outcome<OwnedFd> {
    duplicate(fd).map_err(|error| match error {
        libc::EMFILE | libc::ENFILE | libc::ENOMEM => libc::EAGAIN,
        error => error,
    })
}

/// A type of numbers alone.
///
/// # Safety
/// Every value of its bytes is good.
pub(crate) unsafe trait Numbers: Copy + Default {}

// SAFETY: a number has no bad value.
unsafe impl Numbers for c_int {}
// SAFETY: nor have two of them, behind each other.
unsafe impl Numbers for [i64; 2] {}

/// An option of a socket that consists of numbers.
pub(crate) fn option<T: Numbers>(fd: c_int, name: c_int) -> Option<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>() as libc::socklen_t);
    // SAFETY: there is room for so many bytes, of numbers, and all values of these are good.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut length) };
    (done == 0).then_some(value)
}

/// Whether this is a socket that moves bytes and not packets.
pub(crate) fn is_stream(fd: c_int) -> bool {
    option::<c_int>(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

/// The time that a call may wait, by the socket's own time-out; `None` for ever, and for no socket.
pub(crate) fn timeout(fd: c_int, half: Half) -> Option<Duration> {
    let name = if half == Half::Read { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    let [seconds, micros] = option::<[i64; 2]>(fd, name)?;
    let timeout = Duration::from_secs(seconds.try_into().ok()?) + Duration::from_micros(micros.try_into().ok()?);
    (!timeout.is_zero()).then_some(timeout)
}

/// The kernel's word at this moment: which of these events, errors and the end, none for no word.
pub(crate) fn poll(fd: c_int, events: c_short) -> c_short {
    let mut asked = libc::pollfd { fd, events, revents: 0 };
    // The kernel writes the rest of the time.
    let mut none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the entry is there for the length of the call.
    let found = unsafe { raw!(SYS_ppoll, &raw mut asked, 1_usize, &raw mut none, ptr::null::<u8>(), 8_usize) };
    if found == 1 { asked.revents } else { 0 }
}

/// Whether the kernel says that a call would not block, or would fail.
pub(crate) fn is_ready(fd: c_int, half: Half) -> bool {
    poll(fd, if half == Half::Read { libc::POLLIN } else { libc::POLLOUT }) != 0
}

/// Whether this is a socket with an error that the next call is to return.
pub(crate) fn has_failed(fd: c_int) -> bool {
    poll(fd, 0) & (libc::POLLERR | libc::POLLNVAL) != 0 && option::<c_int>(fd, libc::SO_TYPE).is_some()
}

/// Whether a call was refused because it has no form without a wait.
fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Err(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::ESPIPE))
}

/// The reads and writes of a terminal; `None` for another file. Of the side of a terminal's program
/// and of the other side alike.
fn settings(fd: c_int) -> Option<libc::termios> {
    let mut settings = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: there is room for the answer, which was written if the call says so.
    unsafe { (libc::tcgetattr(fd, settings.as_mut_ptr()) == 0).then(|| settings.assume_init()) }
}

/// Whether a terminal has a word in when a read is over: at once, after a time, or with so many
/// bytes. Readiness says nothing of that.
fn has_rules(settings: &libc::termios) -> bool {
    let rules = [settings.c_cc[libc::VMIN], settings.c_cc[libc::VTIME]];
    settings.c_lflag & libc::ICANON == 0 && rules != [1, 0]
}

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
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return outcome(unsafe { raw!(SYS_recvmsg, fd, &raw mut header, libc::MSG_DONTWAIT) });
    }
    if !is_ready(fd, Half::Read) && !settings(fd).is_some_and(|settings| has_rules(&settings)) {
        return Err(libc::EAGAIN);
    }
    // SAFETY: the kernel has looked at the list, or has refused before that; the caller's.
    let list = unsafe { std::slice::from_raw_parts(iov, count as usize) };
    let read = read_elsewhere(fd, total(list))?;
    let mut rest = &read[..];
    for slice in list {
        let (part, behind) = rest.split_at(slice.iov_len.min(rest.len()));
        // SAFETY: the caller's: there is room for as much.
        unsafe { ptr::copy_nonoverlapping(part.as_ptr(), slice.iov_base.cast(), part.len()) };
        rest = behind;
    }
    Ok(read.len().cast_signed())
}

/// The longest read of a file without a form that does not wait. A server of a file system reads
/// requests of up to 1 MiB.
const LONGEST: usize = 2 << 20;

/// Reads on another thread. Ready bytes may be gone at the read, and the next ones come when
/// another party likes.
fn read_elsewhere(fd: c_int, length: usize) -> Outcome<Vec<u8>> {
    let (file, length) = (duplicate_or_wait(fd)?, length.min(LONGEST));
    elsewhere("something to read", true, move || {
        let mut bytes = Vec::<u8>::with_capacity(length);
        // SAFETY: there is room for as much, and as much as the kernel says was written.
        unsafe {
            let read = outcome(raw!(SYS_read, file.as_raw_fd(), bytes.as_mut_ptr(), length))?;
            bytes.set_len(read.cast_unsigned());
        }
        Ok(bytes)
    })
}

/// Writes as much as there is room for, or says `EAGAIN`.
///
/// # Safety
/// As for `writev`; there is at least one buffer. If something was written before, `goes_on`.
pub(crate) unsafe fn try_write(
    fd: c_int,
    manner: Manner,
    goes_on: bool,
    iov: *const libc::iovec,
    count: c_int,
) -> Outcome {
    // The kernel raises no signal when something was sent.
    let flags = libc::MSG_DONTWAIT | if goes_on { libc::MSG_NOSIGNAL } else { 0 };
    if manner != Manner::Socket || !goes_on {
        // SAFETY: the caller's. Of a list without a byte this makes no packet.
        let tried = outcome(unsafe { raw!(SYS_pwritev2, fd, iov, count as usize, -1_i64, -1_i64, libc::RWF_NOWAIT) });
        if !is_refused(&tried) {
            return tried;
        }
    }
    if manner == Manner::Socket {
        let header = header(iov, count as usize);
        // SAFETY: by the contract of this function, which stands at the head of the crate.
        return outcome(unsafe { raw!(SYS_sendmsg, fd, &raw const header, flags) });
    }
    if !is_ready(fd, Half::Write) {
        return Err(libc::EAGAIN);
    }
    // SAFETY: the kernel has looked at the list, or has refused before that; the caller's.
    unsafe { write_elsewhere(fd, manner, std::slice::from_raw_parts(iov, count as usize)) }
}

/// As much of a terminal's text, or a pipe's, is handed over at once. Devices take records, which
/// must not be cut.
const PIECE: usize = 4096;

/// Writes on another thread. A terminal that is ready has room for a byte, and nobody says for how
/// many more; a counter may be ready, and too full for the addition. The rest would wait, here
/// perhaps for a reader of this very worker.
///
/// # Safety
/// As for `writev`.
unsafe fn write_elsewhere(fd: c_int, manner: Manner, list: &[libc::iovec]) -> Outcome {
    let file = duplicate_or_wait(fd)?;
    let may_be_cut = manner == Manner::Pipe || settings(fd).is_some();
    let length = if may_be_cut { total(list).min(PIECE) } else { total(list) };
    let mut bytes = Vec::<u8>::with_capacity(length);
    for slice in list {
        let part = slice.iov_len.min(length - bytes.len());
        // SAFETY: the caller's: the bytes are there; and there is room for as many.
        unsafe {
            let end = bytes.as_mut_ptr().add(bytes.len());
            ptr::copy_nonoverlapping(slice.iov_base.cast(), end, part);
            bytes.set_len(bytes.len() + part);
        }
    }
    // SAFETY: the bytes are there.
    let write = move || outcome(unsafe { raw!(SYS_write, file.as_raw_fd(), bytes.as_ptr(), bytes.len()) });
    elsewhere("room to write", true, write)
}

/// A message of bytes alone.
pub(crate) fn header(iov: *const libc::iovec, count: usize) -> libc::msghdr {
    // SAFETY: all fields are numbers and pointers, for which zero is a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = iov.cast_mut();
    header.msg_iovlen = count as _;
    header
}
