//! How a file is opened.
//!
//! Used by `OpenOptions`, and by functions of `fs` that open a file themselves.
//!
//! # Where
//!
//! A file of a disk with its name in memory is opened on the worker. A file that is created, or not
//! in memory, is opened by the worker's ring, within its directory, if that is in memory, on a
//! disk. Everything else may be a server's, and is opened on a thread that can be left.
//!
//! # Pipes
//!
//! To open a pipe by its name waits for its other end. The kernel tells nobody of that but a thread
//! that blocks; so all is opened with `O_NONBLOCK`, which is taken away again, and an open that
//! would have to wait is tried again, after pauses: a pipe that is to be written and has no reader
//! (`ENXIO`), and a file that somebody has a lease of (`EAGAIN`). A pipe that is to be read opens
//! at once, and is a reader from then on, as one that blocks in its open is. The pipe is looked at
//! until a writer has come, by a call that would copy bytes, and takes none (`tee`). So
//! such an open needs no thread, and can be cancelled.

use super::call::{Call, run};
use super::calls::{BELOW, Open};
use super::in_memory::{SMALL, directory_of, kind, known, open_below_now, open_now, read_now};
use super::local::Home;
use crate::apart::{self, Patience};
use crate::descriptor::bytes::Descriptor;
use crate::descriptor::ops::Manner;
use crate::fs::calls::Plain;
use crate::fs::elsewhere::{stat, stat_at};
use crate::fs::file::File;
use crate::fs::kind::Kind;
use crate::fs::steps::{FLAGS, step_by_step};
use crate::system::pauses::Pauses;
use crate::system::sys::{poll_now, says};
use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, openat2};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use segue_core::WaitsFor;
use std::ffi::CStr;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long another party is waited for at most before the open is tried again.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

const OTHER_END: &str = "the other end of a pipe";

/// Opens something, wherever that has to wait.
#[track_caller]
pub(in crate::fs) fn open(path: &CStr, flags: OFlags, mode: Mode) -> io::Result<File> {
    // A fiber that must not be suspended can't wait for another party in place either.
    if apart::in_place() {
        return run(Plain(|| rustix::fs::open(path, flags, mode))).map(File::alone);
    }
    if flags.intersects(OFlags::NONBLOCK | OFlags::PATH) {
        return open_anywhere(path, flags, mode).map(File::alone);
    }
    let mut pauses = Pauses::up_to(LONGEST_PAUSE);
    loop {
        let other_party = match open_anywhere(path, flags | OFlags::NONBLOCK, mode) {
            Ok(fd) => {
                let file = File::alone(fd);
                let reads = !flags.intersects(OFlags::WRONLY | OFlags::RDWR);
                if file.kind() == Kind::Stream && reads && is_pipe(file.borrowed()) {
                    wait_for_writer(file.borrowed())?;
                }
                rustix::io::ioctl_fionbio(file.borrowed(), false)?;
                return Ok(file);
            }
            Err(error) if says(&error, &[Errno::AGAIN]) => "the end of a lease of a file",
            Err(error) if says(&error, &[Errno::NXIO]) && is_pipe_at(path)? => OTHER_END,
            Err(error) => return Err(error),
        };
        pauses.wait(None, WaitsFor::new(other_party))?;
    }
}

