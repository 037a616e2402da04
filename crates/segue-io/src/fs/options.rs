//! How a file is opened: std's builder, and the opening itself.
//!
//! Used by `File`.
//!
//! # Where
//!
//! A file of a disk with its name in memory is opened on the worker. A file that is created, or not
//! in memory, is opened by the worker's ring, within its directory, if that is in memory, on a
//! disk. Everything else may be a server's, and is opened on a thread that can be left.
//!
//! # Pipes
//!
//! To open a pipe by its name waits for its other end. The kernel tells nobody of that but a thread
//! that blocks; so all is opened with `O_NONBLOCK`, which is taken away again, and an open that
//! would have to wait is tried again, after pauses: a pipe that is to be written and has no reader
//! (`ENXIO`), and a file that somebody has a lease of (`EAGAIN`). A pipe that is to be read opens
//! at once, and is a reader from then on, as one that blocks in its open is. The pipe is looked at
//! until a writer has come, by a call that would copy what there is, and takes nothing (`tee`). So
//! such an open needs no thread, and can be cancelled.

use super::call::{Call, run};
use super::calls::{Open, Plain, c_path};
use super::elsewhere::{stat, stat_at};
use super::file::File;
use super::in_memory::{Kind, directory_of, known, open_now};
use super::local::Home;
use crate::apart::{self, Patience};
use crate::descriptor::bytes::Descriptor;
use crate::descriptor::ops::Manner;
use crate::system::pauses::Pauses;
use crate::system::sys::{poll_now, says};
use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use segue_core::WaitsFor;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

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

impl File {
    /// Opens a file for reading.
    ///
    /// # Cancellation
    /// As for [`OpenOptions::open`].
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).open(path)
    }

    /// Opens a file for writing; creates the file, or empties the old one.
    ///
    /// # Cancellation
    /// As for [`OpenOptions::open`].
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    #[track_caller]
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().write(true).create(true).truncate(true).open(path)
    }

    /// Creates a file for reading and writing, which must not be there.
    ///
    /// # Cancellation
    /// As for [`OpenOptions::open`].
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    #[track_caller]
    pub fn create_new(path: impl AsRef<Path>) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// How a file is to be opened. Never waits.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }
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
        /// The file may be read.
        read,
        /// The file may be written.
        write,
        /// Each write goes to the end, also among other writers.
        append,
        /// The file is emptied.
        truncate,
        /// A missing file is created.
        create,
        /// The file is created, and must not be there.
        create_new
    }

    /// Opens the file at a path.
    ///
    /// # Cancellation
    /// *No effect*. A file that has been opened is returned; no descriptor is lost. Of a server
    /// that takes no notice, an open *may already have happened*: the server may create or empty
    /// the file.
    ///
    /// # Errors
    /// The kernel's error, as std does; `InvalidInput` for options that contradict each other,
    /// and for a path with a NUL. A fiber that panics can't wait for the other end of a pipe.
    #[track_caller]
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let flags = self.flags()?;
        open(&c_path(path.as_ref())?, flags, self.mode)
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

/// How long another party is waited for at most before the open is tried again.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

const OTHER_END: &str = "the other end of a pipe";

/// Opens something, wherever that has to wait.
#[track_caller]
pub(super) fn open(path: &CStr, flags: OFlags, mode: u32) -> io::Result<File> {
    let mode = Mode::from_raw_mode(mode);
    // A fiber that must not be suspended can't wait for another party in place either.
    if apart::in_place() {
        return run(Plain(|| rustix::fs::open(path, flags, mode))).map(File::alone);
    }
    if flags.intersects(OFlags::NONBLOCK | OFlags::PATH) {
        return open_anywhere(path, flags, mode).map(File::alone);
    }
    let mut pauses = Pauses::up_to(LONGEST_PAUSE);
    loop {
        let other_party = match open_anywhere(path, flags | OFlags::NONBLOCK, mode) {
            Ok(fd) => {
                let file = File::alone(fd);
                let reads = !flags.intersects(OFlags::WRONLY | OFlags::RDWR);
                if file.kind() == Kind::Stream && reads && is_pipe(file.borrowed()) {
                    wait_for_writer(file.borrowed())?;
                }
                rustix::io::ioctl_fionbio(file.borrowed(), false)?;
                return Ok(file);
            }
            Err(error) if says(&error, &[Errno::AGAIN]) => "the end of a lease of a file",
            Err(error) if says(&error, &[Errno::NXIO]) && is_pipe_at(path)? => OTHER_END,
            Err(error) => return Err(error),
        };
        pauses.wait(None, WaitsFor::new(other_party))?;
    }
}

