//! Whether a call is to suspend its caller; and how it waits.
//!
//! Used by every function that is defined here. `lib.rs` has the idea.
#![allow(unsafe_code)] // To enter the scope is its caller's promise.

use crate::descriptor::{self, Half};
use crate::errno;
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
    pause: Duration,
}

impl Patience {
    pub(crate) fn new(fd: c_int) -> Self {
        Self { fd, file: None, deadline: None, pause: SHORT }
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
        Self { fd, file: Some(file), deadline: Some(deadline), pause: SHORT }
    }

    pub(crate) fn fd(&self) -> c_int {
        self.file.as_ref().map_or(self.fd, |file| file.as_fd().as_raw_fd())
    }

    /// What to wait with: a duplicate.
    pub(crate) fn file(&mut self) -> io::Result<&Foreign> {
        match &mut self.file {
            Some(file) => Ok(file),
            None if self.fd == NONE => Err(io::Error::from_raw_os_error(libc::EMFILE)),
            none => Ok(none.insert(Foreign::duplicate(descriptor::borrow(self.fd)?)?)),
        }
    }

    /// When the socket's time-out is over, counted from the first wait.
    pub(crate) fn deadline(&mut self, half: Half) -> Option<Instant> {
        let fd = self.fd();
        *self.deadline.get_or_insert_with(|| now().checked_add(descriptor::timeout(fd, half)?))
    }

    /// Waits once for what the call said that it is not ready for. `EAGAIN` is for the time-out.
    #[track_caller]
    pub(crate) fn wait(&mut self, half: Half) -> Outcome<()> {
        WAITS.fetch_add(1, Ordering::Relaxed);
        let deadline = self.deadline(half);
        let waited = self.file().and_then(|file| match half {
            Half::Read => file.readable(deadline),
            Half::Write => file.writable(deadline),
        });
        match waited {
            Ok(()) => Ok(()),
            Err(error) if Cancelled::caused(&error) => Err(libc::ECANCELED),
            Err(error) => match error.raw_os_error() {
                None if error.kind() == io::ErrorKind::TimedOut => Err(libc::EAGAIN),
                // The call is to say so.
                Some(libc::EBADF) => Ok(()),
                Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOSPC) => self.pause(deadline),
                // There is no way to wait: then the thread does.
                _ => {
                    descriptor::block(self.fd(), half);
                    Ok(())
                }
            },
        }
    }

    /// Without a descriptor to wait with: lets others run for a while.
    #[track_caller]
    fn pause(&mut self, deadline: Option<Instant>) -> Outcome<()> {
        let left = deadline.map(|at| at.saturating_duration_since(now()));
        if left == Some(Duration::ZERO) {
            return Err(libc::EAGAIN);
        }
        let pause = left.map_or(self.pause, |left| left.min(self.pause));
        self.pause = (self.pause * 2).min(LONG);
        segue_core::sleep(pause).map_err(|_| libc::ECANCELED)
    }

    /// Another kind of wait than for readiness begins.
    pub(crate) fn count() {
        WAITS.fetch_add(1, Ordering::Relaxed);
    }
}
