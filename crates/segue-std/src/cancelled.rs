//! What a cancelled wait comes to, where std's signature has no error for that: the wait unwinds.
//!
//! Used by all waits of this crate that return no error of their own.

use segue::Cancelled;
use std::panic::resume_unwind;
use std::thread;

/// The result of a wait. One that was cancelled unwinds.
pub(crate) fn unless_cancelled<T>(result: Result<T, impl Into<Cancelled>>) -> T {
    result.unwrap_or_else(|cancelled| resume_unwind(Box::new(cancelled.into())))
}

/// The result of a wait for a lock. One that was cancelled unwinds.
///
/// A fiber that panics can't wait, and to unwind from a `Drop` would end the process. So there the
/// thread waits, by `try_lock`.
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
