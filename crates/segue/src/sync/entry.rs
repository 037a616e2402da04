//! The entry of a cell: its value, or the right to initialise the cell; the holder of that right,
//! its waiters, and its way from one to the next.
//!
//! Used by [`OnceCell`](super::OnceCell), which adds the value and the calls.
//!
//! # States
//!
//! ```text
//!            an attempt takes the right         fill: the value into the cell
//!   EMPTY -----------------------------> RUNNING -----------------------------> FULL
//!     ^                                  |  ^  |                     (for ever, or until somebody has the cell to itself)
//!     |   the right is dropped,          |  |  |
//!     +---nobody waits for it------------+  +--+ the right is dropped: it is handed to the first waiter
//! ```
//!
//! The right to initialise is there once: an [`Initializer`]. Its holder may write the value, and
//! nobody reads the value before FULL. The right ends filled or dropped, and so an initialiser that
//! fails, panics or is cancelled hands the right over on the way out: to the first waiter that
//! brought an initialiser of its own. Waiters that only want the value stand in a list of their
//! own, and are not offered the right.
//!
//! **Commit point** of a force: the look that finds FULL, or the instant of getting the right.
//! **Cancellation** before that: the waiter leaves its list. Afterwards: the initialiser is run,
//! and sees the cancellation at its own first wait. A future that is dropped between getting the
//! right and its next poll gives the right to the next. **Idle**: EMPTY or FULL, and (FULL) empty
//! lists.
//!
//! **The race to fear**: the right is handed to a waiter that is just being cancelled, and nobody
//! initialises. The claim of the wait queue decides between the two: if the claim is refused, the
//! next one is asked, under the same lock, and if there is none the cell is EMPTY when the lock is
//! released.
//!
//! # Recursion
//!
//! An initialiser that forces its own cell would wait for itself, on its own fiber or on any for
//! which that fiber waits without fail: a scope's, the other half of a join, a call that blocks or
//! runs on another scheduler. So each initialiser runs in an [`Extent`] of its own, RUNNING says
//! which, and a force that comes from inside of that one fails. Such a force could not have got the
//! value: the initialiser does not return before the force has ended.
//!
//! Nobody is ever inside of the extent of an [`Initializer`] that is in the user's hands, and could
//! be leaked or sent elsewhere. The extent is for the diagnosis alone: exclusion follows from
//! RUNNING.
//!
//! # In the body of a transaction
//!
//! A force that would have to wait stops the body: the transaction begins again when some cell has
//! become full, or empty again, as if the transaction had waited before (`segue_stm::outside`). A
//! right that is handed to another waiter changes nothing for such a body. A right that nobody
//! takes is dropped after the lock, and tells the bodies, if somebody has looked in vain since the
//! last change. An initialiser that runs in a body has no transaction of its own, which would be
//! undone with the one around while the value stays.
//!
//! # Orderings
//!
//! `fill` stores `full` (release) after the write of the value; `get` loads it (acquire) and then
//! reads the value. Between one initialiser and the next the lock of the queue orders, or the claim
//! by which the right was handed over.
//!
//! After chapter 5 of the thesis (lazy values that suspend), with black holes' recursion check. The
//! right moves on where the thesis keeps the exception for ever, as std's cells do when an
//! initialiser fails. An entry that is full, or else lets the caller fill it, is the shape of std's
//! maps.

#![allow(unsafe_code)] // An initializer is the right to write the cell of the value.

use segue_core::{Extent, Guard, Operation, Owner, Source, Unlocked, Waitable, Waiting, preemption_point};
use std::panic::Location;

use super::OnceCell;
use super::force_error::{Called, ForceError, Recursive};
use super::outside;

/// The list of waiters that would take the right.
pub(super) const INITIALISE: usize = 0;
/// The list of waiters that only want the value.
pub(super) const READ: usize = 1;

/// The holder of the right, and the place where the right was taken.
#[derive(Clone, Copy)]
pub(super) struct Runner {
    /// The extent of the initialiser, if the cell runs one.
    extent: Extent,
    since: &'static Location<'static>,
}

