//! The requests of files, and the room in which the kernel describes a file.
//!
//! Made by `fs::calls`, flown by `run` of `fs::linux`. They have no time limits, and the kernel may
//! not be able to end one that has begun: then its completion is waited for, and its result is
//! returned.
#![allow(unsafe_code)] // The kernel fills the room for metadata.

use super::request::{Request, length, number};
use crate::system::sys::taken_at_once;
use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::BorrowedFd;

pub(crate) use io_uring::types::OpenHow;

/// The offset that stands for the description's own position.
pub(crate) const CURSOR: u64 = u64::MAX;

/// The room for the kernel's metadata of a file.
pub(crate) struct StatRoom(MaybeUninit<Statx>);

// The kernel writes so much.
const _: () = assert!(size_of::<Statx>() == 256);

impl StatRoom {
    pub(crate) fn new() -> Self {
        Self(MaybeUninit::zeroed())
    }

    pub(crate) fn get(&self) -> Statx {
        // SAFETY: the room was zeroed, and the kernel writes as for a `statx`; all fields are
        // numbers.
        unsafe { self.0.assume_init() }
    }
}

/// Transfers of more than this are for a thread of the kernel's: cached bytes would be copied by
/// the worker, in the submission.
const LARGE: usize = 1024 * 1024;

/// The submission of a transfer of so many bytes.
fn transfer(entry: Entry, bytes: usize) -> Entry {
    if bytes > LARGE { entry.flags(Flags::ASYNC) } else { entry }
}

/// How many bytes these buffers have.
fn sum<B: Deref<Target = [u8]>>(bufs: &[B]) -> usize {
    bufs.iter().fold(0, |bytes: usize, one| bytes.saturating_add(one.len()))
}

impl<'a> Request<'a> {
    /// Moves bytes out of a file, from an offset on.
    pub(crate) fn read(file: BorrowedFd<'a>, to: &'a mut [u8], at: u64) -> Self {
        let read = opcode::Read::new(number(file), to.as_mut_ptr(), length(to.len())).offset(at);
        // SAFETY: the submission points to `to` and no other memory, borrowed for `'a`.
        unsafe { Self::whole(opcode::Read::CODE, transfer(read.build(), to.len())) }
    }

    /// Moves bytes into a file, from an offset on.
    pub(crate) fn write(file: BorrowedFd<'a>, from: &'a [u8], at: u64) -> Self {
        let write = opcode::Write::new(number(file), from.as_ptr(), length(from.len())).offset(at);
        // SAFETY: the submission points to `from` and no other memory, borrowed for `'a`.
        unsafe { Self::whole(opcode::Write::CODE, transfer(write.build(), from.len())) }
    }

    /// Moves bytes out of a file into several buffers.
    pub(crate) fn read_vectored(file: BorrowedFd<'a>, to: &'a mut [IoSliceMut<'_>], at: u64) -> Self {
        let range = taken_at_once(to);
        let bytes = sum(&to[range.clone()]);
        let taken = &mut to[range];
        let read = opcode::Readv::new(number(file), taken.as_mut_ptr().cast(), taken.len() as u32).offset(at);
        // SAFETY: the submission points to the slices in `to`, and these to their buffers, all
        // borrowed for `'a`.
        unsafe { Self::whole(opcode::Readv::CODE, transfer(read.build(), bytes)) }
    }

    /// Moves bytes into a file from several buffers.
    pub(crate) fn write_vectored(file: BorrowedFd<'a>, from: &'a [IoSlice<'_>], at: u64) -> Self {
        let taken = &from[taken_at_once(from)];
        let write = opcode::Writev::new(number(file), taken.as_ptr().cast(), taken.len() as u32).offset(at);
        // SAFETY: the submission points to the slices in `from`, and these to their buffers, all
        // borrowed for `'a`.
        unsafe { Self::whole(opcode::Writev::CODE, transfer(write.build(), sum(taken))) }
    }

    /// Has a file written to its device; without mere metadata, if `data`.
    pub(crate) fn sync(file: BorrowedFd<'a>, data: bool) -> Self {
        let flags = if data { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
        // SAFETY: the submission points to no memory.
        unsafe { Self::whole(opcode::Fsync::CODE, opcode::Fsync::new(number(file)).flags(flags).build()) }
    }

    /// Cuts a file, or has the file grow by zeros.
    pub(crate) fn truncate(file: BorrowedFd<'a>, length: u64) -> Self {
        // SAFETY: the submission points to no memory.
        unsafe { Self::whole(opcode::Ftruncate::CODE, opcode::Ftruncate::new(number(file), length).build()) }
    }

    /// Opens a file, or creates one.
    pub(crate) fn open(within: BorrowedFd<'a>, path: &'a CStr, how: &'a OpenHow) -> Self {
        // SAFETY: the submission points to `path` and `how`, borrowed for `'a`.
        unsafe { Self::opens(opcode::OpenAt2::CODE, opcode::OpenAt2::new(number(within), path.as_ptr(), how).build()) }
    }

    /// Asks for the metadata behind a name.
    pub(crate) fn stat(
        within: BorrowedFd<'a>,
        path: &'a CStr,
        flags: AtFlags,
        mask: StatxFlags,
        room: &'a mut StatRoom,
    ) -> Self {
        let stat = opcode::Statx::new(number(within), path.as_ptr(), room.0.as_mut_ptr().cast());
        let stat = stat.flags(flags.bits().cast_signed()).mask(mask.bits());
        // SAFETY: the submission points to `path` and `room`, borrowed for `'a`.
        unsafe { Self::whole(opcode::Statx::CODE, stat.build()) }
    }

    pub(crate) fn rename(from: &'a CStr, to: &'a CStr) -> Self {
        let here = number(CWD);
        let rename = opcode::RenameAt::new(here, from.as_ptr(), here, to.as_ptr());
        // SAFETY: the submission points to `from` and `to`, borrowed for `'a`.
        unsafe { Self::whole(opcode::RenameAt::CODE, rename.build()) }
    }

    pub(crate) fn unlink(path: &'a CStr, flags: AtFlags) -> Self {
        let unlink = opcode::UnlinkAt::new(number(CWD), path.as_ptr()).flags(flags.bits().cast_signed());
        // SAFETY: the submission points to `path`, borrowed for `'a`.
        unsafe { Self::whole(opcode::UnlinkAt::CODE, unlink.build()) }
    }

    pub(crate) fn make_dir(path: &'a CStr, mode: u32) -> Self {
        // SAFETY: the submission points to `path`, borrowed for `'a`.
        unsafe {
            Self::whole(opcode::MkDirAt::CODE, opcode::MkDirAt::new(number(CWD), path.as_ptr()).mode(mode).build())
        }
    }

    pub(crate) fn link(from: &'a CStr, to: &'a CStr) -> Self {
        let here = number(CWD);
        // SAFETY: the submission points to `from` and `to`, borrowed for `'a`.
        unsafe {
            Self::whole(opcode::LinkAt::CODE, opcode::LinkAt::new(here, from.as_ptr(), here, to.as_ptr()).build())
        }
    }

    pub(crate) fn symlink(target: &'a CStr, path: &'a CStr) -> Self {
        let link = opcode::SymlinkAt::new(number(CWD), target.as_ptr(), path.as_ptr());
        // SAFETY: the submission points to `target` and `path`, borrowed for `'a`.
        unsafe { Self::whole(opcode::SymlinkAt::CODE, link.build()) }
    }
}
