//! Metadata, as Linux has them: `statx`.
//!
//! Used by `elsewhere` and `Metadata`.

use super::call::run;
use super::calls::StatLink;
use super::in_memory::{directory_of, known};
use super::local::{ASKED, Home};
use rustix::fs::{AtFlags, RawMode, Statx, StatxFlags};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// What the kernel says of a file.
pub(in crate::fs) type Stat = Statx;

/// Hands the fields of std's trait, as the kernel's answer has them, to a macro.
macro_rules! each_field {
    ($to:ident) => {
        $to! { |stat|
            dev: u64 = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
            ino: u64 = stat.stx_ino;
            mode: u32 = stat.stx_mode.into();
            nlink: u64 = stat.stx_nlink.into();
            uid: u32 = stat.stx_uid;
            gid: u32 = stat.stx_gid;
            rdev: u64 = rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor);
            size: u64 = stat.stx_size;
            atime: i64 = stat.stx_atime.tv_sec;
            atime_nsec: i64 = stat.stx_atime.tv_nsec.into();
            mtime: i64 = stat.stx_mtime.tv_sec;
            mtime_nsec: i64 = stat.stx_mtime.tv_nsec.into();
            ctime: i64 = stat.stx_ctime.tv_sec;
            ctime_nsec: i64 = stat.stx_ctime.tv_nsec.into();
            blksize: u64 = stat.stx_blksize.into();
            blocks: u64 = stat.stx_blocks;
        }
    };
}

pub(in crate::fs) use each_field;

/// The kind of the file, and its permissions.
pub(in crate::fs) fn mode(stat: &Stat) -> RawMode {
    stat.stx_mode.into()
}

/// When the file was created, if its file system keeps that: seconds and nanoseconds.
pub(in crate::fs) fn birth(stat: &Stat) -> Option<(i64, i64)> {
    let is_kept = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
    is_kept.then_some((stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec.into()))
}

/// Asks about an open file.
pub(in crate::fs) fn stat(file: BorrowedFd<'_>) -> rustix::io::Result<Stat> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, ASKED)
}

/// Asks about a name.
pub(in crate::fs) fn stat_in(directory: BorrowedFd<'_>, name: &CStr, follow: bool) -> rustix::io::Result<Stat> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    rustix::fs::statx(directory, name, flags, ASKED)
}

/// Asks about the file at a path, or the link there, if its directory is in memory, on a disk.
#[track_caller]
pub(in crate::fs) fn stat_link_at(path: &CStr) -> Option<io::Result<Stat>> {
    let (directory, name) = directory_of(path)?;
    Some(run(StatLink::new(directory.as_fd(), name)))
}

/// The same of a name in an open directory, if that is one of a disk.
#[track_caller]
pub(in crate::fs) fn stat_link_in(directory: BorrowedFd<'_>, name: &CStr) -> Option<io::Result<Stat>> {
    let (_, home) = known(directory)?;
    (home == Home::Disk).then(|| run(StatLink::new(directory, name)))
}
