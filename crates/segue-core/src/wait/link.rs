//! The waiter's side of a link: how one event that has a trigger of its own becomes an arm of a
//! wait for several.
//!
//! Used by the source of a [`JoinHandle`](crate::JoinHandle): a task's trigger `done` decides which
//! side frees the task, while a choice between several sources has one trigger for all of them.
//! `contract/trigger.rs` has the states, and the claimer's side.
//!
//! A waiter with a lent source may be forgotten in its wait, and the source be waited for again.
//! The link of the forgotten waiter stays in place for good then, and nobody leaves by that link:
//! so the next one takes its place in the word.
//!
//! **The race to fear**: the waiter leaves while the claimer is between the two claims. A waiter
//! leaves by unlinking. If that fails, the first trigger was claimed, and the waiter waits the few
//! instructions until `passed`, which is the claimer's last touch of the link and of the second
//! trigger.
#![allow(unsafe_code)] // The link is reached by address.

use crate::contract::trigger::{LINKED, Link, Trigger, decode, is_link};
use crate::primitives::atomic::{self, AtomicBool, Ordering};
use std::cell::Cell;
use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};

impl Default for Link {
    fn default() -> Self {
        Self { to: Cell::new(ptr::null()), arm: Cell::new(0), passed: AtomicBool::new(false), _shared: PhantomPinned }
    }
}

impl Link {
    /// Links `from` to `to`. If the answer is `false`, `from` has an outcome.
    ///
    /// # Safety
    /// The link stays in place, and so does `to`, until [`leave`](Link::leave) has returned, or
    /// until `to` was claimed through `arm` and its waiter resumed. Nobody else waits on `from`,
    /// but forgotten waiters.
    pub(crate) unsafe fn join(&mut self, from: &Trigger, to: &Trigger, arm: usize) -> bool {
        self.to.set(to);
        self.arm.set(arm);
        // SAFETY: link and second trigger stay in place, as the caller promises.
        let linked = unsafe { from.link(NonNull::from(&mut *self)) };
        if !linked {
            self.to.set(ptr::null());
        }
        linked
    }

    /// Ends the link, if there is one.
    ///
    /// # Safety
    /// The link was joined with this `from`, or never.
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
}

impl Trigger {
    /// Passes the signal on, instead of waiting. Answers whether there was no outcome yet.
    ///
    /// A link in the word is that of a forgotten future: this link takes its place.
    ///
    /// # Safety
    /// The link is in place until the unlinking, or until somebody has ended the wait by this link.
    /// Nobody else waits, and nobody will unlink another link.
    unsafe fn link(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        let mut before = ptr::null_mut();
        loop {
            match self.word.compare_exchange(before, linked, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(word) if decode(word).is_some() => return false,
                Err(word) => {
                    // The caller has others registered, and so this must not unwind.
                    debug_assert!(word.is_null() || is_link(word), "the one who waits for it has it lent");
                    before = word;
                }
            }
        }
    }

    /// The opposite of [`link`](Trigger::link). Answers whether there was no outcome yet.
    fn unlink(&self, link: NonNull<Link>) -> bool {
        let linked = link.as_ptr().map_addr(|address| address | LINKED).cast();
        self.word.compare_exchange(linked, ptr::null_mut(), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
