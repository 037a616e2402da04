//! The states of an [`MVar`](super::MVar)'s place, the transitions between them, and the operations
//! that may have to wait for one.
//!
//! Used by `mvar.rs`, which has the calls and the loan.
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
//! All transitions happen under the wait queue's lock, and the caller that makes one serves the
//! waiters that can go on then:
//!
//! * takers and borrowers wait in one list, in the order of their arrival, while the place is EMPTY
//!   or LENT;
//! * putters wait in the other one, each with its value in its slot, while the place is FULL or
//!   LENT.
//!
//! So a putter that finds takers at an EMPTY place hands over and leaves EMPTY; a taker that finds
//! waiting putters moves the first one's value in and leaves FULL. A waiter says in its slot
//! whether to take or to borrow; from the exchange the putter learns which of the two was served,
//! and sets the state by that, still under the lock.
//!
//! **Commit point**: the attempt under the lock, or the claim of the waiter. **Idle**: one list at
//! most has waiters. **Cancellation**: a waiter leaves its list; a putter has its value back. A
//! taker that was handed a value and then dropped (a future) puts the value back *at the front*:
//! the next taker gets that, before all values put meanwhile. That is the one case in which there
//! are more values than one, and the only one that allocates: `displaced` keeps the later ones. If
//! the place is lent just then, the value that came back waits there for the end of the loan, and
//! goes before the one that was lent.
//!
//! **The race to fear**: a value for a taker that has just left. The exchange is undone if the
//! claim is refused, and goes to the next.
//!
//! After thesis section 2.4 and 5 (MVars), which has them from Concurrent Haskell; that a borrower
//! keeps others out until the end of the loan is ours, so that `read`, `swap` and `modify` are
//! atomic with regard to all other operations.

use segue_core::{Brings, Guard, Operation, WaitQueue, Waiting};

/// The list of takers and borrowers.
const TAKERS: usize = 0;
/// The list of putters.
const PUTTERS: usize = 1;

/// EMPTY, FULL and LENT, where `value` and `loan` are never both there. Two fields and not one
/// enum, so that a value goes unchanged from an `Option` to the next: where values have unused bit
/// patterns, to open one enum and close another takes them apart and together again in memory,
/// which costs more than the lock.
pub struct State<T> {
    /// Of a FULL place.
    pub(super) value: Option<T>,
    /// Of a LENT place: how many values came back meanwhile. They were taken before the one that is
    /// lent, and go before that one: they are at the end of `displaced`.
    loan: Option<usize>,
    /// Values that are to come before those of the putters, the earliest last: those that were put
    /// after one that came back, and those that came back to a place that is lent.
    pub(super) displaced: Vec<T>,
}

impl<T> State<T> {
    pub(super) const fn new(value: Option<T>) -> Self {
        Self { value, loan: None, displaced: Vec::new() }
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.value.is_some()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.value.is_none() && self.loan.is_none()
    }
}

/// The content of a slot.
pub enum Slot<T> {
    WantsToTake,
    WantsToBorrow,
    Value(T),
}

pub(super) type Queue<T> = WaitQueue<State<T>, Slot<T>, 2>;
pub(super) type Locked<'a, T> = Guard<'a, State<T>, Slot<T>, 2>;

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
pub(super) fn take_out<T>(queue: &mut Locked<'_, T>) -> Option<T> {
    if !queue.peek().is_full() {
        return None;
    }
    let value = queue.state().value.take();
    if !queue.is_empty(PUTTERS) || !queue.peek().displaced.is_empty() {
        queue.state().value = next_value(queue);
    }
    value
}

/// Puts the value into an empty place: for the first waiter, or to stay. If a waiter took that at
/// once, the next one follows.
#[inline]
pub(super) fn put_in<T>(queue: &mut Locked<'_, T>, value: Option<T>) {
    if queue.is_empty(TAKERS) {
        queue.state().value = value;
    } else {
        hand_over(queue, value);
    }
}

