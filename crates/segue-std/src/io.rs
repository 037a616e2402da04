//! std's traits and buffers, which work with every stream; Segue's pipes and standard input.
//!
//! The standard output and errors are std's: a write blocks the worker for its length.

pub use segue::pipe::{PipeReader, PipeWriter, pipe};
#[doc(no_inline)]
pub use std::io::*;

use crate::sync::{Mutex, MutexGuard};
use segue::stdio;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::PoisonError;

/// The one buffer of the process, in front of the descriptor that the first reader opens.
static SHARED: Mutex<Option<BufReader<stdio::Stdin>>> = Mutex::new(None);

/// [`std::io::stdin`]: the standard input, with one buffer for all handles.
///
/// # Examples
///
/// ```no_run
/// use segue_std::io;
///
/// for line in io::stdin().lines() {
///     println!("{}", line?);
/// }
/// # Ok::<(), io::Error>(())
/// ```
#[must_use]
pub fn stdin() -> Stdin {
    Stdin(())
}

/// [`std::io::Stdin`]: only the fiber waits for input.
///
/// # Cancellation
/// A wait for another reader unwinds; see [the module](crate). A read fails with an error that
/// [`Cancelled::caused`](segue::Cancelled::caused) knows: *no effect*.
pub struct Stdin(());

/// [`std::io::StdinLock`]: the only reader, until it is dropped.
pub struct StdinLock<'a>(MutexGuard<'a, Option<BufReader<stdio::Stdin>>>);

impl Stdin {
    /// Waits until no other handle is locked.
    #[must_use]
    #[track_caller]
    pub fn lock(&self) -> StdinLock<'static> {
        // A panic leaves the buffer in order.
        StdinLock(SHARED.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Appends a line, with its end.
    ///
    /// # Errors
    /// Those of [`BufRead::read_line`].
    #[track_caller]
    pub fn read_line(&self, line: &mut String) -> Result<usize> {
        self.lock().read_line(line)
    }

    /// The lines, without their ends, with the handle locked.
    #[must_use]
    #[track_caller]
    pub fn lines(self) -> Lines<StdinLock<'static>> {
        self.lock().lines()
    }

    /// [`IsTerminal::is_terminal`], whose trait is for std's handles alone.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        std::io::stdin().is_terminal()
    }
}

impl StdinLock<'_> {
    /// With the buffer, which the first reader makes.
    fn reader(&mut self) -> Result<&mut BufReader<stdio::Stdin>> {
        Ok(match &mut *self.0 {
            Some(reader) => reader,
            none => none.insert(BufReader::new(stdio::stdin()?)),
        })
    }
}

impl Read for StdinLock<'_> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.reader()?.read(buf)
    }
}

impl BufRead for StdinLock<'_> {
    #[track_caller]
    fn fill_buf(&mut self) -> Result<&[u8]> {
        self.reader()?.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        if let Some(reader) = &mut *self.0 {
            reader.consume(count);
        }
    }
}

impl Read for &Stdin {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.lock().read(buf)
    }
}

impl Read for Stdin {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.lock().read(buf)
    }
}

macro_rules! descriptor_0 {
    ($($name:ty),*) => {$(
        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                static STDIN: std::sync::LazyLock<std::io::Stdin> = std::sync::LazyLock::new(std::io::stdin);
                STDIN.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

descriptor_0!(Stdin, StdinLock<'_>);
