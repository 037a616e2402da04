//! Sources that hold another source and pass every step on: a reference, a [`Waitable`], a box, and
//! one that maps the output by a closure.
//!
//! Used by a choice in a loop with arms that keep their values ([`Waitable::by_ref`]), where
//! sources of several types stand in one list ([`Waitable::boxed`]), and by operations that end in
//! the user's own code, an initialiser for instance ([`Waitable::map`]).
//!
//! A reference may end before the future that waits through that reference: if that future is
//! forgotten. The slot, which others reach, is pinned in that future, and stays for good. So a
//! source does not keep its slot in itself, a box neither: the parts of a registration lie in a
//! second box, which belongs to the slot.
#![allow(unsafe_code)] // `Source` is an unsafe trait, and an erased slot is a pointer.

use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};
use std::convert::identity;
use std::marker::PhantomData;
use std::ptr;

/// Passes the steps of `self` that begin a registration, or give up what was taken, on to `inner`,
/// with the slot that `slot` makes of the given one.
macro_rules! registration_of {
    ($self:ident => $inner:expr, $given:ident => $slot:expr) => {
        unsafe fn register(&mut $self, $given: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
            // SAFETY: as the caller promises.
            unsafe { $inner.register($slot, trigger, arm) }
        }

        unsafe fn register_at(
            &mut $self,
            address: usize,
            $given: &mut Self::Slot,
            trigger: &Trigger,
            arm: usize,
        ) -> Result<(), Retreat> {
            // SAFETY: as the caller promises.
            unsafe { $inner.register_at(address, $slot, trigger, arm) }
        }

        unsafe fn give_back(&mut $self, $given: &mut Self::Slot, arm: usize) {
            // SAFETY: as the caller promises.
            unsafe { $inner.give_back($slot, arm) }
        }
    };
}

/// Passes the steps of `self` that make and leave a slot on to `inner`, which has the same slot.
macro_rules! slot_of {
    ($self:ident => $inner:expr) => {
        unsafe fn prepare(&mut $self, slot: &mut Self::Slot) {
            // SAFETY: as the caller promises.
            unsafe { $inner.prepare(slot) }
        }

        unsafe fn withdraw(&mut $self, slot: &mut Self::Slot) {
            // SAFETY: as the caller promises.
            unsafe { $inner.withdraw(slot) }
        }
    };
}

/// Passes every step of `self` on to `inner`, with the slot that `slot` makes of the given one, and
/// yields the result of `then` on the output, if there is one.
macro_rules! steps_of {
    ($self:ident => $inner:expr, $given:ident => $slot:expr, $then:expr) => {
        #[inline]
        fn waits_for(&$self) -> WaitsFor {
            $inner.waits_for()
        }

        #[inline]
        fn object(&$self) -> $crate::Object {
            $inner.object()
        }

        #[inline]
        fn arms(&$self) -> usize {
            $inner.arms()
        }

        fn address(&$self, least: usize) -> Option<usize> {
            $inner.address(least)
        }

        #[inline]
        fn attempt(&mut $self) -> Option<Self::Output> {
            $inner.attempt().and_then($then)
        }

        #[inline]
        fn parts(&$self) -> $crate::wait::parts::Parts {
            $inner.parts()
        }

        #[inline]
        fn part_count(&$self) -> usize {
            $inner.part_count()
        }

        #[inline]
        fn attempt_part(&mut $self, part: usize) -> Option<Self::Output> {
            $inner.attempt_part(part).and_then($then)
        }

        $crate::wait::holders::registration_of!($self => $inner, $given => $slot);

        #[inline]
        unsafe fn commit(&mut $self, $given: &mut Self::Slot, arm: usize) -> Option<Self::Output> {
            // SAFETY: as the caller promises.
            unsafe { $inner.commit($slot, arm) }.and_then($then)
        }
    };
}

/// As `steps_of`, with those in which a slot of another type would not be made yet. Here `then`
/// makes something of each output.
macro_rules! steps_of_the_same_slot {
    ($self:ident => $inner:expr, $then:expr) => {
        $crate::wait::holders::steps_of!($self => $inner, slot => slot, |output| Some(($then)(output)));

        $crate::wait::holders::slot_of!($self => $inner);

        #[inline]
        unsafe fn start(
            &mut $self,
            slot: &mut Self::Slot,
            trigger: &Trigger,
            arm: usize,
        ) -> Result<Option<Self::Output>, Retreat> {
            // SAFETY: as the caller promises.
            let begun = unsafe { $inner.start(slot, trigger, arm)? };
            Ok(begun.map($then))
        }
    };
}

