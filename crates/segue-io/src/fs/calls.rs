//! The calls: each is one request to a file system, with the memory that the call borrows.
//!
//! Made by `file`, `path` and `dir`, carried out by `call::run`.

use super::call::Call;
use super::in_memory::{directory_of, read_now, stat_now};
use super::local::ASKED;
use super::place::{OFFSETS, Place, Visitors};
use crate::ring::{Answer, OpenHow, Request, StatRoom};
use crate::system::sys::taken_at_once;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Statx};
use std::ffi::{CStr, CString};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A transfer's place, and its flight from there.
pub(super) struct Course<'a> {
    place: Place,
    at_position: &'a Visitors,
    /// The position at the beginning, which has to move on with the transfer.
    from: Option<u64>,
}

impl<'a> Course<'a> {
    /// Of a file of a disk: a ring would move bytes of a file without offsets at the position.
    pub(super) fn new(place: Place, at_position: &'a Visitors) -> Self {
        Self { place, at_position, from: None }
    }

    /// The bytes in memory, if that needs no lock that somebody has for long.
    #[inline]
    fn read_now(&self, file: BorrowedFd<'_>, bufs: &mut [IoSliceMut<'_>]) -> Option<io::Result<usize>> {
        let waits = self.place == (Place::Cursor { alone: false }) && self.at_position.are_there();
        if waits { None } else { read_now(file, bufs, self.place) }
    }

    /// The offset for a ring; `None` if the transfer is for the system call.
    ///
    /// A ring can go by the position itself. But if a transfer has moved something and then fails,
    /// its result says how much, and the kernel leaves the position unmoved: a write that came to
    /// the end of the disk would be written over by the next. So the transfer flies to an offset,
    /// and the position is set afterwards.
    fn offset(&mut self, file: BorrowedFd<'_>, writes: bool) -> Option<u64> {
        match self.place {
            Place::At(_) => self.place.offset(),
            Place::Cursor { alone: false } => None,
            // To append moves the position to an end that nobody knows.
            Place::Cursor { alone: true } if writes && rustix::fs::fcntl_getfl(file).ok()?.contains(OFlags::APPEND) => {
                None
            }
            Place::Cursor { alone: true } => {
                self.from = rustix::fs::tell(file).ok();
                self.from
            }
        }
    }

    /// The transfer has landed, and has moved so much.
    fn landed(&self, file: BorrowedFd<'_>, answer: Answer) -> usize {
        let count = answer.count();
        if let Some(from) = self.from.filter(|_| count > 0) {
            let to = rustix::fs::SeekFrom::Start(from.saturating_add(count as u64));
            let _ = rustix::fs::seek(file, to);
        }
        count
    }
}

/// Moves bytes out of a file.
pub(super) struct Read<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) to: &'a mut [u8],
    pub(super) course: Course<'a>,
}

impl Call for Read<'_> {
    type Output = usize;
    const WAITS_FOR: &'static str = "a read from a file";

    #[inline]
    fn at_once(&mut self) -> Option<io::Result<usize>> {
        self.course.read_now(self.file, &mut [IoSliceMut::new(self.to)])
    }

    fn request(&mut self) -> Option<Request<'_>> {
        let at = self.course.offset(self.file, false)?;
        Some(Request::read(self.file, self.to, at))
    }

    fn landed(&mut self, answer: Answer) -> usize {
        self.course.landed(self.file, answer)
    }

    fn perform(&mut self) -> rustix::io::Result<usize> {
        match self.course.place {
            Place::Cursor { .. } => self.course.at_position.with(|| rustix::io::read(self.file, &mut *self.to)),
            Place::At(at) => rustix::io::pread(self.file, &mut *self.to, at),
        }
    }
}

/// Moves bytes out of a file, into several buffers.
pub(super) struct ReadVectored<'a, 'b> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) to: &'a mut [IoSliceMut<'b>],
    pub(super) course: Course<'a>,
}

impl Call for ReadVectored<'_, '_> {
    type Output = usize;
    const WAITS_FOR: &'static str = "a read from a file";

    fn at_once(&mut self) -> Option<io::Result<usize>> {
        let taken = taken_at_once(self.to);
        self.course.read_now(self.file, &mut self.to[taken])
    }

    fn request(&mut self) -> Option<Request<'_>> {
        let at = self.course.offset(self.file, false)?;
        Some(Request::read_vectored(self.file, self.to, at))
    }

    fn landed(&mut self, answer: Answer) -> usize {
        self.course.landed(self.file, answer)
    }

    fn perform(&mut self) -> rustix::io::Result<usize> {
        let taken = taken_at_once(self.to);
        let taken = &mut self.to[taken];
        match self.course.place {
            Place::Cursor { .. } => self.course.at_position.with(|| rustix::io::readv(self.file, taken)),
            Place::At(at) => rustix::io::preadv(self.file, taken, at),
        }
    }
}

/// Moves bytes into a file.
pub(super) struct Write<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) from: &'a [u8],
    pub(super) course: Course<'a>,
}

impl Call for Write<'_> {
    type Output = usize;
    const WAITS_FOR: &'static str = "a write to a file";

    fn request(&mut self) -> Option<Request<'_>> {
        let at = self.course.offset(self.file, true)?;
        Some(Request::write(self.file, self.from, at))
    }

    fn landed(&mut self, answer: Answer) -> usize {
        self.course.landed(self.file, answer)
    }

    fn perform(&mut self) -> rustix::io::Result<usize> {
        match self.course.place {
            Place::Cursor { .. } => self.course.at_position.with(|| rustix::io::write(self.file, self.from)),
            Place::At(at) => rustix::io::pwrite(self.file, self.from, at),
        }
    }
}

/// Moves bytes into a file, from several buffers.
pub(super) struct WriteVectored<'a, 'b> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) from: &'a [IoSlice<'b>],
    pub(super) course: Course<'a>,
}

impl Call for WriteVectored<'_, '_> {
    type Output = usize;
    const WAITS_FOR: &'static str = "a write to a file";

    fn request(&mut self) -> Option<Request<'_>> {
        let at = self.course.offset(self.file, true)?;
        Some(Request::write_vectored(self.file, self.from, at))
    }

    fn landed(&mut self, answer: Answer) -> usize {
        self.course.landed(self.file, answer)
    }

    fn perform(&mut self) -> rustix::io::Result<usize> {
        let taken = &self.from[taken_at_once(self.from)];
        match self.course.place {
            Place::Cursor { .. } => self.course.at_position.with(|| rustix::io::writev(self.file, taken)),
            Place::At(at) => rustix::io::pwritev(self.file, taken, at),
        }
    }
}

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
