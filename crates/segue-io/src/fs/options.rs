//! How a file is opened: std's builder, and the opening itself.
//!
//! Used by `File`.
//!
//! # Pipes
//!
//! To open a pipe by its name waits for its other end. That must not be on the worker, nor on one
//! of the few threads that the kernel has for a ring. And a pipe that is opened without waiting, to
//! see that it is one, is a reader for a moment: a writer may come and go in it. So a fiber first
//! looks what is there (`O_PATH`), if it wants to read; a pipe is opened by a thread for blocking
//! calls. Everything else is opened with `O_NONBLOCK`, which is taken away again: on a file or a
//! directory it means nothing. A pipe that is to be written and has no reader says so (`ENXIO`),
//! and is opened by such a thread as well, as is what somebody has a lease of (`EAGAIN`).

use super::call::run;
use super::calls::{Open, Plain, Stat, c_path};
use super::in_memory::stat_now;
use super::{File, Metadata};
use crate::descriptor::{Descriptor, Manner};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// How a file is to be opened, as [`std::fs::OpenOptions`]. The trait `OpenOptionsExt` of
/// `std::os::unix::fs` is here, too.
///
/// # Examples
///
/// ```
/// use segue_io::fs::OpenOptions;
/// use std::io::Write;
///
/// let path = std::env::temp_dir().join(format!("segue-log-{}", std::process::id()));
/// let mut log = OpenOptions::new().append(true).create(true).open(&path)?;
/// writeln!(log, "one more line")?;
/// segue_io::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    custom: i32,
    mode: u32,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        pub fn $name(&mut self, $name: bool) -> &mut Self {
            self.$name = $name;
            self
        }
    )*};
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

impl OpenOptions {
    /// Nothing yet: at least one of `read`, `write` and `append` is needed.
    #[expect(clippy::new_without_default, reason = "std's has none")]
    pub fn new() -> Self {
        let (read, write, append, truncate, create, create_new) = (false, false, false, false, false, false);
        Self { read, write, append, truncate, create, create_new, custom: 0, mode: 0o666 }
    }

    options! {
        /// It may be read.
        read,
        /// It may be written.
        write,
        /// Each write goes to the end, whoever else writes.
        append,
        /// It is emptied.
        truncate,
        /// It is created if it is not there.
        create,
        /// It is created, and must not be there.
        create_new
    }

    /// Opens the file at a path.
    ///
    /// # Cancellation
    /// *No effect*. If the file has been opened, it is returned; no descriptor is lost. A pipe's
    /// other end is waited for all the same: use [`PipeReader::open`](crate::pipe::PipeReader).
    ///
    /// # Errors
    /// What the kernel says, as std does; `InvalidInput` for options that contradict each other,
    /// and for a path with a NUL.
    #[track_caller]
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let flags = self.flags()?;
        open(&c_path(path.as_ref())?, flags, self.mode).map(File::alone)
    }

    fn flags(&self) -> io::Result<OFlags> {
        let access = match (self.read, self.write, self.append) {
            (true, false, false) => OFlags::RDONLY,
            (false, true, false) => OFlags::WRONLY,
            (true, true, false) => OFlags::RDWR,
            (false, _, true) => OFlags::WRONLY | OFlags::APPEND,
            (true, _, true) => OFlags::RDWR | OFlags::APPEND,
            (false, false, false) => return Err(invalid("one of read, write and append is needed to open a file")),
        };
        let changes = self.truncate || self.create || self.create_new;
        if changes && !self.write && !self.append {
            return Err(invalid("a file is created or truncated only by those who may write or append"));
        }
        if self.append && self.truncate && !self.create_new {
            return Err(invalid("a file can't be opened to append and be truncated"));
        }
        let creation = match (self.create, self.truncate, self.create_new) {
            (_, _, true) => OFlags::CREATE | OFlags::EXCL,
            (false, false, false) => OFlags::empty(),
            (true, false, false) => OFlags::CREATE,
            (false, true, false) => OFlags::TRUNC,
            (true, true, false) => OFlags::CREATE | OFlags::TRUNC,
        };
        let custom = OFlags::from_bits_retain(self.custom.cast_unsigned()).difference(OFlags::RWMODE);
        Ok(OFlags::CLOEXEC | access | creation | custom)
    }
}

/// std's trait.
impl OpenOptionsExt for OpenOptions {
    /// The permissions of a file that is created, less those that the umask takes.
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }

    /// More flags of the system's, such as `O_DIRECT` or `O_NOFOLLOW`.
    fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.custom = flags;
        self
    }
}

/// Opens something, wherever that has to wait.
#[track_caller]
pub(super) fn open(path: &CStr, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(mode);
    let wait = || rustix::fs::open(path, flags, mode);
    if !segue_core::in_fiber() || flags.intersects(OFlags::NONBLOCK | OFlags::PATH) {
        return run(Plain(wait));
    }
    let reads = !flags.intersects(OFlags::WRONLY | OFlags::RDWR);
    if reads && is_pipe(path, flags)? {
        return run(Plain(wait));
    }
    let fd = match run(Open { path, flags: flags | OFlags::NONBLOCK, mode }) {
        Err(error) if [Errno::NXIO, Errno::AGAIN].map(|it| Some(it.raw_os_error())).contains(&error.raw_os_error()) => {
            return run(Plain(wait));
        }
        opened => opened?,
    };
    rustix::io::ioctl_fionbio(&fd, false)?;
    Ok(fd)
}

/// Something that is to be read to its end, as it is read.
pub(super) enum Whole {
    /// A file of this length, as far as one can tell. Its descriptor still has `O_NONBLOCK`.
    File(File, u64),
    /// A pipe, which need not be open at its other end yet: the end comes when a writer has been
    /// there.
    Pipe(Descriptor),
}

/// Opens something to read it to its end. `None` if it is to be opened in the long way.
///
/// Who reads a pipe to its end does not see when it was opened: so nobody has to look first what
/// there is.
#[track_caller]
pub(super) fn open_whole(path: &CStr) -> io::Result<Option<Whole>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fd = match run(Open { path, flags, mode: Mode::empty() }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        opened => opened?,
    };
    let metadata = match stat_now(fd.as_fd()) {
        Some(stat) => Metadata::new(stat),
        None => run(Stat::of(fd.as_fd())).map(Metadata::new)?,
    };
    if metadata.file_type().is_fifo() {
        return Ok(Some(Whole::Pipe(Descriptor::new(fd, Manner::Fifo))));
    }
    Ok(Some(Whole::File(File::alone(fd), metadata.len())))
}

#[track_caller]
fn is_pipe(path: &CStr, flags: OFlags) -> io::Result<bool> {
    let kept = OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = run(Open { path, flags: OFlags::PATH | flags.intersection(kept), mode: Mode::empty() })?;
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) == FileType::Fifo)
}
