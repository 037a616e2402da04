//! The turn: the right to a transaction that can't be made to begin again.
//!
//! Used by transactions that have met conflicts again and again, and by those that meet a variable
//! which the holder of the turn has met.
//!
//! A transaction that has lost sixteen times waits for the turn, of which there is one. The holder
//! *holds* each variable when it first reads or writes that: nobody else can lock a variable that
//! is held, so the holder's reads stay current and its commit can't fail. Others read a held
//! variable, and commit beside the holder unless they write one. A committer that finds a variable
//! of its own held gives up, and waits until the turn is free.
//!
//! The holder waits for nobody but for a committer in the midst of a commit. A committer that finds
//! a lock waits a moment for that, and gives up; it waits for no turn while it has a lock. So the
//! holder ends.
//!
//! ```text
//!   FREE --take: an attempt is about to begin--> TAKEN --the attempt has ended--> FREE, and all that wait look
//! ```
//!
//! The turn is taken for one attempt, and never handed over: a task that is told, and is not
//! polled, keeps nobody from the turn. All waiters are told in the order of their coming, and the
//! first that looks has the turn; the others wait again. **Idle**: FREE. **Cancellation**: a waiter
//! leaves the queue.

use segue_core::{Guard, Operation, WaitQueue, Waiting, WaitsFor, no_suspend};
use std::panic::Location;

/// Whether the turn is taken, and the waiters for its end.
type Line = WaitQueue<bool>;

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
        // Not `then_some`: a turn that is made and dropped here would lock once more.
        (!std::mem::replace(line.state(), true)).then(|| Self(()))
    }

    /// The source that is ready when the turn is free.
    pub(crate) fn free(at: &'static Location<'static>) -> Waiting<'static, Free, bool, ()> {
        line().operation(WaitsFor { what: "its turn among transactions", at }, Free)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // To resume a task is to call foreign code, within the attempt.
        no_suspend(|| {
            let mut line = line().lock();
            *line.state() = false;
            line.notify_all(0);
        });
    }
}

/// A look whether the turn is free.
pub(crate) struct Free;

impl Operation<bool, ()> for Free {
    type Output = ();

    fn attempt(&mut self, line: &mut Guard<'_, bool, ()>) -> Option<()> {
        self.is_ready(line).then_some(())
    }

    fn is_ready(&mut self, line: &mut Guard<'_, bool, ()>) -> bool {
        !*line.state()
    }

    fn commit(&mut self, _slot: Option<()>) -> Option<()> {
        Some(())
    }

    fn give_back(&mut self, _slot: Option<()>, _line: &mut Guard<'_, bool, ()>) -> Option<()> {
        // All waiters were told.
        None
    }
}
