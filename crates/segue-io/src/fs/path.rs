//! std's functions on paths.
//!
//! Used by programs.

use super::calls::{Change, Plain, c_path, mode_of};
use super::dir::ReadDir;
use super::elsewhere::{change, stat_at};
use super::file::File;
use super::metadata::Metadata;
use super::system::{is_named_on_disk, is_on_disk, opening, run};
use crate::apart::{self, Asked, Patience};
use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::Errno;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The content of a file.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error; `OutOfMemory` if there is no room.
///
/// # Examples
///
/// ```
/// let limits = segue_io::fs::read("/proc/self/limits")?; // Has no length, but a content.
/// assert!(!limits.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    read_whole(path.as_ref())
}

#[track_caller]
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    if apart::is_called_for()
        && let Some(content) = opening::read_whole(&c_path(path)?)?
    {
        return Ok(content);
    }
    let mut content = Vec::new();
    File::open(path)?.read_to_end(&mut content)?;
    Ok(content)
}

/// The content of a file that is a text.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// As for [`read`]; `InvalidData` for bytes that are no UTF-8.
#[track_caller]
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read_whole(path.as_ref())?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// Writes a file as a whole; creates the file, or replaces its content.
///
/// # Cancellation
/// *May already have happened*: the file may be empty, or have a part of the content. To have all
/// or nothing, write a [named temporary file](super::NamedTempFile) and
/// [persist](super::NamedTempFile::persist) that.
///
/// # Errors
/// The kernel's error. A part may have been written.
#[track_caller]
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> io::Result<()> {
    File::create(path)?.write_all(contents.as_ref())
}

/// Copies the content and the permissions of a file, and returns its length.
///
/// On Linux the kernel copies by itself where possible (`copy_file_range`). A thread for blocking
/// calls makes the copy.
/// If the target is a pipe, its reader is waited for, by the fiber alone.
///
/// # Cancellation
/// *May already have happened*: a part may have been copied. A copy is broken off every 8 MiB;
/// where another party takes part, at once.
///
/// # Errors
/// The kernel's error; `InvalidInput` if `from` is no regular file. A part may have been copied.
///
/// # Examples
///
/// ```
/// let to = std::env::temp_dir().join(format!("segue-copy-{}", std::process::id()));
/// let length = segue_io::fs::copy("Cargo.toml", &to)?;
/// assert_eq!(length, segue_io::fs::metadata(&to)?.len());
/// segue_io::fs::remove_file(&to)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    super::copy::copy(from.as_ref(), to.as_ref())
}

/// Gives a file another name, and replaces another file of this name.
///
/// # Cancellation
/// *No effect*. One that has begun is waited for.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    change(Change::Rename(c_path(from.as_ref())?, c_path(to.as_ref())?))
}

/// Removes a name of a file; the file with its last one.
///
/// # Cancellation
/// *No effect*. One that has begun is waited for.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn remove_file(path: impl AsRef<Path>) -> io::Result<()> {
    change(Change::Unlink(c_path(path.as_ref())?))
}

/// Removes a directory, which has to be empty.
///
/// # Cancellation
/// *No effect*. One that has begun is waited for.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn remove_dir(path: impl AsRef<Path>) -> io::Result<()> {
    change(Change::RemoveDir(c_path(path.as_ref())?))
}

/// Removes a directory with all its content. No link is followed.
///
/// # Cancellation
/// *May already have happened*: a part may have been removed.
///
/// # Errors
/// The kernel's error; `InvalidInput` for a tree of over 1,000 levels. A part may have been
/// removed.
#[track_caller]
pub fn remove_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    if !apart::is_called_for() || is_on_disk(&c_path(path)?, OFlags::NOFOLLOW) {
        return segue_core::blocking(|| super::dir::remove_tree(path, &|| Ok(segue_core::check()?)))?;
    }
    let path = path.to_owned();
    let remove = move |asked: &Asked| {
        let go_on = || if asked.to_end() { Err(Errno::INTR.into()) } else { Ok(()) };
        match super::dir::remove_tree(&path, &go_on) {
            Err(_) if asked.to_end() => Err(Errno::INTR),
            removed => Ok(removed),
        }
    };
    apart::run_with("a tree to be removed", Patience::Server, remove)?
}

