//! [`Patience`]: how one call waits for a descriptor that is not ready.
//!
//! Used by the loops of this crate that make a call until the call does not block.
//!
//! # A ready that the call denies
//!
//! Each loop of this crate asks the call itself, and where the call would block waits by
//! [`Patience::wait`]. The kernel's word for readiness is a hint: a socket with a queue of errors,
//! a full queue of another datagram socket, a peek beyond the last byte, an exception that `select`
//! does not count are ready for ever, and the call would block for ever. A loop that believed the
//! hint would spin, and would reach no time limit. So a wait remembers a report of *ready*:
//!
//! ```text
//!           told ready                denied, and still ready
//!   fresh -------------> told -------------------------------------> pause, up to 16 ms
//!     ^                   |  \--denied, and not ready any more: wait as before
//!     +---- moved --------+
//! ```
//!
//! Each pause, and each wait, ends by the deadline and by a cancellation. Another fiber that was
//! faster leaves the descriptor unready, so that a lost race costs no pause.
//!
//! **Commit point**: the system call that moves something. **Cancellation**: in a wait or a pause,
//! so that nothing has moved since the last call. **The race to fear**: readiness comes between the
//! denial and the wait. The wait looks before a suspension.

use crate::call::{Outcome, count_wait};
use crate::descriptor::{self, Half};
use segue_core::{Cancelled, now};
use segue_io::foreign::Foreign;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// For how long a fiber sleeps that has no descriptor to wait with, at first and at most.
const SHORT: Duration = Duration::from_micros(500);
const LONG: Duration = Duration::from_millis(16);

/// Stands for the descriptor of a wait that has none.
const NONE: c_int = -1;

/// The state that the waits of one call have in common.
pub(crate) struct Patience {
    fd: c_int,
    /// From the first wait on. The calls go there, too.
    file: Option<Foreign>,
    /// From the first wait on; that of the socket's time-out, unless one was given.
    deadline: Option<Option<Instant>>,
    /// Whether the last wait ended because the descriptor was ready, and nothing was moved since:
    /// then the call has denied that.
    told: bool,
    pause: Duration,
}

impl Patience {
    pub(crate) fn new(fd: c_int) -> Self {
        Self { fd, file: None, deadline: None, told: false, pause: SHORT }
    }

    /// For a call with a time-out of its own; `None` is for ever.
    pub(crate) fn until(fd: c_int, deadline: Option<Instant>) -> Self {
        Self { deadline: Some(deadline), ..Self::new(fd) }
    }

    /// Without a descriptor to wait with.
    pub(crate) fn without(deadline: Option<Instant>) -> Self {
        Self::until(NONE, deadline)
    }

    /// For a descriptor of ours, that nobody else waits for.
    pub(crate) fn of(file: Foreign, deadline: Option<Instant>) -> Self {
        let fd = file.as_fd().as_raw_fd();
        Self { file: Some(file), ..Self::until(fd, deadline) }
    }

    pub(crate) fn fd(&self) -> c_int {
        self.file.as_ref().map_or(self.fd, |file| file.as_fd().as_raw_fd())
    }

    /// The descriptor to wait with: a duplicate.
    pub(crate) fn file(&mut self) -> io::Result<&Foreign> {
        match &mut self.file {
            Some(file) => Ok(file),
            None if self.fd == NONE => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            none => {
                let duplicate = descriptor::duplicate(self.fd).map_err(io::Error::from_raw_os_error)?;
                Ok(none.insert(Foreign::new(duplicate)))
            }
        }
    }

    /// When the socket's time-out is over, counted from the first wait.
    pub(crate) fn deadline(&mut self, half: Half) -> Option<Instant> {
        let fd = self.fd();
        *self.deadline.get_or_insert_with(|| now().checked_add(descriptor::timeout(fd, half)?))
    }

    /// The call has moved something, so that the descriptor was ready indeed.
    pub(crate) fn moved(&mut self) {
        (self.told, self.pause) = (false, SHORT);
    }

    /// Waits once, after the call has said that the descriptor is not ready. `EAGAIN` is for the
    /// time-out.
    ///
    /// A descriptor may be ready for the kernel and not for the call, for as long as one likes (the
    /// head of this file): then the wait is a pause.
    #[track_caller]
    pub(crate) fn wait(&mut self, half: Half) -> Outcome<()> {
        count_wait();
        let deadline = self.deadline(half);
        if self.told && (is_over(deadline) || descriptor::is_ready(self.fd(), half)) {
            return self.pause(deadline);
        }
        let waited = self.file().and_then(|file| match half {
            Half::Read => file.readable(deadline),
            Half::Write => file.writable(deadline),
        });
        match waited {
            Ok(()) => {
                self.told = true;
                Ok(())
            }
            Err(error) if Cancelled::caused(&error) => Err(libc::ECANCELED),
            Err(error) => match error.raw_os_error() {
                None if error.kind() == io::ErrorKind::TimedOut => Err(libc::EAGAIN),
                // The number was closed: the call is to say so.
                Some(libc::EBADF) if !self.told => {
                    self.told = true;
                    Ok(())
                }
                // There is no way to wait: no descriptor left, no memory, a driver that refuses.
                _ => self.pause(deadline),
            },
        }
    }

    /// Waits without a descriptor: lets others run for a while.
    #[track_caller]
    pub(crate) fn pause(&mut self, deadline: Option<Instant>) -> Outcome<()> {
        if is_over(deadline) {
            return Err(libc::EAGAIN);
        }
        let left = deadline.map(|at| at.saturating_duration_since(now()));
        let pause = left.map_or(self.pause, |left| left.min(self.pause));
        self.pause = (self.pause * 2).min(LONG);
        segue_core::sleep(pause).map_err(|_| libc::ECANCELED)
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|at| at <= now())
}
