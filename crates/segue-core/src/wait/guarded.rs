//! Sources that are there or not: an optional one, and one that a closure makes at the first look.
//!
//! Used for arms that are switched off, and for arms that begin with work of their own, such as a
//! request before a wait for its answer. `nack.rs` makes a source of these that also reports
//! whether it was chosen.
//!
//! The closure of a guard runs in an attempt, so nothing is registered then: the closure may wait
//! and may unwind. The source that it has made stays until its output, so the number of its arms
//! and its addresses stay the same while registered. For the draw of a choice a guard counts as one
//! arm, with any source.
//!
//! After `guard` of Concurrent ML.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::waits_for::{Object, WaitsFor};
use crate::wait::holders::{registration_of, slot_of};
use crate::wait::parts::Parts;
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};

// SAFETY: every step is that of the source, if there is one. Without one nothing is ever
// registered, so no claim through an arm precedes a `commit` or `give_back`.
//
// R1, R2, R5, R6, R10 to R13 and R16 are thus the source's own; R3 and R4 hold of none, which is
// never ready.
unsafe impl<S: Source> Source for Option<S> {
    type Output = S::Output;
    type Slot = S::Slot;

    fn waits_for(&self) -> WaitsFor {
        self.as_ref().map_or_else(|| WaitsFor::new("nothing: it is switched off"), S::waits_for)
    }

    fn object(&self) -> Object {
        self.as_ref().map_or(Object::NONE, S::object)
    }

    #[inline]
    fn arms(&self) -> usize {
        self.as_ref().map_or(0, S::arms)
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.as_ref()?.address(least)
    }

    #[inline]
    fn attempt(&mut self) -> Option<S::Output> {
        self.as_mut()?.attempt()
    }

    #[inline]
    fn parts(&self) -> Parts {
        self.as_ref().map_or(Parts::NONE, S::parts)
    }

    #[inline]
    fn part_count(&self) -> usize {
        self.as_ref().map_or(Parts::NONE.count(), S::part_count)
    }

    #[inline]
    fn attempt_part(&mut self, part: usize) -> Option<S::Output> {
        self.as_mut()?.attempt_part(part)
    }

    unsafe fn prepare(&mut self, slot: &mut S::Slot) {
        if let Some(source) = self {
            // SAFETY: as the caller promises.
            unsafe { source.prepare(slot) }
        }
    }

