//! The turn to initialise a cell: who has it, who waits for it, and how it moves on.
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
//!     +---nobody waits for it------------+  +--+ the turn is dropped: it is handed to the first who waits for it
//! ```
//!
//! The right to initialise is a *turn*, and there is one of it: an [`Initializer`]. Whoever has it may write the value, and nobody reads the value
//! before FULL. It ends filled or dropped, and so an initialiser that fails, panics or is cancelled hands its turn over on the way out: to the first
//! in the list of those who would initialise too, each of which has an initialiser of its own. Those who only wait for the value stand in a list of
//! their own, and are not offered the turn.
//!
//! **Commit point** of a force: the look that finds it FULL, or the instant at which it gets the turn. **Cancellation** before it: the waiter leaves
//! its list. After it: the initialiser is run, and sees the cancellation at its own first wait. A future that is dropped when it had been handed the
//! turn, and not polled since, gives it to the next. **Idle**: EMPTY or FULL, and (FULL) empty lists.
//!
//! **The race to fear**: the turn is handed to a waiter that is just being cancelled, and nobody initialises. The claim of the wait queue decides
//! between the two: if it is refused, the next one is asked, under the same lock, and if there is none the cell is EMPTY when the lock is released.
//!
//! # Who is it?
//!
//! An initialiser that forces its own cell would wait for itself. To tell it from another fiber, RUNNING says who runs: the address of the running
//! fiber's header or, where there is none, of a thread-local variable. An address that is used again can't confuse the two. It is written after its
//! fiber got the turn, and wiped before the same call of a function returns, on that fiber's own stack; so the fiber is alive as long as its address
//! stands there, and two that live at once have different ones. (A task's initialiser runs inside of one poll, by whichever fiber or thread polls.) A
//! turn that is in the user's hands, and could be leaked or sent elsewhere, says nothing of who has it. The address is for the diagnosis alone:
//! exclusion follows from RUNNING.
//!
//! # Orderings
//!
//! `fill` stores `full` (release) after it has written the value; `get` loads it (acquire) and then reads the value. Between one initialiser and the
//! next the lock of the queue orders, or the claim by which the turn was handed over.
//!
//! After chapter 5 of the thesis (lazy values that suspend), with black holes' recursion check; the turn that moves on where the thesis keeps the
//! exception for ever is what std's cells do when an initialiser fails.

#![allow(unsafe_code)] // The turn is the right to write the cell of the value.

use segue_core::{Guard, Operation, Source, Waitable, Waiting, preemption_point, wait};
use std::cell::Cell;
use std::panic::Location;
use std::ptr;

use super::OnceCell;
use super::force_error::{Called, ForceError, Recursive};

/// The list of those who take the turn if it comes to that.
const INITIALISE: usize = 0;
/// The list of those who only want the value.
const READ: usize = 1;

/// Who runs the initialiser, and since where.
#[derive(Clone, Copy)]
pub(super) struct Runner {
    /// The address that stands for a fiber or a thread; zero if it is not known.
    who: usize,
    since: &'static Location<'static>,
}

/// What is under the lock.
pub(super) enum Stage {
    Empty,
    Running(Runner),
    Full,
}

/// The address that stands for the caller as long as it lives: its fiber's header, or a variable of its thread.
fn caller() -> usize {
    thread_local!(static THREAD: Cell<u8> = const { Cell::new(0) });
    match segue_core::current().addr() {
        0 => THREAD.with(|thread| ptr::from_ref(thread).addr()),
        fiber => fiber,
    }
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
    /// Initialises the cell by `f` if it is the caller's turn. If `f` fails or panics, the turn is handed over.
    pub(super) fn run<E>(self, f: impl FnOnce() -> Result<T, E>) -> Result<&'a T, E> {
        match self {
            Turn::Full(value) => Ok(value),
            Turn::Yours(initializer) => Ok(initializer.fill(f()?)),
        }
    }
}

/// The right to initialise a [`OnceCell`]: nobody else has it. Dropping it hands it to the next who waits for it.
#[must_use = "dropping it hands the turn to the next"]
pub struct Initializer<'a, T>(&'a OnceCell<T>);

