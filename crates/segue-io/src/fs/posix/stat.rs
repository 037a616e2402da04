//! Metadata, as all Unix systems have them: `fstat` and `fstatat`.
//!
//! Used by `elsewhere` and `Metadata`.
//!
//! The types of the fields are the system's own: on each, some of these casts do nothing.
#![allow(clippy::unnecessary_cast)]

use super::local::is_local;
use crate::apart::{self, Patience};
use crate::fs::kind::Kind;
use rustix::fs::{AtFlags, FileType, RawMode};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// What the kernel says of a file.
pub(in crate::fs) use rustix::fs::Stat;

/// Hands the fields of std's trait, as the kernel's answer has them, to a macro.
macro_rules! each_field {
    ($to:ident) => {
        $to! { |stat|
            dev: u64 = stat.st_dev as u64;
            ino: u64 = stat.st_ino as u64;
            mode: u32 = stat.st_mode as u32;
            nlink: u64 = stat.st_nlink as u64;
            uid: u32 = stat.st_uid as u32;
            gid: u32 = stat.st_gid as u32;
            rdev: u64 = stat.st_rdev as u64;
            size: u64 = stat.st_size as u64;
            atime: i64 = stat.st_atime as i64;
            atime_nsec: i64 = stat.st_atime_nsec as i64;
            mtime: i64 = stat.st_mtime as i64;
            mtime_nsec: i64 = stat.st_mtime_nsec as i64;
            ctime: i64 = stat.st_ctime as i64;
            ctime_nsec: i64 = stat.st_ctime_nsec as i64;
            blksize: u64 = stat.st_blksize as u64;
            blocks: u64 = stat.st_blocks as u64;
        }
    };
}

pub(in crate::fs) use each_field;

/// The kind of the file, and its permissions.
pub(in crate::fs) fn mode(stat: &Stat) -> RawMode {
    stat.st_mode as RawMode
}

/// When the file was created, if its file system keeps that: seconds and nanoseconds.
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
pub(in crate::fs) fn birth(stat: &Stat) -> Option<(i64, i64)> {
    // -1 stands for none.
    (stat.st_birthtime != -1).then_some((stat.st_birthtime as i64, stat.st_birthtime_nsec as i64))
}

/// The system does not say.
#[cfg(not(any(target_vendor = "apple", target_os = "freebsd")))]
pub(in crate::fs) fn birth(_stat: &Stat) -> Option<(i64, i64)> {
    None
}

/// The way in which an open file is read and written. Asked on a thread that may block.
pub(super) fn kind(file: BorrowedFd<'_>) -> rustix::io::Result<Kind> {
    Ok(match FileType::from_raw_mode(mode(&stat(file)?)) {
        FileType::BlockDevice => Kind::Disk,
        FileType::RegularFile | FileType::Directory | FileType::Symlink if is_local(file)? => Kind::Disk,
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Kind::Elsewhere,
        _ => Kind::Stream,
    })
}

/// Asked of an open file, which may suspend the caller; `None` if there is no answer yet.
#[track_caller]
pub(in crate::fs) fn kind_of(file: &Arc<OwnedFd>) -> Option<Kind> {
    if !apart::is_called_for() {
        return kind(file.as_fd()).ok();
    }
    let file = Arc::clone(file);
    apart::run("a file's kind", Patience::Server, move || kind(file.as_fd())).ok()
}

/// Asks about an open file.
pub(in crate::fs) fn stat(file: BorrowedFd<'_>) -> rustix::io::Result<Stat> {
    rustix::fs::fstat(file)
}

/// Asks about a name.
pub(in crate::fs) fn stat_in(directory: BorrowedFd<'_>, name: &CStr, follow: bool) -> rustix::io::Result<Stat> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    rustix::fs::statat(directory, name, flags)
}
