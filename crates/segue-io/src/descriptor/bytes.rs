//! A descriptor that carries bytes and need be no socket: one end of a pipe, a terminal, the
//! standard input of the process.
//!
//! Under the public types of `pipe`, `pty` and `stdio`, which are each a [`Descriptor`] with the
//! half that it has; and under an `fs::File` that lies on no disk.
//!
//! # Which way
//!
//! A description of ours alone does not block, and each op is one system call, attempted first;
//! then the op waits by readiness, under any driver. A ring would say `EAGAIN` at once, since the
//! flag says so. The flag belongs to the *description*, which all duplicates share, also those of
//! other processes: so the flag is set for descriptors that are handed to us, cleared for those
//! that are handed on, and never touched for those that are shared.
//!
//! | [`Manner`] | an op |
//! | --- | --- |
//! | `Own`, `Fifo`, `Terminal`, `Master` | one call, on a description that does not block |
//! | `Shared` | says with the call itself that the call must not block (`RWF_NOWAIT`). Where the kernel has no such call, the op waits until there is something, and then makes a call that might block, since another process can be faster: [apart](crate::apart). A try is given up there after a moment |
//! | `Socket` | says with the call itself that the call must not block |
//! | `File` | is always ready, and may take its time: apart |
//!
//! Of a description that others share, [`Descriptor::of`] opens one of its own, if that leads to
//! the same thing: a pipe, a terminal.
//!
//! **Commit point**: the system call. **Cancellation**: as in `driver`, and in `apart` for the
//! calls that are made there.

use super::ops::{Manner, Read, Write};
use crate::apart::{self, Patience};
use crate::driver::op::{self, Op};
use crate::driver::ready::{Ready, now_or_never};
use crate::driver::run::{run, source};
use crate::driver::socket::Socket;
use crate::system::sys::{poll_now, says};
use crate::system::whole::{self, as_fd};
use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::termios::{LocalModes, SpecialCodeIndex};
use segue_core::{Cancelled, Source, Waitable, WaitsFor};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The bytes that go into a pipe in one piece, if the pipe has any room: POSIX's least.
const AT_ONCE: usize = 512;

/// How long a try apart may take. One that is ready takes much less.
const MOMENT: Duration = Duration::from_millis(50);

/// The bytes of a file that are moved at a time: a call that can be left needs so much memory.
const PIECE: usize = 1 << 20;

pub(crate) struct Descriptor {
    /// Any descriptor: `Socket` asks nothing that others than sockets can't answer.
    socket: Arc<Socket>,
    manner: Manner,
}

impl Descriptor {
    /// Takes over a descriptor without a change.
    pub(crate) fn new(fd: OwnedFd, manner: Manner) -> Self {
        Self { socket: Socket::new(fd.into()), manner }
    }

    /// Takes over a descriptor of a description of ours, which stops blocking.
    pub(crate) fn own(fd: OwnedFd, manner: Manner) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self::new(fd, manner))
    }

    /// The descriptor for code that expects one that blocks.
    pub(crate) fn into_blocking(self) -> io::Result<OwnedFd> {
        // The reactor may be looking at ours at this moment.
        let fd = self.as_fd().try_clone_to_owned()?;
        rustix::io::ioctl_fionbio(&fd, false)?;
        Ok(fd)
    }

    /// The thing at a descriptor that others may have the description of, which is not changed.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode);
        let manner = match kind {
            FileType::Socket => Manner::Socket,
            FileType::RegularFile | FileType::Directory | FileType::BlockDevice => Manner::File,
            // Another user's, or one of packets, or /proc is not there: then the thing is shared.
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
            Manner::Socket => run(&self.socket, op::Read::<false>(buf), None),
            _ => self.read_vectored(&mut [IoSliceMut::new(buf)]),
        }
    }

    #[track_caller]
    pub(crate) fn read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => run(&self.socket, op::ReadVectored(bufs), None),
            Manner::File => self.read_apart(bufs, PIECE),
            Manner::Terminal => self.read_terminal(bufs),
            manner => match run(&self.socket, Read(bufs, manner), None) {
                Err(error) if is_unknown(&error) => {
                    run(&self.socket, Ready::<false>, None)?;
                    self.read_apart(bufs, usize::MAX)
                }
                done => done,
            },
        }
    }

    #[track_caller]
    pub(crate) fn write(&self, buf: &[u8]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => run(&self.socket, op::Write(buf), None),
            _ => self.write_vectored(&[IoSlice::new(buf)]),
        }
    }

    #[track_caller]
    pub(crate) fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => run(&self.socket, op::WriteVectored(bufs), None),
            Manner::File => self.write_apart(bufs, PIECE),
            manner => match run(&self.socket, Write(bufs, manner), None) {
                Err(error) if is_unknown(&error) => {
                    run(&self.socket, Ready::<true>, None)?;
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
            run(&self.socket, Ready::<false>, None)?;
        }
        let limit = (least == 0).then(|| Duration::from_millis(100 * time));
        match run(&self.socket, Read(bufs, self.manner), limit) {
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

    /// Reads by a call that does not block, if the kernel has one for this descriptor.
    fn read_now(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => now_or_never(&self.socket, op::ReadVectored(bufs)),
            manner => now_or_never(&self.socket, Read(bufs, manner)),
        }
    }

    /// Writes likewise.
    fn write_now(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.manner {
            Manner::Socket => now_or_never(&self.socket, op::WriteVectored(bufs)),
            manner => now_or_never(&self.socket, Write(bufs, manner)),
        }
    }

    /// Reads, where the description says that nobody waits.
    #[track_caller]
    pub(crate) fn read_at_once(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        segue_core::admit()?;
        let read = self.read_now(bufs);
        // That flag is others' to change, and the worker does not rely on the flag.
        if read.as_ref().is_err_and(is_unknown) { self.read_apart(bufs, usize::MAX) } else { read }
    }

    /// Writes likewise.
    #[track_caller]
    pub(crate) fn write_at_once(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        segue_core::admit()?;
        let written = self.write_now(bufs);
        if written.as_ref().is_err_and(is_unknown) { self.write_apart(bufs, usize::MAX) } else { written }
    }

    #[track_caller]
    pub(crate) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let read = match self.manner {
            // A file is ready at any time, and may be a server's.
            Manner::File => return self.read_apart(&mut [IoSliceMut::new(buf)], PIECE),
            _ => self.read_now(&mut [IoSliceMut::new(buf)]),
        };
        if !read.as_ref().is_err_and(is_unknown) {
            return read;
        }
        check(self.as_fd(), PollFlags::IN)?;
        for_a_moment(|| self.read_apart(&mut [IoSliceMut::new(buf)], usize::MAX))
    }

    #[track_caller]
    pub(crate) fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        let written = match self.manner {
            Manner::File => return self.write_apart(&[IoSlice::new(buf)], PIECE),
            _ => self.write_now(&[IoSlice::new(buf)]),
        };
        if !written.as_ref().is_err_and(is_unknown) {
            return written;
        }
        check(self.as_fd(), PollFlags::OUT)?;
        for_a_moment(|| self.write_apart(&[IoSlice::new(buf)], AT_ONCE))
    }

    #[track_caller]
    pub(crate) fn readable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        source(&self.socket, Ready::<false>, WaitsFor::new(Read::WAITS_FOR))
    }

    #[track_caller]
    pub(crate) fn writable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        source(&self.socket, Ready::<true>, WaitsFor::new(Write::WAITS_FOR))
    }
}

