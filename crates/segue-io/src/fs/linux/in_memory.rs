//! The kernel's memory, used on the worker: reads, names, metadata and directories.
//!
//! Used by everything in `fs` for calls that end at once.
//!
//! # Asked, known, or trusted
//!
//! The kernel can be asked to read from memory alone (`RWF_NOWAIT`), and to look up names in memory
//! alone (`RESOLVE_CACHED`). Both hold for the file systems of a disk: a server is asked to
//! open a file also where its name is in memory. So a name is looked up without opening anything
//! (`O_PATH`), which asks nobody, and `local` knows the file system there. The kernel tells its
//! knowledge of an open file without waiting where the file system asks nobody else.
//!
//! Most names lead from the root, or the working directory, to files of the same mount, and the
//! kernel can be asked to follow no others (`RESOLVE_NO_XDEV`): then one call opens the file. A
//! program that makes a server's directory its root does so before its first open.
//!
//! The kernel can't be asked for the entries of a directory in this way, and for the metadata of a
//! name only at twice the price. There the last ones of the kind are taken for a sign of the next
//! ones: [`Trust`](crate::fs::kind::Trust).

#![allow(unsafe_code)] // The kernel writes a thread's usage through a pointer.

use super::calls::BELOW;
use super::local::{ASKED, Home, ONE_MOUNT, home};
use crate::fs::kind::Kind;
use crate::fs::place::Place;
use crate::ring::CURSOR;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags};
use rustix::io::{Errno, ReadWriteFlags};
use segue_core::drivers::charge;
use std::ffi::{CStr, CString};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Reads of more than this are not tried on the worker: to copy them would hold up the others.
pub(in crate::fs) const SMALL: usize = 128 * 1024;

/// To copy so many bytes counts as one more operation.
const BYTES: usize = 4096;

/// Whether a read that must not wait and says 0 has come to the end. Linux 5.9 to 5.11 say so also
/// of data that are not in memory.
fn tells_end() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    *TELLS.get_or_init(|| {
        let name = rustix::system::uname();
        let release = name.release().to_string_lossy();
        let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        !(5, 9).le(&version) || (5, 12).le(&version)
    })
}

/// Offsets from here on are no offsets.
pub(in crate::fs) const OFFSETS: u64 = 1 << 63;

/// The offset for a call that has one.
pub(super) fn offset(place: Place) -> Option<u64> {
    match place {
        Place::Cursor { .. } => Some(CURSOR),
        Place::At(at) => Some(at).filter(|at| *at < OFFSETS),
    }
}

/// The bytes in memory, if there are any.
#[inline]
pub(in crate::fs) fn read_now(
    file: BorrowedFd<'_>,
    taken: &mut [IoSliceMut<'_>],
    place: Place,
) -> Option<io::Result<usize>> {
    let wanted = taken.iter().map(|buf| buf.len()).sum::<usize>();
    if wanted > SMALL {
        return None;
    }
    match rustix::io::preadv2(file, taken, offset(place)?, ReadWriteFlags::NOWAIT) {
        Ok(0) if wanted > 0 && !tells_end() => None,
        Ok(count) => {
            charge(count / BYTES);
            Some(Ok(count))
        }
        // Not in memory, or this file or kernel can't say: the plain call has the error.
        Err(_) => None,
    }
}

/// Whether this kernel can be asked for names in memory, and this process may.
static CAN_LOOK: AtomicBool = AtomicBool::new(true);

/// Looks up a name that is always there.
#[cold]
fn can_look() -> bool {
    let look = rustix::fs::openat2(CWD, c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::CACHED);
    !matches!(look, Err(Errno::NOSYS | Errno::INVAL | Errno::PERM))
}

/// Opens a name by the kernel's memory alone. `None` if that is not enough, or can't be told.
fn cached(
    within: BorrowedFd<'_>,
    path: &CStr,
    flags: OFlags,
    besides: ResolveFlags,
) -> Option<rustix::io::Result<OwnedFd>> {
    if !CAN_LOOK.load(Ordering::Relaxed) {
        return None;
    }
    match rustix::fs::openat2(within, path, flags, Mode::empty(), ResolveFlags::CACHED | besides) {
        Ok(fd) => Some(Ok(fd)),
        Err(
            error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG | Errno::XDEV),
        ) => Some(Err(error)),
        Err(error) => {
            if matches!(error, Errno::NOSYS | Errno::INVAL | Errno::PERM) && !can_look() {
                CAN_LOOK.store(false, Ordering::Relaxed);
            }
            None
        }
    }
}

/// The thing of that name, if the name is in memory. The thing is not opened: no file system is
/// asked.
pub(in crate::fs) fn look_up(within: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> Option<io::Result<OwnedFd>> {
    let found = cached(within, path, flags | OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::empty())?;
    Some(found.map_err(Into::into))
}

/// Opens a file of a disk by the kernel's memory, without creating one.
pub(in crate::fs) fn open_now(path: &CStr, flags: OFlags) -> Option<io::Result<OwnedFd>> {
    if begins_on_disk(path) {
        match cached(CWD, path, flags, ResolveFlags::NO_XDEV)? {
            Err(Errno::XDEV) => {}
            opened => return Some(opened.map_err(Into::into)),
        }
    }
    let found = match look_up(CWD, path, flags.intersection(OFlags::NOFOLLOW | OFlags::DIRECTORY))? {
        Ok(found) => found,
        Err(error) => return Some(Err(error)),
    };
    let (stat, home) = known(found.as_fd())?;
    let kind = FileType::from_raw_mode(stat.stx_mode.into());
    // A device may be a server's, too.
    let is_plain = matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Fifo);
    if home != Home::Disk || !is_plain {
        return None;
    }
    Some(cached(CWD, path, flags, ResolveFlags::empty())?.map_err(Into::into))
}

