//! A descriptor that carries bytes and need be no socket: one end of a pipe, a terminal, the
//! standard input of the process.
//!
//! Under the public types of `pipe`, `pty` and `stdio`, which are each a [`Descriptor`] with its
//! half; and under an `fs::File` that is none of a disk.
//!
//! # Which way
//!
//! A description of ours alone does not block, and each op is one system call, attempted first;
//! then the op waits by readiness, under any driver. A ring would say `EAGAIN` at once, since the
//! flag says so. The flag belongs to the *description*, which all duplicates share, also those of
//! other processes: so the flag is set for descriptors that are handed to us, cleared for those
//! that are handed on, and never touched for shared ones.
//!
//! | [`Manner`] | an op |
//! | --- | --- |
//! | `Own`, `Fifo`, `Terminal`, `Master` | one call, on a description that does not block |
//! | `Shared` | says with the call itself that it must not block (`RWF_NOWAIT`). Where the kernel has no such call, an op waits until there is something, and then makes a call that might block, since another process can be faster: [apart](crate::apart) |
//! | `Socket` | says with the call itself that it must not block |
//! | `File` | is always ready, and may take its time: apart |
//!
//! Of a description that others share, [`Descriptor::of`] opens one of its own, if that leads to
//! the same thing: a pipe, a terminal.
//!
//! **Commit point**: the system call. **Cancellation**: as in `driver`, and in `apart` for the
//! calls that are made there.

use crate::apart::{self, Patience};
use crate::driver;
use crate::op::{self, Half, Op};
use crate::ready::{Ready, now_or_never};
use crate::socket::Socket;
use crate::sys::taken_at_once;
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::whole;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::termios::{LocalModes, SpecialCodeIndex};
use segue_core::{Cancelled, Source, Waitable, WaitsFor};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The bytes that go into a pipe in one piece, if there is room for anything: POSIX's least.
const AT_ONCE: usize = 512;

/// The bytes of a file that are moved at a time: so much memory a call needs that can be left.
const PIECE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Its description is ours and does not block.
    Own,
    /// As `Own`, of a pipe with a name: nothing to read is the end only if a writer has been there.
    Fifo,
    /// As `Own`, of a terminal, with settings for the bytes and the time that a read waits for.
    Terminal,
    /// As `Own`, of a pseudo-terminal's controlling side: that the other side was closed is an
    /// error there, and here the end.
    Master,
    /// Others have the same description, which may block.
    Shared,
    Socket,
    File,
}

pub(crate) struct Descriptor {
    /// The descriptor need not be a socket. `Socket` asks nothing that others can't answer.
    socket: Arc<Socket>,
    manner: Manner,
}

impl Descriptor {
    /// Takes over a descriptor unchanged.
    pub(crate) fn new(fd: OwnedFd, manner: Manner) -> Self {
        Self { socket: Socket::new(fd.into()), manner }
    }

