//! The waits of users for a trigger: by a fiber or a plain thread, with cancellation.
//!
//! Used by structures, drivers and handles. The contract has both halves, to bind a trigger to a
//! fiber and to suspend that fiber; a wait looks whether the fiber was cancelled or may not wait,
//! and gives a plain thread a header.
//!
//! # Waiting again
//!
//! The end of a task is waited for through a trigger that outlives the wait. A wait of that kind
//! which is cancelled must not end the trigger, since the handle joins again:
//!
//! ```text
//!   WAITING --stand_down: the waiter's thread, in place of withdraw--> INITIAL
//! ```
//!
//! If a claimer has refused, the word says CANCELLED although the task has ended: its handle takes
//! either final word for the end. The waiter learns of the refusal from its header.
#![allow(unsafe_code)] // Contexts are entered by address.

use crate::chain::deferred_wakers::let_go;
use crate::contract::fiber::Fiber;
use crate::contract::trigger::{Outcome, Trigger};
use crate::primitives::at_end::at_end;
use crate::primitives::waits_for::{WaitsFor, WaitsOn};
use crate::thread::here;
use crate::tree::cancelled::Cancelled;
use std::ptr;
use std::sync::Arc;

/// Whether a fiber that is registered for a wait is to suspend. The wakers that its thread has put
/// off are called first, and a waker that would wait is refused. If there were some, the fiber may
/// have been cancelled meanwhile.
#[inline]
pub(super) fn is_to_suspend(fiber: &Fiber) -> bool {
    !let_go() || join_again(fiber)
}

/// A waker in the middle of a wait may have left the context. Joins the context again, and answers
/// whether the wait goes on, without a cancellation meanwhile.
#[cold]
fn join_again(fiber: &Fiber) -> bool {
    fiber.join_context();
    !fiber.interrupted()
}

impl Trigger {
    /// Waits with a new trigger, which waits already when `publish` makes the trigger known. So a
    /// claimer may owe a resume before the scheduler was asked to suspend this fiber: for the suite
    /// that checks schedulers.
    ///
    /// # Safety
    /// `publish` does not panic, wait or perform.
    #[doc(hidden)]
    pub unsafe fn wait_published(waits_for: WaitsFor, publish: impl FnOnce(&Arc<Self>)) -> Outcome {
        here::with_current(|fiber| {
            // SAFETY: the wait is finished below, as `publish` comes back and does not suspend.
            let trigger = Arc::new(unsafe { Self::waiting(fiber) });
            // SAFETY: this fiber is the waiter of the trigger, which was just made.
            unsafe { trigger.expose() };
            publish(&trigger);
            // SAFETY: the trigger waits with this fiber, the calling one.
            unsafe { trigger.finish(fiber, waits_for.into()) }
        })
    }

    /// The second half of a wait that began with [`waiting`](Trigger::waiting).
    ///
    /// # Safety
    /// The trigger waits with `fiber`, the calling one, and was not withdrawn.
    #[inline(always)] // As `Trigger::sleep`.
    pub(crate) unsafe fn finish(&self, fiber: &Fiber, waits_on: WaitsOn) -> Outcome {
        fiber.join_context();
        if fiber.is_cancelled() && self.withdraw().is_some() {
            return Outcome::Cancelled;
        }
        // SAFETY: as the caller promises, and it was not withdrawn just now.
        unsafe { self.sleep(fiber, waits_on, || is_to_suspend(fiber)) }
    }

    /// Suspends the calling fiber, or parks the calling thread, until the trigger is signalled or
    /// the wait is cancelled.
    ///
    /// Returns at once after an earlier signal. Reports say `waits_for` of this fiber.
    ///
    /// # Cancellation
    /// *No effect*: the trigger can no longer be signalled and says so to each signaller, from the
    /// moment at which `cancel` has returned. A signal that came before the wait wins, also over an
    /// earlier cancellation. A fiber that is panicking is not suspended: its wait ends as if
    /// cancelled.
    ///
    /// # Panics
    /// If there is a waiter on this trigger already.
    #[inline]
    pub fn wait(&self, waits_for: WaitsFor) -> Outcome {
        if let Some(outcome) = self.outcome() {
            return outcome;
        }
        here::on_current(|fiber| {
            fiber.join_context();
            if fiber.is_cancelled() || fiber.must_not_suspend() {
                return self.cancel_unless_awaited();
            }
            // SAFETY: the fiber is the calling one, and may suspend.
            unsafe { self.suspend(fiber, waits_for.into()) }
        })
    }

