//! Copies of files, piece by piece: on a thread for blocking calls, if both lie on a disk.
//!
//! Used by `fs::copy`. The kernel copies by itself where it can; a file that has no length, such as
//! those in `/proc`, or lies elsewhere, is read and written. If another party is asked, each piece
//! is a call that can be left; and if the target is a pipe or a terminal, it is written as that is.

use super::calls::c_path;
use super::elsewhere;
use super::kind::Kind;
use super::system::opening::open;
use super::system::{copy_piece, mode};
use crate::apart;
use crate::system::sys::{says, until_done};
use rustix::fs::{FileType, Mode, OFlags, fchmod};
use rustix::io::Errno;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

/// How much is copied between two looks for a cancellation.
const PIECE: usize = 8 << 20;

/// What is read and written at a time.
const BUFFER: usize = 128 << 10;

/// Copies the content and the permissions of a file.
#[track_caller]
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    // A pipe is refused below, and not waited for.
    let reader = open(&from, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let source = elsewhere::stat(reader.handle())?;
    if FileType::from_raw_mode(mode(&source)) != FileType::RegularFile {
        let error = "the source path is neither a regular file nor a symlink to a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
    }
    rustix::io::ioctl_fionbio(reader.borrowed(), false)?;
    let mode = Mode::from_raw_mode(mode(&source));
    let writer = open(&to, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC, mode)?;
    if apart::in_place() || [&reader, &writer].iter().all(|file| file.kind() == Kind::Disk) {
        let (reader, writer) = (reader.borrowed(), writer.borrowed());
        return segue_core::blocking(|| {
            if FileType::from_raw_mode(rustix::fs::fstat(writer)?.st_mode) == FileType::RegularFile {
                fchmod(writer, mode)?;
            }
            pieces(|| until_done(|| copy_piece(reader, writer, PIECE)), || by_hand(reader, writer))
        })?;
    }
    if writer.kind() == Kind::Stream {
        return by_turns(reader, writer);
    }
    elsewhere::ask("a change of a file's permissions", writer.handle(), move |file| fchmod(file, mode))?;
    let piece = || {
        let reader = Arc::clone(reader.handle());
        let copy = move |writer: BorrowedFd<'_>| copy_piece(reader.as_fd(), writer, PIECE);
        elsewhere::ask("a copy of a file", writer.handle(), copy)
    };
    let mut rest = Some((&reader, &writer));
    pieces(piece, || {
        let (reader, writer) = rest.take().expect("it begins once");
        by_turns(reader, writer)
    })
}

/// Copies by the kernel, if that does; or else in another way.
fn pieces(
    mut piece: impl FnMut() -> io::Result<usize>,
    otherwise: impl FnOnce() -> io::Result<u64>,
) -> io::Result<u64> {
    let mut copied = 0;
    loop {
        segue_core::check()?;
        match piece() {
            // Nothing at all: it may be one of those that have no length.
            Ok(0) if copied == 0 => return otherwise(),
            Ok(0) => return Ok(copied),
            Ok(count) => copied += count as u64,
            Err(error) if copied == 0 && is_refusal(&error) => return otherwise(),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the kernel does not copy between these two.
fn is_refusal(error: &io::Error) -> bool {
    says(error, &[Errno::NOSYS, Errno::XDEV, Errno::INVAL, Errno::PERM, Errno::OPNOTSUPP, Errno::BADF, Errno::OVERFLOW])
}

/// Reads and writes, for a thread that may block.
fn by_hand(reader: BorrowedFd<'_>, writer: BorrowedFd<'_>) -> io::Result<u64> {
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

/// Reads and writes, each in the way of its file.
#[track_caller]
fn by_turns(reader: impl Read, mut writer: impl Write) -> io::Result<u64> {
    io::copy(&mut BufReader::with_capacity(BUFFER, reader), &mut writer)
}
