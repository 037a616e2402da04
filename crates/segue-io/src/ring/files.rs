//! What the ops of files ask of a ring: a submission each, and its flight.
//!
//! Made by `fs::calls`, flown by `fs::call::run`. The rules are those of `Ring::carry_out`; there
//! are no time limits, and the kernel may not be able to end an op that has begun: then its
//! completion is waited for, and what it has brought is returned.
#![allow(unsafe_code)] // Descriptors and addresses come back out of the kernel as numbers.

use super::flight::Flight;
use super::flying::{Ring, no_unwind};
use crate::system::sys::taken_at_once;
use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};
use rustix::fs::{AtFlags, Statx, StatxFlags};
use segue_core::WaitsFor;
use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(crate) use io_uring::types::OpenHow;

/// The offset that stands for the description's own position.
pub(crate) const CURSOR: u64 = u64::MAX;

/// A kernel-internal "begin again", which an op on a kernel's thread may end with when it is
/// interrupted.
const RESTARTS: std::ops::RangeInclusive<i32> = 512..=516;

/// A submission with what it borrows. The kernel may use all of that from the push to the
/// completion: so it stays where it is for as long.
pub(crate) struct FileRequest<'a> {
    entry: Entry,
    code: u8,
    opens: bool,
    borrowed: PhantomData<&'a mut [u8]>,
}

/// What a completion that succeeded brings.
pub(crate) enum Landed {
    /// So many bytes, or nothing.
    Count(usize),
    Opened(OwnedFd),
}

/// What has become of a request.
pub(crate) enum Flown {
    Landed(Landed),
    /// It has had no effect, and a system call has the last word.
    Refused,
    Failed(io::Error),
}

impl Landed {
    /// How many bytes were moved; for what moves some.
    pub(crate) fn count(self) -> usize {
        let Landed::Count(count) = self else { unreachable!("nothing was to be opened") };
        count
    }

    /// For what opens something.
    pub(crate) fn opened(self) -> OwnedFd {
        let Landed::Opened(fd) = self else { unreachable!("something was to be opened") };
        fd
    }
}

/// Where the kernel writes what it knows of a file.
pub(crate) struct StatRoom(MaybeUninit<Statx>);

// The kernel writes so much.
const _: () = assert!(size_of::<Statx>() == 256);

impl StatRoom {
    pub(crate) fn new() -> Self {
        Self(MaybeUninit::zeroed())
    }

    pub(crate) fn get(&self) -> Statx {
        // SAFETY: it was zeroed, and the kernel writes what it writes for a `statx`; all fields are
        // numbers.
        unsafe { self.0.assume_init() }
    }
}

/// Transfers of more than this are for a thread of the kernel's: what is in memory would be copied
/// by the worker, as it submits them.
const LARGE: usize = 1024 * 1024;

/// The submission of a transfer of so many bytes.
fn transfer(entry: Entry, bytes: usize) -> Entry {
    if bytes > LARGE { entry.flags(Flags::ASYNC) } else { entry }
}

/// The kernel moves at most 2 GiB at a time.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn fd(fd: BorrowedFd<'_>) -> types::Fd {
    types::Fd(fd.as_raw_fd())
}

impl<'a> FileRequest<'a> {
    fn new(code: u8, entry: Entry) -> Self {
        Self { entry, code, opens: false, borrowed: PhantomData }
    }

    /// Moves bytes out of a file, from an offset on.
    pub(crate) fn read(file: BorrowedFd<'a>, to: &'a mut [u8], at: u64) -> Self {
        let read = opcode::Read::new(fd(file), to.as_mut_ptr(), length(to.len())).offset(at);
        Self::new(opcode::Read::CODE, transfer(read.build(), to.len()))
    }

    /// Moves bytes into a file, from an offset on.
    pub(crate) fn write(file: BorrowedFd<'a>, from: &'a [u8], at: u64) -> Self {
        let write = opcode::Write::new(fd(file), from.as_ptr(), length(from.len())).offset(at);
        Self::new(opcode::Write::CODE, transfer(write.build(), from.len()))
    }

