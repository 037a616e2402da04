//! A value that is filled in once and waited for by any number of fibers, threads and tasks.
//!
//! Used where one part of a program computes what another waits for, whatever schedulers the two
//! belong to.
//!
//! # States
//!
//! ```text
//!   EMPTY --fill: the value into the cell--> FULL    the resolver, once: it is consumed
//!   EMPTY --drop of the resolver-----------> BROKEN
//!   EMPTY --drop of the promise------------> GONE    what the resolver would fill in comes back
//!   FULL  --take---------------------------> FULL    by `&mut`: the cell is empty then, which counts as broken
//! ```
//!
//! The state changes under the wait queue's lock, so that no joining waiter misses it; it is read
//! without the lock. The resolver alone writes the cell, before FULL. After FULL it is read by
//! reference through a shared promise, and taken through an exclusive one: the borrow checker keeps
//! the two apart.
//!
//! **Commit point** of a wait: the look that finds the state settled, or being told so in the
//! queue. **Cancellation**: the waiter leaves the queue, and the value stays in the promise.
//!
//! Orderings: `settle` stores the state (release) after the cell; a reader of the state (acquire)
//! sees the cell. A waiter that is told sees it through the claim.
//!
//! After thesis section 2.4 (promises), with the pair of promise and resolver of Gears, by which
//! filling twice is impossible by type.

// The cell of the value; and one move out of a type with a `Drop`, so that a resolver is one
// pointer with a niche.
#![allow(unsafe_code)]

use segue_core::{Guard, Half, Operation, Source, Unlocked, WaitQueue, Waitable, WaitsFor, preemption_point};
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::{Closed, Rejected, WaitError};

const EMPTY: u8 = 0;
const FULL: u8 = 1;
const BROKEN: u8 = 2;
const GONE: u8 = 3;

struct Shared<T> {
    state: AtomicU8,
    waiters: WaitQueue<()>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the state is atomic and the queue locked; the cell is written by the one resolver before
// the state says FULL, and after that read by holders of a `&T`, or taken through an exclusive
// promise.
unsafe impl<T: Send + Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn new() -> Self {
        Self { state: AtomicU8::new(EMPTY), waiters: WaitQueue::new(()), value: UnsafeCell::new(None) }
    }

    #[inline]
    fn is_settled(&self) -> bool {
        self.state.load(Ordering::Acquire) != EMPTY
    }

    /// Answers whether it was not settled before.
    #[inline(always)] // Into `fill`; the others are `settle_empty`.
    fn settle(&self, state: u8) -> bool {
        let waiters = self.waiters.lock();
        let first = self.state.load(Ordering::Relaxed) == EMPTY;
        if first {
            self.state.store(state, Ordering::Release);
            waiters.notify_all(0);
        }
        first
    }

    /// One of its ends goes, and the value has not come.
    #[cold]
    #[inline(never)]
    fn settle_empty(&self, state: u8) {
        preemption_point();
        let _was_first = self.settle(state);
    }
}

/// Waits until a promise is settled, and yields what it finds in the cell then.
struct Settled<'a, T, F> {
    shared: &'a Shared<T>,
    /// Called when it is settled: the resolver is done with the cell.
    find: F,
}

// SAFETY: all that it does with the value is to find what it yields; what else it shares with the
// resolver is atomic or locked.
unsafe impl<'a, T, R: Send, F: Fn(&'a Shared<T>) -> R + Send> Send for Settled<'a, T, F> {}

impl<'a, T, R, F: Fn(&'a Shared<T>) -> R> Settled<'a, T, F> {
    #[inline]
    fn look(&self) -> Option<R> {
        self.shared.is_settled().then(|| (self.find)(self.shared))
    }
}

impl<'a, T, R, F: Fn(&'a Shared<T>) -> R> Operation<(), ()> for Settled<'a, T, F> {
    type Output = R;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<R> {
        Unlocked::or_no(self.look())
    }

    #[inline]
    fn attempt(&mut self, _: &mut Guard<'_, (), ()>) -> Option<R> {
        self.look()
    }

    fn is_ready(&mut self, _: &mut Guard<'_, (), ()>) -> bool {
        self.shared.is_settled()
    }

    #[inline]
    fn commit(&mut self, _: Option<()>) -> Option<R> {
        Some((self.find)(self.shared))
    }

    fn give_back(&mut self, _: Option<()>, _: &mut Guard<'_, (), ()>) -> Option<()> {
        // It was only told, and so was everybody else.
        None
    }
}

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
    let (left, right) = Half::pair(Shared::new());
    (Resolver(left), Promise(right))
}

/// The reading side of a promise. Share it by reference, or in an `Arc`.
#[must_use = "nobody can read what is filled in"]
pub struct Promise<T>(Half<Shared<T>>);

// SAFETY: the value goes from the resolver's thread to that of the promise's owner, once; what is
// shared otherwise is atomic or locked.
unsafe impl<T: Send> Send for Promise<T> {}
// SAFETY: a shared promise gives shared access to the value.
unsafe impl<T: Send + Sync> Sync for Promise<T> {}

impl<T> Promise<T> {
    /// Suspends the calling fiber, or parks the calling thread, until the promise is filled.
    ///
    /// Any number may wait; all are woken, in the order in which they came. For a promise that is
    /// filled already it is one load.
    ///
    /// # Cancellation
    /// *No effect*: the promise can be waited for again.
    ///
    /// # Errors
    /// [`WaitError::Closed`] if the resolver was dropped unfilled; [`WaitError::Cancelled`] if the
    /// caller was cancelled.
    #[track_caller]
    pub fn wait(&self) -> Result<&T, WaitError> {
        Ok(self.wait_source().wait()??)
    }