    /// As [`wait`](Trigger::wait), but neither cancellation nor a panic under way ends this wait.
    ///
    /// For the few waits that guard memory: the end of a scope, a borrowed buffer in the kernel's
    /// hands. A panicking fiber, which must not be suspended, blocks its thread here.
    pub fn wait_shielded(&self, waits_for: WaitsFor) {
        self.wait_shielded_on(waits_for.into());
    }

    /// As [`wait_shielded`](Trigger::wait_shielded), with an object.
    pub(crate) fn wait_shielded_on(&self, waits_on: WaitsOn) {
        if self.outcome().is_some() {
            return;
        }
        let wait = |fiber: &Fiber| {
            // SAFETY: none, and then the context that this fiber is inside of.
            let context = unsafe { fiber.enter_context(ptr::null()) };
            // SAFETY: as above.
            let _restore = at_end(|| _ = unsafe { fiber.enter_context(context) });
            // SAFETY: the fiber is the calling one, which may suspend: see below.
            let outcome = unsafe { self.suspend(fiber, waits_on) };
            debug_assert!(matches!(outcome, Outcome::Taken(_)));
        };
        if here::on_current(Fiber::must_not_suspend) {
            // SAFETY: `wait` is code of ours, which captures nothing.
            unsafe { here::as_plain_thread(|| here::on_current(wait)) };
        } else {
            here::on_current(wait);
        }
    }

    /// # Safety
    /// `fiber` is the calling one, and may suspend.
    #[inline]
    unsafe fn suspend(&self, fiber: &Fiber, waits_on: WaitsOn) -> Outcome {
        // SAFETY: the fiber may suspend, as the caller promises, and sleeps next if it is bound.
        // `is_to_suspend` denies only if the fiber was interrupted, and has withdrawn.
        unsafe {
            match self.bind(fiber) {
                Ok(()) => self.sleep(fiber, waits_on, || is_to_suspend(fiber)),
                Err(outcome) => outcome,
            }
        }
    }

    /// As [`wait`](Trigger::wait), but a wait that is cancelled leaves the trigger as before: for
    /// signals, and for another wait. For drivers with ops that end by themselves, and may be asked
    /// to end sooner.
    ///
    /// # Cancellation
    /// *No effect*: the trigger is as before the wait.
    ///
    /// # Errors
    /// The cancellation, if that came first.
    ///
    /// # Panics
    /// If there is a waiter on this trigger already.
    #[inline]
    #[track_caller]
    pub fn wait_once_more(&self, waits_for: WaitsFor) -> Result<(), Cancelled> {
        self.wait_once_more_on(waits_for.into())
    }

    /// As [`wait_once_more`](Trigger::wait_once_more), with an object.
    ///
    /// # Cancellation
    /// *No effect*: the trigger is as before the wait.
    #[inline]
    pub(crate) fn wait_once_more_on(&self, waits_on: WaitsOn) -> Result<(), Cancelled> {
        if self.outcome().is_some() {
            return Ok(());
        }
        here::on_current(|fiber| {
            fiber.join_context();
            if fiber.is_cancelled() {
                return Err(fiber.cancelled());
            }
            if fiber.must_not_suspend() {
                return Err(fiber.refused());
            }
            fiber.retreats.set(true);
            // SAFETY: the fiber is the calling one, and may suspend.
            let outcome = unsafe { self.suspend(fiber, waits_on) };
            fiber.retreats.set(false);
            if outcome == Outcome::Cancelled { Err(fiber.cancelled()) } else { Ok(()) }
        })
    }
}
