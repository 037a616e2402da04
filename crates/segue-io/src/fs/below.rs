//! Files below a directory: opened by a path that cannot lead out of there.
//!
//! Used by programs, as `File::open_below`; the system's `opening` makes the call. Where the kernel
//! cannot be told to stay below, `steps` opens one name after the other.

use super::calls::c_path;
use super::file::File;
use super::system::opening;
use crate::system::sys::says;
use rustix::io::Errno;
use std::io;
use std::path::Path;

impl File {
    /// Opens a file for reading whose path comes from somebody who is to see nothing but the
    /// content of a directory.
    ///
    /// `path` is relative to `directory`, and leads to something below: an absolute path, a `..`
    /// that leads out and a symbolic link that leads out are refused, also while others rename
    /// directories. Links that stay below are followed where the kernel watches over the way
    /// (`openat2`, Linux 5.6); else no links are followed, and each `..` is refused. Links such as
    /// those of `/proc/self/fd` are always refused. Something that is mounted below is below.
    ///
    /// Opens anything, a directory too, and does not wait for the other end of a named pipe: ask
    /// the [metadata](File::metadata) before the first read. Without `openat2`, the caller needs
    /// permission to list the directories on the way.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// [`CrossesDevices`](io::ErrorKind::CrossesDevices) if the path leads out, is absolute, or has
    /// a link that is not followed; for a link in place of a directory, where none are followed,
    /// also `NotADirectory`. Else the kernel's error; `InvalidInput` for a path with a NUL;
    /// `WouldBlock` for a file of which somebody has a lease.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::fs::{self, File};
    /// use std::io::{ErrorKind, Read};
    ///
    /// let dir = std::env::temp_dir().join(format!("segue-below-{}", std::process::id()));
    /// fs::create_dir_all(dir.join("public"))?;
    /// fs::write(dir.join("secret"), "secret")?;
    /// fs::write(dir.join("public/hello"), "hello")?;
    ///
    /// let public = File::open(dir.join("public"))?;
    /// let mut text = String::new();
    /// File::open_below(&public, "hello")?.read_to_string(&mut text)?;
    /// assert_eq!(text, "hello");
    /// assert_eq!(File::open_below(&public, "../secret").unwrap_err().kind(), ErrorKind::CrossesDevices);
    /// fs::remove_dir_all(&dir)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn open_below(directory: &File, path: impl AsRef<Path>) -> io::Result<File> {
        let opened = opening::open_below(directory, &c_path(path.as_ref())?);
        let is_link = |error: &io::Error| says(error, &[Errno::LOOP, Errno::MLINK]);
        let file = opened.map_err(|error| if is_link(&error) { Errno::XDEV.into() } else { error })?;
        // A ring takes the flag for a wish not to wait for a disk.
        rustix::io::ioctl_fionbio(file.borrowed(), false)?;
        Ok(file)
    }
}
