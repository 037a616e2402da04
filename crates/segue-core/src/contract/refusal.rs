//! Refusals: when the cancel of a context has returned, no later claim of a waiter inside succeeds.
//!
//! Used by `Trigger::claim`, and by the guards of queues, which look before they claim.
//!
//! The waiter's thread may be busy for long before that thread looks. Until then a claim would win,
//! and hand over to a waiter that its canceller believes gone. So the claimer looks in the waiter's
//! place: the claimer exchanges WAITING for TAKEN, and *then* reads the flag of the waiter's
//! context. If that flag is set, the claim is refused: the claimer notes that in the header, moves
//! the word to CANCELLED, and owes the resume all the same, as the waiter has been taken out of its
//! wait. The caller of `claim` keeps the value, and has the resume in the `Err`, to send it later.
//!
//! * **The place after the exchange**: before that, the header may be gone, as any other thread may
//!   end the wait. After it, the waiter can't leave its wait before this claimer's resume, and so
//!   neither the header nor any context that the fiber is inside of ends.
//! * **Which context**: the innermost one when the waiter registers. The waiter writes the slot
//!   (`expose`) before a claim can come, after all foreign code that may wait itself, in contexts
//!   of its own; and only if the context is another one, so that the line stays in the caches of
//!   threads that wake the fiber. Until the resume the waiter's waits are refused, and the claimer
//!   alone writes: REFUSED. (A fiber that comes into a context at the slot's address renews the
//!   pointer, in `enter_context`; a REFUSED stays.) Under a shield the slot has no context further
//!   out: nothing is refused before the shield's own end. A canceller marks all contexts further in
//!   before `cancel` returns, so one flag is enough.
//! * **Why in time**: the flag was stored before `cancel` returned. A claim that begins after that
//!   reads the flag set. A claim that runs meanwhile may see either; the waiter has its answer.
//! * **How the waiter knows**: by its header, and not by the word, which may be gone.
//! * **Between the two steps** the word says TAKEN. The waiter's own thread may see that in an
//!   interrupt, and then leaves the end of the wait to the resume. Other claims fail, and should.
//!
//! A claim pays two loads: of the header, which the resume touches next, and of a quiet flag.
#![allow(unsafe_code)] // Contexts and fibers are reached by address.

use crate::contract::fiber::Fiber;
use crate::contract::slots::ContextHead;
use crate::primitives::atomic::Ordering;
use std::ptr;

/// In place of a context: the wait is over, as its claimer found the context cancelled.
pub(crate) const REFUSED: *mut ContextHead = ptr::without_provenance_mut(1);

impl Fiber {
    /// Says which context can cancel the fiber's next wait, before any thread can claim that wait.
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
    /// The fiber was exposed for a wait, and can't leave that wait before this returns.
    #[inline]
    pub(crate) unsafe fn is_wait_cancelled(&self) -> bool {
        let context = self.waits_in.load(Ordering::Relaxed);
        // SAFETY: the fiber is inside of the context as long as the wait lasts, and a context ends
        // after its fibers have left.
        context != REFUSED && unsafe { context.as_ref() }.is_some_and(ContextHead::is_cancelled)
    }

    /// The wait was cancelled, as its claimer saw. For the claimer, before the resume.
    #[cold]
    pub(super) fn refuse(&self) {
        self.waits_in.store(REFUSED, Ordering::Relaxed);
    }
}
