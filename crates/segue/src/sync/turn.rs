//! The turn to initialise a cell: its holder, its waiters, and how it moves on.
//!
//! Used by [`OnceCell`](super::OnceCell), which adds the value and the calls.
//!
//! # States
//!
//! ```text
//!            an attempt takes the turn          fill: the value into the cell
//!   EMPTY -----------------------------> RUNNING -----------------------------> FULL
//!     ^                                  |  ^  |                     (for ever, or until somebody has the cell to itself)
//!     |   the turn is dropped,           |  |  |
//!     +---nobody waits for it------------+  +--+ the turn is dropped: it is handed to the first waiter
//! ```
//!
//! The right to initialise is a *turn*, and there is one of it: an [`Initializer`]. Its holder may
//! write the value, and nobody reads the value before FULL. It ends filled or dropped, and so an
//! initialiser that fails, panics or is cancelled hands its turn over on the way out: to the first
//! waiter that brought an initialiser of its own. Waiters that only want the value stand in a list
//! of their own, and are not offered the turn.
//!
//! **Commit point** of a force: the look that finds it FULL, or the instant at which it gets the
//! turn. **Cancellation** before it: the waiter leaves its list. After it: the initialiser is run,
//! and sees the cancellation at its own first wait. A future that is dropped when it had been
//! handed the turn, and not polled since, gives it to the next. **Idle**: EMPTY or FULL, and (FULL)
//! empty lists.
//!
//! **The race to fear**: the turn is handed to a waiter that is just being cancelled, and nobody
//! initialises. The claim of the wait queue decides between the two: if it is refused, the next one
//! is asked, under the same lock, and if there is none the cell is EMPTY when the lock is released.
//!
//! # Which caller is it?
//!
//! An initialiser that forces its own cell would wait for itself, on its own fiber or on any that
//! it waits for without fail: a scope's, the other half of a join, a call that blocks or runs on
//! another scheduler. So each initialiser runs in an [`Extent`] of its own, RUNNING says which, and
//! a force that comes from inside of that one fails. It could not have got the value: the
//! initialiser does not return before the one that forces has ended.
//!
//! Nobody is ever inside of the extent of a turn that is in the user's hands, and could be leaked
//! or sent elsewhere. The extent is for the diagnosis alone: exclusion follows from RUNNING.
//!
//! # Orderings
//!
//! `fill` stores `full` (release) after it has written the value; `get` loads it (acquire) and then
//! reads the value. Between one initialiser and the next the lock of the queue orders, or the claim
//! by which the turn was handed over.
//!
//! After chapter 5 of the thesis (lazy values that suspend), with black holes' recursion check; the
//! turn that moves on where the thesis keeps the exception for ever is what std's cells do when an
//! initialiser fails.

#![allow(unsafe_code)] // The turn is the right to write the cell of the value.

use segue_core::{Extent, Guard, Operation, Source, Unlocked, Waitable, Waiting, preemption_point, wait};
use std::panic::Location;

use super::OnceCell;
use super::force_error::{Called, ForceError, Recursive};

/// The list of waiters that take the turn if it comes to that.
const INITIALISE: usize = 0;
/// The list of waiters that only want the value.
const READ: usize = 1;

/// The holder of the turn, and where it got it.
#[derive(Clone, Copy)]
pub(super) struct Runner {
    /// What the initialiser runs in, if it is one that the cell runs.
    extent: Extent,
    since: &'static Location<'static>,
}

/// What is under the lock.
pub(super) enum Stage {
    Empty,
    Running(Runner),
    Full,
}

/// What comes of waiting for one's turn at a [`OnceCell`].
#[derive(Debug)]
pub enum Turn<'a, T> {
    /// The cell is full: somebody else has initialised it.
    Full(&'a T),
    /// It is the caller's turn to initialise it.
    Yours(Initializer<'a, T>),
}

impl<'a, T> Turn<'a, T> {
    /// Initialises the cell by `f` if it is the caller's turn. If `f` fails or panics, the turn is
    /// handed over.
    pub(super) fn run<E>(self, f: impl FnOnce() -> Result<T, E>) -> Result<&'a T, E> {
        match self {
            Turn::Full(value) => Ok(value),
            Turn::Yours(initializer) => {
                let value = initializer.extent.run(f)?;
                Ok(initializer.fill(value))
            }
        }
    }
}

/// The right to initialise a [`OnceCell`]: nobody else has it. Dropping it hands it to the next
/// waiter.
#[must_use = "dropping it hands the turn to the next"]
pub struct Initializer<'a, T> {
    cell: &'a OnceCell<T>,
    extent: Extent,
}

impl<'a, T> Initializer<'a, T> {
    /// Fills the cell and wakes all its waiters, first those with an initialiser of their own.
    /// Never waits.
    pub fn fill(self, value: T) -> &'a T {
        preemption_point();
        let cell = self.cell;
        // The turn ends here, filled.
        std::mem::forget(self);
        // SAFETY: this was the turn.
        unsafe { cell.put(value) };
        let mut turn = cell.turn.lock();
        *turn.state() = Stage::Full;
        cell.publish();
        turn.notify_all(INITIALISE);
        cell.turn.lock().notify_all(READ);
        cell.value()
    }
}

