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
mod tests {
    use super::*;
    use crate::descriptor::ops::Manner;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;

    /// Where the description has to be shared, its flags stay as they are, and others go on.
    #[test]
    fn a_shared_description_is_waited_for_without_a_flag() {
        segue_sched::Runtime::new()
            .workers(1)
            .park(crate::driver::DriverPark::new)
            .run(|| {
                let (reader, writer) = io::pipe().unwrap();
                let shared = |fd: OwnedFd| Descriptor::new(fd, Manner::Shared);
                let from = Stdin(shared(reader.try_clone().unwrap().into()));
                let to = Stdout(shared(writer.try_clone().unwrap().into()));
                let text: Vec<u8> = (0..200_000_u32).map(|byte| byte as u8).collect();
                let read = segue_core::scope(|s| {
                    let reads = s.spawn(|| {
                        let mut read = vec![0; text.len()];
                        (&from).read_exact(&mut read).map(|()| read)
                    });
                    segue_core::yield_now().unwrap();
                    (&to).write_all(&text).unwrap();
                    reads.join().unwrap().unwrap()
                });
                assert!(read == text);
                for fd in [reader.as_fd(), writer.as_fd()] {
                    let flags = rustix::fs::fcntl_getfl(fd).unwrap();
                    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "the others' flag was changed");
                }
            })
            .unwrap();
    }

    /// A terminal with a flag that is not ours has no call that does not block: a try is made
    /// elsewhere, while other fibers go on, and is given up where the terminal wants more letters.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_try_of_a_shared_terminal_does_not_hold_up_the_worker() {
        use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};
        segue_sched::Runtime::new()
            .workers(1)
            .park(crate::driver::DriverPark::new)
            .run(|| {
                let mut keyboard = crate::pty::Pty::open().unwrap();
                let terminal = keyboard.terminal().unwrap();
                let mut settings = tcgetattr(&terminal).unwrap();
                settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
                settings.special_codes[SpecialCodeIndex::VMIN] = 4;
                settings.special_codes[SpecialCodeIndex::VTIME] = 20;
                tcsetattr(&terminal, OptionalActions::Now, &settings).unwrap();
                let from = Stdin(Descriptor::new(terminal, Manner::Shared));
                let empty = from.try_read(&mut [0; 9]).unwrap_err();
                assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
                keyboard.write_all(b"k").unwrap();
                let others = std::cell::Cell::new(0);
                segue_core::scope(|s| {
                    s.spawn_local(|| {
                        while others.get() < 10 {
                            others.set(others.get() + 1);
                            segue_core::yield_now().unwrap();
                        }
                    });
                    let mut letters = [0; 9];
                    assert_eq!(from.try_read(&mut letters).unwrap(), 1);
                    assert_eq!(letters[0], b'k');
                    assert!(others.get() > 1, "nobody else has run meanwhile");
                });
            })
            .unwrap();
    }
}
