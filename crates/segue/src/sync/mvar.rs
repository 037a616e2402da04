//! A place for one value: empty or full; to take waits while it is empty, to put while it is full.
//!
//! Used where values change hands one by one: as a channel of capacity one, as a lock that holds what it guards, as a baton.
//!
//! # States
//!
//! ```text
//!            put                      borrow
//!   EMPTY ---------> FULL(value) <------------> LENT      the borrower has the value
//!         <---------                end of the loan
//!            take
//! ```
//!
//! All transitions happen under the wait queue's lock, and whoever makes one serves those who can go on because of it:
//!
//! * takers and borrowers wait in one list, in the order of their arrival, while it is EMPTY or LENT;
//! * putters wait in the other one, each with its value in its slot, while it is FULL or LENT.
//!
//! So who puts into an EMPTY place with takers hands over and leaves it EMPTY; who takes while putters wait moves the first one's value in and leaves it FULL.
//! A waiter says in its slot whether it wants to take or to borrow; from the exchange the putter learns whom it has served, and sets the state by that,
//! still under the lock.
//!
//! **Commit point**: the attempt under the lock, or the claim of the waiter. **Idle**: one list at most has waiters. **Cancellation**: a waiter leaves its list; a
//! putter has its value back. A taker that was handed a value and then dropped (a future) puts it back *at the front*: the next taker gets it, before what
//! was put meanwhile. That is the one case in which there are more values than one, and the only one that allocates: `displaced` keeps the later ones. If the
//! place is lent just then, the value that came back waits there for the end of the loan, and goes before the one that was lent.
//!
//! **The race to fear**: a value for a taker that has just left. The exchange is undone if the claim is refused, and goes to the next.
//!
//! After thesis section 2.4 and 5 (MVars), which has them from Concurrent Haskell; that a borrower keeps others out until it is done is ours, so that `read`, `swap` and
//! `modify` are atomic with regard to all other operations.

use segue_core::{Cancelled, Guard, Operation, Source, WaitQueue, Waitable, Waiting, WaitsFor, preemption_point, wait};
use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};

/// The list of those who want the value.
const TAKERS: usize = 0;
/// The list of those who have one.
const PUTTERS: usize = 1;

enum Place<T> {
    Empty,
    Full(T),
    /// How many values came back meanwhile: they were taken before this one was lent, and go before it. They are at the end of `displaced`.
    Lent {
        returned: usize,
    },
}

struct State<T> {
    place: Place<T>,
    /// Values that are to come before those of the putters, the earliest last: those that were put after one that came back, and those that came back to a
    /// place that is lent.
    displaced: Vec<T>,
}

/// What is in a slot.
enum Slot<T> {
    WantsToTake,
    WantsToBorrow,
    Value(T),
}

type Queue<T> = WaitQueue<State<T>, Slot<T>, 2>;
type Locked<'a, T> = Guard<'a, State<T>, Slot<T>, 2>;

/// The value that comes next into an empty place: one that was displaced, or the first putter's.
#[inline]
fn next_value<T>(queue: &mut Locked<'_, T>) -> Option<T> {
    if let Some(value) = queue.state().displaced.pop() {
        return Some(value);
    }
    let mut held = None;
    queue.exchange(PUTTERS, &mut held);
    match held {
        Some(Slot::Value(value)) => Some(value),
        _ => None,
    }
}

/// Takes the value out of a full place, and fills that again if there is more.
#[inline]
fn take_out<T>(queue: &mut Locked<'_, T>) -> Option<T> {
    let Place::Full(_) = queue.peek().place else { return None };
    let next = next_value(queue).map_or(Place::Empty, Place::Full);
    match mem::replace(&mut queue.state().place, next) {
        Place::Full(value) => Some(value),
        _ => unreachable!("it was full"),
    }
}

/// Puts a value into a place that nobody else uses: for the first who waits for it, or to stay. If it was taken at once, the next one follows.
#[inline]
fn put_in<T>(queue: &mut Locked<'_, T>, mut value: T) {
    loop {
        let mut held = Some(Slot::Value(value));
        queue.exchange(TAKERS, &mut held);
        queue.state().place = match held {
            Some(Slot::WantsToTake) => match next_value(queue) {
                Some(next) => {
                    value = next;
                    continue;
                }
                None => Place::Empty,
            },
            Some(Slot::WantsToBorrow) => Place::Lent { returned: 0 },
            Some(Slot::Value(value)) => Place::Full(value),
            None => unreachable!("whoever takes leaves its wish in exchange"),
        };
        return;
    }
}

/// The end of a loan.
fn end_loan<T>(queue: &mut Locked<'_, T>, value: T) {
    let Place::Lent { returned } = queue.peek().place else { unreachable!("it was lent") };
    let first = if returned == 0 {
        value
    } else {
        let displaced = &mut queue.state().displaced;
        displaced.insert(displaced.len() - returned, value);
        displaced.pop().expect("what came back is there")
    };
    put_in(queue, first);
}