/// [`put_in`] where there are takers.
fn hand_over<T>(queue: &mut Locked<'_, T>, mut value: Option<T>) {
    while let Some(next) = value {
        let mut held = Some(Slot::Value(next));
        queue.exchange(TAKERS, &mut held);
        value = match held {
            Some(Slot::WantsToTake) => next_value(queue),
            Some(Slot::WantsToBorrow) => {
                queue.state().loan = Some(0);
                None
            }
            Some(Slot::Value(value)) => {
                queue.state().value = Some(value);
                None
            }
            None => unreachable!("a taker leaves its wish in exchange"),
        };
    }
}

/// Puts a taken value back: before all that are there.
fn put_back<T>(queue: &mut Locked<'_, T>, value: T) {
    let state = queue.state();
    if let Some(returned) = &mut state.loan {
        *returned += 1;
        state.displaced.push(value);
    } else if let Some(later) = state.value.take() {
        state.displaced.push(later);
        state.value = Some(value);
    } else {
        put_in(queue, Some(value));
    }
}

/// Takes the value of a full place, which is lent from now on.
#[inline]
fn lend<T>(queue: &mut Locked<'_, T>) -> Option<T> {
    let value = queue.state().value.take()?;
    queue.state().loan = Some(0);
    Some(value)
}

/// The end of a loan.
pub(super) fn end_loan<T>(queue: &mut Locked<'_, T>, value: T) {
    let Some(returned) = queue.state().loan.take() else { unreachable!("it was lent") };
    let first = if returned == 0 {
        value
    } else {
        let displaced = &mut queue.state().displaced;
        displaced.insert(displaced.len() - returned, value);
        displaced.pop().expect("what came back is there")
    };
    put_in(queue, Some(first));
}

/// Takes the value, or borrows it, and yields its view of that.
pub(super) struct Get<F, const BORROW: bool>(pub(super) F);

impl<T, R, F: FnMut(T) -> R, const BORROW: bool> Operation<State<T>, Slot<T>, 2> for Get<F, BORROW> {
    type Output = R;

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<R> {
        let value = if BORROW { lend(queue) } else { take_out(queue) };
        value.map(&mut self.0)
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        queue.peek().is_full()
    }

    #[inline]
    fn place(&self) -> (usize, bool) {
        (TAKERS, false)
    }

    #[inline]
    fn offer(&mut self) -> Option<Slot<T>> {
        Some(if BORROW { Slot::WantsToBorrow } else { Slot::WantsToTake })
    }

    #[inline]
    fn commit(&mut self, slot: Option<Slot<T>>) -> Option<R> {
        match slot {
            Some(Slot::Value(value)) => Some((self.0)(value)),
            _ => None,
        }
    }

    fn give_back(&mut self, slot: Option<Slot<T>>, queue: &mut Locked<'_, T>) -> Option<Slot<T>> {
        match slot {
            Some(Slot::Value(value)) if BORROW => end_loan(queue, value),
            Some(Slot::Value(value)) => put_back(queue, value),
            _ => {}
        }
        None
    }
}

/// The operation of [`MVar::put`](super::MVar::put): puts its value.
#[derive(Debug)]
pub struct Put<T>(pub(super) Option<T>);

/// The source of [`MVar::put_source`](super::MVar::put_source).
pub type Putting<'a, T> = Waiting<'a, Put<T>, State<T>, Slot<T>, 2>;

impl<T> Brings for Put<T> {
    type Value = T;

    fn into_value(self) -> Option<T> {
        self.0
    }
}

impl<T> Operation<State<T>, Slot<T>, 2> for Put<T> {
    type Output = ();

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<()> {
        // An operation that has put its value is done, in each further attempt.
        if self.0.is_none() {
            return Some(());
        }
        if !queue.peek().is_empty() {
            return None;
        }
        put_in(queue, self.0.take());
        Some(())
    }

    fn is_ready(&mut self, queue: &mut Locked<'_, T>) -> bool {
        queue.peek().is_empty()
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
        // The value was put, and nothing else was wanted.
        None
    }
}
