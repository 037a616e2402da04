//! A descriptor that carries bytes and need be no socket: one end of a pipe, a terminal, what the
//! process was given as its standard input.
//!
//! Under the public types of `pipe`, `pty` and `stdio`, which are each a [`Descriptor`] with the
//! half that it has.
//!
//! # Which way
//!
//! Where the description is ours alone it does not block, and each op is one system call, attempted
//! first; then it waits by readiness, under any driver. A ring would say `EAGAIN` at once, since
//! that is what the flag tells it. The flag belongs to the *description*, which all duplicates
//! share, also those of other processes: so it is set for what is handed to us, cleared when it is
//! handed on, and never touched for what is shared.
//!
//! | [`Manner`] | an op |
//! | --- | --- |
//! | `Own`, `Fifo`, `Master` | one call, on a description that does not block |
//! | `Shared` | asks whether there is something, and then makes a call that might block: another process can be faster. A write takes only so much as goes in at once |
//! | `Socket` | says with the call itself that it must not block |
//! | `File` | is always ready, and may take its time: a blocking call on another thread |
//!
//! **Commit point**: the system call. **Cancellation**: as in `driver`; a blocking call that has
//! begun is waited for.

use crate::driver;
use crate::op::{self, Half, Op};
use crate::ready::{Ready, now_or_never};
use crate::socket::Socket;
use crate::sys::taken_at_once;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::whole;
use rustix::event::{PollFd, PollFlags, Timespec};
use segue_core::{Source, Waitable, WaitsFor};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// What goes into a pipe in one piece, if it has room for anything: POSIX's least.
const AT_ONCE: usize = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Its description is ours and does not block.
    Own,
    /// As `Own`, of a pipe with a name: nothing to read is the end only if a writer has been there.
    Fifo,
    /// As `Own`, of a pseudo-terminal's controlling side: that the other side was closed is an
    /// error there, and here the end.
    Master,
    /// Others have the same description, and it may block.
    Shared,
    Socket,
    File,
}

pub(crate) struct Descriptor {
    /// It need not be a socket. `Socket` asks nothing that others can't answer.
    socket: Arc<Socket>,
    manner: Manner,
}

impl Descriptor {
    /// Takes over a descriptor as it is.
    pub(crate) fn new(fd: OwnedFd, manner: Manner) -> Self {
        Self { socket: Socket::new(fd.into()), manner }
    }

    /// Takes over a descriptor whose description is ours, which stops blocking.
    pub(crate) fn own(fd: OwnedFd, manner: Manner) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self::new(fd, manner))
    }

    /// The descriptor for somebody who expects it to block.
    pub(crate) fn into_blocking(self) -> io::Result<OwnedFd> {
        // The reactor may be looking at ours at this moment.
        let fd = self.as_fd().try_clone_to_owned()?;
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(fd)
    }

    #[track_caller]
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => driver::run(&self.socket, op::Read::<false>(buf), None),
            Manner::File => segue_core::blocking(|| until_done(|| rustix::io::read(self, &mut *buf)))?,
            manner => driver::run(&self.socket, Read(&mut [IoSliceMut::new(buf)], manner), None),
        }
    }

    #[track_caller]
    pub(crate) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => driver::run(&self.socket, op::ReadVectored(bufs), None),
            Manner::File => self.read(bufs.iter_mut().find(|buf| !buf.is_empty()).map_or(&mut [], |buf| buf)),
            manner => driver::run(&self.socket, Read(bufs, manner), None),
        }
    }

    /// Reads up to the end.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[track_caller]
    pub(crate) fn read_to_end(&self, to: &mut Vec<u8>) -> io::Result<usize> {
        struct Reader<'a>(&'a Descriptor);
        impl io::Read for Reader<'_> {
            #[track_caller]
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.0.read(buf)
            }
        }
        whole::read_to_end(&mut Reader(self), 0, to)
    }

    #[track_caller]
    pub(crate) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => driver::run(&self.socket, op::Write(buf), None),
            Manner::File => segue_core::blocking(|| until_done(|| rustix::io::write(self, buf)))?,
            manner => driver::run(&self.socket, Write(&[IoSlice::new(buf)], manner), None),
        }
    }

    #[track_caller]
    pub(crate) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => driver::run(&self.socket, op::WriteVectored(bufs), None),
            Manner::File => self.write(bufs.iter().find(|buf| !buf.is_empty()).map_or(&[], |buf| buf)),
            manner => driver::run(&self.socket, Write(bufs, manner), None),
        }
    }

    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => now_or_never(&self.socket, op::Read::<false>(buf)),
            manner => now_or_never(&self.socket, Read(&mut [IoSliceMut::new(buf)], manner)),
        }
    }

    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => now_or_never(&self.socket, op::Write(buf)),
            manner => now_or_never(&self.socket, Write(&[IoSlice::new(buf)], manner)),
        }
    }

    #[track_caller]
    pub(crate) fn readable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        driver::source(&self.socket, Ready::<false>, WaitsFor::new(Read::WAITS_FOR))
    }

    #[track_caller]
    pub(crate) fn writable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        driver::source(&self.socket, Ready::<true>, WaitsFor::new(Write::WAITS_FOR))
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.io().as_fd()
    }
}

