//! The entries of a directory, as Linux names them: into a buffer of ours.
//!
//! Used by `dir`.

use super::call::run;
use super::calls::OpenAnd;
use super::in_memory::directory_of;
use crate::fs::kind::Listed;
use rustix::fs::{FileType, OFlags, RawDir};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The room that the kernel fills at a time.
const BUFFER: usize = 32 * 1024;

/// The place in an open directory. The kernel keeps that.
pub(in crate::fs) struct Listing;

impl Listing {
    pub(in crate::fs) fn new(_directory: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        Ok(Self)
    }

    /// Names the next entries, while `take` wants more; and then those that the kernel has given
    /// already, which must not be left in the buffer.
    pub(in crate::fs) fn read(
        &self,
        directory: BorrowedFd<'_>,
        mut take: impl FnMut(&CStr, FileType, u64) -> bool,
    ) -> rustix::io::Result<Listed> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut raw = RawDir::new(directory, buffer.spare_capacity_mut());
        let mut wants_more = true;
        while wants_more || !raw.is_buffer_empty() {
            let Some(entry) = raw.next().transpose()? else { return Ok(Listed::All) };
            wants_more = take(entry.file_name(), entry.file_type(), entry.ino());
        }
        Ok(Listed::Some)
    }
}

/// Opens something, and makes a call with that, on a thread for blocking calls, if its directory is
/// in memory, on a disk.
#[track_caller]
pub(in crate::fs) fn open_and<T: Send>(
    path: &CStr,
    flags: OFlags,
    then: impl FnMut(OwnedFd) -> rustix::io::Result<T> + Send,
) -> Option<io::Result<T>> {
    let (within, name) = directory_of(path)?;
    Some(run(OpenAnd { within: within.as_fd(), name, flags, then }))
}
