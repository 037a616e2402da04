//! The resume that a claim owes.
//!
//! Used by everything that claims: first the claim, under a lock perhaps, then the resume.
#![allow(unsafe_code)] // A wake-up has the right to a resume.

use crate::contract::fiber::{Fiber, Wake};
use std::ptr::NonNull;

/// A claimed waiter that has still to be resumed. Dropping the wake-up resumes the waiter.
///
/// So a structure claims under its lock and resumes after that: to resume runs a scheduler's code.
#[must_use = "the claimed waiter stays suspended while this lives"]
#[derive(Debug)]
pub struct Wakeup(pub(super) Option<NonNull<Fiber>>);

// SAFETY: a wake-up is the right to resume a fiber, which the contract allows on any thread.
unsafe impl Send for Wakeup {}

impl Wakeup {
    /// Resumes the waiter. Never waits.
    #[inline]
    pub fn wake(self) {}

    /// The fiber that is owed a resume, for code that keeps the debt elsewhere.
    #[inline]
    pub(crate) fn into_fiber(self) -> Option<NonNull<Fiber>> {
        let fiber = self.0;
        std::mem::forget(self);
        fiber
    }

    /// The opposite of [`into_fiber`](Wakeup::into_fiber).
    ///
    /// # Safety
    /// The caller owes the fiber a resume, since `into_fiber` has given it or the caller has ended
    /// its wait; and this is the one use of that.
    #[inline]
    pub(crate) unsafe fn from_fiber(fiber: Option<NonNull<Fiber>>) -> Self {
        Self(fiber)
    }
}

impl Drop for Wakeup {
    #[inline]
    fn drop(&mut self) {
        if let Some(fiber) = self.0 {
            // SAFETY: the maker of this wake-up found the fiber WAITING and ended that wait, by a
            // claim, a `cancel` or a ring, and nobody else owes the resume. So the fiber is
            // suspended or about to be, and stays until its resume, which is this one.
            unsafe { Fiber::wake(fiber, Wake::Resume) };
        }
    }
}
