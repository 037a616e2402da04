//! Waits until all of a changing number of things are done.
//!
//! Used where work is handed out bit by bit, and a scope does not fit. `counter.rs` says how it
//! works.

use segue_core::{Cancelled, Source, Waitable, WaitsFor, preemption_point};

use super::counter::Counter;

/// Counts what is under way; its waiters go on when nothing is. The semantics are those of Go's
/// `sync.WaitGroup`.
///
/// It is used again: each time the count comes to zero, the waiters of that moment are released,
/// also if it goes up again before they have run. (Go forbids that.) Something is to be
/// [added](WaitGroup::add) before it is started, and not by what was started: otherwise a wait may
/// find nothing to wait for yet.
///
/// # Examples
///
/// ```
/// use segue::sync::WaitGroup;
///
/// static GROUP: WaitGroup = WaitGroup::new();
///
/// for n in 0..3 {
///     GROUP.add(1);
///     segue::spawn(move || {
///         // ..
///         GROUP.done();
///     });
/// }
/// GROUP.wait()?;
/// # Ok::<(), segue::Cancelled>(())
/// ```
#[derive(Debug, Default)]
pub struct WaitGroup {
    count: Counter,
}

impl WaitGroup {
    /// A group of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { count: Counter::new(0) }
    }

    /// Counts `n` more as under way. Never waits.
    ///
    /// # Panics
    /// If the count overflows. It is as it was then.
    #[inline]
    #[track_caller]
    pub fn add(&self, n: usize) {
        preemption_point();
        assert!(self.count.add(n), "a wait group counts up to usize::MAX");
    }

    /// Counts one as done, and releases all waiters if nothing is left. Never waits.
    ///
    /// What the caller has done before is seen by every waiter that finds nothing left.
    ///
    /// # Panics
    /// If nothing is under way.
    ///
    /// # Examples
    ///
    /// ```
    /// let group = segue::sync::WaitGroup::new();
    /// group.add(2);
    /// group.done();
    /// assert_eq!((group.count(), group.try_wait()), (1, false));
    /// ```
    #[inline]
    #[track_caller]
    pub fn done(&self) {
        preemption_point();
        assert!(self.count.count_down(1), "a wait group was counted down below zero: `done` without `add`");
    }

    /// As [`add(1)`](WaitGroup::add), with [`done`](WaitGroup::done) when what this returns is
    /// dropped: also if there is a panic, or the fiber that it was moved into never starts.
    ///
    /// # Panics
    /// As for [`add`](WaitGroup::add).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::WaitGroup;
    ///
    /// let group = WaitGroup::new();
    /// segue::scope(|s| {
    ///     let hold = group.hold();
    ///     s.spawn(move || drop(hold));
    ///     group.wait()
    /// })?;
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn hold(&self) -> Hold<'_> {
        self.add(1);
        Hold(self)
    }

    /// How many are under way. Never waits.
    #[must_use]
    pub fn count(&self) -> usize {
        preemption_point();
        self.count.get()
    }

    /// Whether nothing is under way. Never waits.
    #[must_use]
    #[inline]
    pub fn try_wait(&self) -> bool {
        preemption_point();
        self.count.get() == 0
    }

    /// Suspends the calling fiber, or parks the calling thread, until nothing is under way. Any
    /// number may wait.
    ///
    /// # Cancellation
    /// *No effect*: it can be waited for again.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> Result<(), Cancelled> {
        self.wait_source().wait()
    }

    /// [`wait`](WaitGroup::wait) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// segue::sync::WaitGroup::new().wait_source().await;
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = ()>> {
        Waitable::new(self.count.waiting(WaitsFor::new("a wait group")))
    }
}

/// One that is under way in a [`WaitGroup`], until this is dropped.
#[derive(Debug)]
#[must_use = "it is done as soon as this is dropped"]
pub struct Hold<'a>(&'a WaitGroup);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        preemption_point();
        // Others may have called `done` too often, which has panicked or will: no second panic for
        // it here.
        let _ = self.0.count.count_down(1);
    }
}
