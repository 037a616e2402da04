//! Pipes: a reader and a writer, without a name or by a path.
//!
//! Used by programs, and by `process` for the ends that a child reads and writes.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let (mut reader, mut writer) = segue_io::pipe::pipe()?;
//! let text = segue_core::scope(|s| {
//!     s.spawn(move || writer.write_all(b"hello")); // The end comes when the writer is dropped.
//!     let mut text = String::new();
//!     reader.read_to_string(&mut text).map(|_| text)
//! })?;
//! assert_eq!(text, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```

use super::bytes::{Descriptor, is_descriptor, reads, writes};
use super::ops::Manner;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Stdio};

/// The end of a pipe that is read from.
///
/// A read returns as soon as there is a byte; `Ok(0)` is the end: the last writer was dropped. The
/// bytes go to the first reader, in the order in which they were written.
///
/// `&PipeReader` reads as well, so fibers can share one by reference.
///
/// # Handing a pipe on
///
/// That a descriptor does not block is a flag of its open file description, which its duplicates
/// share. So the flag is set for a descriptor that is taken over, also for other duplicates; and
/// cleared for one that is handed on, as a `Stdio` or an `OwnedFd`: other programs expect a
/// descriptor that blocks.
///
/// # Cancellation
///
/// A read of a cancelled caller fails with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. Written bytes stay,
/// for the next read.
///
/// # Examples
///
/// ```
/// use segue_io::{pipe, process};
/// use std::io::Read;
/// use std::process::{Command, Stdio};
///
/// let (mut reader, writer) = pipe::pipe()?;
/// let mut child = process::spawn(Command::new("echo").arg("hello").stdout(writer.into_stdio()?))?;
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "hello\n");
/// assert!(child.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct PipeReader(Descriptor);

/// The end of a pipe that is written to.
///
/// A write returns how much the pipe took, as soon as the pipe took something: on Linux 64 KiB fit,
/// if nobody reads. Up to 4096 bytes go in one piece, with no other writer's bytes in between.
///
/// `&PipeWriter` writes as well, so fibers can share one by reference.
/// [Handing on](PipeReader#handing-it-on) is the same here.
///
/// # Cancellation
///
/// A write of a cancelled caller fails with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. If the pipe took some
/// bytes or all, the write returns how many. A loop over writes such as
/// [`write_all`](std::io::Write::write_all) *may already have* written a part.
///
/// # Errors
///
/// `BrokenPipe` if nobody is left to read. The kernel sends `SIGPIPE` as well, which Rust programs
/// ignore, unless their `main` is not Rust's.
pub struct PipeWriter(Descriptor);

/// A pipe. Both descriptors are closed in programs that are executed. Never waits.
///
/// # Errors
/// If there are no descriptors left.
pub fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((PipeReader::from_std(reader)?, PipeWriter::from_std(writer)?))
}

impl PipeReader {
    /// Takes over a pipe of std's, which stops blocking. Never waits.
    ///
    /// # Errors
    /// If the pipe can't be made to not block.
    pub fn from_std(reader: io::PipeReader) -> io::Result<Self> {
        Self::adopt(reader.into())
    }
}

impl PipeWriter {
    /// Takes over a pipe of std's, which stops blocking. Never waits.
    ///
    /// # Errors
    /// If the pipe can't be made to not block.
    pub fn from_std(writer: io::PipeWriter) -> io::Result<Self> {
        Self::adopt(writer.into())
    }
}

reads!(PipeReader);
writes!(PipeWriter);
is_descriptor!(PipeReader, PipeWriter);

/// The methods of both ends.
macro_rules! end {
    ($name:ident, $std:ty, from $($theirs:ty),*) => {
        impl $name {
            pub(crate) fn of(descriptor: Descriptor) -> Self {
                Self(descriptor)
            }

            fn adopt(fd: OwnedFd) -> io::Result<Self> {
                Descriptor::own(fd, Manner::Own).map(Self)
            }

            /// The same pipe for std, which blocks again, also for duplicates. Never waits.
            ///
            /// # Errors
            /// If there is no descriptor left: the result has one of its own.
            pub fn into_std(self) -> io::Result<$std> {
                Ok(self.0.into_blocking()?.into())
            }

            /// The same pipe for a child to be, which blocks again, also for duplicates. Never
            /// waits.
            ///
            /// The `Command` keeps the pipe until its own drop: the other end of the pipe
            /// sees no end before.
            ///
            /// # Errors
            /// If there is no descriptor left: the result has one of its own.
            pub fn into_stdio(self) -> io::Result<Stdio> {
                Ok(self.0.into_blocking()?.into())
            }
        }

        /// Takes a descriptor over, which stops blocking. Never waits.
        impl TryFrom<OwnedFd> for $name {
            type Error = io::Error;

            fn try_from(fd: OwnedFd) -> io::Result<Self> {
                Self::adopt(fd)
            }
        }

        /// A descriptor of the same pipe, which blocks. Fails if there is none left.
        impl TryFrom<$name> for OwnedFd {
            type Error = io::Error;

            fn try_from(end: $name) -> io::Result<Self> {
                end.0.into_blocking()
            }
        }

        $(
            impl TryFrom<$theirs> for $name {
                type Error = io::Error;

                fn try_from(theirs: $theirs) -> io::Result<Self> {
                    Self::adopt(theirs.into())
                }
            }
        )*
    };
}

end!(PipeReader, io::PipeReader, from io::PipeReader, ChildStdout, ChildStderr);
end!(PipeWriter, io::PipeWriter, from io::PipeWriter, ChildStdin);
