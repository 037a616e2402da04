//! The calls: each is one request to a file system, with the memory that the call borrows.
//!
//! Made by `file`, `path` and `dir`, carried out by `call::run`.

use super::call::Call;
use super::in_memory::{directory_of, stat_now};
use super::local::ASKED;
use super::place::{OFFSETS, Visitors};
use crate::ring::{Answer, OpenHow, Request, StatRoom};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Opens or creates a file in a directory of a disk: without waiting for the other end of a pipe,
/// or for a lease, by flags that say so. A mount, or a link that leads elsewhere, is refused with
/// `XDEV`.
pub(super) struct Open<'a> {
    within: BorrowedFd<'a>,
    name: &'a CStr,
    flags: OFlags,
    mode: Mode,
    how: OpenHow,
}

impl<'a> Open<'a> {
    pub(super) fn new(within: BorrowedFd<'a>, name: &'a CStr, flags: OFlags, mode: Mode) -> Self {
        let creates = flags.intersects(OFlags::CREATE | OFlags::TMPFILE.difference(OFlags::DIRECTORY));
        let mode = if creates { mode } else { Mode::empty() };
        let how = OpenHow::new().flags(flags.bits().into()).mode(mode.bits().into());
        Self { within, name, flags, mode, how: how.resolve(ResolveFlags::NO_XDEV.bits()) }
    }
}

impl Call for Open<'_> {
    type Output = OwnedFd;
    const WAITS_FOR: &'static str = "a file to be opened";

    fn request(&mut self) -> Option<Request<'_>> {
        Some(Request::open(self.within, self.name, &self.how))
    }

    fn landed(&mut self, answer: Answer) -> OwnedFd {
        answer.opened().0
    }

    fn perform(&mut self) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat2(self.within, self.name, self.flags, self.mode, ResolveFlags::NO_XDEV)
    }
}

/// Asks for the metadata of a name in a directory of a disk; of a symbolic link, of the link.
pub(super) struct Stat<'a> {
    within: BorrowedFd<'a>,
    path: &'a CStr,
    room: StatRoom,
}

impl<'a> Stat<'a> {
    pub(super) fn new(within: BorrowedFd<'a>, path: &'a CStr) -> Self {
        Self { within, path, room: StatRoom::new() }
    }
}

/// Of a symbolic link the link is asked for.
const OF_LINK: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

impl Call for Stat<'_> {
    type Output = Statx;
    const WAITS_FOR: &'static str = "a file's metadata";

    fn request(&mut self) -> Option<Request<'_>> {
        Some(Request::stat(self.within, self.path, OF_LINK, ASKED, &mut self.room))
    }

    fn landed(&mut self, _answer: Answer) -> Statx {
        self.room.get()
    }

    fn perform(&mut self) -> rustix::io::Result<Statx> {
        rustix::fs::statx(self.within, self.path, OF_LINK, ASKED)
    }
}

/// A change of names, without another effect. The change owns the names, for a thread that can be
/// left.
pub(super) enum Change {
    Rename(CString, CString),
    Unlink(CString),
    RemoveDir(CString),
    MakeDir(CString, u32),
    Link(CString, CString),
    /// To a path, which need not be there, at a path.
    Symlink(CString, CString),
}

impl Change {
    /// Whether all names lie in directories that are in memory, on a disk.
    pub(super) fn is_on_disk(&self) -> bool {
        match self {
            Self::Rename(from, to) | Self::Link(from, to) => [from, to].iter().all(|it| directory_of(it).is_some()),
            Self::Unlink(path) | Self::RemoveDir(path) => directory_of(path).is_some(),
            Self::MakeDir(path, _) | Self::Symlink(_, path) => directory_of(path).is_some(),
        }
    }
}

impl Call for Change {
    type Output = ();
    const WAITS_FOR: &'static str = "a change of names";

    fn request(&mut self) -> Option<Request<'_>> {
        Some(match self {
            Self::Rename(from, to) => Request::rename(from, to),
            Self::Unlink(path) => Request::unlink(path, AtFlags::empty()),
            Self::RemoveDir(path) => Request::unlink(path, AtFlags::REMOVEDIR),
            Self::MakeDir(path, mode) => Request::make_dir(path, *mode),
            Self::Link(from, to) => Request::link(from, to),
            Self::Symlink(target, path) => Request::symlink(target, path),
        })
    }

    fn landed(&mut self, _answer: Answer) {}

    fn perform(&mut self) -> rustix::io::Result<()> {
        match self {
            Self::Rename(from, to) => rustix::fs::renameat(CWD, &**from, CWD, &**to),
            Self::Unlink(path) => rustix::fs::unlinkat(CWD, &**path, AtFlags::empty()),
            Self::RemoveDir(path) => rustix::fs::unlinkat(CWD, &**path, AtFlags::REMOVEDIR),
            Self::MakeDir(path, mode) => rustix::fs::mkdirat(CWD, &**path, Mode::from_raw_mode(*mode)),
            Self::Link(from, to) => rustix::fs::linkat(CWD, &**from, CWD, &**to, AtFlags::empty()),
            Self::Symlink(target, path) => rustix::fs::symlinkat(&**target, CWD, &**path),
        }
    }
}

/// Has a file written to its device; without mere metadata, if `data`.
pub(super) struct Sync<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) data: bool,
}

impl Call for Sync<'_> {
    type Output = ();
    const WAITS_FOR: &'static str = "a file to be on its device";

    fn request(&mut self) -> Option<Request<'_>> {
        Some(Request::sync(self.file, self.data))
    }

    fn landed(&mut self, _answer: Answer) {}

    fn perform(&mut self) -> rustix::io::Result<()> {
        if self.data { rustix::fs::fdatasync(self.file) } else { rustix::fs::fsync(self.file) }
    }
}

/// Cuts a file, or lengthens the file by zeros.
pub(super) struct Truncate<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) length: u64,
}

impl Call for Truncate<'_> {
    type Output = ();
    const WAITS_FOR: &'static str = "a change of a file's length";

    fn request(&mut self) -> Option<Request<'_>> {
        Some(Request::truncate(self.file, self.length)).filter(|_| self.length < OFFSETS)
    }

    fn landed(&mut self, _answer: Answer) {}

    fn perform(&mut self) -> rustix::io::Result<()> {
        rustix::fs::ftruncate(self.file, self.length)
    }
}

/// Anything else, which has no opcode: a closure that blocks.
pub(super) struct Plain<F>(pub(super) F);

impl<T: Send, F: FnMut() -> rustix::io::Result<T> + Send> Call for Plain<F> {
    type Output = T;
    const WAITS_FOR: &'static str = "a call of a file system";

    fn perform(&mut self) -> rustix::io::Result<T> {
        (self.0)()
    }
}

/// A path for the kernel.
pub(super) fn c_path(path: &std::path::Path) -> io::Result<CString> {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "file name contained an unexpected NUL byte"))
}

/// Moves the position to a distance from the end.
pub(super) struct SeekEnd<'a>(pub(super) BorrowedFd<'a>, pub(super) i64, pub(super) &'a Visitors);

impl Call for SeekEnd<'_> {
    type Output = u64;
    const WAITS_FOR: &'static str = "a file's length";

    fn at_once(&mut self) -> Option<io::Result<u64>> {
        // Where the file system knows the length by itself.
        stat_now(self.0).filter(|_| !self.2.are_there())?;
        Some(self.perform().map_err(Into::into))
    }

    fn perform(&mut self) -> rustix::io::Result<u64> {
        rustix::fs::seek(self.0, rustix::fs::SeekFrom::End(self.1))
    }
}
