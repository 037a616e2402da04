//! Readiness of any descriptor: for descriptors that other code has opened, and reads and writes by
//! itself.
//!
//! Used by programs that have a descriptor from elsewhere: inotify, an event counter, a timer, a C
//! library's connection.
//!
//! # The idea
//!
//! A [`Readiness`] has a duplicate of the descriptor, as [`foreign`](crate::foreign) has. So the
//! wait is for the open file and not for its number, which may be closed meanwhile and be given out
//! again; and no flag is changed, also not that of a descriptor that blocks.
//!
//! A look asks the kernel, by `poll`; a wait in between is for an edge, as for a socket. So
//! readiness is a state here: bytes that are left unread are ready again at the next look.
//!
//! **Commit point**: none; nothing is taken. **Cancellation**: the waiter leaves.

use crate::driver::ready::Ready;
use crate::driver::run::{run, source};
use crate::driver::socket::Socket;
use crate::system::whole::as_fd;
use rustix::fs::FileType;
use segue_core::{Source, Waitable, WaitsFor};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Waits until a descriptor that other code reads or writes is ready for that.
///
/// For descriptors that can be polled: inotify, fanotify, event counters, timers, `pidfd`s,
/// netlink and other sockets, character devices, pipes. Where this crate has a type, that is
/// better: its reads wait by themselves.
///
/// Readiness says that a call would not block at this moment. If others share the open file, one of
/// them may be faster; so let the descriptor be one that does not block.
///
/// A `Readiness` has a duplicate, and so keeps the open file open until its drop.
///
/// # Examples
///
/// ```
/// use segue_io::fd::Readiness;
/// use std::io::{Read, Write};
///
/// let (mut reader, mut writer) = std::io::pipe()?;
/// let readiness = Readiness::of(&reader)?;
/// segue_core::scope(|s| {
///     s.spawn(move || writer.write_all(b"x"));
///     readiness.readable()?;
///     reader.read_exact(&mut [0])
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Readiness(Arc<Socket>);

impl Readiness {
    /// The readiness of the open file behind this descriptor. Never waits; no flag is changed.
    ///
    /// # Errors
    /// `Unsupported` for a regular file, a directory or a disk, which are ready at any time, also
    /// where there is nothing to read: [`fs::File`](crate::fs::File) reads them, and inotify tells
    /// of their changes. If there is no descriptor left for the duplicate.
    ///
    /// ```
    /// use segue_io::fd::Readiness;
    ///
    /// let file = std::fs::File::open("Cargo.toml")?;
    /// let error = Readiness::of(&file).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn of(fd: impl AsFd) -> io::Result<Self> {
        let fd = fd.as_fd();
        let what = match FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) {
            FileType::RegularFile => "a regular file",
            FileType::Directory => "a directory",
            FileType::BlockDevice => "a disk",
            _ => return Ok(Self(Socket::new(fd.try_clone_to_owned()?.into()))),
        };
        let says = format!("{what} is always ready: read it by `fs::File`, and wait for its changes by inotify");
        Err(io::Error::new(io::ErrorKind::Unsupported, says))
    }

    /// Waits until a read would not block: data is there, or the end, or an error.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// That of a cancellation, which [`Cancelled::caused`](segue_core::Cancelled::caused) knows;
    /// the kernel's error when the kernel can't be asked.
    #[track_caller]
    pub fn readable(&self) -> io::Result<()> {
        run(&self.0, Ready::<false>, None)
    }

    /// Waits until a write would not block: there is room, or an error.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`readable`](Self::readable).
    #[track_caller]
    pub fn writable(&self) -> io::Result<()> {
        run(&self.0, Ready::<true>, None)
    }

    /// [`readable`](Self::readable) as a source: to be awaited, or chosen among others. The source
    /// stays ready until somebody reads. A simulation counts the wait among the waits for the
    /// kernel.
    ///
    /// # Cancellation
    /// *No effect*, also if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// Yields the kernel's error when the kernel can't be asked.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Either, after};
    /// use segue_io::fd::Readiness;
    /// use std::time::Duration;
    ///
    /// let (reader, _writer) = std::io::pipe()?;
    /// let silent = Readiness::of(&reader)?;
    /// let first = silent.readable_source().or(after(Duration::from_millis(1))).wait()?;
    /// assert!(matches!(first, Either::Right(())));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn readable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        source(&self.0, Ready::<false>, WaitsFor::new("a descriptor that can be read"))
    }

    /// [`writable`](Self::writable) as a source, in the same way.
    ///
    /// # Cancellation
    /// *No effect*, also if another arm was chosen, or the future is dropped.
    ///
    /// # Errors
    /// Yields the kernel's error when the kernel can't be asked.
    #[track_caller]
    pub fn writable_source(&self) -> Waitable<impl Source<Output = io::Result<()>>> {
        source(&self.0, Ready::<true>, WaitsFor::new("a descriptor that can be written"))
    }
}

as_fd!([] Readiness, |it| it.0.io());

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readiness").field(&self.as_fd()).finish()
    }
}