/// A file without a name, in a directory.
#[track_caller]
pub(in crate::fs) fn open_unnamed(directory: &CStr) -> io::Result<File> {
    open(directory, OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
}

/// Opens by a call that does not wait for another party, as far as anybody knows.
#[track_caller]
fn open_anywhere(path: &CStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    segue_core::admit()?;
    let creates = OFlags::CREATE | OFlags::TRUNC | OFlags::TMPFILE.difference(OFlags::DIRECTORY);
    if segue_core::in_fiber()
        && !flags.intersects(creates)
        && let Some(opened) = open_now(path, flags)
    {
        return opened;
    }
    if let Some((directory, name)) = directory_of(path) {
        match run(Open::new(directory.as_fd(), name, flags, mode)) {
            // Something is mounted there, or a link leads elsewhere; or this is the older call that
            // knows these flags.
            Err(error) if says(&error, &[Errno::XDEV, Errno::INVAL]) => {}
            opened => return opened,
        }
    }
    let path = path.to_owned();
    apart::run(Open::WAITS_FOR, Patience::Server, move || rustix::fs::open(&*path, flags, mode))
}

/// How often an open below is tried while others rename directories on the way.
const TRIES: usize = 16;

/// Opens a file below a directory, without waiting for the other end of a pipe.
#[track_caller]
pub(in crate::fs) fn open_below(directory: &File, path: &CStr) -> io::Result<File> {
    if apart::in_place() {
        return run(Plain(|| below(directory.borrowed(), path))).map(File::alone);
    }
    segue_core::admit()?;
    if directory.kind() == Kind::Disk {
        // One that leads to another mount is refused here as one that leads out, and goes on below.
        let is_refusal = |error| says(error, &[Errno::XDEV, Errno::INVAL, Errno::NOSYS, Errno::PERM, Errno::AGAIN]);
        let now = || open_below_now(directory.borrowed(), path, FLAGS);
        match if segue_core::in_fiber() { now() } else { None } {
            Some(Err(error)) if is_refusal(&error) => {}
            Some(opened) => return opened.map(File::alone),
            None => match run(Open::below(directory.borrowed(), path, FLAGS)) {
                Err(error) if is_refusal(&error) => {}
                opened => return opened.map(File::alone),
            },
        }
    }
    let (directory, path) = (Arc::clone(directory.handle()), path.to_owned());
    let open = move || below(directory.as_fd(), &path);
    apart::run(Open::WAITS_FOR, Patience::Server, open).map(File::alone)
}

/// Opens a file below a directory. For a thread that may block.
fn below(directory: BorrowedFd<'_>, path: &CStr) -> rustix::io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match openat2(directory, path, FLAGS, Mode::empty(), BELOW) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM) => return step_by_step(directory, path.to_bytes()),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

#[track_caller]
fn is_pipe_at(path: &CStr) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(stat_at(path, true)?.stx_mode.into()) == FileType::Fifo)
}

/// Waits until a writer of this pipe has come, also one that has gone again.
#[track_caller]
fn wait_for_writer(reader: BorrowedFd<'_>) -> io::Result<()> {
    let mut pauses = Pauses::up_to(LONGEST_PAUSE);
    let mut copy = None;
    loop {
        if has_had_writer(reader, &mut copy)? {
            return Ok(());
        }
        if let Err(cancelled) = pauses.wait(None, WaitsFor::new(OTHER_END)) {
            // A writer that came meanwhile counts on this reader.
            return if has_had_writer(reader, &mut copy)? { Ok(()) } else { Err(cancelled) };
        }
    }
}

/// Whether there is a writer, or was one since this end was opened. `copy` is a pipe for the look.
fn has_had_writer(reader: BorrowedFd<'_>, copy: &mut Option<(OwnedFd, OwnedFd)>) -> io::Result<bool> {
    if !poll_now(reader, PollFlags::IN)?.is_empty() {
        return Ok(true);
    }
    let (_, to) = match copy {
        Some(copy) => copy,
        none => none.insert(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?),
    };
    // Of an empty pipe the call says whether there is a writer to wait for.
    Ok(!matches!(rustix::pipe::tee(reader, to, 1, SpliceFlags::NONBLOCK), Ok(0) | Err(Errno::INTR)))
}

/// The content of a file. `None` if the long way is to open the file.
///
/// A reader to the end does not see when the pipe was opened: so nobody has to look for a writer.
#[track_caller]
pub(in crate::fs) fn read_whole(path: &CStr) -> io::Result<Option<Vec<u8>>> {
    let fd = match open_anywhere(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        opened => opened?,
    };
    let found = known(fd.as_fd());
    let mut file = File::alone_of(fd, found.map(|(stat, home)| kind(&stat, home)));
    let stat = match found {
        Some((stat, home)) if home != Home::Elsewhere => stat,
        _ => stat(file.handle())?,
    };
    if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Fifo {
        // It need not be open at its other end yet: the end comes when a writer has been there.
        let (pipe, mut content) = (Descriptor::new(file.into(), Manner::Fifo), Vec::new());
        (&pipe).read_to_end(&mut content)?;
        return Ok(Some(content));
    }
    read_all(&mut file, stat.stx_size).map(Some)
}

/// The content of a file that was just opened, without waiting, and has about this length.
///
/// Of a file in memory one call has all: the call asks for a byte more than there should be,
/// and does not get that byte.
#[track_caller]
fn read_all(file: &mut File, length: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (place, mut content) = (file.cursor(), Vec::new());
    if (1..SMALL).contains(&length) && file.kind() == Kind::Disk {
        content.try_reserve_exact(length + 1)?;
        content.resize(length + 1, 0);
        let read = read_now(file.borrowed(), &mut [IoSliceMut::new(&mut content)], place);
        content.truncate(read.and_then(Result::ok).unwrap_or(0));
        if content.len() == length {
            return Ok(content);
        }
    }
    rustix::io::ioctl_fionbio(file.borrowed(), false)?;
    file.read_more(length.saturating_sub(content.len()), place, &mut content)?;
    Ok(content)
}