/// The state under the lock.
pub(super) struct State {
    stage: Stage,
    /// Whether somebody has looked in vain since the last change, perhaps a body.
    in_vain: bool,
}

enum Stage {
    Empty,
    Running(Runner),
    Full,
}

impl State {
    pub(super) const EMPTY: Self = Self { stage: Stage::Empty, in_vain: false };
    pub(super) const FULL: Self = Self { stage: Stage::Full, in_vain: false };
}

/// The content that a caller finds in a [`OnceCell`].
#[derive(Debug)]
pub enum Entry<'a, T> {
    /// The value: somebody else has initialised the cell.
    Full(&'a T),
    /// Nothing, and the right to initialise the cell, which the caller has now.
    Empty(Initializer<'a, T>),
}

impl<'a, T> Entry<'a, T> {
    /// Initialises the cell by `f` if that is empty. If `f` fails or panics, the right is handed
    /// over.
    pub(super) fn run<E>(self, f: impl FnOnce() -> Result<T, E>) -> Result<&'a T, E> {
        match self {
            Entry::Full(value) => Ok(value),
            Entry::Empty(initializer) => {
                let value = initializer.extent.run(f)?;
                Ok(initializer.fill(value))
            }
        }
    }
}

/// The right to initialise a [`OnceCell`]: nobody else has that right. Its drop hands the right to
/// the next waiter.
#[must_use = "dropping it hands the right to the next"]
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
        // The right ends here, filled.
        std::mem::forget(self);
        let mut state = cell.state.lock();
        let was_empty = std::mem::replace(state.state(), State::FULL);
        // SAFETY: this was the right to initialise this cell.
        unsafe { cell.put(value) };
        // A waiter that is told now counts as waiting until it runs.
        cell.owner.forget();
        state.notify_all(INITIALISE);
        cell.state.lock().notify_all(READ);
        if was_empty.in_vain {
            outside::changed();
        }
        // SAFETY: `put` has returned, on this thread.
        unsafe { cell.value() }
    }
}

impl<T> Drop for Initializer<'_, T> {
    fn drop(&mut self) {
        preemption_point();
        let untaken = hand_over(&self.cell.owner, &mut self.cell.state.lock());
        drop(untaken);
    }
}

segue_core::impl_debug!([T] Initializer<'_, T>);

/// The entry in the caller's hands.
impl<T> OnceCell<T> {
    /// The value, or the right to initialise the cell, after waiting while somebody else has that:
    /// for an initialiser that is not a closure.
    ///
    /// The [`Initializer`](super::Initializer) may be kept and sent elsewhere. Therefore a
    /// recursion through such a right is not noticed: a holder that forces the cell waits.
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
    /// use segue::sync::{Entry, OnceCell};
    ///
    /// let cell = OnceCell::new();
    /// let Ok(Entry::Empty(initializer)) = cell.entry() else { unreachable!("it is empty") };
    /// assert!(cell.try_entry().is_none());
    /// assert_eq!(initializer.fill(7), &7);
    /// ```
    #[track_caller]
    pub fn entry(&self) -> Result<Entry<'_, T>, ForceError> {
        self.entry_to_run(Called::of::<Self>())
    }

    /// The value or the right, if either can be had now. Never waits.
    #[track_caller]
    pub fn try_entry(&self) -> Option<Entry<'_, T>> {
        preemption_point();
        self.entry_source().attempt()?.ok()
    }

    /// [`entry`](OnceCell::entry) as a source: for a task that initialises a cell by an awaited
    /// value.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. A task that had the right, and is dropped before its next
    /// poll, hands that over; later the drop of the [`Initializer`](super::Initializer) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::{Entry, OnceCell, Recursive};
    ///
    /// async fn force(cell: &OnceCell<u32>) -> Result<&u32, Recursive> {
    ///     Ok(match cell.entry_source().await? {
    ///         Entry::Full(value) => value,
    ///         Entry::Empty(initializer) => initializer.fill(async { 42 }.await),
    ///     })
    /// }
    /// ```
    #[track_caller]
    pub fn entry_source(&self) -> Waitable<impl Source<Output = Result<Entry<'_, T>, Recursive>>> {
        Waitable::new(self.waiting::<INITIALISE>(Called::of::<Self>()))
    }
}