/// Creates a directory.
///
/// # Cancellation
/// *No effect*. One that has begun is waited for.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn create_dir(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Creates a directory, and the missing ones above.
///
/// # Cancellation
/// *May already have happened*: some of them may have been created.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn create_dir_all(path: impl AsRef<Path>) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(path)
}

/// How a directory is to be created, as [`std::fs::DirBuilder`]. The trait `DirBuilderExt` of
/// `std::os::unix::fs` is here, too.
#[derive(Clone, Debug)]
pub struct DirBuilder {
    recursive: bool,
    mode: u32,
}

impl DirBuilder {
    /// One directory, with the permissions of the umask.
    #[expect(clippy::new_without_default, reason = "std's has none")]
    pub fn new() -> Self {
        Self { recursive: false, mode: 0o777 }
    }

    /// Whether those above it are created, too, and an existing directory is no error.
    pub fn recursive(&mut self, recursive: bool) -> &mut Self {
        self.recursive = recursive;
        self
    }

    /// Creates the directory.
    ///
    /// # Cancellation
    /// As for [`create_dir`] and [`create_dir_all`].
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        if self.recursive { self.create_all(path.as_ref()) } else { self.create_one(path.as_ref()) }
    }

    #[track_caller]
    fn create_one(&self, path: &Path) -> io::Result<()> {
        change(Change::MakeDir(c_path(path)?, self.mode))
    }

    #[track_caller]
    fn create_all(&self, path: &Path) -> io::Result<()> {
        let mut missing = Vec::new();
        for ancestor in path.ancestors() {
            if ancestor.as_os_str().is_empty() {
                break;
            }
            match self.create_unless_there(ancestor) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(ancestor),
                created => {
                    created?;
                    break;
                }
            }
        }
        missing.into_iter().rev().try_for_each(|below| self.create_unless_there(below))
    }

    #[track_caller]
    fn create_unless_there(&self, path: &Path) -> io::Result<()> {
        match self.create_one(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound && metadata(path).is_ok_and(|it| it.is_dir()) => {
                Ok(())
            }
            created => created,
        }
    }
}

/// std's trait.
impl DirBuilderExt for DirBuilder {
    /// The permissions, less those that the umask takes.
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = mode;
        self
    }
}

/// The entries of a directory.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    super::dir::read_dir(path.as_ref())
}

/// The metadata of the file at a path; links are followed.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    stat_at(&c_path(path.as_ref())?, true).map(Metadata::new)
}

/// The metadata of the file at a path; of a symbolic link, of the link itself.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn symlink_metadata(path: impl AsRef<Path>) -> io::Result<Metadata> {
    stat_at(&c_path(path.as_ref())?, false).map(Metadata::new)
}

/// Whether there is something at a path; links are followed.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// If that can't be told.
#[track_caller]
pub fn exists(path: impl AsRef<Path>) -> io::Result<bool> {
    match metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// The path without links, from the root on.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref().to_owned();
    apart::run("a path without links", Patience::Server, move || match std::fs::canonicalize(&path) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(Errno::INTR),
        found => Ok(found),
    })?
}

/// Gives a file one more name.
///
/// # Cancellation
/// *No effect*. One that has begun is waited for.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    change(Change::Link(c_path(original.as_ref())?, c_path(link.as_ref())?))
}

/// Creates a symbolic link, as [`std::os::unix::fs::symlink`].
///
/// # Cancellation
/// *No effect*. One that has begun is waited for.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    change(Change::Symlink(c_path(original.as_ref())?, c_path(link.as_ref())?))
}

/// Where a symbolic link leads to.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn read_link(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = c_path(path.as_ref())?;
    let target = if !apart::is_called_for() || is_named_on_disk(&path) {
        run(Plain(|| rustix::fs::readlinkat(CWD, &*path, Vec::new())))?
    } else {
        apart::run("a link", Patience::Server, move || rustix::fs::readlinkat(CWD, &*path, Vec::new()))?
    };
    Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
}

/// Sets the permissions of the file at a path.
///
/// # Cancellation
/// *No effect*. One that has begun is waited for.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    let (path, mode) = (c_path(path.as_ref())?, mode_of(permissions.mode()));
    if !apart::is_called_for() || is_on_disk(&path, OFlags::empty()) {
        return run(Plain(|| rustix::fs::chmodat(CWD, &*path, mode, AtFlags::empty())));
    }
    let change = move || rustix::fs::chmodat(CWD, &*path, mode, AtFlags::empty());
    apart::run("a file's permissions", Patience::Server, change)
}
