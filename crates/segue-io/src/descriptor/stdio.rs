//! Standard input, output and errors: their waits suspend only a fiber, and can be cancelled.
//!
//! Used in place of std's by programs that read from a terminal or a pipe while others work.
//!
//! # The idea
//!
//! Descriptors 0 to 2 came from the program that has started this one, often a shell, which has the
//! same open file descriptions. A flag that is changed there is changed for all, and outlives the
//! program. So none is changed:
//!
//! | kind | ways to read and write |
//! | --- | --- |
//! | a pipe, a terminal | on Linux through a description of its own, which does not block: `/proc/self/fd/N` is opened |
//! | the same, where that can't be opened; a device | by calls that say themselves that they must not block. Where there are none, the fiber waits until the descriptor is ready, and the call is made by a thread that can be interrupted |
//! | a socket | by calls that say themselves that they must not block |
//! | a file | by calls on a thread that can be left |
//!
//! The kind is found out when the handle is made.

use super::bytes::{Descriptor, is_descriptor, reads, writes};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The standard input.
///
/// There is no buffer: bytes that one handle has not read are there for the others, and for std's.
/// Wrap one in a [`BufReader`](std::io::BufReader) to read lines.
///
/// A terminal stops a program in its background with `SIGTTIN`, as any reader there;
/// in the foreground the read goes on. Where the program ignores that signal, the read fails with
/// `EIO`.
///
/// # Cancellation
///
/// A read of a cancelled caller fails with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. A file's read that has
/// begun is interrupted; if a disk or a server takes no notice of that for two seconds, the read is
/// left, and *may already have happened*.
///
/// A loop that goes on after a time limit reads lines by
/// [`read_until`](std::io::BufRead::read_until), which leaves the part of a line that has come.
/// [`lines`](std::io::BufRead::lines) drops that part.
pub struct Stdin(Descriptor);

/// The standard output.
///
/// There is no buffer, and no lock: writes of different fibers may come between the parts of a
/// large one. Wrap the handle in a [`LineWriter`](std::io::LineWriter) or a
/// [`BufWriter`](std::io::BufWriter).
///
/// # Cancellation
///
/// A write of a cancelled caller fails with an error that
/// [`Cancelled::caused`](segue_core::Cancelled::caused) knows: *no effect*. If some bytes or all
/// were taken, the write returns how many.
pub struct Stdout(Descriptor);

/// The standard errors. All as for [`Stdout`].
///
/// # Cancellation
///
/// As for [`Stdout`].
pub struct Stderr(Descriptor);

/// The present standard input. Never waits.
///
/// # Errors
/// If descriptor 0 was closed, or there is no descriptor left. A program that is *started* without
/// one reads from `/dev/null`, which Rust opens then, and where the end is at once.
///
/// # Examples
///
/// ```no_run
/// use std::io::{BufRead, BufReader};
/// use std::time::Duration;
///
/// let mut input = BufReader::new(segue_io::stdio::stdin()?);
/// // A half of a line that has come in time stays in `line`, for the next call.
/// let mut line = Vec::new();
/// let read = segue_core::timeout(Duration::from_secs(10), || input.read_until(b'\n', &mut line));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stdin() -> io::Result<Stdin> {
    Descriptor::of(io::stdin().as_fd()).map(Stdin)
}

/// The present standard output. Never waits.
///
/// # Errors
/// As for [`stdin`].
///
/// # Examples
///
/// ```
/// use std::io::Write;
///
/// writeln!(segue_io::stdio::stdout()?, "only this fiber waits for room")?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn stdout() -> io::Result<Stdout> {
    Descriptor::of(io::stdout().as_fd()).map(Stdout)
}

/// The present standard errors. Never waits.
///
/// # Errors
/// As for [`stdin`].
pub fn stderr() -> io::Result<Stderr> {
    Descriptor::of(io::stderr().as_fd()).map(Stderr)
}

reads!(Stdin);
writes!(Stdout, Stderr);
is_descriptor!(Stdin, Stdout, Stderr);

#[cfg(test)]
#[path = "../../tests/units/stdio.rs"]
mod tests;
