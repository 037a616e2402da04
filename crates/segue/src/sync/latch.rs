//! A gate that opens for good once a number of things have happened.
//!
//! Used to wait for the start-up of several parts, or to let several start at once. `counter.rs`
//! says how it works.

use segue_core::{Cancelled, Source, Waitable, WaitsFor, preemption_point};

use super::counter::Counter;

/// Counts down to zero, once; its waiters go on when it is zero. The shape of C++'s `std::latch`.
///
/// # Examples
///
/// ```
/// use segue::sync::Latch;
///
/// let ready = Latch::new(2);
/// segue::scope(|s| {
///     s.spawn(|| ready.count_down(1));
///     s.spawn(|| ready.count_down(1));
///     ready.wait()
/// })?;
/// assert_eq!(ready.count(), 0);
/// # Ok::<(), segue::Cancelled>(())
/// ```
#[derive(Debug)]
pub struct Latch {
    count: Counter,
}

impl Latch {
    /// A latch that opens after `count`; at once for zero.
    #[must_use]
    pub const fn new(count: usize) -> Self {
        Self { count: Counter::new(count) }
    }

    /// Counts down by `n`, and releases all waiters if that makes zero. Never waits.
    ///
    /// What the caller has done before is seen by every waiter that finds the latch open.
    ///
    /// # Panics
    /// If less than `n` are left. The latch is as it was then.
    ///
    /// # Examples
    ///
    /// ```
    /// let latch = segue::sync::Latch::new(3);
    /// latch.count_down(2);
    /// assert_eq!(latch.count(), 1);
    /// ```
    #[inline]
    #[track_caller]
    pub fn count_down(&self, n: usize) {
        preemption_point();
        assert!(self.count.count_down(n), "a latch was counted down below zero, by {n}");
    }

    /// How many are left. Never waits.
    #[must_use]
    pub fn count(&self) -> usize {
        preemption_point();
        self.count.get()
    }

    /// Whether the latch is open. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// let latch = segue::sync::Latch::new(1);
    /// assert!(!latch.try_wait());
    /// latch.count_down(1);
    /// assert!(latch.try_wait());
    /// ```
    #[must_use]
    #[inline]
    pub fn try_wait(&self) -> bool {
        preemption_point();
        self.count.get() == 0
    }

    /// Suspends the calling fiber, or parks the calling thread, until the latch is open. Any number
    /// may wait.
    ///
    /// # Cancellation
    /// *No effect*: it can be waited for again.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let latch = segue::sync::Latch::new(1);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| latch.wait().unwrap());
    ///     latch.count_down(1);
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> Result<(), Cancelled> {
        self.wait_source().wait()
    }

    /// [`wait`](Latch::wait) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let latch = segue::sync::Latch::new(1);
    /// latch.count_down(1);
    /// latch.wait_source().await;
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = ()>> {
        Waitable::new(self.count.waiting(WaitsFor::new("a latch")))
    }
}