/// The right on its way to a waiter. One that nobody has taken is dropped after the lock.
pub(super) struct Right;

impl Drop for Right {
    fn drop(&mut self) {
        outside::changed();
    }
}

/// Hands the right to the first waiter that takes one; if none does, the cell is empty again.
/// Answers with a right that tells bodies in its drop, if one may have looked: an initialiser that
/// has failed since its own body begins again would else tell itself, time and again.
fn hand_over(owner: &Owner, state: &mut Guard<'_, State, Right, 2>) -> Option<Right> {
    owner.hand_over();
    let untaken = state.hand_over(INITIALISE, Right).err()?;
    owner.forget();
    let before = std::mem::replace(state.state(), State::EMPTY);
    if !before.in_vain {
        std::mem::forget(untaken);
        return None;
    }
    Some(untaken)
}

/// Waits until the cell is full, or, in the list of initialisers, until the right comes.
pub(super) struct Force<'a, T, const LIST: usize> {
    pub(super) cell: &'a OnceCell<T>,
    pub(super) called: Called,
}

impl<'a, T, const LIST: usize> Force<'a, T, LIST> {
    /// The right, and the place where it was taken.
    fn take(&self, state: &mut State) -> Entry<'a, T> {
        let extent = Extent::new();
        state.stage = Stage::Running(Runner { extent, since: self.called.at });
        self.cell.owner.note();
        Entry::Empty(Initializer { cell: self.cell, extent })
    }
}

impl<'a, T, const LIST: usize> Operation<State, Right, 2> for Force<'a, T, LIST> {
    type Output = Result<Entry<'a, T>, Recursive>;

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<Self::Output> {
        match self.cell.get() {
            Some(value) => Unlocked::Done(Ok(Entry::Full(value))),
            None => Unlocked::Look,
        }
    }

    fn attempt(&mut self, state: &mut Guard<'_, State, Right, 2>) -> Option<Self::Output> {
        match state.state().stage {
            // SAFETY: the cell is filled under this lock, together with the change of its stage.
            Stage::Full => Some(Ok(Entry::Full(unsafe { self.cell.value() }))),
            Stage::Running(runner) if runner.extent.is_around() => Some(Err(self.called.recursive(runner.since))),
            Stage::Empty if LIST == INITIALISE => Some(Ok(self.take(state.state()))),
            Stage::Running(_) | Stage::Empty => {
                state.state().in_vain = true;
                None
            }
        }
    }

    fn is_ready(&mut self, state: &mut Guard<'_, State, Right, 2>) -> bool {
        match state.state().stage {
            Stage::Full => true,
            Stage::Running(runner) => runner.extent.is_around(),
            Stage::Empty => LIST == INITIALISE,
        }
    }

    fn owner(&self) -> Option<&Owner> {
        Some(&self.cell.owner)
    }

    fn place(&self) -> (usize, bool) {
        (LIST, false)
    }

    fn commit(&mut self, handed: Option<Right>) -> Option<Self::Output> {
        // Without the right: told that the cell is full.
        std::mem::forget(handed?);
        Some(Ok(self.take(self.cell.state.lock().state())))
    }

    fn give_back(&mut self, handed: Option<Right>, state: &mut Guard<'_, State, Right, 2>) -> Option<Right> {
        std::mem::forget(handed?);
        hand_over(&self.cell.owner, state)
    }
}

/// A [`Force`] as a source.
pub(super) type Forcing<'a, T, const LIST: usize = INITIALISE> = Waiting<'a, Force<'a, T, LIST>, State, Right, 2>;
