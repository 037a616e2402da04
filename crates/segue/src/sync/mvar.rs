//! A place for one value: empty or full; to take waits for a value, to put waits for room.
//!
//! Used where values change hands one by one: as a channel of capacity one, as a lock around a
//! value, as a baton.
//!
//! The file has the calls and the loan. The place's states, the order of service and the rules for
//! waiters that leave are in `place.rs`.

use segue_core::{Brings, Cancelled, Source, WaitQueue, Waitable, WaitsFor, preemption_point, wait};
use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};

use crate::{Full, Rejected};

use super::place::{Get, Put, Putting, Queue, State, end_loan, put_in, take_out};

/// A place for one value, empty or full.
///
/// # Order
/// First in, first out, among takers and borrowers, and among putters. A caller that comes when the
/// place is free does not wait, and overtakes nobody: there are no waiters then.
///
/// # Examples
///
/// ```
/// use segue::sync::MVar;
///
/// let place = MVar::empty();
/// std::thread::scope(|s| {
///     s.spawn(|| (0..3).for_each(|n| place.put(n).unwrap()));
///     for n in 0..3 {
///         assert_eq!(place.take(), Ok(n));
///     }
/// });
/// ```
pub struct MVar<T> {
    queue: Queue<T>,
}

impl<T> MVar<T> {
    /// An empty place.
    #[must_use]
    pub const fn empty() -> Self {
        Self { queue: WaitQueue::new(State::new(None)) }
    }