    /// [`wait`](Promise::wait) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let (resolver, promise) = segue::sync::promise();
    /// resolver.fill(42).unwrap();
    /// assert_eq!(promise.wait_source().await, Ok(&42));
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = Result<&T, Closed>>> {
        let shared = &*self.0;
        // SAFETY: it is settled, so the resolver is done with the cell, and the value is not taken
        // while this promise is borrowed.
        let find = |shared: &'_ Shared<T>| unsafe { &*shared.value.get() }.as_ref().ok_or(Closed);
        Waitable::new(shared.waiters.operation(WaitsFor::new("a promise"), Settled { shared, find }))
    }

    /// The value, if the promise is filled. Never waits.
    ///
    /// # Errors
    /// [`Closed`] if the resolver was dropped unfilled.
    pub fn try_get(&self) -> Option<Result<&T, Closed>> {
        preemption_point();
        self.wait_source().attempt()
    }

    /// As [`wait`](Promise::wait), and takes the value out.
    ///
    /// # Cancellation
    /// The promise is consumed: what the resolver fills in comes back to it. [Take by
    /// reference](Promise::take_source) to keep it.
    ///
    /// # Errors
    /// As for [`wait`](Promise::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// let (resolver, promise) = segue::sync::promise();
    /// resolver.fill(String::from("yours")).unwrap();
    /// assert_eq!(promise.take(), Ok(String::from("yours")));
    /// ```
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn take(mut self) -> Result<T, WaitError> {
        Ok(self.take_source().wait()??)
    }

    /// [`take`](Promise::take) as a source. Once the value is taken, the promise counts as broken.
    ///
    /// # Cancellation
    /// *No effect*: the value stays in the promise, also if the future is dropped.
    #[inline]
    #[track_caller]
    pub fn take_source(&mut self) -> Waitable<impl Source<Output = Result<T, Closed>>> {
        let shared = &*self.0;
        // SAFETY: it is settled, so the resolver is done with the cell, and nobody else has this
        // promise.
        let find = |shared: &Shared<T>| unsafe { &mut *shared.value.get() }.take().ok_or(Closed);
        Waitable::new(shared.waiters.operation(WaitsFor::new("a promise"), Settled { shared, find }))
    }
}

impl<T> Drop for Promise<T> {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_settled() {
            self.0.settle_empty(GONE);
        }
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = match self.try_get() {
            None => "empty",
            Some(Ok(_)) => "full",
            Some(Err(Closed)) => "broken",
        };
        f.debug_struct("Promise").field("state", &state).finish()
    }
}

/// The writing side of a promise. Dropping it unfilled breaks the promise, which the waiters are
/// told.
#[must_use = "dropping the resolver breaks the promise"]
pub struct Resolver<T>(Half<Shared<T>>);

// SAFETY: as for the promise; a resolver only gives a value away.
unsafe impl<T: Send> Send for Resolver<T> {}
// SAFETY: a shared resolver reads the state, and waits for a change of that; it does not reach the
// cell.
unsafe impl<T: Send> Sync for Resolver<T> {}

impl<T> Resolver<T> {
    /// Fills the promise and wakes all its waiters. Never waits.
    ///
    /// # Errors
    /// Gives the value back if the promise was dropped before: nobody can take it.
    ///
    /// # Examples
    ///
    /// ```
    /// let (resolver, promise) = segue::sync::promise();
    /// drop(promise);
    /// assert_eq!(resolver.fill(42).unwrap_err().value, 42);
    /// ```
    #[inline]
    pub fn fill(self, value: T) -> Result<(), Rejected<T, Closed>> {
        preemption_point();
        let this = ManuallyDrop::new(self);
        // SAFETY: the half is moved out once, and the resolver it is moved out of is neither used
        // nor dropped.
        let shared = unsafe { ptr::read(&this.0) };
        // SAFETY: nobody reads the cell before the state is FULL, and this is the only resolver.
        unsafe { *shared.value.get() = Some(value) };
        if shared.settle(FULL) {
            return Ok(());
        }
        // SAFETY: the promise is gone, so nobody else has the cell.
        let value = unsafe { &mut *shared.value.get() }.take().expect("it was put there");
        Err(Rejected { value, error: Closed })
    }
}

impl<T> Resolver<T> {
    /// Whether the promise was dropped: nobody can take the value any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_settled()
    }

    /// Ready when the promise is dropped: for computations that nobody waits for any more.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// let (resolver, promise) = segue::sync::promise::<u32>();
    /// std::thread::spawn(move || drop(promise));
    /// resolver.closed_source().wait()?;
    /// assert!(resolver.is_closed());
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn closed_source(&self) -> Waitable<impl Source<Output = ()>> {
        let shared = &*self.0;
        // As long as there is a resolver, a promise is settled by its drop alone.
        let find = |_: &Shared<T>| ();
        Waitable::new(shared.waiters.operation(WaitsFor::new("the end of a promise"), Settled { shared, find }))
    }
}

impl<T> Drop for Resolver<T> {
    fn drop(&mut self) {
        self.0.settle_empty(BROKEN);
    }
}

impl<T> std::fmt::Debug for Resolver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}
