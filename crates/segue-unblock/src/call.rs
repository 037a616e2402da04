//! One call of a marked fiber: how the call begins, how it fails, how it keeps `errno`, and how
//! another thread makes it.
//!
//! Used by every function that is defined here, where its fiber has the mark.

use crate::errno;
use rustix::io::Errno;
use segue_core::Cancelled;
use segue_core::drivers::not_unblocked;
use segue_io::foreign;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

static WAITS: AtomicU64 = AtomicU64::new(0);

/// How many waits have begun in this process.
pub(crate) fn waits() -> u64 {
    WAITS.load(Ordering::Relaxed)
}

/// A wait begins.
pub(crate) fn count_wait() {
    WAITS.fetch_add(1, Ordering::Relaxed);
}

/// The outcome of a call: a result, or a number for `errno`.
pub(crate) type Outcome<T = isize> = Result<T, c_int>;

/// The result of a system call, from the result of the C library.
pub(crate) fn outcome(result: isize) -> Outcome {
    if result == -1 { Err(errno::get()) } else { Ok(result) }
}

/// Carries out a call of a fiber with the mark. Calls inside of `call` are plain calls; and
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
/// owns its data, since the call may be left behind; with `takes`, not before two seconds.
#[track_caller]
pub(crate) fn elsewhere<T: Send + 'static>(
    waits_for: &'static str,
    takes: bool,
    mut call: impl FnMut() -> Outcome<T> + Send + 'static,
) -> Outcome<T> {
    count_wait();
    let call = move || call().map_err(Errno::from_raw_os_error);
    foreign::apart(waits_for, takes, call).map_err(|error| match error.raw_os_error() {
        Some(number) => number,
        None if Cancelled::caused(&error) => libc::ECANCELED,
        // There is no thread.
        None => libc::EAGAIN,
    })
}

/// The beginning of every call: fails if the caller was cancelled, and lets others run if the
/// caller has begun many calls without a wait.
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
