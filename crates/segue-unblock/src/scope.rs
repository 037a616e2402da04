//! Whether a call is to suspend its caller; and how it waits.
//!
//! Used by every function that is defined here. `lib.rs` has the idea.
//!
//! # A ready that the call denies
//!
//! Each loop of this crate asks the call itself, and where the call would block waits by
//! [`Patience::wait`]. The kernel's word for readiness is a hint: a socket with a queue of errors,
//! a full queue of another datagram socket, a peek beyond the last byte, an exception that `select`
//! does not count are ready for ever, and the call would block for ever. A loop that believed the
//! hint would spin, and would reach no time limit. So a wait remembers that it was told *ready*:
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
//! denial and the wait. The wait looks before it suspends.
#![allow(unsafe_code)] // To enter the scope is its caller's promise.

use crate::descriptor::{self, Half};
use crate::errno;
use rustix::io::Errno;
use segue_core::drivers::{is_unblocked, not_unblocked, unblocked};
use segue_core::{Cancelled, now};
use segue_io::foreign::{self, Foreign};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The process in which a scope was entered last. It orders nothing: a child of a fork has a number
/// of its own, and so finds another one here.
static HOME: AtomicU32 = AtomicU32::new(0);

static WAITS: AtomicU64 = AtomicU64::new(0);

/// For how long a fiber sleeps that has no descriptor to wait with, at first and at most.
const SHORT: Duration = Duration::from_micros(500);
const LONG: Duration = Duration::from_millis(16);

/// Stands for the descriptor of a wait that has none.
const NONE: c_int = -1;

/// Runs `f` with the mark on the calling fiber.
///
/// # Safety
/// As for [`crate::unblock`].
#[track_caller]
pub(crate) unsafe fn enter<R>(f: impl FnOnce() -> R) -> R {
    HOME.store(foreign::process(), Ordering::Relaxed);
    // SAFETY: the caller's.
    unsafe { unblocked(f) }
}

pub(crate) fn waits() -> u64 {
    WAITS.load(Ordering::Relaxed)
}

/// Whether the caller is a fiber inside of the scope, that may be suspended, in the process in
/// which it was begun. Nothing else of a call happens before this.
#[inline(always)]
pub(crate) fn is_active() -> bool {
    is_unblocked() && HOME.load(Ordering::Relaxed) == foreign::process()
}

/// What a call comes to: a result, or a number for `errno`.
pub(crate) type Outcome<T = isize> = Result<T, c_int>;

/// The result of a system call as it comes out of the C library.
pub(crate) fn outcome(result: isize) -> Outcome {
    if result == -1 { Err(errno::get()) } else { Ok(result) }
}

/// Carries out a call of a fiber in the scope. Calls that it makes itself are plain ones; and
/// `errno` is set when all else is over, since others may have run meanwhile.
#[track_caller]
pub(crate) fn carry_out(call: impl FnOnce() -> Outcome) -> isize {
    let before = errno::get();
    match not_unblocked(call) {
        Ok(result) => {
            errno::set(before);
            result
        }
        Err(error) => {
            errno::set(error);
            -1
        }
    }
}

/// Makes a call that can't be told not to wait on a thread that a cancellation interrupts. `call`
/// owns what it works with, since it may be left behind; with `takes`, not before two seconds.
#[track_caller]
pub(crate) fn elsewhere<T: Send + 'static>(
    waits_for: &'static str,
    takes: bool,
    mut call: impl FnMut() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    Patience::count();
    let call = move || call().map_err(Errno::from_raw_os_error);
    foreign::apart(waits_for, takes, call).map_err(|error| match error.raw_os_error() {
        Some(number) => number,
        None if Cancelled::caused(&error) => libc::ECANCELED,
        // There is no thread.
        None => libc::EAGAIN,
    })
}

/// What every call does first: fails if the caller was cancelled, and lets others run if it has
/// begun many without a wait.
pub(crate) fn admit() -> Outcome<()> {
    segue_core::admit().map_err(|_| {
        give_way();
        libc::ECANCELED
    })
}

/// Lets others run after a call that was cancelled. Many programs try again at once, for ever, as
/// loops over `TcpListener::incoming` do that skip errors: the worker is not theirs.
pub(crate) fn give_way() {
    let _ = segue_core::shield(segue_core::yield_now);
}

/// Makes a call that says that it would block, until it does not, and waits in between. For one
/// descriptor; `attempt` gets the number that it has at the moment.
#[track_caller]
pub(crate) fn until_done(fd: c_int, half: Half, mut attempt: impl FnMut(c_int) -> Outcome) -> Outcome {
    admit()?;
    let mut patience = Patience::new(fd);
    loop {
        match attempt(patience.fd()) {
            Err(libc::EAGAIN) => patience.wait(half)?,
            Err(libc::EINTR) => {}
            done => return done,
        }
    }
}

/// What the waits of one call have in common.
pub(crate) struct Patience {
    fd: c_int,
    /// From the first wait on. The calls go there, too.
    file: Option<Foreign>,
    /// From the first wait on; that of the socket's time-out, unless one was given.
    deadline: Option<Option<Instant>>,
    /// Whether the last wait ended because the descriptor was ready, and nothing was moved since:
    /// then the call has denied it.
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

    /// What to wait with: a duplicate.
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

    /// Waits once for what the call said that it is not ready for. `EAGAIN` is for the time-out.
    ///
    /// A descriptor may be ready for the kernel and not for the call, for as long as one likes (the
    /// head of this file): then the wait is a pause.
    #[track_caller]
    pub(crate) fn wait(&mut self, half: Half) -> Outcome<()> {
        WAITS.fetch_add(1, Ordering::Relaxed);
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

    /// Another kind of wait than for readiness begins.
    pub(crate) fn count() {
        WAITS.fetch_add(1, Ordering::Relaxed);
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|at| at <= now())
}
