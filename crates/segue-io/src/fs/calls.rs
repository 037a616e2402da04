//! The calls: each is one request to a file system, with the memory that the call borrows.
//!
//! Made by `file`, `path` and `dir`, carried out by `run` of the system.

use super::place::Visitors;
use super::system::{self, Call, flies, is_named_on_disk, stat_now};
use rustix::fs::{AtFlags, CWD, Mode, RawMode};
use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

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
            Self::Rename(from, to) | Self::Link(from, to) => [from, to].iter().all(|it| is_named_on_disk(it)),
            Self::Unlink(path) | Self::RemoveDir(path) => is_named_on_disk(path),
            Self::MakeDir(path, _) | Self::Symlink(_, path) => is_named_on_disk(path),
        }
    }
}

impl Call for Change {
    type Output = ();
    const WAITS_FOR: &'static str = "a change of names";

    flies!(
        |change| Some(match change {
            Self::Rename(from, to) => Request::rename(from, to),
            Self::Unlink(path) => Request::unlink(path, AtFlags::empty()),
            Self::RemoveDir(path) => Request::unlink(path, AtFlags::REMOVEDIR),
            Self::MakeDir(path, mode) => Request::make_dir(path, *mode),
            Self::Link(from, to) => Request::link(from, to),
            Self::Symlink(target, path) => Request::symlink(target, path),
        }),
        |_change, _answer| ()
    );

    fn perform(&mut self) -> rustix::io::Result<()> {
        match self {
            Self::Rename(from, to) => rustix::fs::renameat(CWD, &**from, CWD, &**to),
            Self::Unlink(path) => rustix::fs::unlinkat(CWD, &**path, AtFlags::empty()),
            Self::RemoveDir(path) => rustix::fs::unlinkat(CWD, &**path, AtFlags::REMOVEDIR),
            Self::MakeDir(path, mode) => rustix::fs::mkdirat(CWD, &**path, mode_of(*mode)),
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

    flies!(|sync| Some(Request::sync(sync.file, sync.data)), |_sync, _answer| ());

    fn perform(&mut self) -> rustix::io::Result<()> {
        system::sync(self.file, self.data)
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

    flies!(
        |cut| (cut.length < crate::fs::linux::OFFSETS).then(|| Request::truncate(cut.file, cut.length)),
        |_cut, _answer| ()
    );

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

/// Permissions for the kernel, which may count them by fewer bits.
pub(super) fn mode_of(permissions: u32) -> Mode {
    Mode::from_raw_mode(permissions as RawMode)
}
