//! std's barrier.

use crate::cancelled::{unless_cancelled, wait};
use segue::sync::{self, BarrierWaitResult};

/// [`std::sync::Barrier`]: so many come together before any goes on.
///
/// # Cancellation
/// A wait unwinds, and no longer counts; see [the module](crate).
///
/// # Examples
///
/// ```
/// use segue_std::{sync::Barrier, thread};
///
/// let barrier = Barrier::new(3);
/// let leaders = thread::scope(|s| {
///     let all = [0; 3].map(|_| s.spawn(|| barrier.wait().is_leader()));
///     all.map(|one| one.join().unwrap()).into_iter().filter(|leads| *leads).count()
/// });
/// assert_eq!(leaders, 1);
/// ```
#[derive(Debug)]
pub struct Barrier(sync::Barrier);

impl Barrier {
    /// One for so many.
    #[must_use]
    pub const fn new(n: usize) -> Self {
        Self(sync::Barrier::new(n))
    }

    /// Waits until all have come; then one of them leads.
    #[track_caller]
    pub fn wait(&self) -> BarrierWaitResult {
        unless_cancelled(wait!(self.0.wait()))
    }
}
