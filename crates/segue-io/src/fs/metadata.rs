//! What is known of a file: in std's names, of types that can be made outside of std.
//!
//! Used by `File`, `DirEntry` and the functions of `fs` that ask for it.

use super::system::{self, Stat};
use rustix::fs::{RawMode, Timespec, Timestamps};
use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

/// What is known of a file, as [`std::fs::Metadata`]. The traits of `std::os::unix::fs` are here,
/// too.
///
/// # Examples
///
/// ```
/// let here = segue_io::fs::metadata(".")?;
/// assert!(here.is_dir() && here.modified()? <= std::time::SystemTime::now());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Metadata(Stat);

impl Metadata {
    pub(super) fn new(stat: Stat) -> Self {
        Self(stat)
    }

    /// What kind of file it is.
    pub fn file_type(&self) -> FileType {
        FileType(system::mode(&self.0))
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// Whether it is a symbolic link; of those that `metadata` returns none is.
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// The length, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "std's has none")]
    pub fn len(&self) -> u64 {
        self.size()
    }

    /// Who may do what. The type is std's.
    pub fn permissions(&self) -> Permissions {
        Permissions::from_mode(self.mode())
    }

    /// When it was written last. Never waits.
    ///
    /// # Errors
    /// If that is before or after all times that there are.
    pub fn modified(&self) -> io::Result<SystemTime> {
        time(self.mtime(), self.mtime_nsec())
    }

    /// When it was read last, as far as the file system keeps that. Never waits.
    ///
    /// # Errors
    /// As for [`modified`](Metadata::modified).
    pub fn accessed(&self) -> io::Result<SystemTime> {
        time(self.atime(), self.atime_nsec())
    }

    /// When it was created. Never waits.
    ///
    /// # Errors
    /// `Unsupported` if the file system does not keep that.
    pub fn created(&self) -> io::Result<SystemTime> {
        let Some((seconds, nanos)) = system::birth(&self.0) else {
            let error = "this file system does not keep when its files were created";
            return Err(io::Error::new(io::ErrorKind::Unsupported, error));
        };
        time(seconds, nanos)
    }
}

fn time(seconds: i64, nanos: i64) -> io::Result<SystemTime> {
    let (is_before, seconds) = (seconds < 0, Duration::from_secs(seconds.unsigned_abs()));
    let start = SystemTime::UNIX_EPOCH;
    let start = if is_before { start.checked_sub(seconds) } else { start.checked_add(seconds) };
    start.and_then(|start| start.checked_add(Duration::from_nanos(nanos.unsigned_abs()))).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "a file's time is beyond what a `SystemTime` can say")
    })
}

/// The fields of std's trait, as the kernel's answer has them.
macro_rules! fields {
    (|$stat:ident| $($name:ident: $type:ty = $value:expr;)*) => {
        /// std's trait; its documentation says what each is.
        impl MetadataExt for Metadata {$(
            fn $name(&self) -> $type {
                let $stat = &self.0;
                $value
            }
        )*}
    };
}

system::each_field!(fields);

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Metadata");
        debug.field("file_type", &self.file_type()).field("permissions", &self.permissions());
        debug.field("len", &self.len()).finish_non_exhaustive()
    }
}

/// What kind of file it is, as [`std::fs::FileType`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileType(RawMode);

const KINDS: RawMode = 0o170_000;

impl FileType {
    /// Of what a directory says of its entry; `None` if it does not say.
    pub(super) fn of_entry(kind: rustix::fs::FileType) -> Option<Self> {
        use rustix::fs::FileType as Kind;
        let mode = match kind {
            Kind::Unknown => return None,
            known => known.as_raw_mode(),
        };
        Some(Self(mode))
    }

    fn is(self, kind: RawMode) -> bool {
        self.0 & KINDS == kind
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.is(0o040_000)
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.is(0o100_000)
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.is(0o120_000)
    }
}

/// std's trait; its documentation says what each is.
impl FileTypeExt for FileType {
    fn is_block_device(&self) -> bool {
        self.is(0o060_000)
    }

    fn is_char_device(&self) -> bool {
        self.is(0o020_000)
    }

    fn is_fifo(&self) -> bool {
        self.is(0o010_000)
    }

    fn is_socket(&self) -> bool {
        self.is(0o140_000)
    }
}

impl fmt::Debug for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("FileType");
        debug.field("is_file", &self.is_file()).field("is_dir", &self.is_dir());
        debug.field("is_symlink", &self.is_symlink()).finish_non_exhaustive()
    }
}

/// The times that [`File::set_times`](super::File::set_times) sets, as [`std::fs::FileTimes`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}

impl FileTimes {
    /// None: all stay as they are.
    pub fn new() -> Self {
        Self::default()
    }

    /// When the file was read last.
    #[must_use]
    pub fn set_accessed(self, time: SystemTime) -> Self {
        Self { accessed: Some(time), ..self }
    }

    /// When the file was written last.
    #[must_use]
    pub fn set_modified(self, time: SystemTime) -> Self {
        Self { modified: Some(time), ..self }
    }

    pub(super) fn stamps(self) -> io::Result<Timestamps> {
        Ok(Timestamps { last_access: stamp(self.accessed)?, last_modification: stamp(self.modified)? })
    }
}

fn stamp(time: Option<SystemTime>) -> io::Result<Timespec> {
    let Some(time) = time else {
        return Ok(Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT });
    };
    let late = |_| io::Error::new(io::ErrorKind::InvalidInput, "timestamp is too large to set as a file time");
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => {
            let tv_sec = i64::try_from(since.as_secs()).map_err(late)?;
            Ok(Timespec { tv_sec, tv_nsec: since.subsec_nanos().into() })
        }
        Err(before) => {
            let before = before.duration();
            let seconds = i64::try_from(before.as_secs()).map_err(late)?;
            // Nanoseconds count forwards from the second before.
            Ok(match before.subsec_nanos() {
                0 => Timespec { tv_sec: -seconds, tv_nsec: 0 },
                nanos => Timespec { tv_sec: -seconds - 1, tv_nsec: (1_000_000_000 - nanos).into() },
            })
        }
    }
}