impl<T> Drop for Initializer<'_, T> {
    fn drop(&mut self) {
        preemption_point();
        hand_over(&mut self.cell.turn.lock());
    }
}

impl<T> std::fmt::Debug for Initializer<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Initializer")
    }
}

/// The turn in the caller's hands.
impl<T> OnceCell<T> {
    /// Waits until the cell is full, or until it is the caller's turn to initialise it: for an
    /// initialiser that is not a closure.
    ///
    /// The [`Initializer`](super::Initializer) may be kept and sent elsewhere. Therefore a
    /// recursion through it is not noticed: a holder of the turn that forces the cell waits.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*.
    ///
    /// # Errors
    /// As for [`wait`](OnceCell::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::{OnceCell, Turn};
    ///
    /// let cell = OnceCell::new();
    /// let Ok(Turn::Yours(initializer)) = cell.turn() else { unreachable!("it is empty") };
    /// assert!(cell.try_turn().is_none());
    /// assert_eq!(initializer.fill(7), &7);
    /// ```
    #[track_caller]
    pub fn turn(&self) -> Result<Turn<'_, T>, ForceError> {
        Ok(wait(&mut self.waiting(Wants::Turn, self.called()))??)
    }

    /// The value or the turn, if either can be had now. Never waits.
    #[track_caller]
    pub fn try_turn(&self) -> Option<Turn<'_, T>> {
        preemption_point();
        self.waiting(Wants::Turn, self.called()).attempt()?.ok()
    }

    /// [`turn`](OnceCell::turn) as a source: how a task initialises a cell by something that it
    /// awaits.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. A task that had the turn, and is dropped before its next
    /// poll, hands it over; later the [`Initializer`](super::Initializer) does, when it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::{OnceCell, Recursive, Turn};
    ///
    /// async fn force(cell: &OnceCell<u32>) -> Result<&u32, Recursive> {
    ///     Ok(match cell.turn_source().await? {
    ///         Turn::Full(value) => value,
    ///         Turn::Yours(initializer) => initializer.fill(async { 42 }.await),
    ///     })
    /// }
    /// ```
    #[track_caller]
    pub fn turn_source(&self) -> Waitable<impl Source<Output = Result<Turn<'_, T>, Recursive>>> {
        Waitable::new(self.waiting(Wants::Turn, self.called()))
    }
}

/// Hands the turn to the first waiter that takes it; if none does, the cell is empty again.
fn hand_over(turn: &mut Guard<'_, Stage, (), 2>) {
    if turn.hand_over(INITIALISE, ()).is_err() {
        *turn.state() = Stage::Empty;
    }
}

/// What a waiter of a cell wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// The value, from somebody else.
    Value,
    /// The value; or else the turn.
    Turn,
}

/// Waits until the cell is full, or until it is one's turn.
pub(super) struct Force<'a, T> {
    pub(super) cell: &'a OnceCell<T>,
    pub(super) wants: Wants,
    pub(super) called: Called,
}

impl<'a, T> Force<'a, T> {
    /// The turn, and where it was taken.
    fn take(&self, stage: &mut Stage) -> Turn<'a, T> {
        let extent = Extent::new();
        *stage = Stage::Running(Runner { extent, since: self.called.at });
        Turn::Yours(Initializer { cell: self.cell, extent })
    }
}

impl<'a, T> Operation<Stage, (), 2> for Force<'a, T> {
    type Output = Result<Turn<'a, T>, Recursive>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Self::Output> {
        match self.cell.get() {
            Some(value) => Unlocked::Done(Ok(Turn::Full(value))),
            None => Unlocked::Look,
        }
    }

    fn attempt(&mut self, turn: &mut Guard<'_, Stage, (), 2>) -> Option<Self::Output> {
        match turn.state() {
            Stage::Full => Some(Ok(Turn::Full(self.cell.value()))),
            Stage::Running(runner) if runner.extent.is_around() => Some(Err(self.called.recursive(runner.since))),
            Stage::Empty if self.wants != Wants::Value => Some(Ok(self.take(turn.state()))),
            Stage::Running(_) | Stage::Empty => None,
        }
    }

    fn is_ready(&mut self, turn: &mut Guard<'_, Stage, (), 2>) -> bool {
        match turn.state() {
            Stage::Full => true,
            Stage::Running(runner) => runner.extent.is_around(),
            Stage::Empty => self.wants != Wants::Value,
        }
    }

    fn place(&self) -> (usize, bool) {
        (if self.wants == Wants::Value { READ } else { INITIALISE }, false)
    }

    fn commit(&mut self, handed: Option<()>) -> Option<Self::Output> {
        // Without the turn: it was told that the cell is full.
        handed?;
        Some(Ok(self.take(self.cell.turn.lock().state())))
    }

    fn give_back(&mut self, handed: Option<()>, turn: &mut Guard<'_, Stage, (), 2>) -> Option<()> {
        if handed.is_some() {
            hand_over(turn);
        }
        None
    }
}

/// A [`Force`] as a source.
pub(super) type Forcing<'a, T> = Waiting<'a, Force<'a, T>, Stage, (), 2>;
