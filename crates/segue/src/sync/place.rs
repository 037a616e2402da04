//! What happens to the place of an [`MVar`]: its states, the transitions between them, and the three operations that may have to wait for one.
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

use segue_core::{Guard, Operation, WaitQueue};
use std::mem;

use super::mvar::{Loan, MVar};

/// The list of those who want the value.
const TAKERS: usize = 0;
/// The list of those who have one.
const PUTTERS: usize = 1;

pub(super) enum Place<T> {
    Empty,
    Full(T),
    /// How many values came back meanwhile: they were taken before this one was lent, and go before it. They are at the end of `displaced`.
    Lent {
        returned: usize,
    },
}

pub(super) struct State<T> {
    pub(super) place: Place<T>,
    /// Values that are to come before those of the putters, the earliest last: those that were put after one that came back, and those that came back to a
    /// place that is lent.
    pub(super) displaced: Vec<T>,
}

/// What is in a slot.
pub(super) enum Slot<T> {
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
    let Place::Full(_) = queue.peek().place else { return None };
    let next = next_value(queue).map_or(Place::Empty, Place::Full);
    match mem::replace(&mut queue.state().place, next) {
        Place::Full(value) => Some(value),
        _ => unreachable!("it was full"),
    }
}

/// Puts a value into a place that nobody else uses: for the first who waits for it, or to stay. If it was taken at once, the next one follows.
#[inline]
pub(super) fn put_in<T>(queue: &mut Locked<'_, T>, mut value: T) {
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
pub(super) fn end_loan<T>(queue: &mut Locked<'_, T>, value: T) {
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

/// Takes the value.
pub(super) struct Take;

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

/// Borrows the value of this place.
pub(super) struct Borrow<'a, T>(pub(super) &'a MVar<T>);

impl<'a, T> Operation<State<T>, Slot<T>, 2> for Borrow<'a, T> {
    type Output = Loan<'a, T>;

    #[inline]
    fn attempt(&mut self, queue: &mut Locked<'_, T>) -> Option<Loan<'a, T>> {
        let Place::Full(_) = queue.peek().place else { return None };
        match mem::replace(&mut queue.state().place, Place::Lent { returned: 0 }) {
            Place::Full(value) => Some(Loan::new(self.0, value)),
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
            Some(Slot::Value(value)) => Some(Loan::new(self.0, value)),
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

/// Puts the value that it has.
pub(super) struct Put<T>(pub(super) Option<T>);

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