    /// A full place.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { queue: WaitQueue::new(State::new(Some(value))) }
    }

    /// Takes the value out, after waiting while there is none.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was taken.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn take(&self) -> Result<T, Cancelled> {
        self.take_source().wait()
    }

    /// Takes the value out, if there is one. Never waits.
    #[inline]
    pub fn try_take(&self) -> Option<T> {
        preemption_point();
        take_out(&mut self.queue.lock())
    }

    /// [`take`](MVar::take) as a source: to be awaited, or chosen among others.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. If the future is dropped after a hand-over, the value comes
    /// back, for the next taker.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let place = segue::sync::MVar::new(7);
    /// assert_eq!(place.take_source().await, 7);
    /// # }
    /// ```
    #[inline]
    #[track_caller]
    pub fn take_source(&self) -> Waitable<impl Source<Output = T>> {
        Waitable::new(self.queue.operation(WaitsFor::new("a value in an MVar"), Get::<_, false>(|value| value)))
    }

    /// Puts a value in, after waiting while there is one.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was put, and the value comes back in the error.
    ///
    /// # Errors
    /// [`Rejected`], which has the value, if the caller was cancelled.
    #[track_caller]
    #[inline(always)] // As the source's `wait`.
    pub fn put(&self, value: T) -> Result<(), Rejected<T>> {
        let mut putting = self.put_source(value).into_source();
        match wait(&mut putting) {
            Ok(()) => Ok(()),
            Err(cancelled) => {
                let value = putting.into_operation().into_value().expect("it was not put, so it came back");
                Err(Rejected { value, error: cancelled })
            }
        }
    }

    /// Puts a value in, if there is none. Never waits.
    ///
    /// # Errors
    /// Gives the value back if there is one already.
    #[inline]
    pub fn try_put(&self, value: T) -> Result<(), Rejected<T, Full>> {
        preemption_point();
        let mut queue = self.queue.lock();
        if queue.peek().is_empty() {
            put_in(&mut queue, Some(value));
            return Ok(());
        }
        Err(Rejected { value, error: Full })
    }

    /// [`put`](MVar::put) as a source.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: the value is dropped with the source. A choice [by
    /// reference](Waitable::by_ref) leaves the source, and with it the
    /// [value](Waitable::into_value).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::MVar;
    /// use segue::{Either, after};
    /// use std::time::Duration;
    ///
    /// let full = MVar::new("old");
    /// let mut putting = full.put_source("new");
    /// let first = putting.by_ref().or(after(Duration::from_millis(1))).wait();
    /// assert_eq!(first, Ok(Either::Right(())));
    /// assert_eq!(putting.into_value(), Some("new"));
    /// ```
    #[inline]
    #[track_caller]
    pub fn put_source(&self, value: T) -> Waitable<Putting<'_, T>> {
        Waitable::new(self.queue.operation(WaitsFor::new("room in an MVar"), Put(Some(value))))
    }

    /// Borrows the value, after waiting while there is none. Until the loan is dropped, nobody else
    /// takes, puts or borrows.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let place = segue::sync::MVar::new(vec![1, 2]);
    /// place.borrow()?.push(3);
    /// assert_eq!(place.take()?, [1, 2, 3]);
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn borrow(&self) -> Result<Loan<'_, T>, Cancelled> {
        self.borrow_source().wait()
    }

    /// Borrows the value, if there is one. Never waits.
    pub fn try_borrow(&self) -> Option<Loan<'_, T>> {
        preemption_point();
        self.borrow_source().attempt()
    }

    /// [`borrow`](MVar::borrow) as a source.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. If the future is dropped after a hand-over, the loan ends.
    #[track_caller]
    pub fn borrow_source(&self) -> Waitable<impl Source<Output = Loan<'_, T>>> {
        let lent = |value| Loan { mvar: self, value: Some(value) };
        Waitable::new(self.queue.operation(WaitsFor::new("a value in an MVar"), Get::<_, true>(lent)))
    }

    /// A copy of the value, after waiting while there is none.
    ///
    /// This is a [`borrow`](MVar::borrow) for as long as the copy takes. So a reader stands in one
    /// line with takers and borrowers: readers come one after the other, and a reader behind a
    /// taker that waits gets the value that is put after that taker's. A value that is set once and
    /// read by many belongs into a [`promise`](super::promise), and one that changes into a
    /// [watched value](crate::channel::watch).
    ///
    /// # Cancellation
    /// *Loses its place in the queue*.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[track_caller]
    pub fn read(&self) -> Result<T, Cancelled>
    where
        T: Clone,
    {
        self.borrow().map(|loan| T::clone(&loan))
    }

    /// Puts another value in place of the one that is there, after waiting while there is none.
    /// Nobody sees the place empty.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*, and the new value comes back in the error.
    ///
    /// # Errors
    /// [`Rejected`], which has the new value, if the caller was cancelled.
    #[track_caller]
    pub fn swap(&self, value: T) -> Result<T, Rejected<T>> {
        match self.borrow() {
            Ok(mut loan) => Ok(mem::replace(&mut *loan, value)),
            Err(cancelled) => Err(Rejected { value, error: cancelled }),
        }
    }

    /// Changes the value in place, after waiting while there is none. `f` may wait; until it has
    /// ended, nobody else takes, puts or borrows.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: `f` was not called.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// If `f` does; the value then stays as changed by `f`.
    #[track_caller]
    pub fn modify<R>(&self, f: impl FnOnce(&mut T) -> R) -> Result<R, Cancelled> {
        self.borrow().map(|mut loan| f(&mut loan))
    }

    /// Whether there is no value to take. This may have changed by the time of a look at the
    /// answer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        preemption_point();
        !self.queue.lock().peek().is_full()
    }

    /// The value, if there is one. Of several, after one came back, the first.
    pub fn into_inner(self) -> Option<T> {
        let mut state = self.queue.into_inner();
        // A loan borrows the place, so one that is left was leaked; others may have come back.
        state.value.or_else(|| state.displaced.pop())
    }
}

impl<T> Default for MVar<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T> From<T> for MVar<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T> fmt::Debug for MVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        let place = match queue.peek() {
            state if state.is_full() => "full",
            state if state.is_empty() => "empty",
            _ => "lent",
        };
        f.debug_struct("MVar").field("place", &place).finish()
    }
}

/// The value of an [`MVar`], borrowed: it returns there when this is dropped.
#[must_use = "the loan ends when it is dropped"]
pub struct Loan<'a, T> {
    mvar: &'a MVar<T>,
    /// `None` after the end.
    value: Option<T>,
}

impl<T> Deref for Loan<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("the loan lives")
    }
}

impl<T> DerefMut for Loan<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("the loan lives")
    }
}

impl<T> Drop for Loan<'_, T> {
    fn drop(&mut self) {
        preemption_point();
        if let Some(value) = self.value.take() {
            end_loan(&mut self.mvar.queue.lock(), value);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Loan<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