/// Opens a file below a directory of a disk by the kernel's memory.
pub(super) fn open_below_now(directory: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> Option<io::Result<OwnedFd>> {
    let opened = cached(directory, path, flags, BELOW | ResolveFlags::NO_XDEV)?;
    Some(opened.map_err(Into::into))
}

/// Whether the way to this path begins on the mount of a disk.
fn begins_on_disk(path: &CStr) -> bool {
    static ROOT: AtomicBool = AtomicBool::new(false);
    fn is_disk(fd: BorrowedFd<'_>) -> bool {
        known(fd).is_some_and(|(_, home)| home == Home::Disk)
    }
    if !path.to_bytes().starts_with(b"/") {
        return is_disk(CWD);
    }
    if ROOT.load(Ordering::Relaxed) {
        return true;
    }
    let found = look_up(CWD, c"/", OFlags::empty()).and_then(Result::ok).is_some_and(|root| is_disk(root.as_fd()));
    ROOT.store(found, Ordering::Relaxed);
    found
}

/// Whether the thing at a path is in memory, on a disk.
pub(in crate::fs) fn is_on_disk(path: &CStr, flags: OFlags) -> bool {
    let found = look_up(CWD, path, flags).and_then(Result::ok);
    found.and_then(|found| known(found.as_fd())).is_some_and(|(_, home)| home == Home::Disk)
}

/// The directory of a path, if in memory, on a disk, and the name there.
pub(in crate::fs) fn directory_of(path: &CStr) -> Option<(OwnedFd, &CStr)> {
    let bytes = path.to_bytes();
    let begin = bytes.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    if matches!(&bytes[begin..], b"" | b"." | b"..") {
        return None;
    }
    let directory = match &bytes[..begin] {
        b"" => &b"."[..],
        directory => directory,
    };
    let directory = look_up(CWD, &CString::new(directory).ok()?, OFlags::DIRECTORY)?.ok()?;
    let (_, home) = known(directory.as_fd())?;
    let name = CStr::from_bytes_with_nul(&path.to_bytes_with_nul()[begin..]).ok()?;
    (home == Home::Disk).then_some((directory, name))
}

/// Whether the directory of a path is in memory, on a disk.
pub(in crate::fs) fn is_named_on_disk(path: &CStr) -> bool {
    directory_of(path).is_some()
}

/// The kernel's knowledge of an open file without asking anybody, and the file's home. To be
/// believed of a disk and of the kernel alone.
pub(in crate::fs) fn known(fd: BorrowedFd<'_>) -> Option<(Statx, Home)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(fd, c"", flags, ASKED | ONE_MOUNT).ok()?;
    let home = home(&stat, fd).unwrap_or(Home::Elsewhere);
    Some((stat, home))
}

/// The metadata of an open file, if its file system asks nobody.
pub(in crate::fs) fn stat_now(fd: BorrowedFd<'_>) -> Option<Statx> {
    known(fd).filter(|(_, home)| *home != Home::Elsewhere).map(|(stat, _)| stat)
}

/// The kind of an open file, by what the kernel knows of that one.
pub(in crate::fs) fn kind(stat: &Statx, home: Home) -> Kind {
    match FileType::from_raw_mode(stat.stx_mode.into()) {
        FileType::BlockDevice => Kind::Disk,
        FileType::RegularFile | FileType::Directory | FileType::Symlink if home == Home::Disk => Kind::Disk,
        FileType::RegularFile | FileType::Directory | FileType::Symlink => Kind::Elsewhere,
        _ => Kind::Stream,
    }
}

/// Asked of an open file, which may suspend the caller; `None` if there is no answer yet.
pub(in crate::fs) fn kind_of(fd: &Arc<OwnedFd>) -> Option<Kind> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    match rustix::fs::statx(fd, c"", flags, StatxFlags::TYPE | ONE_MOUNT) {
        Ok(stat) => home(&stat, fd.as_fd()).map(|home| kind(&stat, home)),
        Err(_) => Some(Kind::Elsewhere),
    }
}

/// Makes a call that may block, and says whether the thread has slept meanwhile: for the disk, or
/// for a lock of the kernel's.
pub(in crate::fs) fn noting_sleep<T>(call: impl FnOnce() -> T) -> (T, bool) {
    let before = sleeps();
    let result = call();
    (result, before.is_none() || sleeps() != before)
}

/// How often the calling thread has slept so far.
fn sleeps() -> Option<i64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has the room that the call writes to.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: the struct has numbers alone, for which zero is a value.
    let usage = unsafe { usage.assume_init() };
    (result == 0).then_some(usage.ru_nvcsw)
}
