//! A value that is filled in once and waited for by any number of fibers and threads.
//!
//! Used where one part of a program computes what another waits for, whatever schedulers the two belong to.
//!
//! # States
//!
//! ```text
//!   EMPTY --first wait by reference--> SHARED  many may wait now: the resolver will tell all
//!   EMPTY --fill--> FULL(value)      the resolver, once: it is consumed; or straight into the hands of a waiting `take`
//!   EMPTY --drop of the resolver--> BROKEN
//!   FULL --first wait by reference--> KEPT     the value moves to where references can be made to it
//!   FULL --take--> gone              with the promise, which it consumes
//! ```
//!
//! All transitions happen under the wait queue's lock; a promise that is KEPT is read without it. **Commit point** of a wait: the look, under the
//! lock, that finds the outcome, or the hand-over. **Cancellation**: the waiter leaves the queue. Waiters by reference are told and handed nothing; a `take`
//! that is cancelled before the hand-over leaves the value in the promise, which goes with it.
//!
//! After thesis section 2.4 (promises), with the pair of promise and resolver of Gears, by which filling twice is impossible by type.

#![allow(unsafe_code)] // One move out of a type with a `Drop`, so that a resolver is one pointer with a niche.

use segue_core::{Cancelled, Half, WaitQueue, WaitsFor};
use std::mem::{self, ManuallyDrop};
use std::ptr;
use std::sync::OnceLock;

enum Outcome<T> {
    Empty,
    Shared,
    Full(T),
    Broken,
    Kept,
}

impl<T> Outcome<T> {
    fn is_settled(&self) -> bool {
        !matches!(self, Self::Empty | Self::Shared)
    }
}

struct Shared<T> {
    /// Whoever takes yields the value, if it was there.
    outcome: WaitQueue<Outcome<T>, Option<T>>,
    kept: OnceLock<T>,
}

impl<T> Shared<T> {
    /// Moves the value, if it is there, to where references can be made to it. Called under the lock.
    fn keep(&self, outcome: &mut Outcome<T>) -> Option<T> {
        if let Outcome::Full(_) = outcome
            && let Outcome::Full(value) = mem::replace(outcome, Outcome::Kept)
        {
            let first = self.kept.set(value);
            debug_assert!(first.is_ok(), "a promise is filled once");
        }
        None
    }

    #[inline]
    fn settle(&self, value: Option<T>) {
        let settled = |value| match value {
            Some(value) => Outcome::Full(value),
            None => Outcome::Broken,
        };
        let mut guard = self.outcome.lock();
        if let Outcome::Shared = guard.state() {
            *guard.state() = settled(value);
            return guard.notify_all().wake();
        }
        match guard.hand_over(value) {
            Ok(wakeup) => {
                drop(guard);
                wakeup.wake();
            }
            Err(value) => *guard.state() = settled(value),
        }
    }
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
pub fn promise<T>() -> (Resolver<T>, Promise<T>) {
    let (left, right) = Half::pair(Shared { outcome: WaitQueue::new(Outcome::Empty), kept: OnceLock::new() });
    (Resolver(left), Promise(right))
}

/// The reading side of a promise. Share it by reference, or in an `Arc`.
#[must_use = "nobody can read what is filled in"]
pub struct Promise<T>(Half<Shared<T>>);

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
        if self.0.kept.get().is_none() {
            let keep = |outcome: &mut Outcome<T>| self.0.keep(outcome);
            let mut guard = self.0.outcome.lock();
            if let Outcome::Empty = guard.state() {
                *guard.state() = Outcome::Shared;
            }
            drop(guard);
            self.0.outcome.wait(WaitsFor::new("a promise"), Outcome::is_settled, keep)?;
        }
        self.0.kept.get().ok_or(WaitError::Closed)
    }

    /// The value, if the promise is filled. Never waits.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the resolver was dropped unfilled.
    pub fn try_get(&self) -> Option<Result<&T, WaitError>> {
        if self.0.kept.get().is_none() {
            let mut guard = self.0.outcome.lock();
            if !guard.state().is_settled() {
                return None;
            }
            self.0.keep(guard.state());
        }
        Some(self.0.kept.get().ok_or(WaitError::Closed))
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
        let take = |outcome: &mut Outcome<T>| match mem::replace(outcome, Outcome::Broken) {
            Outcome::Full(value) => Some(value),
            other => {
                *outcome = other;
                None
            }
        };
        match self.0.outcome.wait(WaitsFor::new("a promise"), Outcome::is_settled, take)? {
            Some(value) => Ok(value),
            None => self.unwrap_kept(),
        }
    }

    /// The value of a promise that was waited for by reference before; or it is broken.
    fn unwrap_kept(self) -> Result<T, WaitError> {
        let mut shared = self.0;
        // The resolver drops its share right after it has settled the promise, and this is the only other one.
        loop {
            match shared.try_into_inner() {
                Ok(shared) => return shared.kept.into_inner().ok_or(WaitError::Closed),
                Err(still_shared) => shared = still_shared,
            }
            std::thread::yield_now();
        }
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.0.outcome.lock().state() {
            Outcome::Empty | Outcome::Shared => "empty",
            Outcome::Broken => "broken",
            Outcome::Full(_) | Outcome::Kept => "full",
        };
        f.debug_struct("Promise").field("state", &state).finish()
    }
}

/// The writing side of a promise. Dropping it unfilled breaks the promise, which the waiters are told.
#[must_use = "dropping the resolver breaks the promise"]
pub struct Resolver<T>(Half<Shared<T>>);

impl<T> Resolver<T> {
    /// Fills the promise and wakes everybody who waits for it. Never waits.
    #[inline]
    pub fn fill(self, value: T) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the half is moved out once, and the resolver it is moved out of is neither used nor dropped.
        let shared = unsafe { ptr::read(&this.0) };
        shared.settle(Some(value));
    }
}

impl<T> Drop for Resolver<T> {
    fn drop(&mut self) {
        self.0.settle(None);
    }
}

impl<T> std::fmt::Debug for Resolver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}