    #[inline]
    unsafe fn start(
        &mut self,
        slot: &mut S::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<Option<S::Output>, Retreat> {
        match self {
            // SAFETY: as the caller promises.
            Some(source) => unsafe { source.start(slot, trigger, arm) },
            None => {
                // SAFETY: the waiter calls this, with its trigger.
                unsafe { trigger.expose() };
                Ok(None)
            }
        }
    }

    unsafe fn register(&mut self, slot: &mut S::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        match self {
            // SAFETY: as the caller promises.
            Some(source) => unsafe { source.register(slot, trigger, arm) },
            None => Ok(()),
        }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut S::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        match self {
            // SAFETY: as the caller promises.
            Some(source) => unsafe { source.register_at(address, slot, trigger, arm) },
            None => Ok(()),
        }
    }

    unsafe fn withdraw(&mut self, slot: &mut S::Slot) {
        if let Some(source) = self {
            // SAFETY: as the caller promises.
            unsafe { source.withdraw(slot) }
        }
    }

    #[inline]
    unsafe fn commit(&mut self, slot: &mut S::Slot, arm: usize) -> Option<S::Output> {
        // SAFETY: as the caller promises.
        unsafe { self.as_mut()?.commit(slot, arm) }
    }

    unsafe fn give_back(&mut self, slot: &mut S::Slot, arm: usize) {
        if let Some(source) = self {
            // SAFETY: as the caller promises.
            unsafe { source.give_back(slot, arm) }
        }
    }
}

/// The source that a closure makes. Made by [`guard`].
pub struct Guarded<S, F> {
    /// `None` before the first look, and after the output.
    made: Option<S>,
    make: F,
    waits_for: WaitsFor,
}

/// The source that `make` makes when a wait begins: at the first look, before anything else. So
/// `make` may act first, and does not without a wait: note the time, send a request before the wait
/// for its answer.
///
/// `make` runs in the fiber, thread or task that waits, outside of every lock, and may wait itself.
/// The closure is called once in a wait. [By reference](Waitable::by_ref) the source is kept until
/// its output; then the next wait has another one made.
///
/// A choice looks at its arms one after the other, and at no more of them after a ready one: the
/// closures of guards further on are not called then. In the random order of looks a guard counts
/// as one, also with a choice inside.
///
/// # Cancellation
/// That of the source that was made. The effects of `make` before that stay; [`with_nack`] hears of
/// the end.
///
/// # Panics
/// A wait panics if `make` does, and has no effect then.
///
/// # Examples
///
/// A time limit that counts from the beginning of the wait, and not from its making:
///
/// ```
/// use segue_core::{Either, after, guard};
/// use std::time::Duration;
///
/// let late = guard(|| after(Duration::from_millis(1)));
/// assert_eq!(late.or(after(Duration::MAX)).wait(), Ok(Either::Left(())));
/// ```
///
/// [`with_nack`]: crate::with_nack
#[track_caller]
pub fn guard<S: Source, F: FnMut() -> S>(make: F) -> Waitable<Guarded<S, F>> {
    Waitable::new(Guarded::new(make, WaitsFor::new("what a guard makes")))
}

impl<S: Source, F: FnMut() -> S> Guarded<S, F> {
    /// As [`guard`], with the words of reports before the first look: in a choice, which names its
    /// arms at the making.
    #[inline]
    pub(crate) fn new(make: F, waits_for: WaitsFor) -> Self {
        Self { made: None, make, waits_for }
    }

    /// The source, which is there until its output.
    #[inline]
    fn made(&mut self) -> &mut S {
        self.made.get_or_insert_with(&mut self.make)
    }

    /// Ends a source that has yielded.
    #[inline]
    fn yielded(&mut self, output: Option<S::Output>) -> Option<S::Output> {
        if output.is_some() {
            self.made = None;
        }
        output
    }
}

// SAFETY: every step is that of the source that was made. The source is made, and dropped, in steps
// that find nothing of it registered: made before an attempt, dropped after a step that has
// yielded. So the closure and the drop may wait and may unwind. A registration follows a look in
// vain, which leaves the source there, the same one until the next look (R1, R5, R8, R11). Others
// reach the slot and the source's references, but not this (R16). R2 to R4, R6, R10, R12 and R13
// are those of the source.
unsafe impl<S: Source, F: FnMut() -> S> Source for Guarded<S, F> {
    type Output = S::Output;
    type Slot = S::Slot;

    fn waits_for(&self) -> WaitsFor {
        self.made.as_ref().map_or(self.waits_for, S::waits_for)
    }

    fn arms(&self) -> usize {
        self.made.as_ref().map_or(1, S::arms)
    }

    fn address(&self, least: usize) -> Option<usize> {
        self.made.address(least)
    }

    #[inline]
    fn attempt(&mut self) -> Option<S::Output> {
        let output = self.made().attempt();
        self.yielded(output)
    }

    #[inline]
    unsafe fn start(
        &mut self,
        slot: &mut S::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<Option<S::Output>, Retreat> {
        // SAFETY: as the caller promises.
        let begun = unsafe { self.made().start(slot, trigger, arm)? };
        Ok(self.yielded(begun))
    }

    unsafe fn commit(&mut self, slot: &mut S::Slot, arm: usize) -> Option<S::Output> {
        // SAFETY: as the caller promises.
        let output = unsafe { self.made.commit(slot, arm) };
        self.yielded(output)
    }

    slot_of!(self => self.made);
    registration_of!(self => self.made, slot => slot);
}

impl_debug!([S: std::fmt::Debug, F] Guarded<S, F>, |it| made: it.made);
