//! A source that only the kernel makes ready, as drivers of I/O have them.
//!
//! Made by [`from_kernel`] for every source of `segue-io`.
//!
//! This source is a guard, with two things besides. Its subject is known before its first look: a
//! choice asks for that at the making. And while it is registered, that counts as a wait for the
//! kernel (`kernel_wait.rs`), whatever else the waiter waits for: so a simulation that is open to
//! the world lets its clock go with the real one, and no deadline beside it passes at once.
//!
//! The count lies in the slot: it begins when the registration has, and ends with it, by the step
//! that ends the registration, or by the drop of the slot where a wait begins anew. The count runs
//! no foreign code and does not unwind, so the protocol need not know.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::fiber::WaitsFor;
use crate::contract::trigger::Trigger;
use crate::drivers::kernel_wait::{KernelWait, kernel_wait};
use crate::wait::guarded::Guarded;
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};

/// A source that only the kernel makes ready. Made by [`from_kernel`].
#[derive(Debug)]
pub struct FromKernel<S, F> {
    guarded: Guarded<S, F>,
    waits_for: WaitsFor,
}

/// The source that `make` makes when a wait begins, as by [`guard`](crate::guard); the kernel makes
/// that source ready, through a driver. Reports say `waits_for`.
///
/// A registration is a [`kernel_wait`](crate::drivers::kernel_wait) of the fiber that has looked.
///
/// # Cancellation
/// That of the source that was made.
///
/// # Panics
/// As for [`guard`](crate::guard).
///
/// # Examples
///
/// ```
/// use segue_core::drivers::from_kernel;
/// use segue_core::{WaitQueue, WaitsFor, Waitable};
///
/// let edges: WaitQueue<u64> = WaitQueue::new(1);
/// let waits_for = WaitsFor::new("data on a socket");
/// let edge = from_kernel(waits_for, || edges.source(waits_for, |edges| *edges > 0, |edges| *edges -= 1));
/// assert_eq!(edge.wait(), Ok(()));
/// ```
pub fn from_kernel<S: Source, F: FnMut() -> S>(waits_for: WaitsFor, make: F) -> Waitable<FromKernel<S, F>> {
    Waitable::new(FromKernel { guarded: Guarded::new(make, waits_for), waits_for })
}

/// The slot of the source that was made, and the count while that is registered.
#[derive(Debug, Default)]
pub struct KernelSlot<T> {
    slot: T,
    counts: Option<KernelWait>,
}

// SAFETY: every step is that of the guard, with its own slot. A source that is `Send` may go to
// another thread together with its slot, and the count in the slot may end there: the simulation's
// part of the count is atomic, and the other part is a saturating cell of the fiber that runs on
// that thread, which only reports read.
unsafe impl<S: Source, F: FnMut() -> S> Source for FromKernel<S, F> {
    type Output = S::Output;
    type Slot = KernelSlot<S::Slot>;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    fn arms(&self) -> usize {
        self.guarded.arms()
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.guarded.address(least)
    }

    fn attempt(&mut self) -> Option<S::Output> {
        self.guarded.attempt()
    }

    unsafe fn prepare(&mut self, slot: &mut Self::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.guarded.prepare(&mut slot.slot) }
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe { self.guarded.register(&mut slot.slot, trigger, arm)? };
        slot.counts = Some(kernel_wait());
        Ok(())
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        slot.counts = None;
        // SAFETY: as the caller promises.
        unsafe { self.guarded.withdraw(&mut slot.slot) }
    }

    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<S::Output> {
        slot.counts = None;
        // SAFETY: as the caller promises.
        unsafe { self.guarded.commit(&mut slot.slot, arm) }
    }

    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize) {
        slot.counts = None;
        // SAFETY: as the caller promises.
        unsafe { self.guarded.give_back(&mut slot.slot, arm) }
    }
}
