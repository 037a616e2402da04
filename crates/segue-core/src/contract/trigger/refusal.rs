//! A waiter that a cancel has marked is served no more.
//!
//! Used by [`claim`](Trigger::claim), and by the guards of queues, which look before they claim.
//!
//! The waiter's thread may be busy for long before its look. Until then a claim would win, and hand
//! over to a waiter that its canceller believes gone. So the claimer looks in the waiter's place:
//! exchanges WAITING for TAKEN, and *then* reads the flag of the waiter's context. If that is set,
//! the claim is refused: the claimer notes the refusal in the header, moves the word to CANCELLED,
//! and owes the resume all the same, as the waiter has been taken out of its wait. The caller gets
//! a no and keeps its value; the resume is in the `Err`, to be sent when the caller holds no lock.
//!
//! * **The place after the exchange**: before that, the header may be gone, as any other thread may
//!   end the wait. Afterwards, the waiter can't leave its wait before this claimer resumes it, and
//!   so neither the header nor any context around the fiber ends.
//! * **The context**: the innermost one at the waiter's registration, which the waiter writes into
//!   its header (`expose`) as its last act before a claim is possible: an earlier look is foreign
//!   code and may wait itself, in contexts of its own. From then on nobody changes that until the
//!   waiter's resume, since waits are refused meanwhile. Only a changed value is written: so the
//!   line stays in the caches of wakers elsewhere. Under a shield the field is null, and nothing is
//!   refused. A canceller marks all contexts further in before returning, so one flag is enough.
//! * **Why that is in time**: the flag was stored before `cancel` returned. A claim that begins
//!   after that reads the set flag. One that runs meanwhile may see either, and its answer agrees
//!   with the waiter's view.
//! * **How the waiter knows**: by its header, and not by the word, which may be gone.
//! * **Between the two steps** the word says TAKEN. The waiter's own thread may see that in an
//!   interrupt, and then leaves the end of the wait to the resume. Other claimers are refused,
//!   which is right either way.
//!
//! The price for a claim is two loads, of the header that the resume is about to touch, and of a
//! flag that is hardly ever written.
#![allow(unsafe_code)] // Contexts and fibers are reached by address.

use super::forward::is_link;
use super::{CANCELLED, Trigger, Wakeup, decode, is_open, word};
use crate::contract::fiber::Fiber;
use crate::contract::tree::context::Context;
use crate::primitives::atomic::Ordering;
use std::ptr::{self, NonNull};

/// In place of a context: the wait is over, since its claimer found a cancellation.
pub(crate) const REFUSED: *mut Context = ptr::without_provenance_mut(1);

impl Trigger {
    /// Names the context that can cancel the wait of the waiter, which calls this, before any other
    /// thread can claim it. Does nothing if one has.
    #[inline]
    pub(crate) fn expose(&self) {
        let seen = self.word.load(Ordering::Relaxed);
        if is_open(seen) {
            // SAFETY: the trigger waits with the caller, or with its stand-in.
            unsafe { seen.as_ref() }.inspect(|fiber| fiber.expose());
        }
    }

    /// The waiter, which the caller has claimed, was cancelled before.
    #[cold]
    pub(super) fn refuse(&self, fiber: &Fiber) -> Wakeup {
        fiber.refuse();
        // For later looks of others. The waiter does not look any more.
        self.word.store(word(CANCELLED), Ordering::Release);
        Wakeup(Some(NonNull::from(fiber)))
    }

    /// Whether a claim would be refused.
    ///
    /// # Safety
    /// The waiter, if there is one, can't leave its wait before this returns.
    pub(crate) unsafe fn refuses(&self) -> bool {
        let seen = self.word.load(Ordering::Acquire);
        // SAFETY: as the caller promises, for the address of a waiter.
        let is_cancelled = |fiber: *mut Fiber| unsafe { fiber.as_ref().is_some_and(|fiber| fiber.is_wait_cancelled()) };
        decode(seen).is_some() || (!is_link(seen) && is_cancelled(seen))
    }
}

impl Fiber {
    /// As [`Trigger::expose`], of a trigger that is about to wait with this fiber.
    #[inline]
    pub(crate) fn expose(&self) {
        let context = self.context().cast_mut();
        // A store would take the line from those that wake the fiber from other threads.
        if self.waits_in.load(Ordering::Relaxed) != context {
            self.waits_in.store(context, Ordering::Relaxed);
        }
    }

    /// Whether the wait that the fiber is in was cancelled, whether or not its own thread knows.
    ///
    /// # Safety
    /// The fiber is in a wait, exposed for that, and can't leave before this returns.
    #[inline]
    pub(crate) unsafe fn is_wait_cancelled(&self) -> bool {
        let context = self.waits_in.load(Ordering::Relaxed);
        // SAFETY: the fiber is inside of the context during its wait, and a context ends after its
        // fibers have left.
        context != REFUSED && unsafe { context.as_ref() }.is_some_and(Context::is_cancelled)
    }

    /// The wait was cancelled, as its claimer saw. For the claimer, before the resume.
    #[cold]
    fn refuse(&self) {
        self.waits_in.store(REFUSED, Ordering::Relaxed);
    }
}
