//! Files, as all Unix systems have them: calls that may block.
//!
//! Used by everything in `fs`, in place of `linux`.
//!
//! # The idea
//!
//! Nobody can ask such a kernel for its memory alone, and there is no ring. So a worker makes no
//! call on a file. A name may be a server's: calls on names are made on threads that can be
//! interrupted, and left (`apart`). The thread that has opened a file also asks where that lies: if
//! on a disk of this machine, its calls are made on threads for blocking calls; else `apart`, too.
//! Streams go by readiness, as everywhere. The functions of `nothing` know nothing at once.
//!
//! On Linux `SEGUE_PORTABLE` chooses this room in place of the other one, so that the tests of
//! files run here, too.

mod call;
mod course;
mod listing;
mod local;
mod nothing;
pub(super) mod opening;
mod stat;

use super::kind::Kind;
pub(super) use call::{Call, flies, run};
pub(super) use course::Course;
pub(super) use listing::Listing;
pub(super) use nothing::{
    is_named_on_disk, is_on_disk, look_up, noting_sleep, open_and, open_now, send, stat_link_at, stat_link_in, stat_now,
};
use rustix::io::{Errno, retry_on_intr};
pub(super) use stat::{Stat, birth, each_field, kind_of, mode, stat, stat_in};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;

/// Whether threads for blocking calls may read a directory. Asked on a thread that may block.
pub(super) fn is_near(directory: BorrowedFd<'_>) -> bool {
    local::is_local(directory).unwrap_or(false)
}

/// Whether a name of a file of this kind is removed in place.
pub(super) fn is_removed_in_place(_path: &CStr, kind: Kind) -> bool {
    kind == Kind::Disk
}

/// Has a file written to its device. Where a system can have the device write its own cache out,
/// std asks for that, and for nothing less.
pub(super) fn sync(file: BorrowedFd<'_>, data: bool) -> rustix::io::Result<()> {
    #[cfg(target_vendor = "apple")]
    return rustix::fs::fcntl_fullfsync(file).and(Ok(_ = data));
    #[cfg(not(target_vendor = "apple"))]
    if data { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) }
}

/// What is read and written at a time.
const BUFFER: usize = 128 << 10;

/// Copies so many bytes at most, from position to position; none at the end. A signal ends a copy
/// between two reads alone: so all that was read has been written.
pub(super) fn copy_piece(from: BorrowedFd<'_>, to: BorrowedFd<'_>, length: usize) -> rustix::io::Result<usize> {
    let mut buffer = vec![0; BUFFER.min(length)];
    let mut copied = 0;
    while copied < length {
        let room = buffer.len().min(length - copied);
        let count = match rustix::io::read(from, &mut buffer[..room]) {
            Ok(0) => break,
            Err(Errno::INTR) if copied > 0 => break,
            read => read?,
        };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match retry_on_intr(|| rustix::io::write(to, rest))? {
                0 => return Err(Errno::IO),
                written => rest = &rest[written..],
            }
        }
        copied += count;
    }
    Ok(copied)
}
