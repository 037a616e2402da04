//! The ops of descriptors that carry bytes and need be no sockets: one read and one write, each by
//! the manner of its descriptor.
//!
//! Made by [`Descriptor`](super::bytes::Descriptor), carried out by `run` and on threads apart.

use crate::driver::op::Op;
use crate::driver::readiness::Half;
use crate::driver::socket::Socket;
use crate::system::sys::{poll_now, taken_at_once};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};

/// The way in which a descriptor is read and written. `bytes` has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Its description is ours and does not block.
    Own,
    /// As `Own`, of a pipe with a name: nothing to read is the end only if a writer has been there.
    Fifo,
    /// As `Own`, of a terminal. Its settings may say how much a read waits for, and how long.
    Terminal,
    /// As `Own`, of a pseudo-terminal's controlling side: that the other side was closed is an
    /// error there, and here the end.
    Master,
    /// Others have the same description, which may block.
    Shared,
    Socket,
    File,
}

/// Calls that say by themselves that they must not block. `OPNOTSUPP` stands for none.
#[cfg(linux)]
mod now {
    use super::*;
    use rustix::io::{ReadWriteFlags, preadv2, pwritev2};

    /// The description's own position, if there is one.
    const CURSOR: u64 = u64::MAX;

    fn known<T>(done: rustix::io::Result<T>) -> rustix::io::Result<T> {
        // A kernel of before, or a filter of system calls.
        done.map_err(|error| if matches!(error, Errno::NOSYS | Errno::PERM) { Errno::OPNOTSUPP } else { error })
    }

    pub(super) fn read(fd: BorrowedFd<'_>, taken: &mut [IoSliceMut<'_>]) -> rustix::io::Result<usize> {
        known(preadv2(fd, taken, CURSOR, ReadWriteFlags::NOWAIT))
    }

    pub(super) fn write(fd: BorrowedFd<'_>, taken: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        known(pwritev2(fd, taken, CURSOR, ReadWriteFlags::NOWAIT))
    }
}

#[cfg(not(linux))]
mod now {
    use super::*;

    pub(super) fn read(_fd: BorrowedFd<'_>, _taken: &mut [IoSliceMut<'_>]) -> rustix::io::Result<usize> {
        Err(Errno::OPNOTSUPP)
    }

    pub(super) fn write(_fd: BorrowedFd<'_>, _taken: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        Err(Errno::OPNOTSUPP)
    }
}

/// Moves bytes out. The op never says that nothing is left: a terminal gives a line at a time.
pub(super) struct Read<'a, 'b>(pub(super) &'a mut [IoSliceMut<'b>], pub(super) Manner);

impl Op for Read<'_, '_> {
    type Output = usize;
    const HALF: Half = Half::Read;
    const WAITS_FOR: &'static str = "data in a pipe or terminal";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        let Self(bufs, manner) = self;
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        let fd = socket.io().as_fd();
        let taken = taken_at_once(bufs);
        loop {
            let count = match &mut bufs[taken.clone()] {
                taken if *manner == Manner::Shared => now::read(fd, taken),
                [one] => rustix::io::read(fd, &mut **one),
                taken => rustix::io::readv(fd, taken),
            };
            return match count {
                Ok(0) if *manner == Manner::Fifo => match poll_now(fd, PollFlags::IN)? {
                    // A writer has come since.
                    state if state.contains(PollFlags::IN) => continue,
                    state if state.is_empty() => Err(ErrorKind::WouldBlock.into()),
                    _ => Ok(0),
                },
                Err(Errno::IO) if *manner == Manner::Master => Ok(0),
                count => Ok(count?),
            };
        }
    }

    fn moved(&self, output: &usize) -> usize {
        *output
    }
}

/// Moves bytes in.
pub(super) struct Write<'a, 'b>(pub(super) &'a [IoSlice<'b>], pub(super) Manner);

impl Op for Write<'_, '_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room in a pipe or terminal";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        let Self(bufs, manner) = self;
        let fd = socket.io().as_fd();
        Ok(match &bufs[taken_at_once(bufs)] {
            taken if *manner == Manner::Shared => now::write(fd, taken)?,
            [one] => rustix::io::write(fd, one)?,
            taken => rustix::io::writev(fd, taken)?,
        })
    }

    fn moved(&self, output: &usize) -> usize {
        *output
    }
}