/// A place for one value, empty or full.
///
/// # Order
/// First in, first out, among those who take and borrow, and among those who put. One that comes when the place is free does not wait, and nobody
/// is passed by it: there are no waiters then.
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

/// The value could not be put, since the caller was cancelled; here it is.
pub struct PutError<T> {
    /// The value.
    pub value: T,
    /// Why.
    pub cancelled: Cancelled,
}

impl<T> From<PutError<T>> for Cancelled {
    fn from(error: PutError<T>) -> Self {
        error.cancelled
    }
}

impl<T> fmt::Debug for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutError").field("cancelled", &self.cancelled).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for PutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cancelled.fmt(f)
    }
}

impl<T> std::error::Error for PutError<T> {}

struct Take;

impl<T> Operation<State<T>, Slot<T>, 2> for Take {
    type Output = T;

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<T> {
        take_out(queue)
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        matches!(queue.peek().place, Place::Full(_))
    }

    #[inline]
    fn place(&self) -> (usize, bool) {
        (TAKERS, false)
    }

    #[inline]
    fn offer(&mut self) -> Option<Slot<T>> {
        Some(Slot::WantsToTake)
    }

    #[inline]
    fn commit(&mut self, slot: Option<Slot<T>>) -> Option<T> {
        match slot {
            Some(Slot::Value(value)) => Some(value),
            _ => None,
        }
    }

    fn give_back(&mut self, slot: Option<Slot<T>>, queue: &mut Locked<'_, T>) -> Option<Slot<T>> {
        if let Some(Slot::Value(value)) = slot {
            match mem::replace(&mut queue.state().place, Place::Empty) {
                Place::Empty => put_in(queue, value),
                Place::Full(later) => {
                    queue.state().displaced.push(later);
                    queue.state().place = Place::Full(value);
                }
                Place::Lent { returned } => {
                    queue.state().place = Place::Lent { returned: returned + 1 };
                    queue.state().displaced.push(value);
                }
            }
        }
        None
    }
}

struct Borrow<'a, T>(&'a MVar<T>);

impl<'a, T> Operation<State<T>, Slot<T>, 2> for Borrow<'a, T> {
    type Output = Loan<'a, T>;

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Loan<'a, T>> {
        let Place::Full(_) = queue.peek().place else { return None };
        match mem::replace(&mut queue.state().place, Place::Lent { returned: 0 }) {
            Place::Full(value) => Some(Loan { mvar: self.0, value: Some(value) }),
            _ => unreachable!("it was full"),
        }
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        matches!(queue.peek().place, Place::Full(_))
    }

    fn place(&self) -> (usize, bool) {
        (TAKERS, false)
    }

    fn offer(&mut self) -> Option<Slot<T>> {
        Some(Slot::WantsToBorrow)
    }

    fn commit(&mut self, slot: Option<Slot<T>>) -> Option<Loan<'a, T>> {
        match slot {
            Some(Slot::Value(value)) => Some(Loan { mvar: self.0, value: Some(value) }),
            _ => None,
        }
    }

    fn give_back(&mut self, slot: Option<Slot<T>>, queue: &mut Locked<'_, T>) -> Option<Slot<T>> {
        if let Some(Slot::Value(value)) = slot {
            end_loan(queue, value);
        }
        None
    }
}

struct Put<T>(Option<T>);

impl<T> Operation<State<T>, Slot<T>, 2> for Put<T> {
    type Output = ();

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<()> {
        let Place::Empty = queue.peek().place else { return None };
        put_in(queue, self.0.take()?);
        Some(())
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        matches!(queue.peek().place, Place::Empty)
    }

    #[inline]
    fn place(&self) -> (usize, bool) {
        (PUTTERS, false)
    }

    #[inline]
    fn offer(&mut self) -> Option<Slot<T>> {
        self.0.take().map(Slot::Value)
    }

    fn retract(&mut self, offered: Option<Slot<T>>, _: &mut Locked<'_, T>) {
        if let Some(Slot::Value(value)) = offered {
            self.0 = Some(value);
        }
    }

    #[inline]
    fn commit(&mut self, _: Option<Slot<T>>) -> Option<()> {
        Some(())
    }

    fn give_back(&mut self, _: Option<Slot<T>>, _: &mut Locked<'_, T>) -> Option<Slot<T>> {
        // It was put, which is all that was wanted.
        None
    }
}

impl<T> MVar<T> {
    /// An empty place.
    #[must_use]
    pub const fn empty() -> Self {
        Self { queue: WaitQueue::new(State { place: Place::Empty, displaced: Vec::new() }) }
    }

