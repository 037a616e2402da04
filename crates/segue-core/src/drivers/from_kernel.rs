//! Sources of drivers: one that only the kernel makes ready, and one that holds something while it
//! is registered.
//!
//! [`from_kernel`] makes every source of `segue-io`; [`while_registered`] the edges in them.
//!
//! A source of the kernel is a guard, so that its subject is known before its first look: a choice
//! asks for that at the making. And while it is registered, that counts as a wait for the kernel
//! (`kernel_wait.rs`), whatever else the waiter waits for: so a simulation that is open to the
//! world lets its clock go with the real one, and no deadline beside it passes at once.
//!
//! The held value lies in the slot: it is made before the first registration of a wait, and ends in
//! the step that ends the registrations, or by the drop of the slot where a wait begins anew. The
//! value runs no foreign code and does not unwind, so the protocol need not know.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::drivers::kernel_wait::{KernelWait, kernel_wait};
use crate::primitives::waits_for::WaitsFor;
use crate::wait::guarded::Guarded;
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};

/// A source that only the kernel makes ready. Made by [`from_kernel`].
pub type FromKernel<S, F> = WhileRegistered<Guarded<S, F>, fn(&Trigger) -> KernelWait>;

/// The source that `make` makes when a wait begins, as by [`guard`](crate::guard); the kernel makes
/// that source ready, through a driver. Until `make` was called, reports say `waits_for`.
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
    // SAFETY: the count does not unwind, at its beginning or its end. In another thread its end
    // changes the simulation's part, which is atomic, and a saturating cell of the fiber that runs
    // there, which only reports read.
    unsafe { while_registered(Guarded::new(make, waits_for), |_| kernel_wait()) }
}

/// A source that holds something while it is registered. Made by [`while_registered`].
#[derive(Debug)]
pub struct WhileRegistered<S, F> {
    source: S,
    begin: F,
}

/// `source`, which holds the value of `begin` while it is registered with the trigger that `begin`
/// is given.
///
/// # Safety
/// Neither `begin` nor the drop of its value unwinds, waits or runs foreign code. If the source is
/// `Send`, the value may be dropped by another thread.
///
/// # Examples
///
/// ```
/// use segue_core::drivers::{charge, while_registered};
/// use segue_core::{WaitQueue, WaitsFor};
///
/// let edges: WaitQueue<u64> = WaitQueue::new(1);
/// let edge = edges.source(WaitsFor::new("an edge"), |edges| *edges > 0, |edges| *edges -= 1);
/// // SAFETY: a charge is a change of a number, and its value is nothing.
/// let charged = unsafe { while_registered(edge, |_| charge(1)) };
/// assert_eq!(charged.wait(), Ok(()));
/// ```
pub unsafe fn while_registered<S, F, G>(source: S, begin: F) -> Waitable<WhileRegistered<S, F>>
where
    S: Source,
    F: FnMut(&Trigger) -> G,
{
    Waitable::new(WhileRegistered { source, begin })
}

/// The slot of the source, and the value that is held.
#[derive(Debug)]
pub struct Holding<T, G> {
    slot: T,
    held: Option<G>,
}

impl<T, G> Holding<T, G> {
    /// Has a value, from the first of the arms that are registered one after the other.
    fn hold(&mut self, begin: impl FnOnce() -> G) {
        if self.held.is_none() {
            self.held = Some(begin());
        }
    }
}

impl<T: Default, G> Default for Holding<T, G> {
    fn default() -> Self {
        Self { slot: T::default(), held: None }
    }
}

// SAFETY: every step is that of the source, with its own slot; R1 to R16 are the source's. The
// value begins before the source is registered, and ends in the step that withdraws or takes: by
// the promise of `while_registered` both are invisible to the protocol, and may be in another
// thread.
unsafe impl<S: Source, G, F: FnMut(&Trigger) -> G> Source for WhileRegistered<S, F> {
    type Output = S::Output;
    type Slot = Holding<S::Slot, G>;

    fn waits_for(&self) -> WaitsFor {
        self.source.waits_for()
    }

    fn arms(&self) -> usize {
        self.source.arms()
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.source.address(least)
    }

    #[inline]
    fn attempt(&mut self) -> Option<S::Output> {
        self.source.attempt()
    }

    unsafe fn prepare(&mut self, slot: &mut Self::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.source.prepare(&mut slot.slot) }
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        slot.hold(|| (self.begin)(trigger));
        // SAFETY: as the caller promises.
        unsafe { self.source.register(&mut slot.slot, trigger, arm) }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut Self::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        slot.hold(|| (self.begin)(trigger));
        // SAFETY: as the caller promises.
        unsafe { self.source.register_at(address, &mut slot.slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        slot.held = None;
        // SAFETY: as the caller promises.
        unsafe { self.source.withdraw(&mut slot.slot) }
    }

    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<S::Output> {
        slot.held = None;
        // SAFETY: as the caller promises.
        unsafe { self.source.commit(&mut slot.slot, arm) }
    }

    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize) {
        slot.held = None;
        // SAFETY: as the caller promises.
        unsafe { self.source.give_back(&mut slot.slot, arm) }
    }
}