/// Makes a call that may block again, if a signal has interrupted it.
fn until_done<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// What the kernel says of a descriptor at this moment.
fn state(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<PollFlags> {
    let mut fds = [PollFd::new(&fd, wanted)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(fds[0].revents())
}

/// Says that an op would block, if it would.
fn check(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<()> {
    if state(fd, wanted)?.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
}

/// Moves bytes out. It never says that it has left nothing: a terminal gives a line at a time.
struct Read<'a, 'b>(&'a mut [IoSliceMut<'b>], Manner);

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
        if *manner == Manner::Shared {
            check(fd, PollFlags::IN)?;
        }
        let count = match &mut **bufs {
            [one] => rustix::io::read(fd, &mut **one),
            several => {
                let taken = taken_at_once(several);
                rustix::io::readv(fd, &mut several[taken])
            }
        };
        match count {
            Ok(0) if *manner == Manner::Fifo => check(fd, PollFlags::IN).map(|()| 0),
            Err(rustix::io::Errno::IO) if *manner == Manner::Master => Ok(0),
            count => Ok(count?),
        }
    }

    fn moved(&self, output: &usize) -> usize {
        *output
    }
}

/// Moves bytes in.
struct Write<'a, 'b>(&'a [IoSlice<'b>], Manner);

impl Op for Write<'_, '_> {
    type Output = usize;
    const HALF: Half = Half::Write;
    const WAITS_FOR: &'static str = "room in a pipe or terminal";

    fn attempt(&mut self, socket: &Socket) -> io::Result<usize> {
        let Self(bufs, manner) = self;
        let fd = socket.io().as_fd();
        if *manner == Manner::Shared {
            check(fd, PollFlags::OUT)?;
            let first = bufs.iter().find(|buf| !buf.is_empty()).map_or(&[][..], |buf| buf);
            return Ok(rustix::io::write(fd, &first[..first.len().min(AT_ONCE)])?);
        }
        Ok(match bufs {
            [one] => rustix::io::write(fd, one)?,
            several => rustix::io::writev(fd, &several[taken_at_once(several)])?,
        })
    }

    fn moved(&self, output: &usize) -> usize {
        *output
    }
}

/// The reading side of public types: each has a [`Descriptor`] as its first field.
macro_rules! reads {
    ($($name:ty),*) => {$(
        /// See the type's section on cancellation.
        impl std::io::Read for &$name {
            #[track_caller]
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(buf)
            }

            #[track_caller]
            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                self.0.read_vectored(bufs)
            }

            crate::whole::read_whole!();
        }

        /// See the type's section on cancellation.
        impl std::io::Read for $name {
            #[track_caller]
            fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(buf)
            }

            #[track_caller]
            fn read_vectored(&mut self, bufs: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                self.0.read_vectored(bufs)
            }

            crate::whole::read_whole!();
        }

        impl $name {
            /// Reads what is there. Never waits for more.
            ///
            /// # Errors
            /// `WouldBlock` if there is nothing; else as for a read.
            pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.try_read(buf)
            }

            /// Ready when a read would not wait: there is something, or the end, or an error. It
            /// reads nothing, so an arm that loses has no effect.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// It yields what the kernel says when it can't be asked.
            #[track_caller]
            pub fn readable_source(
                &self,
            ) -> segue_core::Waitable<impl segue_core::Source<Output = std::io::Result<()>>> {
                self.0.readable_source()
            }
        }
    )*};
}

/// The writing side, likewise. There is no buffer, and so a flush does nothing.
macro_rules! writes {
    ($($name:ty),*) => {$(
        /// See the type's section on cancellation. There is no buffer, and so a flush does nothing.
        impl std::io::Write for &$name {
            #[track_caller]
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.write(buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.0.write_vectored(bufs)
            }

            crate::whole::write_all!();

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        /// See the type's section on cancellation. There is no buffer, and so a flush does nothing.
        impl std::io::Write for $name {
            #[track_caller]
            fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.write(buf)
            }

            #[track_caller]
            fn write_vectored(&mut self, bufs: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.0.write_vectored(bufs)
            }

            crate::whole::write_all!();

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        impl $name {
            /// Writes what there is room for. Never waits for more.
            ///
            /// # Errors
            /// `WouldBlock` if there is no room; else as for a write.
            pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.try_write(buf)
            }

            /// Ready when a write would not wait: there is room, or an error. It writes nothing, so
            /// an arm that loses has no effect.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// It yields what the kernel says when it can't be asked.
            #[track_caller]
            pub fn writable_source(
                &self,
            ) -> segue_core::Waitable<impl segue_core::Source<Output = std::io::Result<()>>> {
                self.0.writable_source()
            }
        }
    )*};
}

/// The traits of descriptors, and `Debug`.
macro_rules! is_descriptor {
    ($($name:ty),*) => {$(
        impl std::os::fd::AsFd for $name {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl std::os::fd::AsRawFd for $name {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                self.0.as_fd().as_raw_fd()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("fd", &self.0.as_fd().as_raw_fd()).finish()
            }
        }
    )*};
}

pub(crate) use {is_descriptor, reads, writes};
