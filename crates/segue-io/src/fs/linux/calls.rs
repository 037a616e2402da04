//! The calls that Linux alone has: to open something, and to ask about a name, within a directory
//! of a disk, and nowhere else.
//!
//! Made by `opening` and `stat`, carried out by `run`.

use super::call::{Call, flies};
use super::local::ASKED;
use crate::ring::{OpenHow, StatRoom};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx};
use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Opens or creates a file in a directory of a disk: without waiting for the other end of a pipe,
/// or for a lease, by flags that say so. A mount, or a link that leads elsewhere, is refused with
/// `XDEV`.
pub(super) struct Open<'a> {
    within: BorrowedFd<'a>,
    name: &'a CStr,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
    how: OpenHow,
}

/// The way of a path that stays below its directory.
pub(super) const BELOW: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

impl<'a> Open<'a> {
    pub(super) fn new(within: BorrowedFd<'a>, name: &'a CStr, flags: OFlags, mode: Mode) -> Self {
        let creates = flags.intersects(OFlags::CREATE | OFlags::TMPFILE.difference(OFlags::DIRECTORY));
        let mode = if creates { mode } else { Mode::empty() };
        Self::resolved(within, name, flags, mode, ResolveFlags::NO_XDEV)
    }

    /// Opens a file below a directory of a disk, likewise; a path that leads out is refused with
    /// `XDEV`, too.
    pub(super) fn below(within: BorrowedFd<'a>, path: &'a CStr, flags: OFlags) -> Self {
        Self::resolved(within, path, flags, Mode::empty(), BELOW | ResolveFlags::NO_XDEV)
    }

    fn resolved(within: BorrowedFd<'a>, name: &'a CStr, flags: OFlags, mode: Mode, resolve: ResolveFlags) -> Self {
        let how = OpenHow::new().flags(flags.bits().into()).mode(mode.bits().into());
        Self { within, name, flags, mode, resolve, how: how.resolve(resolve.bits()) }
    }
}

impl Call for Open<'_> {
    type Output = OwnedFd;
    const WAITS_FOR: &'static str = "a file to be opened";

    flies!(|open| Some(Request::open(open.within, open.name, &open.how)), |_open, answer| answer.opened().0);

    fn perform(&mut self) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat2(self.within, self.name, self.flags, self.mode, self.resolve)
    }
}

/// Asks for the metadata of a name in a directory of a disk; of a symbolic link, of the link.
pub(super) struct StatLink<'a> {
    within: BorrowedFd<'a>,
    path: &'a CStr,
    room: StatRoom,
}

impl<'a> StatLink<'a> {
    pub(super) fn new(within: BorrowedFd<'a>, path: &'a CStr) -> Self {
        Self { within, path, room: StatRoom::new() }
    }
}

/// Of a symbolic link the link is asked for.
const OF_LINK: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

impl Call for StatLink<'_> {
    type Output = Statx;
    const WAITS_FOR: &'static str = "a file's metadata";

    flies!(|stat| Some(Request::stat(stat.within, stat.path, OF_LINK, ASKED, &mut stat.room)), |stat, _answer| stat
        .room
        .get());

    fn perform(&mut self) -> rustix::io::Result<Statx> {
        rustix::fs::statx(self.within, self.path, OF_LINK, ASKED)
    }
}

/// Opens something in a directory of a disk, and makes a call with that, on one thread.
pub(super) struct OpenAnd<'a, F> {
    pub(super) within: BorrowedFd<'a>,
    pub(super) name: &'a CStr,
    pub(super) flags: OFlags,
    pub(super) then: F,
}

impl<T: Send, F: FnMut(OwnedFd) -> rustix::io::Result<T> + Send> Call for OpenAnd<'_, F> {
    type Output = T;
    const WAITS_FOR: &'static str = "a directory";

    fn perform(&mut self) -> rustix::io::Result<T> {
        let opened = rustix::fs::openat2(self.within, self.name, self.flags, Mode::empty(), ResolveFlags::NO_XDEV)?;
        (self.then)(opened)
    }
}
