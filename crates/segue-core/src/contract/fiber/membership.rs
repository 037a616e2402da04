//! The contexts of a fiber: which one it is in, and which one's members it belongs to.
//!
//! Used by waits, which join, and by whatever enters and leaves contexts. A fiber becomes a member
//! when it first waits in a context, and not when it enters: one that never waits costs the tree
//! nothing. `tree/context.rs` has the tree.
#![allow(unsafe_code)] // Contexts are reached by address.

use crate::contract::fiber::Fiber;
use crate::primitives::atomic::Ordering;
use crate::spawn::family::Family;
use crate::tree::cancelled::Cancelled;
use crate::tree::context::Context;
use std::ptr::{self, NonNull};

impl Fiber {
    /// The family that what this fiber detaches belongs to.
    #[must_use]
    #[inline]
    pub fn detaches_to(&self) -> Option<&Family> {
        // SAFETY: a family outlives its fibers.
        unsafe { self.family.as_ref() }
    }

    #[inline]
    pub(crate) fn family(&self) -> *const Family {
        self.family
    }

    /// Makes `context` the innermost one and returns the one before.
    ///
    /// # Safety
    /// It is null, or in place until the fiber has entered another one.
    #[inline]
    pub(crate) unsafe fn enter_context(&self, context: *const Context) -> *const Context {
        // One that has ended may have lain there, and `expose` would keep the pointer to that.
        if !context.is_null() && ptr::eq(self.waits_in.load(Ordering::Relaxed), context) {
            self.renew_waits_in(context.cast_mut());
        }
        self.context.replace(context)
    }

    #[cold]
    fn renew_waits_in(&self, context: *mut Context) {
        if self.waits_for.get().is_none() {
            self.waits_in.store(context, Ordering::Relaxed);
        } else {
            // In the middle of a registration a claimer may write it as well, and that stays.
            let _ = self.waits_in.compare_exchange(context, context, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn context(&self) -> *const Context {
        self.context.get()
    }

    /// Whether the context that the fiber is in was cancelled.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        // SAFETY: a fiber is in a context only while that is alive.
        unsafe { self.context.get().as_ref() }.is_some_and(Context::is_cancelled)
    }

    /// What a wait of the fiber fails with if it is cancelled.
    #[cold]
    pub(crate) fn cancelled(&self) -> Cancelled {
        // SAFETY: as in `is_cancelled`.
        unsafe { self.context.get().as_ref() }.map_or_else(Cancelled::new, Context::error)
    }

    /// Becomes a member of its innermost context, so that its cancellation finds the fiber. Done on
    /// the first wait in a context and not at spawn: a fiber that never waits costs the tree
    /// nothing.
    #[inline]
    pub(crate) fn join_context(&self) {
        let context = self.context.get();
        if self.member_of.get() != context && !context.is_null() {
            self.change_membership(context);
        }
    }

    /// What has run in the middle of a wait may have left the context. Joins it again, and answers
    /// whether the wait goes on: it was not cancelled meanwhile.
    #[cold]
    pub(super) fn join_context_again(&self) -> bool {
        self.join_context();
        !self.interrupted()
    }

    /// Stops being a member of `context`, or of any for null.
    #[inline]
    pub(crate) fn leave_context(&self, context: *const Context) {
        let member_of = self.member_of.get();
        if !member_of.is_null() && (context.is_null() || member_of == context) {
            self.change_membership(ptr::null());
        }
    }

    #[cold]
    fn change_membership(&self, to: *const Context) {
        let from = self.member_of.replace(to);
        let me = NonNull::from(self);
        // SAFETY: a fiber leaves a context before that ends, so both are alive; the links belong to
        // the lock of `from`, and to that of `to` once it has left.
        unsafe {
            if let Some(from) = from.as_ref() {
                from.remove_member(me);
            }
            if let Some(to) = to.as_ref() {
                to.add_member(me);
            }
        }
    }
}
