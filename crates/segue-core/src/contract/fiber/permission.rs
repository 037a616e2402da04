//! Whether a fiber may be suspended now, and whether it may begin another operation in its turn.
//!
//! Used by every wait, before it begins.

use crate::contract::fiber::{Fiber, WaitsFor};
use crate::thread::plain;
use crate::tree::cancelled::Cancelled;
use std::ptr;

/// How many operations that need not wait a fiber may begin in one turn.
pub(crate) const OPERATIONS: u8 = 128;

/// What a fiber says in place of what it waits for while it is [not to](crate::no_suspend) wait.
pub(crate) static NO_SUSPEND: &str = "nothing: it must not be suspended";

impl Fiber {
    /// Whether to switch stacks now would carry this thread's panic count into another fiber, or
    /// would use up the resume of a wait that is being registered. For schedulers with ways to
    /// suspend of their own, about the running fiber.
    #[must_use]
    #[inline]
    pub fn must_not_suspend(&self) -> bool {
        (std::thread::panicking() || self.waits_for.get().is_some()) && !plain::is_thread(self)
    }

    /// What a wait fails with that [must not](Fiber::must_not_suspend) suspend.
    #[cold]
    pub(crate) fn refused(&self) -> Cancelled {
        let must_not = self.waits_for.get().is_some_and(|waits_for| ptr::eq(waits_for.what, NO_SUSPEND));
        Cancelled::with_reason(if std::thread::panicking() {
            "a fiber that is panicking can't wait"
        } else if must_not {
            "a fiber can't wait inside of `no_suspend`"
        } else {
            "what is called while a fiber begins to wait, a closure of a queue or a waker, can't wait itself"
        })
    }

    /// Whether calls that block are to suspend it, and it may be suspended.
    #[inline]
    pub(crate) fn is_unblocked(&self) -> bool {
        self.unblocked.get() && !self.must_not_suspend()
    }

    /// Says whether calls that block are to suspend it, and gives back what was.
    #[inline]
    pub(crate) fn set_unblocked(&self, unblocked: bool) -> bool {
        self.unblocked.replace(unblocked)
    }

    /// Says that the fiber registers itself for a wait, if it is `Some`, and gives back what was. A
    /// registered fiber may be resumed at any time, and that resume must not end another wait, one
    /// that foreign code begins in the middle of the registration.
    #[inline]
    pub(crate) fn register_for(&self, waits_for: Option<WaitsFor>) -> Option<WaitsFor> {
        self.waits_for.replace(waits_for)
    }

    /// Takes one operation off what it may begin in this turn; answers whether there was one left.
    #[inline]
    #[must_use]
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.get();
        self.budget.set(left.saturating_sub(1));
        left != 0
    }

    /// Takes more operations off what it may begin in this turn.
    #[inline]
    pub(crate) fn charge(&self, operations: usize) {
        let operations = u8::try_from(operations).unwrap_or(u8::MAX);
        self.budget.set(self.budget.get().saturating_sub(operations));
    }

    /// Whether it may begin no further operation in this turn.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.get() == 0
    }

    /// It has given up its turn: a new one begins, with as many operations that need not wait.
    #[inline]
    pub(crate) fn refill(&self) {
        self.budget.set(OPERATIONS);
    }
}
