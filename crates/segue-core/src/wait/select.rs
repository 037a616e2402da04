//! The choice between two sources, which is a source again: the select, of any number of arms by
//! nesting.
//!
//! Used through [`Waitable::or`](crate::Waitable::or) and by waits with a deadline.
//!
//! The arms of the left source come first in the numbering. An arm that is not chosen was
//! registered at most, so it has no effect: what is chosen among are events, and not functions that
//! have begun to run. `source.rs` has the protocol, which this file follows for two.
//!
//! **Order**: a look begins with an arm that is drawn, each with the same chance, so that one that
//! is always ready does not starve the others. A *biased* choice looks at the left one first.
//!
//! **The race to fear**: while the right source is being registered, somebody takes the trigger
//! through the left one, and the right one turns out to be ready as well. Then the retreat finds
//! the trigger taken, and the left one it is: the value of the right one was only seen.
//!
//! And: a notifier tells the right source to attempt again, and before it does, the left one
//! becomes ready. If the waiter began anew, with the left one, the notification would be lost, and
//! it may have been the only one for all waiters of the right source. So the right source attempts
//! at once. If that is in vain, another waiter has taken it meanwhile, and the notification has
//! done its work.
#![allow(unsafe_code)] // Slots are registered by address.

use crate::contract::current::with_running;
use crate::contract::fiber::WaitsFor;
use crate::contract::trigger::{MAX_ARM, Retreat, Trigger};
use crate::primitives::atomic::local;
use crate::wait::source::Source;
use std::cell::Cell;

local!(static DRAWS: Cell<u32> = Cell::new(0));

/// A number below `bound`, of the running fiber's series or else of the thread's. The multiplier is
/// that of PCG.
fn draw(bound: usize) -> usize {
    let next = |series: &Cell<u32>| {
        series.set(series.get().wrapping_mul(747_796_405).wrapping_add(2_891_336_453));
        ((u64::from(series.get()) * bound as u64) >> 32) as usize
    };
    with_running(|fiber| match fiber {
        Some(fiber) => next(fiber.draws()),
        None => DRAWS.with(next),
    })
}

/// One of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<L, R> {
    /// Of the left source.
    Left(L),
    /// Of the right source.
    Right(R),
}

/// The source that is ready when one of two is. If both are, it is drawn which one's value is
/// taken.
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
    biased: bool,
}

impl<L: Source, R: Source> Or<L, R> {
    /// The choice between two.
    ///
    /// # Panics
    /// If it would have more arms than [a trigger can tell apart](crate::MAX_ARM). A choice with a
    /// [`guard`](crate::guard) panics when it begins to wait, if that has made so many.
    #[inline]
    pub fn new(left: L, right: R) -> Self {
        let choice = Self { left, right, biased: false };
        choice.check_arms();
        choice
    }

    /// Before anything is registered, and not where somebody claims the trigger through such an
    /// arm.
    #[inline]
    fn check_arms(&self) {
        assert!(self.arms() <= MAX_ARM, "a choice has at most {MAX_ARM} arms");
    }

    /// The choice between two, of which the left one is taken if both are ready.
    ///
    /// # Panics
    /// As [`new`](Or::new).
    #[inline]
    pub fn biased(left: L, right: R) -> Self {
        Self { biased: true, ..Self::new(left, right) }
    }

    fn look_left(&mut self) -> Option<Either<L::Output, R::Output>> {
        self.left.attempt().map(Either::Left)
    }

    fn look_right(&mut self) -> Option<Either<L::Output, R::Output>> {
        self.right.attempt().map(Either::Right)
    }
}

// SAFETY: each of the two keeps the contract for its slot, and every step is passed on to the one
// or both that it concerns. That withdrawing has no effect on what is not registered, or not any
// more, is a part of their contract.
unsafe impl<L: Source, R: Source> Source for Or<L, R> {
    type Output = Either<L::Output, R::Output>;
    type Slot = (L::Slot, R::Slot);

    fn waits_for(&self) -> WaitsFor {
        self.left.waits_for()
    }

    fn arms(&self) -> usize {
        self.left.arms() + self.right.arms()
    }

    fn address(&self, least: usize) -> Option<usize> {
        let addresses = [self.left.address(least), self.right.address(least)];
        addresses.into_iter().flatten().min()
    }

    #[inline]
    fn attempt(&mut self) -> Option<Self::Output> {
        if self.biased || draw(self.arms()) < self.left.arms() {
            self.look_left().or_else(|| self.look_right())
        } else {
            self.look_right().or_else(|| self.look_left())
        }
    }

    unsafe fn prepare(&mut self, slot: &mut Self::Slot) {
        self.check_arms();
        // SAFETY: as the caller promises.
        unsafe {
            self.left.prepare(&mut slot.0);
            self.right.prepare(&mut slot.1);
        }
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe {
            self.left.register(&mut slot.0, trigger, arm)?;
            self.right.register(&mut slot.1, trigger, arm + self.left.arms())
        }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut Self::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe {
            self.left.register_at(address, &mut slot.0, trigger, arm)?;
            self.right.register_at(address, &mut slot.1, trigger, arm + self.left.arms())
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
                self.left.commit(&mut slot.0, arm).map(Either::Left).or_else(|| self.look_left())
            } else {
                self.left.withdraw(&mut slot.0);
                self.right.commit(&mut slot.1, arm - left).map(Either::Right).or_else(|| self.look_right())
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
