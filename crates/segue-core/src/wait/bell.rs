//! A trigger that is signalled again and again.
//!
//! Used by the wakers of waits for futures.
//!
//! # States
//!
//! Any thread rings a bell, at any time and any number of times, and its one waiter listens again
//! and again. The word takes other transitions than in `contract/trigger.rs`, by functions of
//! their own, and of those there only `withdraw`:
//!
//! ```text
//!   quiet (INITIAL, TAKEN(0), CANCELLED) --listen: the waiter--> WAITING
//!   quiet or RUNG (= TAKEN(1)) --ring: anybody--> RUNG
//!   WAITING --ring--> TAKEN(0), and the ringer resumes the waiter
//!   WAITING --withdraw: the waiter's thread--> CANCELLED
//!   RUNG --listen: the waiter, which does not wait--> INITIAL
//! ```
//!
//! A ring is always a read-modify-write, also of a word that says RUNG already: the waiter's
//! `listen` acquires the end of that chain, and so the waiter sees the earlier work of each ringer.
//! A ring that resumes leaves TAKEN(0) and not RUNG, since the resume has told the waiter. Both are
//! final states to `withdraw`, so that an interrupt that meets a resume changes nothing.
//!
//! The waiter's own thread need not ring at all while nobody listens, see `wait/waker.rs`.
#![allow(unsafe_code)] // The word holds the address of a fiber.

use crate::contract::fiber::Fiber;
use crate::contract::trigger::{TAKEN, Trigger, WaitEnd, decode, word};
use crate::contract::wakeup::Wakeup;
use crate::primitives::atomic::Ordering;
use crate::primitives::waits_for::{WaitsFor, WaitsOn};
use crate::wait::trigger::is_to_suspend;
use std::ptr::{self, NonNull};

/// A bell that was rung while nobody listened: [`TAKEN`] through arm 1.
const RUNG: usize = TAKEN + 2;

/// As a bell.
impl Trigger {
    /// Whether the waiter listens, as far as this thread knows.
    #[inline]
    pub(crate) fn is_listened_to(&self) -> bool {
        let seen = self.word.load(Ordering::Relaxed);
        !seen.is_null() && decode(seen).is_none()
    }

    /// Rings the bell: the waiter's wait ends, or its next one is refused.
    ///
    /// # Safety
    /// The trigger is a bell: it is waited for by [`listen`](Trigger::listen) alone, and linked to
    /// nothing.
    #[inline]
    pub(crate) unsafe fn ring(&self) -> Wakeup {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            let waits = !seen.is_null() && decode(seen).is_none();
            let rung = word(if waits { TAKEN } else { RUNG });
            match self.word.compare_exchange_weak(seen, rung, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(found) => {
                    let waiter = NonNull::new(if waits { found } else { ptr::null_mut() });
                    // SAFETY: the exchange has found the bell WAITING with this fiber and has ended
                    // that wait, so this is the one resume; or there is no fiber to be resumed.
                    return unsafe { Wakeup::from_fiber(waiter) };
                }
                Err(now) => seen = now,
            }
        }
    }

    /// Begins a wait for the bell, unless it was rung since the waiter last looked. If it was, that
    /// is forgotten, and the earlier work of the ringer is seen.
    ///
    /// # Safety
    /// The fiber is the calling one. [`slumber`](Trigger::slumber) follows, or a `withdraw` that
    /// succeeds.
    #[inline]
    pub(crate) unsafe fn listen(&self, fiber: &Fiber) -> bool {
        let me = ptr::from_ref(fiber).cast_mut();
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen.addr() != RUNG {
            match self.word.compare_exchange_weak(seen, me, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        self.word.swap(ptr::null_mut(), Ordering::AcqRel);
        false
    }

    /// Suspends a fiber that listens. Answers whether the bell was rung; if not, the wait was
    /// cancelled.
    ///
    /// # Safety
    /// The fiber is the calling one, has begun to [`listen`](Trigger::listen), and has not
    /// withdrawn.
    #[inline]
    pub(crate) unsafe fn slumber(&self, fiber: &Fiber, waits_for: WaitsFor) -> bool {
        let waits_on = WaitsOn::from(waits_for);
        // SAFETY: the trigger is borrowed, and the record in this frame, until the end of the wait
        // below.
        let begun = unsafe { fiber.begin_wait(self, &waits_on) };
        if is_to_suspend(fiber) {
            // SAFETY: the word was WAITING with this fiber and was not withdrawn, by the contract,
            // so exactly one resume follows, or is under way: by the ringer, or by this thread when
            // an interrupt cancels it.
            unsafe { fiber.suspend() };
        }
        fiber.end_wait(begun) == WaitEnd::Resumed
    }
}
