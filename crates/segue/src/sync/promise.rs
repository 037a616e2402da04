//! A value that is filled in once and waited for by any number of fibers and threads.
//!
//! Used where one part of a program computes what another waits for, whatever schedulers the two belong to.
//!
//! # States
//!
//! ```text
//!   EMPTY --fill--> FULL(value)      the resolver, once: it is consumed
//!   EMPTY --drop of the resolver--> BROKEN
//! ```
//!
//! The outcome lies in a [`OnceLock`], so that a promise that is filled costs one load; the wait queue's lock covers the step from
//! "not there" to "in the queue". The resolver stores the outcome before it takes the lock, and a waiter looks under the lock
//! before it joins: so either the waiter sees the outcome, or the resolver sees the waiter. **Commit point** of a wait: the look that finds the
//! outcome. **Cancellation**: the waiter leaves the queue; others are not concerned, since filling is not handed to anyone in particular.
//!
//! After thesis section 2.4 (promises), with the pair of promise and resolver of Gears, by which filling twice is impossible by type.

use segue_core::{Cancelled, WaitQueue, WaitsFor};
use std::sync::{Arc, OnceLock};

struct Shared<T> {
    /// `None` inside: broken.
    outcome: OnceLock<Option<T>>,
    waiters: WaitQueue<()>,
}

/// Sets the outcome and wakes the waiters, who find the resolver's share gone.
fn settle<T>(shared: Arc<Shared<T>>, outcome: Option<T>) {
    let first = shared.outcome.set(outcome);
    debug_assert!(first.is_ok(), "there is one resolver, and it settles once");
    let waiters = shared.waiters.lock().notify_all();
    drop(shared);
    waiters.wake();
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The wait was cancelled.
    Cancelled(Cancelled),
    /// The resolver was dropped: the value will never come.
    Closed,
}

impl From<Cancelled> for WaitError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl std::fmt::Display for WaitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cancelled(cancelled) => cancelled.fmt(f),
            Self::Closed => f.write_str("the promise was never filled: its resolver was dropped"),
        }
    }
}

impl std::error::Error for WaitError {}

/// Makes a promise and the resolver that fills it.
///
/// # Examples
///
/// ```
/// let (resolver, promise) = segue::sync::promise();
/// std::thread::spawn(move || resolver.fill(42));
/// assert_eq!(promise.wait(), Ok(&42));
/// ```
#[must_use]
pub fn promise<T>() -> (Resolver<T>, Promise<T>) {
    let shared = Arc::new(Shared { outcome: OnceLock::new(), waiters: WaitQueue::new(()) });
    (Resolver(Some(Arc::clone(&shared))), Promise(shared))
}

/// The reading side of a promise. Share it by reference, or in an `Arc`.
#[must_use]
pub struct Promise<T>(Arc<Shared<T>>);

impl<T> Promise<T> {
    /// Suspends the calling fiber, or parks the calling thread, until the promise is filled.
    ///
    /// Any number may wait; all are woken, in the order in which they came.
    ///
    /// # Cancellation
    /// *No effect*: the promise can be waited for again.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the resolver was dropped unfilled; [`WaitError::Cancelled`] if the caller was cancelled.
    #[track_caller]
    pub fn wait(&self) -> Result<&T, WaitError> {
        segue_core::check()?;
        if let Some(outcome) = self.0.outcome.get() {
            return outcome.as_ref().ok_or(WaitError::Closed);
        }
        let waits_for = WaitsFor::new("a promise");
        self.0.waiters.wait(waits_for, |()| self.0.outcome.get().is_some(), |()| ())?;
        self.try_get().expect("the wait ends when there is an outcome")
    }

    /// The value, if the promise is filled. Never waits.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the resolver was dropped unfilled.
    pub fn try_get(&self) -> Option<Result<&T, WaitError>> {
        self.0.outcome.get().map(|outcome| outcome.as_ref().ok_or(WaitError::Closed))
    }

    /// As [`wait`](Promise::wait), and takes the value out.
    ///
    /// # Cancellation
    /// The promise is consumed: what the resolver fills in is dropped. Wait by reference first to keep it.
    ///
    /// # Errors
    /// As for [`wait`](Promise::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// let (resolver, promise) = segue::sync::promise();
    /// resolver.fill(String::from("yours"));
    /// assert_eq!(promise.take(), Ok(String::from("yours")));
    /// ```
    #[track_caller]
    pub fn take(self) -> Result<T, WaitError> {
        self.wait()?;
        let mut shared = self.0;
        // The resolver drops its share a few instructions after it has set the outcome, and before it wakes anybody.
        loop {
            match Arc::try_unwrap(shared) {
                Ok(shared) => return shared.outcome.into_inner().flatten().ok_or(WaitError::Closed),
                Err(still_shared) => shared = still_shared,
            }
            std::thread::yield_now();
        }
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.0.outcome.get() {
            None => "empty",
            Some(None) => "broken",
            Some(Some(_)) => "full",
        };
        f.debug_struct("Promise").field("state", &state).finish()
    }
}

/// The writing side of a promise. Dropping it unfilled breaks the promise, which the waiters are told.
#[must_use = "dropping the resolver breaks the promise"]
pub struct Resolver<T>(Option<Arc<Shared<T>>>);

impl<T> Resolver<T> {
    /// Fills the promise and wakes everybody who waits for it. Never waits.
    pub fn fill(mut self, value: T) {
        if let Some(shared) = self.0.take() {
            settle(shared, Some(value));
        }
    }
}

impl<T> Drop for Resolver<T> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            settle(shared, None);
        }
    }
}

impl<T> std::fmt::Debug for Resolver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}
