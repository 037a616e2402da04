//! What a cancelled wait comes to, where std's signature has no error for that: the wait unwinds.
//! During an unwinding, where a second one would end the process, the thread waits instead.
//!
//! Used by all waits of this crate that return no error of their own.

use segue::Cancelled;
use std::panic::resume_unwind;
use std::thread;

/// Makes a wait, also in a `Drop` of a fiber that unwinds. Such a fiber can't be suspended.
///
/// A macro, since reports name the line of the caller of the function around.
macro_rules! wait {
    ($wait:expr) => {
        if std::thread::panicking() { $crate::cancelled::with_thread(|| $wait) } else { $wait }
    };
}

pub(crate) use wait;

/// Makes a wait with the whole thread, and without a cancellation. For [`wait!`].
#[cold]
pub(crate) fn with_thread<R>(wait: impl FnOnce() -> R) -> R {
    segue::shield(|| segue::blocking_here(wait))
}

/// The result of a [`wait!`]. One that was cancelled unwinds.
pub(crate) fn unless_cancelled<T>(result: Result<T, impl Into<Cancelled>>) -> T {
    result.unwrap_or_else(|cancelled| resume_unwind(Box::new(cancelled.into())))
}

/// The result of a [`wait!`] for a lock. One that was cancelled unwinds.
///
/// During an unwinding only the end of a budget of `shield_for` cancels. Then the thread tries.
pub(crate) fn locked<G>(lock: Result<G, Cancelled>, try_lock: impl Fn() -> Option<G>) -> G {
    match lock {
        Err(_) if thread::panicking() => loop {
            if let Some(guard) = try_lock() {
                return guard;
            }
            thread::yield_now();
        },
        result => unless_cancelled(result),
    }
}
