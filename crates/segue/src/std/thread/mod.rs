//! Fibers with the names and signatures of std's threads.

mod builder;
mod current;
mod handle;
mod scope;

pub use ::std::thread::{AccessError, LocalKey, Result, available_parallelism, panicking};
pub use ::std::thread_local;
pub use builder::Builder;
pub use current::{Thread, ThreadId, current, park, park_timeout};
pub use handle::JoinHandle;
pub use scope::{Scope, ScopedJoinHandle, scope};

use super::{time::Instant, unless_cancelled};
use std::time::Duration;

/// [`std::thread::spawn`] for a fiber.
///
/// # Panics
/// If a fiber can't be made.
///
/// # Examples
///
/// ```
/// use segue::std::thread;
///
/// assert_eq!(thread::spawn(|| 6 * 7).join().unwrap(), 42);
/// ```
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(f).expect("a builder without a name or a size does not fail")
}

/// [`std::thread::sleep`]: only the fiber sleeps.
///
/// # Cancellation
/// Unwinds; see [the module](crate::std).
#[track_caller]
pub fn sleep(duration: Duration) {
    unless_cancelled(segue_core::sleep(duration));
}

/// Sleeps until `deadline`.
///
/// # Cancellation
/// Unwinds; see [the module](crate::std).
#[track_caller]
pub fn sleep_until(deadline: Instant) {
    sleep(deadline.duration_since(Instant::now()));
}

/// [`std::thread::yield_now`]: lets other fibers run.
///
/// # Cancellation
/// Unwinds, or a loop that yields would never end; see [the module](crate::std).
#[track_caller]
pub fn yield_now() {
    unless_cancelled(segue_core::yield_now());
}