    /// Takes over a descriptor with a description of ours, which stops blocking.
    pub(crate) fn own(fd: OwnedFd, manner: Manner) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self::new(fd, manner))
    }

    /// The descriptor for programs that expect blocking.
    pub(crate) fn into_blocking(self) -> io::Result<OwnedFd> {
        // The reactor may be looking at ours at this moment.
        let fd = self.as_fd().try_clone_to_owned()?;
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(fd)
    }

    /// The kind of a descriptor with a description that others may have, which stays unchanged.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
        let manner = match kind {
            FileType::Socket => Manner::Socket,
            FileType::RegularFile | FileType::Directory | FileType::BlockDevice => Manner::File,
            // The file is another user's, or /proc is not there, or it has packets: then it is
            // shared.
            _ => match own(fd, kind) {
                Ok(own) if kind == FileType::Fifo => return Ok(Self::new(own, Manner::Own)),
                Ok(own) => return Ok(Self::new(own, Manner::Terminal)),
                Err(_) => Manner::Shared,
            },
        };
        Ok(Self::new(fd.try_clone_to_owned()?, manner))
    }

    #[track_caller]
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => driver::run(&self.socket, op::Read::<false>(buf), None),
            _ => self.read_vectored(&mut [IoSliceMut::new(buf)]),
        }
    }

    #[track_caller]
    pub(crate) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => driver::run(&self.socket, op::ReadVectored(bufs), None),
            Manner::File => self.read_apart(bufs, PIECE),
            Manner::Terminal => self.read_terminal(bufs),
            manner => match driver::run(&self.socket, Read(bufs, manner), None) {
                Err(error) if is_unknown(&error) => {
                    driver::run(&self.socket, Ready::<false>, None)?;
                    self.read_apart(bufs, usize::MAX)
                }
                done => done,
            },
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
            _ => self.write_vectored(&[IoSlice::new(buf)]),
        }
    }

    #[track_caller]
    pub(crate) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => driver::run(&self.socket, op::WriteVectored(bufs), None),
            Manner::File => self.write_apart(bufs, PIECE),
            manner => match driver::run(&self.socket, Write(bufs, manner), None) {
                Err(error) if is_unknown(&error) => {
                    driver::run(&self.socket, Ready::<true>, None)?;
                    self.write_apart(bufs, usize::MAX)
                }
                done => done,
            },
        }
    }

    /// Reads from a terminal, which does as its settings say when the read blocks: in them `VMIN`
    /// is how many letters are waited for, and `VTIME` how many tenths of a second, if that is
    /// none.
    #[track_caller]
    fn read_terminal(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let settings = rustix::termios::tcgetattr(self)?;
        let (mut least, mut time) = (1, 0);
        if !settings.local_modes.contains(LocalModes::ICANON) {
            least = settings.special_codes[SpecialCodeIndex::VMIN].into();
            time = settings.special_codes[SpecialCodeIndex::VTIME].into();
        }
        // The kernel's readiness counts letters where no time is set.
        if least > 1 && time == 0 && apart::room(bufs, usize::MAX) >= least {
            driver::run(&self.socket, Ready::<false>, None)?;
        }
        let limit = (least == 0).then(|| Duration::from_millis(100 * time));
        match driver::run(&self.socket, Read(bufs, self.manner), limit) {
            Err(error) if least == 0 && error.kind() == ErrorKind::TimedOut && !Cancelled::caused(&error) => Ok(0),
            read => read,
        }
    }

    /// Reads by a call that may block, on a thread that can be left.
    #[track_caller]
    fn read_apart(&self, bufs: &mut [IoSliceMut<'_>], most: usize) -> io::Result<usize> {
        let (socket, room) = (Arc::clone(&self.socket), apart::room(bufs, most));
        let read = move || apart::fill(room, |to| rustix::io::read(socket.io(), to));
        let bytes = apart::run(Read::WAITS_FOR, Patience::Stream, read)?;
        Ok(apart::scatter(&bytes, bufs))
    }

    /// Writes likewise.
    #[track_caller]
    fn write_apart(&self, bufs: &[IoSlice<'_>], most: usize) -> io::Result<usize> {
        let (socket, bytes) = (Arc::clone(&self.socket), apart::gather(bufs, most));
        apart::run(Write::WAITS_FOR, Patience::Stream, move || rustix::io::write(socket.io(), &bytes))
    }

    /// Reads, where the description says that nobody waits.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[track_caller]
    pub(crate) fn read_at_once(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        segue_core::admit()?;
        let read = match self.manner {
            Manner::Socket => now_or_never(&self.socket, op::ReadVectored(bufs)),
            manner => now_or_never(&self.socket, Read(bufs, manner)),
        };
        // That flag is others' to change, and the worker does not rely on that.
        if read.as_ref().is_err_and(is_unknown) { self.read_apart(bufs, usize::MAX) } else { read }
    }

    /// Writes likewise.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    #[track_caller]
    pub(crate) fn write_at_once(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        segue_core::admit()?;
        let written = match self.manner {
            Manner::Socket => now_or_never(&self.socket, op::WriteVectored(bufs)),
            manner => now_or_never(&self.socket, Write(bufs, manner)),
        };
        if written.as_ref().is_err_and(is_unknown) { self.write_apart(bufs, usize::MAX) } else { written }
    }

    #[track_caller]
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let read = match self.manner {
            // The file is ready at any time, and may be a server's.
            Manner::File => return self.read_apart(&mut [IoSliceMut::new(buf)], PIECE),
            Manner::Socket => now_or_never(&self.socket, op::Read::<false>(buf)),
            manner => now_or_never(&self.socket, Read(&mut [IoSliceMut::new(buf)], manner)),
        };
        if !read.as_ref().is_err_and(is_unknown) {
            return read;
        }
        check(self.as_fd(), PollFlags::IN)?;
        Ok(rustix::io::read(self, buf)?)
    }

    #[track_caller]
    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        let written = match self.manner {
            Manner::File => return self.write_apart(&[IoSlice::new(buf)], PIECE),
            Manner::Socket => now_or_never(&self.socket, op::Write(buf)),
            manner => now_or_never(&self.socket, Write(&[IoSlice::new(buf)], manner)),
        };
        if !written.as_ref().is_err_and(is_unknown) {
            return written;
        }
        check(self.as_fd(), PollFlags::OUT)?;
        Ok(rustix::io::write(self, &buf[..buf.len().min(AT_ONCE)])?)
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

/// Whether the kernel has no call for this file that does not block.
fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error())
}

