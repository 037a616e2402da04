//! The entries of a directory, as the C library names them: from a stream that it keeps.
//!
//! Used by `dir`.

use crate::fs::kind::Listed;
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

/// The place in an open directory: a stream, with a descriptor of its own.
pub(in crate::fs) struct Listing(Mutex<Dir>);

impl Listing {
    pub(in crate::fs) fn new(directory: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        let directory = rustix::io::fcntl_dupfd_cloexec(directory, 0)?;
        Ok(Self(Mutex::new(Dir::new(directory)?)))
    }

    /// Names the next entries, while `take` wants more.
    pub(in crate::fs) fn read(
        &self,
        _directory: BorrowedFd<'_>,
        mut take: impl FnMut(&CStr, FileType, u64) -> bool,
    ) -> rustix::io::Result<Listed> {
        // Nothing panics half-way.
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match stream.read() {
                Some(Ok(entry)) if take(entry.file_name(), entry.file_type(), entry.ino()) => {}
                Some(Ok(_)) => return Ok(Listed::Some),
                // After an error the stream is at its end: another attempt would see no more names.
                Some(Err(Errno::INTR)) => return Err(Errno::IO),
                Some(Err(error)) => return Err(error),
                None => return Ok(Listed::All),
            }
        }
    }
}
