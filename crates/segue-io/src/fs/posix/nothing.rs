//! What nobody knows without asking: names in memory, and which files lie on a disk. The system has
//! to be asked for all of that, on a thread that may block.
//!
//! Used by everything in `fs` before such a call.

use super::stat::Stat;
use crate::driver::socket::Socket;
use rustix::fs::OFlags;
use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The thing of that name, if the name is in memory.
pub(in crate::fs) fn look_up(_within: BorrowedFd<'_>, _path: &CStr, _flags: OFlags) -> Option<io::Result<OwnedFd>> {
    None
}

/// Opens a file of a disk by the kernel's memory.
pub(in crate::fs) fn open_now(_path: &CStr, _flags: OFlags) -> Option<io::Result<OwnedFd>> {
    None
}

/// Opens something of a disk, and makes a call with that, on a thread for blocking calls.
pub(in crate::fs) fn open_and<T>(
    _path: &CStr,
    _flags: OFlags,
    _then: impl FnMut(OwnedFd) -> rustix::io::Result<T>,
) -> Option<io::Result<T>> {
    None
}

/// The metadata of an open file, if its file system asks nobody.
pub(in crate::fs) fn stat_now(_fd: BorrowedFd<'_>) -> Option<Stat> {
    None
}

/// Those of the file at a path, or of the link there, if its directory is one of a disk.
pub(in crate::fs) fn stat_link_at(_path: &CStr) -> Option<io::Result<Stat>> {
    None
}

/// Those of a name in an open directory, if that is one of a disk.
pub(in crate::fs) fn stat_link_in(_directory: BorrowedFd<'_>, _name: &CStr) -> Option<io::Result<Stat>> {
    None
}

/// Whether the thing at a path is in memory, on a disk.
pub(in crate::fs) fn is_on_disk(_path: &CStr, _flags: OFlags) -> bool {
    false
}

/// Whether the directory of a path is in memory, on a disk.
pub(in crate::fs) fn is_named_on_disk(_path: &CStr) -> bool {
    false
}

/// Sends some bytes of a file to a socket: the kernel is not asked to do that.
pub(in crate::fs) fn send(
    _file: BorrowedFd<'_>,
    _socket: &Arc<Socket>,
    _from: u64,
    _count: u64,
    _timeout: Option<Duration>,
) -> Option<io::Result<usize>> {
    None
}

/// Makes a call that may block, and says whether the thread has slept meanwhile, as far as anybody
/// knows.
pub(in crate::fs) fn noting_sleep<T>(call: impl FnOnce() -> T) -> (T, bool) {
    (call(), true)
}