/// A description of our own of the same file, which does not block: of a pipe or a terminal. Of the
/// controlling side of a terminal that would be another terminal.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn own(fd: BorrowedFd<'_>, kind: FileType) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, fcntl_getfl, major, minor};
    use std::os::fd::AsRawFd;
    const MASTER: (u32, u32) = (5, 2);
    let is_terminal = || {
        let device = rustix::fs::fstat(fd).map_or(0, |stat| stat.st_rdev);
        rustix::termios::isatty(fd) && (major(device), minor(device)) != MASTER
    };
    if kind != FileType::Fifo && !(kind == FileType::CharacterDevice && is_terminal()) {
        return Err(ErrorKind::Unsupported.into());
    }
    let theirs = fcntl_getfl(fd)?;
    if theirs.contains(OFlags::DIRECT) {
        // Each write to such a pipe is a packet, which is the description's to say.
        return Err(ErrorKind::Unsupported.into());
    }
    let access = theirs.intersection(OFlags::RWMODE);
    let flags = access | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty())?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn own(_fd: BorrowedFd<'_>, _kind: FileType) -> io::Result<OwnedFd> {
    Err(ErrorKind::Unsupported.into())
}

/// Calls that say by themselves that they must not block. `OPNOTSUPP` stands for none.
#[cfg(any(target_os = "linux", target_os = "android"))]
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

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod now {
    use super::*;

    pub(super) fn read(_fd: BorrowedFd<'_>, _taken: &mut [IoSliceMut<'_>]) -> rustix::io::Result<usize> {
        Err(Errno::OPNOTSUPP)
    }

    pub(super) fn write(_fd: BorrowedFd<'_>, _taken: &[IoSlice<'_>]) -> rustix::io::Result<usize> {
        Err(Errno::OPNOTSUPP)
    }
}

/// The kernel's word about a descriptor at this moment.
fn state(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<PollFlags> {
    let mut fds = [PollFd::new(&fd, wanted)];
    rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(fds[0].revents())
}

/// Fails if an op would block.
fn check(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<()> {
    if state(fd, wanted)?.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
}

/// Moves bytes out. This never reports an empty file: a terminal gives a line at a time.
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
        let taken = taken_at_once(bufs);
        loop {
            let count = match &mut bufs[taken.clone()] {
                taken if *manner == Manner::Shared => now::read(fd, taken),
                [one] => rustix::io::read(fd, &mut **one),
                taken => rustix::io::readv(fd, taken),
            };
            return match count {
                Ok(0) if *manner == Manner::Fifo => match state(fd, PollFlags::IN)? {
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
struct Write<'a, 'b>(&'a [IoSlice<'b>], Manner);

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
            /// Reads the bytes that are there. Never waits for more; of a standard stream that is a
            /// file, for the file.
            ///
            /// # Errors
            /// `WouldBlock` if there is nothing; else as for a read.
            #[track_caller]
            pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.try_read(buf)
            }

            /// Ready when a read would not wait: there is something, or the end, or an error. This
            /// reads nothing, so an arm that loses has no effect.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// The kernel's error, if the kernel can't be asked.
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
            /// Writes the bytes for which there is room. Never waits for more; of a standard stream
            /// that is a file, for the file.
            ///
            /// # Errors
            /// `WouldBlock` if there is no room; else as for a write.
            #[track_caller]
            pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.try_write(buf)
            }

            /// Ready when a write would not wait: there is room, or an error. This writes nothing,
            /// so an arm that loses has no effect.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// The kernel's error, if the kernel can't be asked.
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
