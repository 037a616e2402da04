//! Pipes that have a path, and how they are opened.
//!
//! Used by programs, as `PipeReader::open` and `PipeWriter::open`. A server may have to be
//! asked for the path, which suspends the fiber.

use super::options::OpenOptions;
use crate::descriptor::bytes::Descriptor;
use crate::descriptor::ops::Manner;
use crate::descriptor::pipe::{PipeReader, PipeWriter};
use rustix::fs::OFlags;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a pipe that has a path, without waiting for the other side.
#[track_caller]
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<Descriptor> {
    let file = options.custom_flags(NONBLOCK).open(path)?;
    if !file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a pipe that this path leads to"));
    }
    Ok(Descriptor::new(file.into(), Manner::Fifo))
}

const NONBLOCK: i32 = OFlags::NONBLOCK.bits().cast_signed();

impl PipeReader {
    /// Opens the pipe at a path, as made by `mkfifo`. Never waits for a writer; on Linux a read
    /// does, and comes to the end when the last writer has gone. Elsewhere a read before the first
    /// writer may say that this is the end.
    ///
    /// # Cancellation
    /// *No effect*: only a server that has the path is waited for.
    ///
    /// # Errors
    /// The kernel's error; `InvalidInput` if there is something else at this path.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        open(path.as_ref(), OpenOptions::new().read(true)).map(Self::of)
    }
}

impl PipeWriter {
    /// Opens the pipe at a path, as made by `mkfifo`. Never waits for a reader.
    ///
    /// # Cancellation
    /// *No effect*: only a server that has the path is waited for.
    ///
    /// # Errors
    /// The kernel's error: `ENXIO`, "no such device or address", without an open for reading; of a
    /// reader that comes the kernel tells nobody. `InvalidInput` if there is something else at this
    /// path.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        open(path.as_ref(), OpenOptions::new().write(true)).map(Self::of)
    }
}
