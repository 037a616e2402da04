//! The calls: each is one request to a file system with what it borrows for its length.
//!
//! Made by `file`, `path` and `dir`, carried out by `call::run`.

use super::call::Call;
use super::in_memory::{Trust, look_up, read_now, stat_now};
use crate::ring::{CURSOR, FileRequest, Landed, MAX_SLICES, StatRoom};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Offsets from here on are no offsets.
const OFFSETS: u64 = 1 << 63;

/// Where a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the description's position, which moves on.
    Cursor {
        /// Whether nobody else uses it meanwhile: then a transfer flies. The system call has a lock
        /// on the position.
        alone: bool,
    },
    At(u64),
}

impl Place {
    /// The offset for a call that has one.
    pub(super) fn offset(self) -> Option<u64> {
        match self {
            Self::Cursor { .. } => Some(CURSOR),
            Self::At(at) => Some(at).filter(|at| *at < OFFSETS),
        }
    }
}

/// A transfer's place, and how it flies from there.
pub(super) struct Course<'a> {
    place: Place,
    flies: bool,
    at_position: &'a Visitors,
    /// The position that it has begun at, which has to move on with it.
    from: Option<u64>,
}

/// How many calls are at a handle's position, on threads that may block. They have its lock, or
/// wait for it. It orders nothing: a worker that looks too early waits a while for the lock.
#[derive(Default)]
pub(super) struct Visitors(AtomicU32);

impl Visitors {
    /// Whether a worker would wait for the position's lock.
    pub(super) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Makes a call at the position.
    pub(super) fn with<T>(&self, call: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let result = call();
        self.0.fetch_sub(1, Ordering::Relaxed);
        result
    }
}

impl<'a> Course<'a> {
    /// From an offset of a file that has none nothing `flies`: a ring would move bytes at the
    /// position, and the system call says what is wrong.
    pub(super) fn new(place: Place, flies: bool, at_position: &'a Visitors) -> Self {
        Self { place, flies, at_position, from: None }
    }

    /// What is in memory, if that needs no lock that somebody has for long.
    #[inline]
    fn read_now(&self, file: BorrowedFd<'_>, bufs: &mut [IoSliceMut<'_>]) -> Option<io::Result<usize>> {
        let waits = self.place == (Place::Cursor { alone: false }) && self.at_position.are_there();
        if waits { None } else { read_now(file, bufs, self.place) }
    }

    /// The offset for a ring; `None` if the transfer is for the system call.
    ///
    /// A ring can go by the position itself. But if a transfer has moved something and then fails,
    /// its result says how much, and the kernel leaves the position where it was: a write that came
    /// to the end of the disk would be written over by the next. So it flies to an offset, and the
    /// position is set afterwards. What has no position, has none to go wrong.
    fn offset(&mut self, file: BorrowedFd<'_>, writes: bool) -> Option<u64> {
        if self.place != (Place::Cursor { alone: true }) {
            return if let Place::At(_) = self.place { self.place.offset().filter(|_| self.flies) } else { None };
        }
        // To append moves the position to an end that nobody knows.
        if writes && rustix::fs::fcntl_getfl(file).ok()?.contains(OFlags::APPEND) {
            return None;
        }
        match rustix::fs::tell(file) {
            Ok(position) => {
                self.from = Some(position);
                Some(position)
            }
            // A ring waits also for what says that it must not block.
            Err(Errno::SPIPE) if rustix::fs::fcntl_getfl(file).ok()?.contains(OFlags::NONBLOCK) => None,
            Err(Errno::SPIPE) => Some(CURSOR),
            Err(_) => None,
        }
    }

    /// It has landed, and has moved so much.
    fn landed(&self, file: BorrowedFd<'_>, landed: Landed) -> usize {
        let count = landed.count();
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

    fn request(&mut self) -> Option<FileRequest<'_>> {
        let at = self.course.offset(self.file, false)?;
        Some(FileRequest::read(self.file, self.to, at))
    }

    fn landed(&mut self, landed: Landed) -> usize {
        self.course.landed(self.file, landed)
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
        let most = self.to.len().min(MAX_SLICES);
        self.course.read_now(self.file, &mut self.to[..most])
    }

    fn request(&mut self) -> Option<FileRequest<'_>> {
        let at = self.course.offset(self.file, false)?;
        Some(FileRequest::read_vectored(self.file, self.to, at))
    }

    fn landed(&mut self, landed: Landed) -> usize {
        self.course.landed(self.file, landed)
    }

    fn perform(&mut self) -> rustix::io::Result<usize> {
        let most = self.to.len().min(MAX_SLICES);
        match self.course.place {
            Place::Cursor { .. } => self.course.at_position.with(|| rustix::io::readv(self.file, &mut self.to[..most])),
            Place::At(at) => rustix::io::preadv(self.file, &mut self.to[..most], at),
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

    fn request(&mut self) -> Option<FileRequest<'_>> {
        let at = self.course.offset(self.file, true)?;
        Some(FileRequest::write(self.file, self.from, at))
    }

    fn landed(&mut self, landed: Landed) -> usize {
        self.course.landed(self.file, landed)
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

    fn request(&mut self) -> Option<FileRequest<'_>> {
        let at = self.course.offset(self.file, true)?;
        Some(FileRequest::write_vectored(self.file, self.from, at))
    }

    fn landed(&mut self, landed: Landed) -> usize {
        self.course.landed(self.file, landed)
    }

    fn perform(&mut self) -> rustix::io::Result<usize> {
        let most = self.from.len().min(MAX_SLICES);
        match self.course.place {
            Place::Cursor { .. } => self.course.at_position.with(|| rustix::io::writev(self.file, &self.from[..most])),
            Place::At(at) => rustix::io::pwritev(self.file, &self.from[..most], at),
        }
    }
}

