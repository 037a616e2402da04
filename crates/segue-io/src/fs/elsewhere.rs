//! Calls to other parties: files of servers, and those that the kernel makes up.
//!
//! Used by `file`, `path`, `dir` and `copy` where the system has not found a disk. Each is made on
//! a thread that can be left (`apart`), with a descriptor and memory of its own.
//!
//! # The position
//!
//! A call that was left may have its file's position locked for as long as the server likes. So a
//! transfer of a handle that has the position alone goes to an offset, and the position is set
//! when it is over: left behind, a read has no effect. A handle that others share makes the system
//! call that moves the position; and a call that comes to the position meanwhile waits on a thread,
//! too. So does a handle that has the position alone by now, as long as a call has it that was
//! left.

use super::calls::Change;
use super::kind::Trust;
use super::place::Place;
use super::system::{self, Call, Stat, look_up, run, stat_now};
use crate::apart::{self, Patience};
use crate::system::sys::until_done;
use rustix::fs::{CWD, FileType, OFlags, SeekFrom};
use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The bytes that are moved at a time: a call needs so much memory.
const PIECE: usize = 1 << 20;

/// Asks another party about an open file.
#[track_caller]
pub(super) fn ask<T: Send + 'static>(
    waits_for: &'static str,
    file: &Arc<OwnedFd>,
    mut call: impl FnMut(BorrowedFd<'_>) -> rustix::io::Result<T> + Send + 'static,
) -> io::Result<T> {
    segue_core::check()?;
    if !apart::is_called_for() {
        return until_done(|| call(file.as_fd()));
    }
    let file = Arc::clone(file);
    apart::run(waits_for, Patience::Server, move || call(file.as_fd()))
}

/// A transfer: the file, the offset for a call that has one, and the position that is to move on.
struct Transfer {
    file: Arc<OwnedFd>,
    at: Option<u64>,
    from: Option<u64>,
}

impl Transfer {
    fn new(file: &Arc<OwnedFd>, place: Place, writes: bool) -> io::Result<Self> {
        segue_core::check()?;
        // No call that was left has the descriptor, and with it perhaps the position's lock.
        let is_alone = Arc::strong_count(file) == 1;
        let from = match place {
            Place::Cursor { alone: true } if is_alone && !(writes && appends(file.as_fd())?) => {
                rustix::fs::tell(file).ok()
            }
            _ => None,
        };
        let at = if let Place::At(at) = place { Some(at) } else { from };
        Ok(Self { file: Arc::clone(file), at, from })
    }
}

/// A transfer from that position is over.
fn arrive(file: &Arc<OwnedFd>, from: Option<u64>, moved: usize) {
    if let Some(from) = from.filter(|_| moved > 0) {
        let _ = rustix::fs::seek(file, SeekFrom::Start(from.saturating_add(moved as u64)));
    }
}

/// Reads a file that another party has to be asked for.
#[track_caller]
pub(super) fn read(handle: &Arc<OwnedFd>, place: Place, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let Transfer { file, at, from } = Transfer::new(handle, place, false)?;
    let room = apart::room(bufs, PIECE);
    let read = move || {
        apart::fill(room, |to| match at {
            Some(at) => rustix::io::pread(&file, to, at),
            None => rustix::io::read(&file, to),
        })
    };
    let bytes = apart::run("a read from a file", Patience::Server, read)?;
    arrive(handle, from, bytes.len());
    Ok(apart::scatter(&bytes, bufs))
}

/// Writes likewise.
#[track_caller]
pub(super) fn write(handle: &Arc<OwnedFd>, place: Place, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    let Transfer { file, at, from } = Transfer::new(handle, place, true)?;
    let bytes = apart::gather(bufs, PIECE);
    let write = move || match at {
        Some(at) => rustix::io::pwrite(&file, &bytes, at),
        None => rustix::io::write(&file, &bytes),
    };
    let count = apart::run("a write to a file", Patience::Server, write)?;
    arrive(handle, from, count);
    Ok(count)
}

fn appends(file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(file)?.contains(OFlags::APPEND))
}

/// The metadata of an open file.
#[track_caller]
pub(super) fn stat(file: &Arc<OwnedFd>) -> io::Result<Stat> {
    segue_core::admit()?;
    match if segue_core::in_fiber() { stat_now(file.as_fd()) } else { None } {
        Some(stat) => Ok(stat),
        None => ask("a file's metadata", file, system::stat),
    }
}

/// The metadata of the file at a path.
#[track_caller]
pub(super) fn stat_at(path: &CStr, follow: bool) -> io::Result<Stat> {
    segue_core::admit()?;
    if segue_core::in_fiber() {
        let nofollow = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        if let Some(found) = look_up(CWD, path, nofollow) {
            return stat(&Arc::new(found?));
        }
        if let Some(stat) = system::stat_link_at(path) {
            let stat = stat?;
            // A link may lead anywhere.
            if !follow || FileType::from_raw_mode(system::mode(&stat)) != FileType::Symlink {
                return Ok(stat);
            }
        }
    }
    let path = path.to_owned();
    apart::run("a file's metadata", Patience::Server, move || system::stat_in(CWD, &path, follow))
}

/// The metadata of a name in an open directory. `trust` says that the last ones were in memory, of
/// a file system that asks nobody.
#[track_caller]
pub(super) fn stat_entry(directory: &Arc<OwnedFd>, name: &CStr, trust: Option<&Trust>) -> io::Result<Stat> {
    segue_core::admit()?;
    if segue_core::in_fiber() {
        if trust.is_some_and(Trust::spend) {
            return Ok(system::stat_in(directory.as_fd(), name, false)?);
        }
        if let Some(found) = look_up(directory.as_fd(), name, OFlags::NOFOLLOW) {
            let found = found?;
            return match stat_now(found.as_fd()) {
                Some(stat) => {
                    if let Some(trust) = trust {
                        trust.renew();
                    }
                    Ok(stat)
                }
                None => stat(&Arc::new(found)),
            };
        }
        if let Some(stat) = system::stat_link_in(directory.as_fd(), name) {
            return stat;
        }
    }
    let name = name.to_owned();
    ask("a file's metadata", directory, move |directory| system::stat_in(directory, &name, false))
}

/// Changes names.
#[track_caller]
pub(super) fn change(change: Change) -> io::Result<()> {
    segue_core::check()?;
    if !apart::is_called_for() || change.is_on_disk() {
        return run(change);
    }
    let mut change = change;
    apart::run(Change::WAITS_FOR, Patience::Server, move || change.perform())
}
