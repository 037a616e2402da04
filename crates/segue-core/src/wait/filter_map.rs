//! The source that takes from another one until a closure accepts an output.
//!
//! Used through [`Waitable::filter_map`].
//!
//! A value that does not pass was taken all the same. As an arm, a commit with a value that does
//! not pass is one that was told to attempt again.
//!
//! # A source that is always ready
//!
//! Such a source would keep a look busy for ever if nothing passes. So a look takes [`MOST`] values
//! at most and then *gives up*. Then perhaps something is there; so the source may not register and
//! sleep. Its registration retreats instead, as that of any source with a value, and the waiter
//! looks again. From its second retreat on a waiter lets others run before each look, and sees its
//! cancellation there (R9); a choice looks at its other arms. A source that gave up may have
//! nothing that could be registered (a guard, which makes its source at the next look), so none of
//! the steps of a registration asks the inner source then.
//!
//! No notification is lost with that (R12): of the values that are there, a look that gives up has
//! taken more than the announced one.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};

/// How many values that do not pass a look takes.
const MOST: usize = 32;

/// The source that yields the outputs of another one that a closure accepts. Made by
/// [`Waitable::filter_map`].
#[derive(Clone, Copy, Debug)]
pub struct FilterMap<S, F> {
    source: S,
    pass: F,
    /// Whether the last look has ended although there may be more.
    gave_up: bool,
}

impl<S: Source> Waitable<S> {
    /// Takes from the source until `pass` answers `Some`, and yields that. A value that does not
    /// pass was taken, and `pass` drops or keeps that. The closure runs outside of every lock, and
    /// may wait.
    ///
    /// A look ([`attempt`](Waitable::attempt), or that of a wait) takes 32 values at most that do
    /// not pass; then a wait lets others run, and looks again. So a source that is always ready
    /// starves nobody, and the other arms of a choice are looked at.
    ///
    /// # Cancellation
    /// *May already have happened*: values that did not pass were taken before. Otherwise that of
    /// the operation itself; nothing that would have passed was taken.
    ///
    /// # Panics
    /// A wait panics if `pass` does; its argument goes with that.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{WaitQueue, WaitsFor, Waitable};
    ///
    /// let queue: WaitQueue<u32, u32> = WaitQueue::new(1);
    /// let next = |n: &mut u32| std::mem::replace(n, *n * 3);
    /// let numbers = Waitable::new(queue.source(WaitsFor::new("a number"), |_| true, next));
    /// let large = numbers.filter_map(|n| (n > 10).then(|| n.to_string()));
    /// assert_eq!(large.wait().unwrap(), "27");
    /// ```
    pub fn filter_map<R, F>(self, pass: F) -> Waitable<FilterMap<S, F>>
    where
        F: FnMut(S::Output) -> Option<R>,
    {
        Waitable::new(FilterMap { source: self.into_source(), pass, gave_up: false })
    }
}

// SAFETY: every step that reaches a slot is that of the inner source, which keeps the contract for
// that slot; none is passed on that would register something after a look which gave up, so one
// that is passed on follows a look of the inner source in vain.
//
// R1, R2, R5, R10, R11, R13 and R16 are those of the inner source. R3: an attempt takes a bounded
// number and never waits, but for the closure. R4: a source that gave up has not joined, and
// retreats. R6 and R12: a `commit` of a value that does not pass says so, and the attempt that
// follows is one of the inner source. R7, R8: the closure runs after an `attempt` or `commit` of
// the inner source that has yielded, when the slot is registered nowhere and no lock is held; so
// the closure may wait and may unwind.
unsafe impl<S: Source, R, F: FnMut(S::Output) -> Option<R>> Source for FilterMap<S, F> {
    type Output = R;
    type Slot = S::Slot;

    fn waits_for(&self) -> WaitsFor {
        self.source.waits_for()
    }

    fn arms(&self) -> usize {
        self.source.arms()
    }

    /// After giving up, the least: so that the retreat comes before any registration.
    fn address(&self, least: usize) -> Option<usize> {
        if self.gave_up { Some(least) } else { self.source.address(least) }
    }

    fn attempt(&mut self) -> Option<R> {
        self.gave_up = false;
        for _ in 0..MOST {
            let passed = (self.pass)(self.source.attempt()?);
            if passed.is_some() {
                return passed;
            }
        }
        self.gave_up = true;
        None
    }

    unsafe fn prepare(&mut self, slot: &mut S::Slot) {
        if !self.gave_up {
            // SAFETY: as the caller promises.
            unsafe { self.source.prepare(slot) }
        }
    }

    unsafe fn register(&mut self, slot: &mut S::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        if self.gave_up {
            return Err(trigger.retreat());
        }
        // SAFETY: as the caller promises; the inner source's last look was in vain.
        unsafe { self.source.register(slot, trigger, arm) }
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut S::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        if self.gave_up {
            return Err(trigger.retreat());
        }
        // SAFETY: as in `register`.
        unsafe { self.source.register_at(address, slot, trigger, arm) }
    }

    unsafe fn withdraw(&mut self, slot: &mut S::Slot) {
        // SAFETY: as the caller promises; after giving up, the slot is not registered.
        unsafe { self.source.withdraw(slot) }
    }

    unsafe fn commit(&mut self, slot: &mut S::Slot, arm: usize) -> Option<R> {
        // SAFETY: as the caller promises.
        let output = unsafe { self.source.commit(slot, arm) };
        output.and_then(&mut self.pass)
    }

    unsafe fn give_back(&mut self, slot: &mut S::Slot, arm: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.source.give_back(slot, arm) }
    }
}
