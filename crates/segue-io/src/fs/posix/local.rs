//! Which files lie on a disk of this machine, by the system's word for their file system.
//!
//! Asked of open files, on threads that may block: a server may have to be asked.

use rustix::fs::fstatfs;
use std::os::fd::BorrowedFd;

/// Whether the file system of this file asks nobody else.
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
pub(super) fn is_local(file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let found = fstatfs(file)?;
    // A program that serves files may say that they are local.
    let name = found.f_fstypename.map(|letter| letter as u8);
    let is_served = name.windows(4).any(|part| part == b"fuse");
    Ok(!is_served && i128::from(found.f_flags) & i128::from(libc::MNT_LOCAL) != 0)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[path = "../linux/disks.rs"]
mod disks;

/// For tests of this room on Linux.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_local(file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    Ok(disks::is_disk(fstatfs(file)?.f_type as u32))
}

/// The system has no such word that is known here.
#[cfg(not(any(target_vendor = "apple", target_os = "freebsd", target_os = "linux", target_os = "android")))]
pub(super) fn is_local(_file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    Ok(false)
}
