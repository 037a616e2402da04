//! A trigger that is waited for again after a wait for it was cancelled.
//!
//! Used by handles: the end of a task is waited for through a trigger that outlives the wait. A
//! wait of that kind which is cancelled must not end the trigger, since the handle joins again:
//!
//! ```text
//!   WAITING --stand_down: the waiter's thread, in place of withdraw--> INITIAL
//! ```
//!
//! If a claimer has refused, the word says CANCELLED although the task has ended: its handle takes
//! either final word for the end. The waiter is told by its header that it was refused.

use super::{Outcome, Trigger};
use crate::contract::current;
use crate::contract::fiber::{Fiber, WaitsFor};
use crate::primitives::atomic::Ordering;
use crate::tree::cancelled::Cancelled;
use std::ptr;

impl Trigger {
    /// As [`wait`](Trigger::wait), but a wait that is cancelled leaves the trigger as it was: it
    /// can still be signalled, and waited for again. For a driver whose ops end by themselves, and
    /// may be asked to end sooner.
    ///
    /// # Cancellation
    /// *No effect*: the trigger is as it was before the wait.
    ///
    /// # Errors
    /// The cancellation, if it came first.
    ///
    /// # Panics
    /// If there is a waiter on this trigger already.
    #[inline]
    #[track_caller]
    pub fn wait_once_more(&self, waits_for: WaitsFor) -> Result<(), Cancelled> {
        if self.outcome().is_some() {
            return Ok(());
        }
        current::on_current(|fiber| {
            fiber.join_context();
            if fiber.is_cancelled() {
                return Err(fiber.cancelled());
            }
            if fiber.must_not_suspend() {
                return Err(fiber.refused());
            }
            fiber.retreats(true);
            let outcome = self.suspend(fiber, waits_for);
            fiber.retreats(false);
            if outcome == Outcome::Cancelled { Err(fiber.cancelled()) } else { Ok(()) }
        })
    }

    /// Ends the wait of `fiber` for a trigger that is waited for [again](Trigger::wait_once_more).
    /// Answers whether nobody had signalled before.
    #[must_use]
    pub(crate) fn stand_down(&self, fiber: &Fiber) -> bool {
        let me = ptr::from_ref(fiber).cast_mut();
        self.word.compare_exchange(me, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
