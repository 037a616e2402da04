//! Something that can be waited for, written once and waited for in several ways.
//!
//! Implemented by the wait queue, by timers and by drivers; from the four steps of a [`Source`] follow a wait in a fiber or
//! thread ([`wait`]) and a wait with a deadline ([`wait_until`]), and any select over more arms.
//!
//! # The protocol
//!
//! Whoever acts is registered nowhere; whoever is registered does not act.
//!
//! 1. **Attempt** without registering. If that gives the value, it is over.
//! 2. **Register** each arm's slot with one trigger, checking under the structure's lock. If one turns out to be ready, cancel the
//!    trigger (if that fails, somebody has just taken it: go to 3), withdraw from all, and start again.
//! 3. **Wait** on the trigger; if it was taken meanwhile, the wait is short, since the resume is under way.
//! 4. If it was taken through an arm, withdraw from the others and **commit** that one: the value is in its slot, or, for a structure that
//!    only tells, attempt again. If it was cancelled, **withdraw** from all: nothing was handed over, nothing is lost.
//!
//! The commit point of the whole is the claim of the trigger, or the attempt that succeeded.
#![allow(unsafe_code)] // Slots are registered by address.

use crate::cancel::{self, Cancelled};
use crate::fiber::{self, WaitsFor};
use crate::time;
use crate::trigger::{Outcome, Trigger};
use std::time::Instant;

/// Something that can be waited for.
///
/// # Safety
/// After [`register`](Source::register) the implementation may reach the slot and the trigger until
/// [`withdraw`](Source::withdraw) has returned, or until it has claimed the trigger through this arm, and not later. What it
/// hands over is in the slot before the claim.
pub unsafe trait Source {
    /// What the wait yields.
    type Output;

    /// What a registration keeps in the waiter's frame.
    type Slot;

    /// A slot that is not registered.
    fn slot(&self) -> Self::Slot;

    /// Takes the value if it is there. Never waits.
    fn attempt(&mut self) -> Option<Self::Output>;

    /// Joins the queue, unless the value is there by now. Answers whether it joined.
    ///
    /// # Safety
    /// `slot` and `trigger` stay in place until `withdraw`, or until the trigger was taken through `arm`; the slot is not
    /// registered yet; `withdraw` or `commit` follows, on the same thread.
    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> bool;

    /// Attempts, and joins the queue if that gives nothing: the beginning of a wait whose other arms are not registered yet.
    ///
    /// # Safety
    /// As for `register`, and nobody else knows the trigger.
    unsafe fn start(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Option<Self::Output> {
        loop {
            if let Some(output) = self.attempt() {
                return Some(output);
            }
            // SAFETY: as the caller promises.
            if unsafe { self.register(slot, trigger, arm) } {
                return None;
            }
        }
    }

    /// Leaves the queue, in O(1) or close to it. Nothing is in the slot then.
    ///
    /// # Safety
    /// The slot was given to `register`, and the trigger was not taken through its arm.
    unsafe fn withdraw(&mut self, slot: &mut Self::Slot);

    /// Takes what was handed over; `None` means that it was only told to attempt again.
    ///
    /// # Safety
    /// The slot was registered, and the trigger was taken through its arm.
    unsafe fn commit(&mut self, slot: &mut Self::Slot) -> Option<Self::Output>;
}

/// Waits for a source: suspends the calling fiber, or parks the calling thread, until it is ready.
///
/// # Cancellation
/// *Loses its place in the queue* and has no other effect. A fiber that is panicking is not suspended: if the value is not there, its
/// wait ends as if it were cancelled.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled, before the call or during it.
#[inline]
pub fn wait<S: Source>(mut source: S, waits_for: WaitsFor) -> Result<S::Output, Cancelled> {
    cancel::check()?;
    fiber::with_current(|fiber| {
        if fiber.must_not_suspend() {
            return source.attempt().ok_or(Cancelled::new());
        }
        loop {
            let trigger = Trigger::waiting(fiber);
            let mut slot = source.slot();
            // SAFETY: slot and trigger are in this frame, which does not end before one of `withdraw` and `commit`
            // was called, as the outcome says, or nothing was registered. Nothing unwinds between.
            unsafe {
                if let Some(output) = source.start(&mut slot, &trigger, 0) {
                    return Ok(output);
                }
                match trigger.finish(fiber, waits_for) {
                    Outcome::Cancelled => {
                        source.withdraw(&mut slot);
                        return Err(Cancelled::new());
                    }
                    Outcome::Taken(_) => {
                        if let Some(output) = source.commit(&mut slot) {
                            return Ok(output);
                        }
                    }
                }
            }
        }
    })
}

/// Why a wait with a deadline ended without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The caller was cancelled.
    Cancelled(Cancelled),
    /// The deadline came first.
    TimedOut,
}

/// As [`wait`], but gives up at `deadline`; `None` is never.
///
/// A value that is there is taken, also after the deadline.
///
/// # Cancellation
/// As for [`wait`].
///
/// # Errors
/// [`Ended::TimedOut`] or [`Ended::Cancelled`].
pub fn wait_until<S: Source>(
    mut source: S,
    deadline: Option<Instant>,
    waits_for: WaitsFor,
) -> Result<S::Output, Ended> {
    if deadline.is_none() {
        return wait(source, waits_for).map_err(Ended::Cancelled);
    }
    cancel::check().map_err(Ended::Cancelled)?;
    let mut timer = time::at(deadline);
    fiber::with_current(|fiber| {
        if fiber.must_not_suspend() {
            return source.attempt().ok_or(Ended::Cancelled(Cancelled::new()));
        }
        loop {
            let trigger = Trigger::waiting(fiber);
            let (mut slot, mut alarm) = (source.slot(), timer.slot());
            // SAFETY: as in `wait`; each of the two slots is withdrawn, or committed where it was the one that was taken. The timer
            // is registered second, and by then nothing but the source's claim can have taken the trigger.
            unsafe {
                // Asked before, since the timers may have to be started, which may panic.
                let is_past = timer.attempt().is_some();
                if let Some(output) = source.start(&mut slot, &trigger, 0) {
                    return Ok(output);
                }
                if is_past && trigger.withdraw() {
                    source.withdraw(&mut slot);
                    return Err(Ended::TimedOut);
                }
                let _ = timer.register(&mut alarm, &trigger, 1);
                match trigger.finish(fiber, waits_for) {
                    Outcome::Taken(0) => {
                        timer.withdraw(&mut alarm);
                        if let Some(output) = source.commit(&mut slot) {
                            return Ok(output);
                        }
                    }
                    Outcome::Taken(_) => {
                        source.withdraw(&mut slot);
                        return Err(Ended::TimedOut);
                    }
                    Outcome::Cancelled => {
                        timer.withdraw(&mut alarm);
                        source.withdraw(&mut slot);
                        return Err(Ended::Cancelled(Cancelled::new()));
                    }
                }
            }
        }
    })
}
