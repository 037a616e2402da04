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
//! ```text
//!   FREE --take: an attempt is about to begin--> TAKEN --the attempt has ended--> FREE, and all that wait look
//! ```
//!
//! The turn is taken for one attempt, and never handed over: a task that is told, and is not
//! polled, keeps nobody from the turn. All waiters are told in the order of their coming, and the
//! first that looks has the turn; the others wait again. **Idle**: FREE. **Cancellation**: a waiter
//! leaves the queue.
//!
//! # Deadlocks and livelocks
//!
//! - *Committers among each other.* They lock in the order of addresses, and give up after a
//!   moment: no deadlock. Two that make each other give up stand back for a random time, and the
//!   turn ends that.
//! - *The holder and committers.* The holder waits for nobody but for a committer in the midst of a
//!   commit, which runs no foreign code and waits for nothing but other such locks, for a moment.
//!   A committer waits for the end of the turn only after its locks. So the holder ends if its body
//!   does.
//! - *A body that waits.* On a fiber a wait is refused. A plain thread is parked, and any lock of
//!   std's blocks: if the other side needs a variable that the body's turn holds, both wait for
//!   ever. Nothing finds this, which needs sixteen conflicts to happen; so bodies do not wait, and
//!   take no lock that others keep around a transaction. A cell that somebody else initialises is
//!   no such wait: the attempt ends, and with that the turn (`outside.rs`).
//! - *A body in turn, suspended.* Only a simulator does that. Others then wait, and the holder goes
//!   on.
//! - *A fiber that must not be suspended* and meets the holder, in the drop of a value for one,
//!   lets other threads run and looks again. The holder is on another thread, since neither a body
//!   nor that fiber is suspended, and the holder's own thread frees memory after the turn alone: so
//!   the holder ends. In a simulation the holder may be on this thread, and the wait is refused.
//! - *Starvation.* A waiter that is told may find the next holder there. A transaction counts that
//!   as a conflict, and so asks for the turn itself; among those that ask chance decides, as among
//!   writers without a turn ([`TVar::set`](crate::TVar::set)), which need one instant between two
//!   holders.

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