pub(super) use {registration_of, slot_of, steps_of, steps_of_the_same_slot};

// SAFETY: every step is that of the source that is lent.
unsafe impl<S: Source + ?Sized> Source for &mut S {
    type Output = S::Output;
    type Slot = S::Slot;

    steps_of_the_same_slot!(self => (**self), identity);
}

// SAFETY: every step is that of the source in the box.
unsafe impl<S: Source + ?Sized> Source for Box<S> {
    type Output = S::Output;
    type Slot = S::Slot;

    steps_of_the_same_slot!(self => (**self), identity);
}

// SAFETY: every step is that of the inner source.
unsafe impl<S: Source> Source for Waitable<S> {
    type Output = S::Output;
    type Slot = S::Slot;

    steps_of_the_same_slot!(self => self.0, identity);
}

/// The source that maps another one's output by a closure. Made by
/// [`Waitable::map`](crate::Waitable::map).
#[derive(Clone, Copy, Debug)]
pub struct Map<S, F> {
    source: S,
    then: F,
}

impl<S, F> Map<S, F> {
    /// The result of `then` on the output of `source`.
    #[inline]
    pub fn new(source: S, then: F) -> Self {
        Self { source, then }
    }
}

// SAFETY: every step is the inner source's. The closure runs after a `start`, `attempt` or `commit`
// that has yielded, outside of every lock: the inner slot is registered nowhere then. So the
// closure may wait, and may unwind: as if the inner source had yielded its output and that was
// dropped. The closure goes to another thread only together with the source.
unsafe impl<S: Source, R, F: FnMut(S::Output) -> R> Source for Map<S, F> {
    type Output = R;
    type Slot = S::Slot;

    steps_of_the_same_slot!(self => self.source, &mut self.then);
}

/// Some source with this output, that may go to other threads. Made by [`Waitable::boxed`].
pub type BoxSource<'a, T> = Box<dyn Source<Output = T, Slot = BoxSlot<'a>> + Send + 'a>;

/// Some source with this output. Made by [`Waitable::boxed_local`].
pub type LocalBoxSource<'a, T> = Box<dyn Source<Output = T, Slot = BoxSlot<'a>> + 'a>;

/// The slot of a source of unknown type: in a box of its own, which `prepare` makes.
#[derive(Debug)]
pub struct BoxSlot<'a> {
    /// Null before that.
    slot: *mut (),
    free: unsafe fn(*mut ()),
    /// The content of the box may borrow for so long.
    of: PhantomData<&'a mut ()>,
}

impl BoxSlot<'_> {
    fn holding<T>(slot: T) -> Self {
        /// # Safety
        /// `slot` comes from a box of this type, and is not used again.
        unsafe fn free<T>(slot: *mut ()) {
            // SAFETY: as the caller promises.
            drop(unsafe { Box::from_raw(slot.cast::<T>()) });
        }
        Self { slot: Box::into_raw(Box::new(slot)).cast(), free: free::<T>, of: PhantomData }
    }
}

impl Default for BoxSlot<'_> {
    fn default() -> Self {
        Self { slot: ptr::null_mut(), free: |_| (), of: PhantomData }
    }
}

impl Drop for BoxSlot<'_> {
    fn drop(&mut self) {
        // SAFETY: made for this pointer, or without effect; dropped once.
        unsafe { (self.free)(self.slot) };
    }
}

/// A source in a box.
pub(super) struct Erased<'a, S>(S, PhantomData<&'a mut ()>);

impl<S> Erased<'_, S> {
    pub(super) fn new(source: S) -> Self {
        Self(source, PhantomData)
    }
}

// SAFETY: every step is that of the source, with a slot that stays in place when its box moves. A
// slot that is registered was prepared by this source, as its caller promises, so the slot is of
// the source's type.
unsafe impl<'a, S: Source + 'a> Source for Erased<'a, S> {
    type Output = S::Output;
    type Slot = BoxSlot<'a>;

    steps_of!(self => self.0, slot => &mut *slot.slot.cast::<S::Slot>(), Some);

    unsafe fn prepare(&mut self, slot: &mut BoxSlot<'a>) {
        let mut inner = S::Slot::default();
        // SAFETY: the slot was just made.
        unsafe { self.0.prepare(&mut inner) };
        *slot = BoxSlot::holding(inner);
    }

    unsafe fn withdraw(&mut self, slot: &mut BoxSlot<'a>) {
        // SAFETY: null, or made by `prepare` above.
        if let Some(slot) = unsafe { slot.slot.cast::<S::Slot>().as_mut() } {
            // SAFETY: as the caller promises.
            unsafe { self.0.withdraw(slot) };
        }
    }
}
