//! How a file is opened: by one call, on a thread that can be interrupted, and left.
//!
//! Used by `OpenOptions`, and by functions of `fs` that open a file themselves.
//!
//! To open a pipe by its name waits for its other end, on that thread; so does the end of a lease.
//! The threads are limited in number, so that many such opens hold up the calls on other files.

use super::call::run;
use super::stat::kind;
use crate::apart::{self, Patience};
use crate::fs::calls::Plain;
use crate::fs::file::File;
use crate::fs::steps::step_by_step;
use crate::system::pauses::Pauses;
use crate::system::sys::{says, until_done};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use segue_core::WaitsFor;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long another party is waited for at most before the open is tried again.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// Opens something, wherever that has to wait.
#[track_caller]
pub(in crate::fs) fn open(path: &CStr, flags: OFlags, mode: Mode) -> io::Result<File> {
    if apart::in_place() {
        return run(Plain(|| rustix::fs::open(path, flags, mode))).map(File::alone);
    }
    if !apart::is_called_for() {
        return open_in_place(path, flags, mode).map(File::alone);
    }
    let path = path.to_owned();
    let open = move || {
        let fd = rustix::fs::open(&*path, flags, mode)?;
        // If that is not known yet, the first use asks.
        let kind = kind(fd.as_fd()).ok();
        Ok((fd, kind))
    };
    let (fd, kind) = apart::run("a file to be opened", Patience::Stream, open)?;
    Ok(File::alone_of(fd, kind))
}

/// Opens something for a fiber that must not be suspended, which can't wait for the other end of a
/// pipe.
#[cold]
#[track_caller]
fn open_in_place(path: &CStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let mut pauses = Pauses::up_to(LONGEST_PAUSE);
    loop {
        match until_done(|| rustix::fs::open(path, flags | OFlags::NONBLOCK, mode)) {
            Ok(fd) if flags.contains(OFlags::NONBLOCK) => return Ok(fd),
            Ok(fd) if flags.intersects(OFlags::WRONLY | OFlags::RDWR) || !is_pipe(fd.as_fd())? => {
                rustix::io::ioctl_fionbio(&fd, false)?;
                return Ok(fd);
            }
            Err(error) if flags.contains(OFlags::NONBLOCK) || !says(&error, &[Errno::NXIO, Errno::AGAIN]) => {
                return Err(error);
            }
            _ => pauses.wait(None, WaitsFor::new("the other end of a pipe"))?,
        }
    }
}

/// Opens a file below a directory, without waiting for the other end of a pipe.
#[track_caller]
pub(in crate::fs) fn open_below(directory: &File, path: &CStr) -> io::Result<File> {
    if apart::in_place() {
        return run(Plain(|| step_by_step(directory.borrowed(), path.to_bytes()))).map(File::alone);
    }
    let (directory, path) = (Arc::clone(directory.handle()), path.to_owned());
    let open = move || step_by_step(directory.as_fd(), path.to_bytes());
    apart::run("a file to be opened", Patience::Server, open).map(File::alone)
}

fn is_pipe(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode) == FileType::Fifo)
}

/// There are no files that never had a name.
pub(in crate::fs) fn open_unnamed(_directory: &CStr) -> io::Result<File> {
    Err(Errno::OPNOTSUPP.into())
}

/// The content of a file: there is no shorter way than to open the file.
pub(in crate::fs) fn read_whole(_path: &CStr) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}
