//! Temporary files: one without a name, and one whose name goes when it is dropped.
//!
//! Used by programs.

use super::calls::c_path;
use super::file::File;
use super::kind::Kind;
use super::options::OpenOptions;
use super::path::{remove_file, rename};
use super::system::{is_removed_in_place, opening};
use crate::apart;
use crate::system::sys::says;
use rustix::io::Errno;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A new file in [`std::env::temp_dir`], for reading and writing, that has no name and is gone when
/// it is closed, however the process ends.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Seek, Write};
///
/// let mut file = segue_io::fs::temp_file()?;
/// file.write_all(b"for a while")?;
/// file.rewind()?;
/// let mut text = String::new();
/// file.read_to_string(&mut text)?;
/// assert_eq!(text, "for a while");
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn temp_file() -> io::Result<File> {
    temp_file_in(std::env::temp_dir())
}

/// The same in another directory: on the file system of that one.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// The kernel's error.
#[track_caller]
pub fn temp_file_in(dir: impl AsRef<Path>) -> io::Result<File> {
    let dir = dir.as_ref();
    match opening::open_unnamed(&c_path(dir)?) {
        // This file system, or kernel, does not know of files without names.
        Err(error) if is_unknown(&error) => unnamed_in(dir),
        opened => opened,
    }
}

fn is_unknown(error: &io::Error) -> bool {
    says(error, &[Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL, Errno::NOSYS])
}

/// A file whose name is removed before anybody gets it.
#[track_caller]
fn unnamed_in(dir: &Path) -> io::Result<File> {
    segue_core::check()?;
    // A name that was made goes, whoever is cancelled.
    segue_core::shield(|| {
        let (file, path) = create_in(dir)?;
        remove_file(path)?;
        Ok(file)
    })
}

#[track_caller]
fn create_in(dir: &Path) -> io::Result<(File, PathBuf)> {
    let mut tries = 0;
    loop {
        let path = dir.join(format!(".segue-{:016x}", RandomState::new().hash_one(tries)));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 1000 => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// A temporary file that has a name, which only its owner may open.
///
/// # Drop
///
/// The name is removed in place, without an error if that fails; on a server soon after. A process
/// that ends without dropping it leaves it behind.
///
/// # Examples
///
/// A file that is replaced as a whole, or stays as it was:
///
/// ```
/// use segue_io::fs::{self, NamedTempFile};
/// use std::io::Write;
///
/// let dir = std::env::temp_dir();
/// let target = dir.join(format!("segue-whole-{}", std::process::id()));
/// let mut new = NamedTempFile::new_in(&dir)?;
/// new.as_file_mut().write_all(b"all of it")?;
/// new.as_file().sync_all()?;
/// new.persist(&target)?;
/// assert_eq!(fs::read(&target)?, b"all of it");
/// fs::remove_file(&target)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct NamedTempFile {
    file: File,
    path: Named,
}

/// A name that is removed.
#[derive(Debug)]
struct Named {
    path: Option<PathBuf>,
    /// Of the file that had the name at first.
    kind: Kind,
}

impl Named {
    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            remove_quietly(path, self.kind);
        }
    }
}

/// Removes a name, in place where that asks nobody else.
fn remove_quietly(path: PathBuf, kind: Kind) {
    let on_disk = c_path(&path).is_ok_and(|path| is_removed_in_place(&path, kind));
    let remove = move || rustix::fs::unlink(&path);
    if apart::in_place() || on_disk {
        let _ = remove();
    } else {
        apart::detach(move || _ = remove());
    }
}

impl NamedTempFile {
    /// A new file in [`std::env::temp_dir`], for reading and writing.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn new() -> io::Result<Self> {
        Self::new_in(std::env::temp_dir())
    }

    /// The same in another directory.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// The kernel's error.
    #[track_caller]
    pub fn new_in(dir: impl AsRef<Path>) -> io::Result<Self> {
        // Where it goes from must not depend on where the program is by then.
        let dir = std::path::absolute(dir.as_ref().join("."))?;
        let (file, path) = create_in(&dir)?;
        let path = Named { path: Some(path), kind: file.kind() };
        Ok(Self { file, path })
    }

    /// Its path, which is absolute. Never waits.
    pub fn path(&self) -> &Path {
        self.path.path()
    }

    /// The file. Never waits.
    pub fn as_file(&self) -> &File {
        &self.file
    }

    /// The file, for reading and writing. Never waits.
    pub fn as_file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Keeps the file under its path. Never waits.
    pub fn keep(mut self) -> (File, PathBuf) {
        let path = self.path.path.take().unwrap_or_default();
        (self.file, path)
    }

    /// Keeps the file under another name of its file system, and replaces what has that.
    ///
    /// # Cancellation
    /// *No effect* on that name; the temporary file is dropped. One that has begun is waited for.
    ///
    /// # Errors
    /// The kernel's error; the temporary file is dropped.
    #[track_caller]
    pub fn persist(self, to: impl AsRef<Path>) -> io::Result<File> {
        rename(self.path(), to)?;
        Ok(self.keep().0)
    }
}