    /// Moves bytes out of a file into several buffers.
    pub(crate) fn read_vectored(file: BorrowedFd<'a>, to: &'a mut [IoSliceMut<'_>], at: u64) -> Self {
        let range = taken_at_once(to);
        let taken = &mut to[range];
        let bytes = taken.iter().fold(0, |bytes: usize, one| bytes.saturating_add(one.len()));
        let read = opcode::Readv::new(fd(file), taken.as_mut_ptr().cast(), taken.len() as u32).offset(at);
        Self::new(opcode::Readv::CODE, transfer(read.build(), bytes))
    }

    /// Moves bytes into a file from several buffers.
    pub(crate) fn write_vectored(file: BorrowedFd<'a>, from: &'a [IoSlice<'_>], at: u64) -> Self {
        let taken = &from[taken_at_once(from)];
        let bytes = taken.iter().fold(0, |bytes: usize, one| bytes.saturating_add(one.len()));
        let write = opcode::Writev::new(fd(file), taken.as_ptr().cast(), taken.len() as u32).offset(at);
        Self::new(opcode::Writev::CODE, transfer(write.build(), bytes))
    }

    /// Has a file written to its device; without what only its metadata say, if `data`.
    pub(crate) fn sync(file: BorrowedFd<'a>, data: bool) -> Self {
        let flags = if data { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
        Self::new(opcode::Fsync::CODE, opcode::Fsync::new(fd(file)).flags(flags).build())
    }

    pub(crate) fn truncate(file: BorrowedFd<'a>, length: u64) -> Self {
        Self::new(opcode::Ftruncate::CODE, opcode::Ftruncate::new(fd(file), length).build())
    }

    pub(crate) fn open(within: BorrowedFd<'a>, path: &'a CStr, how: &'a OpenHow) -> Self {
        let open = opcode::OpenAt2::new(fd(within), path.as_ptr(), how);
        Self { opens: true, ..Self::new(opcode::OpenAt2::CODE, open.build()) }
    }

    pub(crate) fn stat(
        within: BorrowedFd<'a>,
        path: &'a CStr,
        flags: AtFlags,
        mask: StatxFlags,
        room: &'a mut StatRoom,
    ) -> Self {
        let stat = opcode::Statx::new(fd(within), path.as_ptr(), room.0.as_mut_ptr().cast());
        let stat = stat.flags(flags.bits().cast_signed()).mask(mask.bits());
        Self::new(opcode::Statx::CODE, stat.build())
    }

    pub(crate) fn rename(from: &'a CStr, to: &'a CStr) -> Self {
        let here = fd(rustix::fs::CWD);
        let rename = opcode::RenameAt::new(here, from.as_ptr(), here, to.as_ptr());
        Self::new(opcode::RenameAt::CODE, rename.build())
    }

    pub(crate) fn unlink(path: &'a CStr, flags: AtFlags) -> Self {
        let unlink = opcode::UnlinkAt::new(fd(rustix::fs::CWD), path.as_ptr()).flags(flags.bits().cast_signed());
        Self::new(opcode::UnlinkAt::CODE, unlink.build())
    }

    pub(crate) fn make_dir(path: &'a CStr, mode: u32) -> Self {
        let make = opcode::MkDirAt::new(fd(rustix::fs::CWD), path.as_ptr()).mode(mode);
        Self::new(opcode::MkDirAt::CODE, make.build())
    }

    pub(crate) fn link(from: &'a CStr, to: &'a CStr) -> Self {
        let here = fd(rustix::fs::CWD);
        let link = opcode::LinkAt::new(here, from.as_ptr(), here, to.as_ptr());
        Self::new(opcode::LinkAt::CODE, link.build())
    }

    pub(crate) fn symlink(target: &'a CStr, path: &'a CStr) -> Self {
        let link = opcode::SymlinkAt::new(fd(rustix::fs::CWD), target.as_ptr(), path.as_ptr());
        Self::new(opcode::SymlinkAt::CODE, link.build())
    }

    /// The number of its opcode.
    pub(crate) fn opcode(&self) -> u8 {
        self.code
    }

    /// Whether it is likely to be over as soon as the kernel has it.
    fn is_prompt(&self) -> bool {
        matches!(self.code, opcode::Read::CODE | opcode::Readv::CODE | opcode::OpenAt2::CODE)
    }

    /// What its completion with this result, which is no error, brings.
    ///
    /// # Safety
    /// The result is that of this request's own completion, and is asked about once.
    unsafe fn landed(self, result: i32) -> Landed {
        if !self.opens {
            return Landed::Count(result as usize);
        }
        // SAFETY: the result of an open is a descriptor that is ours from now on.
        Landed::Opened(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

impl Ring {
    /// Carries out a request of the calling fiber, which is suspended here.
    #[track_caller]
    pub(crate) fn fly(&self, request: FileRequest<'_>, waits_for: WaitsFor) -> Flown {
        let code = request.code;
        if !self.opcodes.get().has(code) || !self.birth.is_here() {
            return Flown::Refused;
        }
        let flight = Flight::new();
        let no_unwind = no_unwind();
        // SAFETY: request and flight lie in this frame, and what they borrow outlives it. The frame
        // does not end before the completion: either the first wait is over only then, or the
        // second is; and nothing unwinds.
        let user_data = unsafe { self.launch_entry(request.entry.clone(), request.is_prompt(), &flight) };
        let waited = flight.wait(waits_for);
        if waited.is_err() {
            self.cancel(user_data);
            flight.wait_shielded(WaitsFor::new("the end of an op that was cancelled"));
        }
        no_unwind.disarm();
        let result = flight.result();
        if result >= 0 {
            self.proven.set(self.proven.get().with(code));
            // SAFETY: it is the result of this request's completion.
            return Flown::Landed(unsafe { request.landed(result) });
        }
        let was_interrupted = matches!(-result, libc::ECANCELED | libc::EINTR) || RESTARTS.contains(&-result);
        match (-result, waited) {
            (_, Err(cancelled)) if was_interrupted => Flown::Failed(cancelled.into()),
            (libc::EAGAIN, Err(cancelled)) => Flown::Failed(cancelled.into()),
            (libc::EAGAIN, Ok(())) => Flown::Refused,
            (_, Ok(())) if was_interrupted => Flown::Refused,
            // Not on this kernel, or not for this process: what has succeeded once, the kernel has.
            (libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::EACCES | libc::EPERM, _)
                if !self.proven.get().has(code) =>
            {
                Flown::Refused
            }
            (error, _) => Flown::Failed(io::Error::from_raw_os_error(error)),
        }
    }

    /// The system call has done what this opcode has refused. If it has never done anything, it is
    /// not asked again.
    pub(crate) fn lacks(&self, code: u8) {
        if !self.proven.get().has(code) {
            self.opcodes.set(self.opcodes.get().without(code));
        }
    }
}