/// Opens a file: without waiting for the other end of a pipe, or for a lease, by flags that say so.
pub(super) struct Open<'a> {
    pub(super) path: &'a CStr,
    pub(super) flags: OFlags,
    pub(super) mode: Mode,
}

impl Call for Open<'_> {
    type Output = OwnedFd;
    const WAITS_FOR: &'static str = "a file to be opened";

    fn at_once(&mut self) -> Option<io::Result<OwnedFd>> {
        let creates = OFlags::CREATE | OFlags::TRUNC | OFlags::TMPFILE.difference(OFlags::DIRECTORY);
        if self.flags.intersects(creates) { None } else { look_up(CWD, self.path, self.flags) }
    }

    fn request(&mut self) -> Option<FileRequest<'_>> {
        Some(FileRequest::open(CWD, self.path, self.flags, self.mode))
    }

    fn landed(&mut self, landed: Landed) -> OwnedFd {
        landed.opened()
    }

    fn perform(&mut self) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(CWD, self.path, self.flags, self.mode)
    }
}

/// What std asks for.
pub(super) const ASKED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Asks for what is known of a file: of a path, or of a descriptor by an empty one.
pub(super) struct Stat<'a> {
    pub(super) within: BorrowedFd<'a>,
    pub(super) path: &'a CStr,
    pub(super) flags: AtFlags,
    trust: Option<&'a Trust>,
    room: StatRoom,
}

impl<'a> Stat<'a> {
    pub(super) fn new(within: BorrowedFd<'a>, path: &'a CStr, follow: bool) -> Self {
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        Self { within, path, flags, trust: None, room: StatRoom::new() }
    }

    /// Of a name in a directory.
    pub(super) fn of_entry(dir: BorrowedFd<'a>, name: &'a CStr, trust: Option<&'a Trust>) -> Self {
        Self { trust, ..Self::new(dir, name, false) }
    }

    pub(super) fn of(file: BorrowedFd<'a>) -> Self {
        Self { within: file, path: c"", flags: AtFlags::EMPTY_PATH, trust: None, room: StatRoom::new() }
    }
}

