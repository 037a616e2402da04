//! Fibers with the names and signatures of std's threads.

mod builder;
mod current;
mod handle;
mod scope;

pub use builder::Builder;
#[expect(deprecated, reason = "std has the name, too")]
pub use current::park_timeout_ms;
pub use current::{Thread, ThreadId, current, park, park_timeout};
pub use handle::JoinHandle;
pub use scope::{Scope, ScopedJoinHandle, scope};
#[doc(no_inline)]
pub use std::thread::*;

use crate::cancelled::{unless_cancelled, wait};
use crate::time::Instant;
use std::time::Duration;

/// [`std::thread::spawn`] for a fiber.
///
/// # Panics
/// If a fiber can't be made.
///
/// # Examples
///
/// ```
/// use segue_std::thread;
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
/// Unwinds; see [the module](crate).
#[track_caller]
pub fn sleep(duration: Duration) {
    unless_cancelled(wait!(segue::sleep(duration)));
}

/// [`std::thread::sleep_ms`], as [`sleep`].
///
/// # Cancellation
/// Unwinds; see [the module](crate).
#[deprecated(note = "`sleep` takes a `Duration`")]
#[track_caller]
pub fn sleep_ms(ms: u32) {
    sleep(Duration::from_millis(ms.into()));
}

/// Sleeps until `deadline`.
///
/// # Cancellation
/// Unwinds; see [the module](crate).
#[track_caller]
pub fn sleep_until(deadline: Instant) {
    sleep(deadline.duration_since(Instant::now()));
}

/// [`std::thread::yield_now`]: lets other fibers run.
///
/// # Cancellation
/// Unwinds, or a loop that yields would never end; see [the module](crate).
#[track_caller]
pub fn yield_now() {
    unless_cancelled(wait!(segue::yield_now()));
}
