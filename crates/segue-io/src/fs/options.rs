//! How a file is to be opened: std's builder. The system's `opening` opens it.
//!
//! Used by `File`.

use super::calls::{c_path, mode_of};
use super::file::File;
use super::system::opening::open;
use rustix::fs::OFlags;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
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
        open(&c_path(path.as_ref())?, flags, mode_of(self.mode))
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
