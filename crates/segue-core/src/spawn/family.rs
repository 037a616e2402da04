//! The family: the fibers that one owner has to wait for.
//!
//! Used by scopes, which own theirs, and by runtimes, which cancel and join theirs at their end:
//! detached fibers belong to a runtime's.
//!
//! # The idea
//!
//! A family counts its members: tasks from spawn to end, and one for its owner. The owner takes
//! itself out at the end and waits for the count to reach zero, shielded, since the members may
//! borrow from the owner's frame. The member that brings the count to zero signals. As the owner
//! cannot leave before, the signal is the last touch of the family by a member. A worker may keep
//! the membership of a runtime's fiber that has ended for the next one: see `spare.rs`.
//!
//! # Late members
//!
//! A member makes others, since the count is not zero before its end. A scope may have a family
//! inside of its family: its *daemons*, which share its context and report to it, and are counted
//! apart ([`daemons`](Family::daemons)). They go on when the count of the outer one is zero, and
//! then that stays so: code that may be no member makes members under a [`hold`](Family::hold) of
//! the family alone, which is refused at zero. **The race to fear** is an addition to zero that is
//! taken back: another one would see the one and not the zero. So the hold is a compare-and-swap
//! that never leaves zero.
//!
//! Ordering: each `leave` releases and the last one acquires, so the work of all members happens
//! before the owner goes on.
#![allow(unsafe_code)] // Members and owner reach the family by its address.

use crate::chain::unwind::{caught, contain, text};
use crate::chain::{self, Heritage};
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::contract::slots::{ContextHead, FamilyId};
use crate::contract::trigger::Trigger;
use crate::primitives::atomic::{AtomicUsize, Ordering};
use crate::primitives::lock::Lock;
use crate::primitives::payload::Payload;
use crate::primitives::waits_for::{Object, WaitsFor, WaitsOn};
use crate::spawn::failure::{Failure, Failures, ScopeError};
use crate::spawn::spare;
use crate::tree::cancelled::{Cancelled, Reason};
use crate::tree::context::Context;
use std::panic::Location;
use std::ptr;
use std::sync::Arc;

/// A part of a scope: mere cancellations, which are not returned.
pub(crate) const DROPPED_ERROR: &str = "the drop of an error";

/// The address of no family.
const UNKNOWN: *const Family = ptr::without_provenance(1);

/// The fibers that one owner has to wait for.
pub struct Family {
    pub(crate) context: Arc<Context>,
    live: AtomicUsize,
    done: Trigger,
    /// The failures; kept for the owner if that is a scope.
    pub(crate) failures: Lock<Failures>,
    is_scope: bool,
    /// The one that daemons report to; null for any other.
    reports_to: *const Family,
    /// Of a scope: the one that its opener detaches to, which the scope can't outlive; [`UNKNOWN`]
    /// for a scope that may be captured.
    openers: *const Family,
    /// The shared handlers around its making, for a scope's family. Here and not in each closure: a
    /// value that is put together from two is copied in words of another size than those of the
    /// write, which waits for the writes.
    pub(crate) heritage: Heritage,
    /// How many members were cancelled before they began. The owner looks after all have ended.
    pub(crate) unstarted: AtomicUsize,
}

