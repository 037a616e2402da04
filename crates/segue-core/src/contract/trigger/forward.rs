//! A trigger that passes its signal on to another: how one event that has a trigger of its own
//! becomes an arm of a wait for several.
//!
//! Used by the source of a [`JoinHandle`](crate::JoinHandle): a task's trigger `done` decides which
//! side frees the task, while a choice between several sources has one trigger for all of them.
//!
//! # States
//!
//! The link lies in the waiter's frame, and its address stands in the word of the first trigger in
//! place of a fiber's.
//!
//! ```text
//!   INITIAL --link--> LINKED --unlink--> INITIAL
//!                      |  \---claim----> TAKEN; then the second trigger is claimed; then `passed` is stored
//!                      \------link-----> LINKED, by another link
//! ```
//!
//! A waiter with a lent source may be forgotten in its wait, and the source be waited for again.
//! Its link stays in place for good then, and nobody leaves by that link: so the next one takes its
//! place in the word.
//!
//! **The race to fear**: the waiter leaves while the claimer is between the two claims. This can't
//! happen: to leave the waiter unlinks, and if that fails, the first trigger was claimed, and the
//! waiter waits the few instructions until `passed`, which is the claimer's last touch of the link
//! and of the second trigger.
//!
//! Orderings: the exchange to LINKED releases the link's fields to the claim that acquires them;
//! `passed` is released by the claimer and acquired by the waiter that leaves.
#![allow(unsafe_code)] // The link is reached by address.

use super::{Trigger, Wakeup, decode};
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::primitives::atomic::{self, AtomicBool, Ordering};
use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};

/// In the address of a [`Link`], which stands where a fiber's would.
const LINKED: usize = 2;

/// Whether a word has a link.
#[inline]
pub(super) fn is_link(word: *mut Fiber) -> bool {
    word.addr() & LINKED != 0
}

/// Where a trigger passes its signal on to.
pub struct Link {
    /// Null without a link.
    to: Cell<*const Trigger>,
    arm: Cell<usize>,
    passed: AtomicBool,
    /// The claimer reaches a link while its waiter has a `&mut`.
    _shared: PhantomPinned,
}

impl Default for Link {
    fn default() -> Self {
        Self { to: Cell::new(ptr::null()), arm: Cell::new(0), passed: AtomicBool::new(false), _shared: PhantomPinned }
    }
}

impl Link {
    /// Links `from` to `to`. Answers whether that was possible: if not, `from` has an outcome.
    ///
    /// # Safety
    /// The link stays in place, and so does `to`, until [`leave`](Link::leave) has returned, or
    /// until `to` was claimed through `arm` and its waiter resumed. Nobody else waits on `from`, or
    /// only forgotten ones.
    pub(crate) unsafe fn join(&mut self, from: &Trigger, to: &Trigger, arm: usize) -> bool {
        self.to.set(to);
        self.arm.set(arm);
        // SAFETY: as the caller promises.
        let linked = unsafe { from.link(NonNull::from(&mut *self)) };
        if !linked {
            self.to.set(ptr::null());
        }
        linked
    }

    /// Ends a link.
    ///
    /// # Safety
    /// The link was given to `join` with this `from`, or never.
    pub(crate) unsafe fn leave(&mut self, from: &Trigger) {
        if self.to.get().is_null() {
            return;
        }
        if !from.unlink(NonNull::from(&mut *self)) {
            while !self.passed.load(Ordering::Acquire) {
                atomic::yield_now();
            }
        }
        self.to.set(ptr::null());
    }

    /// Claims the second trigger, after the first was. The wake-up is empty after another claim,
    /// and that of a waiter which goes on as cancelled after a cancellation.
    ///
    /// # Safety
    /// `word`, which has a link, was that of a trigger that the caller has just claimed.
    pub(super) unsafe fn pass_on(word: *mut Fiber) -> Wakeup {
        let link = word.map_addr(|address| address & !LINKED).cast::<Self>();
        let link = NonNull::new(link).expect("it is an address");
        // SAFETY: the waiter does not leave before `passed`, nor the second trigger's.
        unsafe {
            let wakeup = (*link.as_ref().to.get()).claim(link.as_ref().arm.get());
            link.as_ref().passed.store(true, Ordering::Release);
            // A waiter that was cancelled goes on as well.
            wakeup.unwrap_or_else(|refused| refused)
        }
    }
}

impl Trigger {
    /// Whether the fiber that runs here is the one that waits with this trigger. A task has a
    /// header of its own in the word, and goes on at its next poll anywhere.
    #[doc(hidden)] // For sources of drivers.
    #[must_use]
    #[inline]
    pub fn waits_here(&self) -> bool {
        ptr::eq(self.word.load(Ordering::Relaxed), current::current())
    }

    /// Passes the signal on, instead of waiting. Answers whether there was no outcome yet.
    ///
    /// A link that is there is that of a future which was forgotten: this one takes its place.
    ///
    /// # Safety
    /// The link is in place until unlinked, or until somebody has ended the wait through that link.
    /// Nobody else waits, and nobody will unlink another link.
    unsafe fn link(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        let mut before = ptr::null_mut();
        loop {
            match self.word.compare_exchange(before, linked, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(word) if decode(word).is_some() => return false,
                Err(word) => {
                    // This is called with others registered, and so must not unwind.
                    debug_assert!(word.is_null() || is_link(word), "the one who waits for it has it lent");
                    before = word;
                }
            }
        }
    }

    /// The opposite of [`link`](Trigger::link). Answers whether this came before any outcome.
    fn unlink(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        self.word.compare_exchange(linked, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