    /// A full place.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self { queue: WaitQueue::new(State { place: Place::Full(value), displaced: Vec::new() }) }
    }

    #[inline]
    #[track_caller]
    fn taking(&self) -> Waiting<'_, Take, State<T>, Slot<T>, 2> {
        self.queue.operation(WaitsFor::new("a value in an MVar"), Take)
    }

    #[inline]
    #[track_caller]
    fn putting(&self, value: T) -> Waiting<'_, Put<T>, State<T>, Slot<T>, 2> {
        self.queue.operation(WaitsFor::new("room in an MVar"), Put(Some(value)))
    }

    #[track_caller]
    fn borrowing(&self) -> Waiting<'_, Borrow<'_, T>, State<T>, Slot<T>, 2> {
        self.queue.operation(WaitsFor::new("a value in an MVar"), Borrow(self))
    }

    /// Takes the value out, after waiting while there is none.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was taken.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[track_caller]
    #[inline]
    pub fn take(&self) -> Result<T, Cancelled> {
        wait(&mut self.taking())
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
    /// *Loses its place in the queue*. If the future is dropped after it was handed a value, that comes back, for the next who takes.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let place = segue::sync::MVar::new(7);
    /// assert_eq!(place.take_source().await, 7);
    /// # }
    /// ```
    #[track_caller]
    pub fn take_source(&self) -> Waitable<impl Source<Output = T>> {
        Waitable::new(self.taking())
    }

    /// Puts a value in, after waiting while there is one.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: nothing was put, and the value comes back in the error.
    ///
    /// # Errors
    /// [`PutError`], which has the value, if the caller was cancelled.
    #[track_caller]
    #[inline]
    pub fn put(&self, value: T) -> Result<(), PutError<T>> {
        let mut putting = self.putting(value);
        match wait(&mut putting) {
            Ok(()) => Ok(()),
            Err(cancelled) => {
                let value = putting.into_operation().0.expect("it was not put, so it came back");
                Err(PutError { value, cancelled })
            }
        }
    }

    /// Puts a value in, if there is none. Never waits.
    ///
    /// # Errors
    /// Gives the value back if there is one already.
    #[inline]
    pub fn try_put(&self, value: T) -> Result<(), T> {
        preemption_point();
        let mut queue = self.queue.lock();
        if let Place::Empty = queue.peek().place {
            put_in(&mut queue, value);
            return Ok(());
        }
        Err(value)
    }

    /// [`put`](MVar::put) as a source.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: the value is dropped with the source.
    #[track_caller]
    pub fn put_source(&self, value: T) -> Waitable<impl Source<Output = ()>> {
        Waitable::new(self.putting(value))
    }

    /// Borrows the value, after waiting while there is none. Until the loan is dropped, nobody else takes, puts or borrows.
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
        wait(&mut self.borrowing())
    }

    /// Borrows the value, if there is one. Never waits.
    pub fn try_borrow(&self) -> Option<Loan<'_, T>> {
        preemption_point();
        self.borrowing().attempt()
    }

    /// [`borrow`](MVar::borrow) as a source.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. If the future is dropped after it was handed the value, the loan ends.
    #[track_caller]
    pub fn borrow_source(&self) -> Waitable<impl Source<Output = Loan<'_, T>>> {
        Waitable::new(self.borrowing())
    }

    /// A copy of the value, after waiting while there is none.
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

    /// Puts another value in place of the one that is there, after waiting while there is none. Nobody sees it empty.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*, and the new value comes back in the error.
    ///
    /// # Errors
    /// [`PutError`], which has the new value, if the caller was cancelled.
    #[track_caller]
    pub fn swap(&self, value: T) -> Result<T, PutError<T>> {
        match self.borrow() {
            Ok(mut loan) => Ok(mem::replace(&mut *loan, value)),
            Err(cancelled) => Err(PutError { value, cancelled }),
        }
    }

    /// Changes the value in place, after waiting while there is none. `f` may wait; until it has ended, nobody else takes, puts or borrows.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*: `f` was not called.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// If `f` does; the value then stays as `f` has left it.
    #[track_caller]
    pub fn modify<R>(&self, f: impl FnOnce(&mut T) -> R) -> Result<R, Cancelled> {
        self.borrow().map(|mut loan| f(&mut loan))
    }

    /// Whether there is no value to take. It may have changed by the time that the caller looks at the answer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        preemption_point();
        !matches!(self.queue.lock().peek().place, Place::Full(_))
    }

    /// The value, if there is one. Of several, after one came back, it is the first.
    pub fn into_inner(self) -> Option<T> {
        let mut state = self.queue.into_inner();
        match state.place {
            Place::Full(value) => Some(value),
            // A loan borrows the place, so it was leaked; others may have come back.
            Place::Empty | Place::Lent { .. } => state.displaced.pop(),
        }
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
        let place = match self.queue.lock().peek().place {
            Place::Empty => "empty",
            Place::Full(_) => "full",
            Place::Lent { .. } => "lent",
        };
        f.debug_struct("MVar").field("place", &place).finish()
    }
}

/// The value of an [`MVar`], borrowed: it returns there when this is dropped.
#[must_use = "the loan ends when it is dropped"]
pub struct Loan<'a, T> {
    mvar: &'a MVar<T>,
    /// `None` once it has ended.
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