// SAFETY: daemons report to a family, which is `Sync`, and outlives them.
unsafe impl Send for Family {}
// SAFETY: as above.
unsafe impl Sync for Family {}

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
    /// The family is completed, or dropped without members, inside of the caller's present
    /// contexts, on the same thread.
    #[must_use]
    pub unsafe fn of_caller() -> Self {
        Self::new(Context::nested(), false)
    }

    /// The family of a scope that the caller enters: cancelled with the caller, and by a member's
    /// panic, which is kept for the caller.
    pub(crate) fn of_scope() -> Self {
        let mut family = Self::new(Context::nested(), true);
        // The family inherits only handlers without which it is not captured, and which so outlive
        // it.
        family.heritage = chain::heritage();
        family.openers = if chain::top().is_null() { Self::of_id(current::family()) } else { UNKNOWN };
        family
    }

    /// The family of the daemons of a scope, inside of the scope's family. Complete when this one
    /// is.
    ///
    /// # Safety
    /// This one stays in place until the daemons are completed.
    pub(crate) unsafe fn daemons(&self) -> Self {
        let mut daemons = Self::new(Arc::clone(&self.context), true);
        daemons.heritage = self.heritage;
        daemons.reports_to = self;
        daemons.openers = self.openers;
        daemons
    }

    fn new(context: Arc<Context>, is_scope: bool) -> Self {
        Self {
            context,
            live: AtomicUsize::new(1),
            done: Trigger::new(),
            failures: Lock::new(Failures::NONE),
            is_scope,
            reports_to: ptr::null(),
            openers: ptr::null(),
            heritage: Heritage::NONE,
            unstarted: AtomicUsize::new(0),
        }
    }

    /// Runs `f` as the owner: inside of the family's context.
    pub fn enter_context<R>(&self, f: impl FnOnce() -> R) -> R {
        self.context.enter(f)
    }

    /// Whether `detached` stays in place until the last member has ended, wherever that runs.
    #[inline]
    pub(crate) fn is_within(&self, detached: *const Self) -> bool {
        ptr::eq(if self.is_scope { self.openers } else { self }, detached)
    }

    /// The context that its members run in.
    #[inline]
    pub(crate) fn context(&self) -> *const ContextHead {
        Context::head_of(&self.context)
    }

    /// The name by which headers know it.
    #[must_use]
    #[inline]
    pub fn id(&self) -> FamilyId {
        Self::id_of(self)
    }

    /// As [`id`](Self::id), of a family that may be null.
    #[inline]
    pub(crate) const fn id_of(family: *const Self) -> FamilyId {
        FamilyId::new(family.cast())
    }

    /// The family of this name, to be followed while it is in place; null if there is none.
    #[inline]
    pub(crate) fn of_id(id: FamilyId) -> *const Self {
        id.as_ptr().cast()
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
    /// The family counts the caller, once for this call. The family may be gone when this returns,
    /// hence the pointer.
    #[inline]
    pub(crate) unsafe fn leave(this: *const Self) {
        // SAFETY: the caller's membership keeps the family in place, until that membership is kept
        // or given up.
        if unsafe { (*this).is_scope || !spare::keep(this) } {
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
        // SAFETY: the count, or the owner's wait for `done`, keeps the family in place until the
        // last line here has had its effect.
        unsafe {
            if (*this).live.fetch_sub(1, Ordering::AcqRel) == 1 {
                (*this).done.signal(0);
            }
        }
    }

    /// A membership of the caller's own, to make members under; `None` if there are none any more,
    /// and never will be.
    pub(crate) fn hold(&self) -> Option<Held<'_>> {
        let more = |live: usize| (live != 0).then_some(live + 1);
        self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Held(self))
    }

    /// Takes note of a panic of `part`, a member's or the owner's, and gives back the outcome for
    /// its handle. If the owner is a scope, the panic is kept for the scope, *before* the others
    /// are cancelled: a failure because of that comes later.
    #[cold]
    pub(crate) fn keep_panic(&self, part: &'static str, payload: Payload) -> Payload {
        if !self.is_scope {
            return payload;
        }
        let shown = text(payload.as_ref());
        self.keep(Failure::of_panic(part, payload));
        Box::new(shown)
    }

    /// As [`keep_panic`](Self::keep_panic), for an error. Answers the part's return value, so that
    /// its consequences further out are told from other failures: a cancellation for this error; or
    /// the cancellation of which the error consists, if that says nothing new. The owner is a
    /// scope.
    #[cold]
    pub(crate) fn keep_error(&self, part: &'static str, error: Arc<Reason>) -> Cancelled {
        let echo = self.keep(Failure::of_error(part, Arc::clone(&error)));
        echo.unwrap_or_else(|| Cancelled::because(Some(error)))
    }

    /// As [`keep_error`](Self::keep_error), for all failures of a scope further in: by the first of
    /// them.
    #[cold]
    pub(crate) fn keep_all(&self, inner: ScopeError) -> Cancelled {
        let first = inner.first().cause();
        let mut echoes = inner.into_failures().map(|failure| self.keep(failure));
        let echo = echoes.next().flatten();
        echoes.for_each(drop);
        echo.unwrap_or_else(|| Cancelled::because(Some(first)))
    }

    /// Answers with the cancellation of which the failure consists if that says nothing new: the
    /// scope's, or one that was caused by a kept failure.
    fn keep(&self, failure: Failure) -> Option<Cancelled> {
        // SAFETY: the family outlives its daemons.
        let family = unsafe { self.reports_to.as_ref() }.unwrap_or(self);
        // The parts of an error are foreign code; after a panic there, they can't be told.
        let looks = || Some((contain(|| failure.cancellation())??, family.context.error()));
        let found = if family.context.is_cancelled() { looks() } else { None };
        let mut failures = family.failures.lock();
        let is_echo = |(found, own): &(Cancelled, _)| found.is_for_reason_of(own) || failures.have_caused(found);
        let echo = found.filter(is_echo).map(|(found, _)| found);
        if echo.is_some() {
            let superfluous = failures.add_echo(failure);
            drop(failures);
            if let Err(payload) = caught(|| drop(superfluous)) {
                contain(|| drop(self.keep_panic(DROPPED_ERROR, payload)));
            }
        } else {
            let first = failures.add(failure);
            drop(failures);
            // Of two that fail at once both cancel for the first one's failure.
            family.context.cancel(Some(first));
        }
        echo
    }

    /// The owner's end: accepts no more, waits for every member, and leaves the tree. Neither
    /// cancellation nor a panic under way cuts that short.
    ///
    /// # Safety
    /// For the owner; called once, after which no member is made.
    #[track_caller]
    pub unsafe fn complete(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.complete_at(Location::caller()) }
    }

    /// As [`complete`](Self::complete), for reports of a call at `at`.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    unsafe fn complete_at(&self, at: &'static Location<'static>) {
        // SAFETY: as the caller promises.
        unsafe { self.complete_members(WaitsFor { what: "the fibers of a scope", at }, || ()) };
        self.context.end();
    }

    /// As [`complete`](Self::complete), but stays in the tree. For a wait, the answer of `watch` is
    /// kept until then; that does not unwind.
    ///
    /// # Safety
    /// As for [`complete`](Self::complete).
    pub(crate) unsafe fn complete_members<W>(&self, waits_for: WaitsFor, watch: impl FnOnce() -> W) {
        spare::settle();
        if self.live.fetch_sub(1, Ordering::AcqRel) != 1 {
            let _watched = watch();
            self.done.wait_shielded_on(WaitsOn { waits_for, object: Object::at(self) });
        }
    }
}

impl Fiber {
    /// The family of the fibers that this fiber detaches.
    #[must_use]
    #[inline]
    pub fn detaches_to(&self) -> Option<&Family> {
        // SAFETY: a family outlives its fibers, as the maker of their jobs has promised; only
        // families are given to headers by their address.
        unsafe { Family::of_id(self.family()).as_ref() }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // For a family that nobody has completed: without members this only leaves the tree.
        self.context.end();
    }
}

/// A membership that no task has.
pub(crate) struct Held<'a>(&'a Family);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: the hold was counted in `hold`.
        unsafe { Family::depart(self.0) };
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("live", &self.live.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}
