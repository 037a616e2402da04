//! The way below a directory, one name after the other.
//!
//! Used by the system's `opening`, where the kernel cannot be told to stay below a directory.

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How a file below is opened: for reading, without waiting for the other end of a pipe, and not
/// as the terminal of this process.
pub(super) const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// How a directory on the way is opened.
const STEP: OFlags = FLAGS.union(OFlags::DIRECTORY);

/// Opens one name of the path after the other, and follows no link. For a thread that may block.
pub(super) fn step_by_step(directory: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    match path {
        [] => return Err(Errno::NOENT),
        [b'/', ..] => return Err(Errno::XDEV),
        _ => {}
    }
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").peekable();
    let mut found: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        if name == b".." {
            return Err(Errno::XDEV);
        }
        let is_last = names.peek().is_none() && path.ends_with(name);
        let within = found.as_ref().map_or(directory, AsFd::as_fd);
        let flags = if is_last { FLAGS } else { STEP };
        found = Some(openat(within, name, flags | OFlags::NOFOLLOW, Mode::empty())?);
    }
    found.map_or_else(|| openat(directory, c".", FLAGS, Mode::empty()), Ok)
}

#[cfg(test)]
#[path = "../../tests/units/steps.rs"]
mod tests;
