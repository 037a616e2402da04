//! The family: the fibers that one owner has to wait for.
//!
//! Used by scopes, which own theirs, and by runtimes, which cancel and join theirs at their end:
//! detached fibers belong to a runtime's.
//!
//! # The idea
//!
//! A family counts its members: tasks from spawn to end, and one for its owner. The owner takes
//! itself out at the end and waits for the count to reach zero, shielded, since the members may
//! borrow from the owner's frame. The member that brings it to zero signals. As the owner cannot
//! leave before, the signal is the last touch of the family by a member. A worker may keep the
//! membership of a runtime's fiber that has ended for the next one that it makes: see `spare.rs`.
//!
//! Ordering: each `leave` releases and the last one acquires, so what all members did happens
//! before the owner goes on.
#![allow(unsafe_code)] // Members and owner reach the family by its address.

use crate::contract::chain::{self, Heritage};
use crate::contract::fiber::WaitsFor;
use crate::contract::tree::cancelled::Reason;
use crate::contract::tree::context::Context;
use crate::contract::tree::spare;
use crate::contract::trigger::Trigger;
use crate::contract::unwind::contain;
use crate::primitives::atomic::{AtomicUsize, Ordering};
use crate::primitives::lock::Lock;
use crate::primitives::payload::{Payload, message};
use std::panic::Location;
use std::sync::Arc;

/// The fibers that one owner has to wait for.
pub struct Family {
    pub(crate) context: Arc<Context>,
    live: AtomicUsize,
    done: Trigger,
    /// The first panic of a member; kept for the owner if it is one that re-raises.
    pub(crate) panic: Lock<Option<Payload>>,
    reraises: bool,
    /// The shared handlers that it was made inside of, if it is a scope's. Here and not in each
    /// closure: what is put together from two is copied in words of another size than it was
    /// written in, which waits for the writes.
    pub(crate) heritage: Heritage,
    /// How many members were cancelled before they began. The owner looks after all have ended.
    pub(crate) unstarted: AtomicUsize,
}

impl Family {
    /// The family of a runtime. Its members are detached: a panic stays with the member that
    /// panicked.
    #[must_use]
    pub fn detached() -> Self {
        Self::new(Context::root(), false)
    }

    /// The family of a runtime that its caller waits for: cancelled with the caller.
    ///
    /// # Safety
    /// It is completed, or dropped without members, inside of the contexts that the caller is in
    /// now, on the same thread.
    #[must_use]
    pub unsafe fn of_caller() -> Self {
        Self::new(Context::nested(), false)
    }

    /// The family of a scope that the caller enters: cancelled with the caller, and by a member's
    /// panic, which is kept for the caller.
    pub(crate) fn of_scope() -> Self {
        let mut family = Self::new(Context::nested(), true);
        // It inherits only what it is not captured without, and so outlives it.
        family.heritage = chain::heritage();
        family
    }

    fn new(context: Arc<Context>, reraises: bool) -> Self {
        Self {
            context,
            live: AtomicUsize::new(1),
            done: Trigger::new(),
            panic: Lock::new(None),
            reraises,
            heritage: Heritage::NONE,
            unstarted: AtomicUsize::new(0),
        }
    }

    /// Runs `f` as the owner: inside of the family's context.
    pub fn enter_context<R>(&self, f: impl FnOnce() -> R) -> R {
        self.context.enter(f)
    }

    /// The context that its members run in.
    #[inline]
    pub(crate) fn context(&self) -> *const Context {
        Arc::as_ptr(&self.context)
    }

    #[inline]
    pub(crate) fn enter(&self) {
        if !spare::take(self) {
            self.live.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The last thing that a member does with its family.
    ///
    /// # Safety
    /// The family counts the caller, once for this call. It may be gone when this returns, hence
    /// the pointer.
    #[inline]
    pub(crate) unsafe fn leave(this: *const Self) {
        // SAFETY: the caller's membership keeps it in place, until it is kept or given up.
        if unsafe { (*this).reraises || !spare::keep(this) } {
            // SAFETY: as the caller promises.
            unsafe { Self::depart(this) };
        }
    }

    /// Gives up a membership.
    ///
    /// # Safety
    /// As for [`leave`](Family::leave).
    #[inline]
    pub(crate) unsafe fn depart(this: *const Self) {
        // SAFETY: the count, or the owner's wait for `done`, keeps it in place until the last line
        // here has had its effect.
        unsafe {
            if (*this).live.fetch_sub(1, Ordering::AcqRel) == 1 {
                (*this).done.signal(0);
            }
        }
    }

    /// Takes note of a panic of `part`, a member's or the owner's, and gives back what its handle
    /// is to report. If the owner re-raises, the first one is kept for it, *before* the others are
    /// cancelled: a panic because of that comes second.
    #[cold]
    pub(crate) fn keep_panic(&self, part: &str, payload: Payload) -> Payload {
        if !self.reraises {
            return payload;
        }
        let shown = message(payload.as_ref()).unwrap_or_else(|| "(a panic without a message)".to_owned());
        let mut kept = self.panic.lock();
        let superfluous = if kept.is_none() { kept.replace(payload) } else { Some(payload) };
        drop(kept);
        self.context.cancel(Some(Reason::new(format!("{part} of the scope panicked: {shown}"))));
        contain(|| drop(superfluous));
        Box::new(shown)
    }

    /// The owner's end: accepts no more, waits for every member, and leaves the tree. Neither
    /// cancellation nor a panic under way cuts it short.
    ///
    /// # Safety
    /// For the owner; called once, after which no member is made.
    #[track_caller]
    pub unsafe fn complete(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.complete_at(Location::caller()) }
    }

    /// As [`complete`](Self::complete), for reports that it was called at `at`.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    pub(crate) unsafe fn complete_at(&self, at: &'static Location<'static>) {
        spare::settle();
        if self.live.fetch_sub(1, Ordering::AcqRel) != 1 {
            self.done.wait_shielded(WaitsFor { what: "the fibers of a scope", at });
        }
        self.context.end();
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // In case that nobody has completed it: without members that is only to leave the tree.
        self.context.end();
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("live", &self.live.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}
