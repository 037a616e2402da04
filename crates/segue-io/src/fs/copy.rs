//! Copies of files, on a thread for blocking calls, piece by piece.
//!
//! Used by `fs::copy`. The kernel copies by itself where it can; a file that has no length, such as
//! those in `/proc`, or lies elsewhere, is read and written.

use super::call::until_done;
use super::calls::c_path;
use rustix::fs::{FileType, Mode, OFlags, copy_file_range, fchmod, fstat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How much is copied between two looks for a cancellation.
const PIECE: usize = 8 << 20;

/// What is read and written at a time.
const BUFFER: usize = 128 << 10;

/// Copies the content and the permissions of a file; for a thread that may block.
#[track_caller]
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    segue_core::blocking(|| copy_here(&from, &to))?
}

fn copy_here(from: &CStr, to: &CStr) -> io::Result<u64> {
    // A pipe is refused below, and not waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let reader = until_done(|| rustix::fs::open(from, flags, Mode::empty()))?;
    let source = fstat(&reader)?;
    if FileType::from_raw_mode(source.st_mode) != FileType::RegularFile {
        let error = "the source path is neither a regular file nor a symlink to a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    let mode = Mode::from_raw_mode(source.st_mode);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let writer = until_done(|| rustix::fs::open(to, flags, mode))?;
    if FileType::from_raw_mode(fstat(&writer)?.st_mode) == FileType::RegularFile {
        fchmod(&writer, mode)?;
    }
    let mut copied = 0;
    loop {
        segue_core::check()?;
        match copy_file_range(&reader, None, &writer, None, PIECE) {
            // Nothing at all: it may be one of those that have no length.
            Ok(0) if copied == 0 => return by_hand(&reader, &writer),
            Ok(0) => return Ok(copied),
            Ok(count) => copied += count as u64,
            Err(Errno::INTR) => {}
            Err(error) if copied == 0 && is_refusal(error) => return by_hand(&reader, &writer),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the kernel does not copy between these two.
fn is_refusal(error: Errno) -> bool {
    let refusals =
        [Errno::NOSYS, Errno::XDEV, Errno::INVAL, Errno::PERM, Errno::OPNOTSUPP, Errno::BADF, Errno::OVERFLOW];
    refusals.contains(&error)
}

fn by_hand(reader: &OwnedFd, writer: &OwnedFd) -> io::Result<u64> {
    let mut buffer = vec![0; BUFFER];
    let mut copied = 0;
    loop {
        segue_core::check()?;
        let count = until_done(|| rustix::io::read(reader, &mut buffer[..]))?;
        if count == 0 {
            return Ok(copied);
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            match until_done(|| rustix::io::write(writer, rest))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => rest = &rest[written..],
            }
        }
        copied += count as u64;
    }
}
