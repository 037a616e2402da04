//! A source that yields what a closure makes of another one's output.
//!
//! Used through [`Waitable::map`](crate::Waitable::map), and by operations that end in the user's
//! own code, an initialiser for instance.
//!
//! The closure runs outside of every lock, after the inner source has taken effect: in the attempt
//! that succeeded, or when what was handed over is committed. In both cases the inner source is
//! registered nowhere any more, so the closure may wait, and may unwind: it is then as if the inner
//! source had yielded its output and the output was dropped.

#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::fiber::WaitsFor;
use crate::contract::trigger::{Retreat, Trigger};
use crate::wait::source::Source;

/// The source that yields what a closure makes of another one's output. Made by
/// [`Waitable::map`](crate::Waitable::map).
#[derive(Clone, Copy, Debug)]
pub struct Map<S, F> {
    source: S,
    then: F,
}

impl<S, F> Map<S, F> {
    /// What `then` makes of the output of `source`.
    #[inline]
    pub fn new(source: S, then: F) -> Self {
        Self { source, then }
    }
}

// SAFETY: every step is the inner source's. The closure runs after a `start`, `attempt` or `commit`
// that has yielded: the inner slot is registered nowhere then, so nothing is registered here while
// it unwinds. It goes to another thread only together with the source.
unsafe impl<S: Source, R, F: FnMut(S::Output) -> R> Source for Map<S, F> {
    type Output = R;
    type Slot = S::Slot;

    fn waits_for(&self) -> WaitsFor {
        self.source.waits_for()
    }

    fn arms(&self) -> usize {
        self.source.arms()
    }

    #[inline]
    fn attempt(&mut self) -> Option<R> {
        self.source.attempt().map(&mut self.then)
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.source.address(least)
    }

    unsafe fn prepare(&mut self, slot: &mut S::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.source.prepare(slot) }
    }

    #[inline]
    unsafe fn start(&mut self, slot: &mut S::Slot, trigger: &Trigger, arm: usize) -> Result<Option<R>, Retreat> {
        // SAFETY: as the caller promises.
        let begun = unsafe { self.source.start(slot, trigger, arm)? };
        Ok(begun.map(&mut self.then))
    }

    unsafe fn register(&mut self, slot: &mut S::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe { self.source.register(slot, trigger, arm) }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut S::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        // SAFETY: as the caller promises.
        unsafe { self.source.register_at(address, slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut S::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.source.withdraw(slot) }
    }

    #[inline]
    unsafe fn commit(&mut self, slot: &mut S::Slot, arm: usize) -> Option<R> {
        // SAFETY: as the caller promises.
        unsafe { self.source.commit(slot, arm) }.map(&mut self.then)
    }

    unsafe fn give_back(&mut self, slot: &mut S::Slot, arm: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.source.give_back(slot, arm) }
    }
}
