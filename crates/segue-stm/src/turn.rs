//! The turn: the right to a transaction that can't be made to begin again.
//!
//! Used by transactions that have met conflicts again and again, and by those that meet the holder
//! of the turn.
//!
//! A transaction that has lost sixteen times waits for the turn, of which there is one. The holder
//! *holds* each variable when it first reads or writes it: nobody else can lock a variable that is
//! held, so the holder's reads stay current and its commit can't fail. Others read what is held,
//! and commit beside the holder where they write none of that. A committer that finds a variable of
//! its own held gives up, and waits for the end of the turn.
//!
//! The holder waits for nobody but for a committer in the few instructions of a commit; committers
//! lock in passing and wait for nobody while they have a lock. So the holder ends.
//!
//! ```text
//!   FREE --take: the first that asks--> TAKEN --give back--> FREE, or TAKEN by the next in line
//!                                          `--> all that wait for the end look again
//! ```
//!
//! **Cancellation**: one that waits leaves the line; a turn that was handed over to a wait that is
//! gone is given back.

use segue_core::{Guard, Operation, WaitQueue, Waiting, WaitsFor};
use std::panic::Location;

/// The list of those that ask for the turn.
const ASK: usize = 0;
/// The list of those that wait for its end.
const END: usize = 1;

/// Whether the turn is taken; the waiters of both lists.
type Line = WaitQueue<bool, (), 2>;

#[cfg(not(loom))]
fn line() -> &'static Line {
    static LINE: Line = WaitQueue::new(false);
    &LINE
}

#[cfg(loom)]
fn line() -> &'static Line {
    loom::lazy_static! {
        static ref LINE: Line = WaitQueue::new(false);
    }
    &LINE
}

/// The turn, until its drop.
#[must_use]
pub(crate) struct Turn(());

impl Turn {
    /// The turn, if it is free.
    pub(crate) fn try_take() -> Option<Self> {
        let mut line = line().lock();
        (!std::mem::replace(line.state(), true)).then_some(Self(()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut line = line().lock();
        pass_on(&mut line);
        line.notify_all(END);
    }
}

fn pass_on(line: &mut Guard<'_, bool, (), 2>) {
    let is_taken = line.hand_over(ASK, ()).is_ok();
    *line.state() = is_taken;
}

/// A wait at the line.
#[derive(Clone, Copy)]
pub(crate) enum At {
    /// For the turn.
    Ask,
    /// For the end of somebody's turn.
    End,
}

impl At {
    /// The source of this wait. The [`Turn`] is the waiter's after a commit for [`At::Ask`].
    pub(crate) fn waiting(self, at: &'static Location<'static>) -> Waiting<'static, Self, bool, (), 2> {
        line().operation(WaitsFor { what: "its turn among transactions", at }, self)
    }

    /// The answer to a wait that was served.
    pub(crate) fn served(self) -> Option<Turn> {
        match self {
            Self::Ask => Some(Turn(())),
            Self::End => None,
        }
    }
}

impl Operation<bool, (), 2> for At {
    type Output = ();

    fn attempt(&mut self, line: &mut Guard<'_, bool, (), 2>) -> Option<()> {
        let is_free = self.is_ready(line);
        *line.state() |= is_free && matches!(self, Self::Ask);
        is_free.then_some(())
    }

    fn is_ready(&mut self, line: &mut Guard<'_, bool, (), 2>) -> bool {
        !*line.state()
    }

    fn place(&self) -> (usize, bool) {
        match self {
            Self::Ask => (ASK, false),
            Self::End => (END, false),
        }
    }

    fn commit(&mut self, _slot: Option<()>) -> Option<()> {
        Some(())
    }

    fn give_back(&mut self, _slot: Option<()>, line: &mut Guard<'_, bool, (), 2>) -> Option<()> {
        if matches!(self, Self::Ask) {
            pass_on(line);
        }
        None
    }
}