impl Call for Stat<'_> {
    type Output = Statx;
    const WAITS_FOR: &'static str = "a file's metadata";

    fn at_once(&mut self) -> Option<io::Result<Statx>> {
        if self.flags.contains(AtFlags::EMPTY_PATH) {
            return stat_now(self.within).map(Ok);
        }
        if self.trust.is_some_and(Trust::spend) {
            return Some(self.perform().map_err(Into::into));
        }
        let follow = if self.flags.is_empty() { OFlags::empty() } else { OFlags::NOFOLLOW };
        match look_up(self.within, self.path, OFlags::PATH | OFlags::CLOEXEC | follow)? {
            Ok(fd) => {
                let stat = stat_now(fd.as_fd())?;
                if let Some(trust) = self.trust {
                    trust.renew();
                }
                Some(Ok(stat))
            }
            Err(error) => Some(Err(error)),
        }
    }

    fn request(&mut self) -> Option<FileRequest<'_>> {
        Some(FileRequest::stat(self.within, self.path, self.flags, ASKED, &mut self.room))
    }

    fn landed(&mut self, _landed: Landed) -> Statx {
        self.room.get()
    }

    fn perform(&mut self) -> rustix::io::Result<Statx> {
        rustix::fs::statx(self.within, self.path, self.flags, ASKED)
    }
}

/// What changes names, and has no effect but that.
pub(super) enum Change<'a> {
    Rename(&'a CStr, &'a CStr),
    Unlink(&'a CStr),
    RemoveDir(&'a CStr),
    MakeDir(&'a CStr, u32),
    Link(&'a CStr, &'a CStr),
    Symlink(&'a CStr, &'a CStr),
}

impl Call for Change<'_> {
    type Output = ();
    const WAITS_FOR: &'static str = "a change of names";

    fn request(&mut self) -> Option<FileRequest<'_>> {
        Some(match self {
            Self::Rename(from, to) => FileRequest::rename(from, to),
            Self::Unlink(path) => FileRequest::unlink(path, AtFlags::empty()),
            Self::RemoveDir(path) => FileRequest::unlink(path, AtFlags::REMOVEDIR),
            Self::MakeDir(path, mode) => FileRequest::make_dir(path, *mode),
            Self::Link(from, to) => FileRequest::link(from, to),
            Self::Symlink(target, path) => FileRequest::symlink(target, path),
        })
    }

    fn landed(&mut self, _landed: Landed) {}

    fn perform(&mut self) -> rustix::io::Result<()> {
        match self {
            Self::Rename(from, to) => rustix::fs::renameat(CWD, *from, CWD, *to),
            Self::Unlink(path) => rustix::fs::unlinkat(CWD, *path, AtFlags::empty()),
            Self::RemoveDir(path) => rustix::fs::unlinkat(CWD, *path, AtFlags::REMOVEDIR),
            Self::MakeDir(path, mode) => rustix::fs::mkdirat(CWD, *path, Mode::from_raw_mode(*mode)),
            Self::Link(from, to) => rustix::fs::linkat(CWD, *from, CWD, *to, AtFlags::empty()),
            Self::Symlink(target, path) => rustix::fs::symlinkat(*target, CWD, *path),
        }
    }
}

/// Has a file written to its device; without what only its metadata say, if `data`.
pub(super) struct Sync<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) data: bool,
}

impl Call for Sync<'_> {
    type Output = ();
    const WAITS_FOR: &'static str = "a file to be on its device";

    fn request(&mut self) -> Option<FileRequest<'_>> {
        Some(FileRequest::sync(self.file, self.data))
    }

    fn landed(&mut self, _landed: Landed) {}

    fn perform(&mut self) -> rustix::io::Result<()> {
        if self.data { rustix::fs::fdatasync(self.file) } else { rustix::fs::fsync(self.file) }
    }
}

/// Cuts a file, or has it grow by zeros.
pub(super) struct Truncate<'a> {
    pub(super) file: BorrowedFd<'a>,
    pub(super) length: u64,
}

impl Call for Truncate<'_> {
    type Output = ();
    const WAITS_FOR: &'static str = "a change of a file's length";

    fn request(&mut self) -> Option<FileRequest<'_>> {
        Some(FileRequest::truncate(self.file, self.length)).filter(|_| self.length < OFFSETS)
    }

    fn landed(&mut self, _landed: Landed) {}

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
