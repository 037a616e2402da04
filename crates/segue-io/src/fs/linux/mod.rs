//! Files, as Linux has them: calls that ask the kernel's memory alone, and calls that fly.
//!
//! Used by everything in `fs`. `posix` stands in place of this room where there is neither.

mod call;
mod calls;
mod course;
mod disks;
mod in_memory;
mod listing;
mod local;
pub(super) mod opening;
mod sending;
mod stat;

use super::kind::Kind;
pub(super) use call::{Call, flies, run};
pub(super) use course::Course;
pub(super) use in_memory::{OFFSETS, is_named_on_disk, is_on_disk, kind_of, look_up, noting_sleep, open_now, stat_now};
pub(super) use listing::{Listing, open_and};
use rustix::fs::{copy_file_range, fdatasync, fsync};
pub(super) use sending::send;
pub(super) use stat::{Stat, birth, each_field, mode, stat, stat_in, stat_link_at, stat_link_in};
use std::ffi::CStr;
use std::os::fd::BorrowedFd;

/// Whether a worker may read a directory, if that is in memory: not where a server, or another
/// program, is asked for its entries.
pub(super) fn is_near(directory: BorrowedFd<'_>) -> bool {
    stat_now(directory).is_some()
}

/// Whether a name of a file of this kind is removed in place.
pub(super) fn is_removed_in_place(path: &CStr, _kind: Kind) -> bool {
    is_named_on_disk(path)
}

/// Has a file written to its device; without mere metadata, if `data`.
pub(super) fn sync(file: BorrowedFd<'_>, data: bool) -> rustix::io::Result<()> {
    if data { fdatasync(file) } else { fsync(file) }
}

/// Copies so many bytes at most, from position to position; none at the end.
pub(super) fn copy_piece(from: BorrowedFd<'_>, to: BorrowedFd<'_>, length: usize) -> rustix::io::Result<usize> {
    copy_file_range(from, None, to, None, length)
}
