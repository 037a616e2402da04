//! Memberships: the context that lists a fiber, and the errors of the fiber's waits.
//!
//! Used by waits, which join, and by code that enters and leaves contexts. A fiber becomes a member
//! at its first wait in a context, and not on entering: a fiber that never waits costs the tree
//! nothing. `tree/context.rs` has the tree.
#![allow(unsafe_code)] // Contexts are reached by address.

use crate::contract::current;
use crate::contract::fiber::{Fiber, Scheduler};
use crate::contract::slots::ContextHead;
use crate::primitives::list::{Linked, Links};
use crate::tree::cancelled::Cancelled;
use crate::tree::context::Context;
use std::ptr::{self, NonNull};

/// The object of a wait, in the header of a fiber that is [not to](crate::no_suspend) wait.
pub(crate) static NO_SUSPEND: &str = "nothing: it must not be suspended";
/// The same of a fiber in the body of a transaction.
pub(crate) static IN_BODY: &str = "nothing: it is in the body of a transaction";

impl Linked for Fiber {
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

impl Fiber {
    /// The error of a wait of the fiber, if the fiber is cancelled.
    #[cold]
    pub(crate) fn cancelled(&self) -> Cancelled {
        // SAFETY: a fiber is in a context only while that is alive.
        unsafe { Context::of_head(self.context()).as_ref() }.map_or_else(Cancelled::new, Context::error)
    }

    /// The error of a wait that [must not](Fiber::must_not_suspend) suspend the fiber.
    #[cold]
    pub(crate) fn refused(&self) -> Cancelled {
        let is_in = |place: &str| self.waits_for().is_some_and(|waits_for| ptr::eq(waits_for.what, place));
        Cancelled::with_reason(if std::thread::panicking() {
            "a fiber that is panicking can't wait"
        } else if is_in(NO_SUSPEND) {
            "a fiber can't wait inside of `no_suspend`"
        } else if is_in(IN_BODY) {
            "a fiber can't wait in a transaction, which returns `retry` instead"
        } else {
            "what is called while a fiber begins to wait, a closure of a queue or a waker, can't wait itself"
        })
    }

    /// Becomes a member of its innermost context, so that a cancellation finds the fiber.
    #[inline]
    pub(crate) fn join_context(&self) {
        let context = self.context();
        if self.member_of.get() != context && !context.is_null() {
            self.change_membership(context);
        }
    }

    /// Stops being a member of `context`, or of any for null.
    #[inline]
    pub(crate) fn leave_context(&self, context: *const ContextHead) {
        let member_of = self.member_of.get();
        if !member_of.is_null() && (context.is_null() || member_of == context) {
            self.change_membership(ptr::null());
        }
    }

    #[cold]
    fn change_membership(&self, to: *const ContextHead) {
        let from = self.member_of.replace(to);
        let me = NonNull::from(self);
        // SAFETY: a fiber leaves a context before that ends, so both are alive; the links belong to
        // the lock of `from`, and to that of `to` once the fiber has left.
        unsafe {
            if let Some(from) = Context::of_head(from).as_ref() {
                from.remove_member(me);
            }
            if let Some(to) = Context::of_head(to).as_ref() {
                to.add_member(me);
            }
        }
    }

    /// Makes the fiber one of another scheduler on the same thread. The fiber leaves its contexts
    /// first, so that nobody wakes the fiber meanwhile, and joins them again at its next wait; an
    /// interrupt may still be under way to its old scheduler.
    ///
    /// # Safety
    /// For the two schedulers, by the running fiber. `scheduler` outlives the header, or the fiber
    /// moves on before that scheduler ends.
    pub unsafe fn set_scheduler(&self, scheduler: NonNull<dyn Scheduler>) {
        self.leave_context(ptr::null());
        self.scheduler.set(scheduler);
    }
}

/// Leaves every context.
#[inline]
pub(crate) fn leave_contexts() {
    leave_context(ptr::null());
    // SAFETY: null is no context.
    unsafe { current::enter_context(ptr::null()) };
}

/// Has the running fiber, if there is one, leave `context`, or any for null.
#[inline]
pub(crate) fn leave_context(context: *const ContextHead) {
    current::with_running(|fiber| {
        if let Some(fiber) = fiber {
            fiber.leave_context(context);
        }
    });
}