as_fd!([] Descriptor, |it| it.socket.io());
whole::reads!([] & Descriptor, |it| (**it));

/// Whether the kernel has no call for this descriptor that does not block.
fn is_unknown(error: &io::Error) -> bool {
    says(error, &[Errno::OPNOTSUPP])
}

/// A description of our own of the same thing, which does not block: of a pipe or a terminal. Of
/// the controlling side of a terminal that would be another terminal.
#[cfg(linux)]
fn own(fd: BorrowedFd<'_>, kind: FileType) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, fcntl_getfl, major, minor};
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

#[cfg(not(linux))]
fn own(_fd: BorrowedFd<'_>, _kind: FileType) -> io::Result<OwnedFd> {
    Err(ErrorKind::Unsupported.into())
}

/// Makes a call apart that is ready, and may block all the same: another process was faster, or a
/// terminal waits for more letters, by its settings. Then the call is given up.
#[track_caller]
fn for_a_moment(call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
    match segue_core::timeout(MOMENT, call) {
        Err(error) if Cancelled::caused(&error) => {
            segue_core::check()?;
            Err(ErrorKind::WouldBlock.into())
        }
        done => done,
    }
}

/// Fails if an op would block.
fn check(fd: BorrowedFd<'_>, wanted: PollFlags) -> io::Result<()> {
    if poll_now(fd, wanted)?.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { Ok(()) }
}

/// The reading side of public types: each has a [`Descriptor`] as its first field.
macro_rules! reads {
    ($($name:ty),*) => {$(
        $crate::system::whole::reads!([] &$name, |it| it.0);
        $crate::system::whole::reads!([] $name, |it| it.0);

        impl $name {
            /// Reads the bytes that are there. Never waits for more; of a standard stream that is a
            /// file, for the file. A terminal that others share may take a moment.
            ///
            /// # Errors
            /// `WouldBlock` if there is nothing; else as for a read.
            #[track_caller]
            pub fn try_read(&self, buf: &mut [u8]) -> std::io::Result<usize> {
                self.0.try_read(buf)
            }

            /// Ready when a read would not wait: there is something, or the end, or an error. The
            /// source reads nothing, so an arm that loses has no effect.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// Yields the kernel's error when the kernel can't be asked.
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
        $crate::system::whole::writes!([] &$name, |it| it.0);
        $crate::system::whole::writes!([] $name, |it| it.0);

        impl $name {
            /// Writes the bytes that there is room for. Never waits for more; of a standard stream
            /// that is a file, for the file. A terminal that others share may take a moment.
            ///
            /// # Errors
            /// `WouldBlock` if there is no room; else as for a write.
            #[track_caller]
            pub fn try_write(&self, buf: &[u8]) -> std::io::Result<usize> {
                self.0.try_write(buf)
            }

            /// Ready when a write would not wait: there is room, or an error. The source writes
            /// nothing, so an arm that loses has no effect.
            ///
            /// # Cancellation
            /// *No effect*.
            ///
            /// # Errors
            /// Yields the kernel's error when the kernel can't be asked.
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
        $crate::system::whole::as_raw_fd!([] $name, |it| &it.0);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name)).field("fd", &self.0.as_fd().as_raw_fd()).finish()
            }
        }
    )*};
}

pub(crate) use {is_descriptor, reads, writes};
