//! The choice between two sources, which is a source again: the select, of any number of arms by nesting.
//!
//! Used through [`Waitable::or`](crate::Waitable::or) and by waits with a deadline.
//!
//! The arms of the left source come first in the numbering. An arm that is not chosen was registered at most, so it has no effect: what is
//! chosen among are events, and not functions that have begun to run. `source.rs` has the protocol, which is followed here for two: `start` acts while nothing is registered; after
//! that, only registrations, and if one of them finds its value there, the trigger is cancelled, both withdraw, and it begins anew.
//!
//! **The race to fear**: while the right source is being registered, somebody takes the trigger through the left one, and the right one turns out to be
//! ready as well. Then the cancellation fails, and the left one it is: the value of the right one was only seen.
//!
//! And: somebody tells the right source to attempt again, and before it does, the left one becomes ready. To begin anew, with the left one, would lose what was told, which
//! may have been the only call for others who wait there. So whoever was told attempts at once; if that is in vain, somebody else has taken it meanwhile, who was called for.
#![allow(unsafe_code)] // Slots are registered by address.

use crate::fiber::WaitsFor;
use crate::source::Source;
use crate::trigger::{MAX_ARM, Trigger};

/// One of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<L, R> {
    /// Of the left source.
    Left(L),
    /// Of the right source.
    Right(R),
}

/// The source that is ready when one of two is; the left one's value is taken if both are.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, WaitQueue, WaitsFor, Waitable};
///
/// let queue: WaitQueue<u32, u32> = WaitQueue::new(0);
/// let at_least = |least| {
///     Waitable::new(queue.source(WaitsFor::new("a number"), move |n| *n >= least, |n| *n))
/// };
/// assert_eq!(at_least(1).or(at_least(0)).wait(), Ok(Either::Right(0)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Or<L, R> {
    left: L,
    right: R,
}

impl<L: Source, R: Source> Or<L, R> {
    /// The choice between two.
    ///
    /// # Panics
    /// If it would have more arms than [a trigger can tell apart](crate::MAX_ARM).
    #[inline]
    pub fn new(left: L, right: R) -> Self {
        // Here, and not where somebody claims the trigger through such an arm.
        assert!(left.arms() + right.arms() <= MAX_ARM, "a choice has at most {MAX_ARM} arms");
        Self { left, right }
    }
}

// SAFETY: each of the two keeps the contract for its slot, and every step is passed on to the one or both that it concerns. That withdrawing
// has no effect on what is not registered, or not any more, is a part of their contract.
unsafe impl<L: Source, R: Source> Source for Or<L, R> {
    type Output = Either<L::Output, R::Output>;
    type Slot = (L::Slot, R::Slot);

    fn waits_for(&self) -> WaitsFor {
        self.left.waits_for()
    }

    #[inline]
    fn slot(&self) -> Self::Slot {
        (self.left.slot(), self.right.slot())
    }

    fn arms(&self) -> usize {
        self.left.arms() + self.right.arms()
    }

    #[inline]
    fn attempt(&mut self) -> Option<Self::Output> {
        match self.left.attempt() {
            Some(left) => Some(Either::Left(left)),
            None => self.right.attempt().map(Either::Right),
        }
    }

    unsafe fn start(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Option<Self::Output> {
        loop {
            // SAFETY: as the caller promises: when each of these starts, nothing is registered and nobody else knows the trigger; what is
            // withdrawn was not taken, since the trigger was cancelled before.
            unsafe {
                if let Some(left) = self.left.start(&mut slot.0, trigger, arm) {
                    return Some(Either::Left(left));
                }
                if self.right.register(&mut slot.1, trigger, arm + self.left.arms()) {
                    return None;
                }
                // Without one, somebody has just taken it.
                let waiter = trigger.withdraw()?;
                self.left.withdraw(&mut slot.0);
                self.right.withdraw(&mut slot.1);
                trigger.rearm(waiter);
            }
            if let Some(right) = self.right.attempt() {
                return Some(Either::Right(right));
            }
        }
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> bool {
        // SAFETY: as the caller promises.
        unsafe {
            self.left.register(&mut slot.0, trigger, arm)
                && self.right.register(&mut slot.1, trigger, arm + self.left.arms())
        }
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        // SAFETY: as the caller promises.
        unsafe {
            self.left.withdraw(&mut slot.0);
            self.right.withdraw(&mut slot.1);
        }
    }

    #[inline]
    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<Self::Output> {
        let left = self.left.arms();
        // SAFETY: as the caller promises: one of the two was taken, so the other was not.
        unsafe {
            if arm < left {
                self.right.withdraw(&mut slot.1);
                self.left.commit(&mut slot.0, arm).or_else(|| self.left.attempt()).map(Either::Left)
            } else {
                self.left.withdraw(&mut slot.0);
                self.right.commit(&mut slot.1, arm - left).or_else(|| self.right.attempt()).map(Either::Right)
            }
        }
    }

    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize) {
        let left = self.left.arms();
        // SAFETY: as in `commit`.
        unsafe {
            if arm < left {
                self.right.withdraw(&mut slot.1);
                self.left.give_back(&mut slot.0, arm);
            } else {
                self.left.withdraw(&mut slot.0);
                self.right.give_back(&mut slot.1, arm - left);
            }
        }
    }
}