/// Opens by a call that does not wait for another party, as far as anybody knows.
#[track_caller]
fn open_anywhere(path: &CStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    segue_core::admit()?;
    let creates = OFlags::CREATE | OFlags::TRUNC | OFlags::TMPFILE.difference(OFlags::DIRECTORY);
    if segue_core::in_fiber()
        && !flags.intersects(creates)
        && let Some(opened) = open_now(path, flags)
    {
        return opened;
    }
    if let Some((directory, name)) = directory_of(path) {
        match run(Open::new(directory.as_fd(), name, flags, mode)) {
            // Something is mounted there, or a link leads elsewhere; or this is the older call that
            // knows these flags.
            Err(error) if says(&error, &[Errno::XDEV, Errno::INVAL]) => {}
            opened => return opened,
        }
    }
    let path = path.to_owned();
    apart::run(Open::WAITS_FOR, Patience::Server, move || rustix::fs::open(&*path, flags, mode))
}

fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

#[track_caller]
fn is_pipe_at(path: &CStr) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(stat_at(path, true)?.stx_mode.into()) == FileType::Fifo)
}

/// Waits until a writer of this pipe has come, also one that has gone again.
#[track_caller]
fn wait_for_writer(reader: BorrowedFd<'_>) -> io::Result<()> {
    let mut pauses = Pauses::up_to(LONGEST_PAUSE);
    let mut copy = None;
    loop {
        if has_had_writer(reader, &mut copy)? {
            return Ok(());
        }
        if let Err(cancelled) = pauses.wait(None, WaitsFor::new(OTHER_END)) {
            // A writer that came meanwhile counts on this reader.
            return if has_had_writer(reader, &mut copy)? { Ok(()) } else { Err(cancelled) };
        }
    }
}

/// Whether there is a writer, or was one since this end was opened. `copy` is a pipe for the look.
fn has_had_writer(reader: BorrowedFd<'_>, copy: &mut Option<(OwnedFd, OwnedFd)>) -> io::Result<bool> {
    if !poll_now(reader, PollFlags::IN)?.is_empty() {
        return Ok(true);
    }
    let (_, to) = match copy {
        Some(copy) => copy,
        none => none.insert(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?),
    };
    // Of an empty pipe the call says whether there is a writer to wait for.
    Ok(!matches!(rustix::pipe::tee(reader, to, 1, SpliceFlags::NONBLOCK), Ok(0) | Err(Errno::INTR)))
}

/// Something that is to be read to its end, by its kind.
pub(super) enum Whole {
    /// A file of this length, as far as one can tell. Its descriptor still has `O_NONBLOCK`.
    File(File, u64),
    /// A pipe, which need not be open at its other end yet: the end comes when a writer has been
    /// there.
    Pipe(Descriptor),
}

/// Opens a file to read it to its end. `None` if the long way is to open the file.
///
/// A reader to the end does not see when the pipe was opened: so nobody has to look for a writer.
#[track_caller]
pub(super) fn open_whole(path: &CStr) -> io::Result<Option<Whole>> {
    let fd = match open_anywhere(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        opened => opened?,
    };
    let found = known(fd.as_fd());
    let file = File::alone_of(fd, found.map(|(stat, home)| Kind::new(&stat, home)));
    let stat = match found {
        Some((stat, home)) if home != Home::Elsewhere => stat,
        _ => stat(file.handle())?,
    };
    if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Fifo {
        return Ok(Some(Whole::Pipe(Descriptor::new(file.into(), Manner::Fifo))));
    }
    Ok(Some(Whole::File(file, stat.stx_size)))
}