impl<'a, T> Initializer<'a, T> {
    /// Fills the cell and wakes everybody who waits for it, first those who would have initialised it. Never waits.
    pub fn fill(self, value: T) -> &'a T {
        preemption_point();
        let cell = self.0;
        // The turn ends here, filled.
        std::mem::forget(self);
        // SAFETY: this was the turn.
        unsafe { cell.put(value) };
        let mut turn = cell.turn.lock();
        *turn.state() = Stage::Full;
        cell.publish();
        turn.notify_all(INITIALISE);
        turn.notify_all(READ);
        drop(turn);
        cell.value()
    }
}

impl<T> Drop for Initializer<'_, T> {
    fn drop(&mut self) {
        preemption_point();
        hand_over(&mut self.0.turn.lock());
    }
}

impl<T> std::fmt::Debug for Initializer<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Initializer")
    }
}

/// The turn in the caller's hands.
impl<T> OnceCell<T> {
    /// Waits until the cell is full, or until it is the caller's turn to initialise it: for an initialiser that is not a closure.
    ///
    /// The [`Initializer`](super::Initializer) may be kept and sent elsewhere. Therefore a recursion through it is not noticed: who has the turn and
    /// forces the cell waits.
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

    /// [`turn`](OnceCell::turn) as a source: how a task initialises a cell by something that it awaits.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. A task that had the turn, and is dropped before its next poll, hands it over; later the
    /// [`Initializer`](super::Initializer) does, when it is dropped.
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

/// Hands the turn to the first who takes it; if nobody does, the cell is empty again.
fn hand_over(turn: &mut Guard<'_, Stage, (), 2>) {
    match turn.state() {
        // Who runs is not known before the one who is handed the turn has woken up.
        Stage::Running(runner) => runner.who = 0,
        Stage::Empty | Stage::Full => unreachable!("there is one turn, and it was not over"),
    }
    if turn.hand_over(INITIALISE, ()).is_err() {
        *turn.state() = Stage::Empty;
    }
}

/// What somebody who waits at a cell is after.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// The value, from somebody else.
    Value,
    /// The value; or else the turn, to use it before the call or poll returns.
    Initialise,
    /// The value; or else the turn, to carry it elsewhere.
    Turn,
}

/// Waits until the cell is full, or until it is one's turn.
pub(super) struct Force<'a, T> {
    pub(super) cell: &'a OnceCell<T>,
    pub(super) wants: Wants,
    pub(super) called: Called,
}

impl<T> Force<'_, T> {
    /// Writes down who has the turn.
    fn running(&self) -> Stage {
        let who = if self.wants == Wants::Initialise { caller() } else { 0 };
        Stage::Running(Runner { who, since: self.called.at })
    }
}

impl<'a, T> Operation<Stage, (), 2> for Force<'a, T> {
    type Output = Result<Turn<'a, T>, Recursive>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Option<Self::Output> {
        self.cell.get().map(|value| Ok(Turn::Full(value)))
    }

    fn attempt(&mut self, turn: &mut Guard<'_, Stage, (), 2>) -> Option<Self::Output> {
        match turn.state() {
            Stage::Full => Some(Ok(Turn::Full(self.cell.value()))),
            Stage::Running(runner) if runner.who == caller() => Some(Err(self.called.recursive(runner.since))),
            Stage::Empty if self.wants != Wants::Value => {
                *turn.state() = self.running();
                Some(Ok(Turn::Yours(Initializer(self.cell))))
            }
            Stage::Running(_) | Stage::Empty => None,
        }
    }

    fn is_ready(&mut self, turn: &mut Guard<'_, Stage, (), 2>) -> bool {
        match turn.state() {
            Stage::Full => true,
            Stage::Running(runner) => runner.who == caller(),
            Stage::Empty => self.wants != Wants::Value,
        }
    }

    fn place(&self) -> (usize, bool) {
        (if self.wants == Wants::Value { READ } else { INITIALISE }, false)
    }

    fn commit(&mut self, handed: Option<()>) -> Option<Self::Output> {
        // Without the turn: it was told that the cell is full.
        handed?;
        *self.cell.turn.lock().state() = self.running();
        Some(Ok(Turn::Yours(Initializer(self.cell))))
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
