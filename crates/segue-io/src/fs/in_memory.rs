//! What the kernel has in memory, had on the worker: reads, names, metadata and directories.
//!
//! Used by `calls` and `dir` for what a call can have at once.
//!
//! # Asked, known, or trusted
//!
//! The kernel can be asked to read only what it has (`RWF_NOWAIT`), and to look up names only by
//! what it has (`RESOLVE_CACHED`). What it knows of an open file is had from it without waiting
//! where the file system asks nobody else; `local` knows which do.
//!
//! It can't be asked for the entries of a directory in this way, and for the metadata of a name
//! only at twice the price. There the last ones of the kind are taken for a sign of the next ones:
//! [`Trust`].

#![allow(unsafe_code)] // The kernel writes a thread's usage through a pointer.

use super::calls::{ASKED, Place};
use super::local::{self, ONE_MOUNT};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx};
use rustix::io::{Errno, ReadWriteFlags};
use segue_core::drivers::charge;
use std::ffi::CStr;
use std::io::{self, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Reads of more than this are not tried on the worker: to copy them would hold up the others.
pub(super) const SMALL: usize = 128 * 1024;

/// To copy so many bytes counts as one more operation.
const BYTES: usize = 4096;

/// Whether a read that must not wait and says 0 has come to the end. Linux 5.9 to 5.11 say so also
/// of what is not in memory.
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

/// What is in memory, if anything is.
#[inline]
pub(super) fn read_now(file: BorrowedFd<'_>, bufs: &mut [IoSliceMut<'_>], place: Place) -> Option<io::Result<usize>> {
    let wanted = bufs.iter().map(|buf| buf.len()).sum::<usize>();
    if wanted > SMALL {
        return None;
    }
    match rustix::io::preadv2(file, bufs, place.offset()?, ReadWriteFlags::NOWAIT) {
        Ok(0) if wanted > 0 && !tells_end() => None,
        Ok(count) => {
            charge(count / BYTES);
            Some(Ok(count))
        }
        // It is not in memory, or this file or kernel can't say: the plain call says what it is.
        Err(_) => None,
    }
}

/// Whether this kernel can be asked for names that it has in memory, and this process may.
static CAN_LOOK: AtomicBool = AtomicBool::new(true);

/// Looks up what is always there.
#[cold]
fn can_look() -> bool {
    let look = rustix::fs::openat2(CWD, c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::CACHED);
    !matches!(look, Err(Errno::NOSYS | Errno::INVAL | Errno::PERM))
}

/// Opens what can be opened by what is in memory. `None` if that is not enough, or can't be told.
pub(super) fn look_up(within: BorrowedFd<'_>, path: &CStr, flags: OFlags) -> Option<io::Result<OwnedFd>> {
    if !CAN_LOOK.load(Ordering::Relaxed) {
        return None;
    }
    match rustix::fs::openat2(within, path, flags, Mode::empty(), ResolveFlags::CACHED) {
        Ok(fd) => Some(Ok(fd)),
        Err(error @ (Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG)) => {
            Some(Err(error.into()))
        }
        Err(error) => {
            if matches!(error, Errno::NOSYS | Errno::INVAL | Errno::PERM) && !can_look() {
                CAN_LOOK.store(false, Ordering::Relaxed);
            }
            None
        }
    }
}

/// What is known of an open file, if its file system knows it by itself.
pub(super) fn stat_now(fd: BorrowedFd<'_>) -> Option<Statx> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(fd, c"", flags, ASKED | ONE_MOUNT).ok()?;
    local::is_local(&stat, fd).then_some(stat)
}

/// How many of a kind are taken to be in memory, when one was.
const TRUSTED: u32 = 15;

/// What the last look was like: so many more of the kind are taken to be in memory.
///
/// Entries of one directory lie together: where the metadata of one are in memory, those of the
/// next ones are, nearly always. And a walk through directories that are in memory goes on to
/// others that are. If not, the worker waits for the disk, a bounded number of times.
///
/// A guess, which orders nothing: all accesses are relaxed.
#[derive(Default)]
pub(super) struct Trust(AtomicU32);

impl Trust {
    pub(super) const fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// One was in memory.
    pub(super) fn renew(&self) {
        self.0.store(TRUSTED, Ordering::Relaxed);
    }

    /// Whether the next one is to be taken for such.
    pub(super) fn spend(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}

/// Makes a call that may block, and says whether the thread has slept in it: for the disk, or for a
/// lock of the kernel's.
pub(super) fn noting_sleep<T>(call: impl FnOnce() -> T) -> (T, bool) {
    let before = sleeps();
    let result = call();
    (result, before.is_none() || sleeps() != before)
}

/// How often the calling thread has slept so far.
fn sleeps() -> Option<i64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has the room that the call writes to.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: it has numbers alone, for which zero is one.
    let usage = unsafe { usage.assume_init() };
    (result == 0).then_some(usage.ru_nvcsw)
}
