//! The right to go on with a suspended computation, and how a computation ends that nobody goes on
//! with.
//!
//! Used by continuations, and by the value with which a clause hands control on; by `computation`,
//! for continuations that were forgotten, and by regions, for the rest at their end.
//!
//! # How one ends
//!
//! Its perform is answered with a panic, [`Dropped`], and the computation is run on: so its stack
//! is unwound, where programs unwind. A body that catches the panic, or takes that as a value, goes
//! on, and may be suspended again, with a continuation anew.
//!
//! # Three ways to the end
//!
//! - The owner drops the right to go on.
//! - `handle`, if that right was forgotten: `handle` comes to this when nobody can use the right
//!   any more, as a continuation does not outlive its clause.
//! - The region in which it is suspended. There the right to go on may be on the stack of another
//!   computation that the region ends later, and be dropped then. So the region *revokes* the
//!   right: a count in the computation's `revoked` shows the owner that the right is gone; the
//!   region then owns the computation's block in its place. The drop of a right that was revoked
//!   gives that up and does nothing else.
//!
//! # The races to fear
//!
//! All is one thread's, but foreign code runs at two places, and a region may end this computation
//! before that code returns: the foreign code is captured by another computation, which the region
//! ends later.
//!
//! - *The drop of an answer that was given and not used*, when the right is dropped. The right is
//!   not there any more, and the computation still suspended. So `abandon` looks at the right again
//!   before running the computation.
//! - *A clause that has borrowed the state from its continuation.* The state must then stay in
//!   place, and nobody else may get a reference, until that continuation is dropped, or for ever.
//!   So if the present continuation has lent the state, the region *seals* the computation: the
//!   computation is unwound without its clauses, and its cases are not called; state and cases are
//!   dropped with the block.

#![allow(unsafe_code)] // Computations are reached by address.

use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::thread;

use super::Dropped;
use super::base::{Base, State, release};
use super::request::{self, Payload};
use crate::backtrace::Backtrace;
use crate::outcome::can_unwind;
use crate::region::Kept;

/// The right to go on with a suspended computation. Its drop ends the computation.
///
/// A revoked right: the region has ended the computation, which is there only so that this can be
/// seen.
///
/// A drop runs frames that hold values good for `'k`, and the types in `T`: the compiler takes both
/// to be used then.
pub(super) struct Held<'k, T> {
    base: NonNull<Base>,
    /// The value of `Base::revoked` at the beginning.
    revoked: usize,
    /// Neither longer nor shorter.
    _good_for: PhantomData<fn(&'k ()) -> &'k ()>,
    _types: PhantomData<*mut T>,
}

impl<'k, T> Held<'k, T> {
    /// # Safety
    ///
    /// The computation is suspended, and nobody else has that right.
    #[inline]
    pub unsafe fn new(base: NonNull<Base>) -> Self {
        // SAFETY: by the contract.
        Held { base, revoked: unsafe { base.as_ref() }.revoked.get(), _good_for: PhantomData, _types: PhantomData }
    }

    /// The same, with other types of the computation known.
    #[inline]
    pub fn cast<U>(self) -> Held<'k, U> {
        let this = ManuallyDrop::new(self);
        Held { base: this.base, revoked: this.revoked, _good_for: PhantomData, _types: PhantomData }
    }

    #[inline]
    fn is_revoked(&self) -> bool {
        // SAFETY: the revoking region keeps the computation in place until this is dropped.
        unsafe { self.base.as_ref() }.revoked.get() != self.revoked
    }

    /// Where the computation is suspended.
    pub fn backtrace(&self) -> Backtrace {
        if self.is_revoked() {
            return Backtrace::empty("its region has ended it");
        }
        // SAFETY: set by `place`. The computation is suspended and this right's, which is borrowed,
        // and not another thread's, as this is not `Send`.
        unsafe { self.base.as_ref().raw.get().assume_init().backtrace() }
    }

    /// The computation, which is suspended and this one's.
    ///
    /// # Panics
    ///
    /// For a revoked right.
    #[inline]
    pub fn get(&self) -> NonNull<Base> {
        if self.is_revoked() {
            refuse();
        }
        self.base
    }

    /// As `get`, for an owner that gives the right up.
    #[inline]
    pub fn take(self) -> NonNull<Base> {
        let this = ManuallyDrop::new(self);
        if this.is_revoked() {
            drop(ManuallyDrop::into_inner(this));
            refuse();
        }
        this.base
    }
}

#[cold]
fn refuse() -> ! {
    panic!("a continuation is used in a destructor at the end of its region, which has ended the computation");
}

impl<T> Drop for Held<'_, T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: a right that was not revoked has a suspended computation; a revoked one owns the
        // block that the region has left.
        unsafe { if self.is_revoked() { release(self.base) } else { abandon(self.base) } }
    }
}

/// `Kept::end`.
///
/// # Safety
///
/// `kept` is in the base of a computation in a list; the value that stands for the computation is
/// not used any more other than to be dropped.
pub(super) unsafe fn end_kept(kept: *const Kept) -> bool {
    // SAFETY: the computation was entered with an address that is good for the whole; the entries
    // of a list are in place.
    unsafe {
        let base = NonNull::new_unchecked(kept.byte_sub(mem::offset_of!(Base, kept)).cast_mut().cast::<Base>());
        let this = base.as_ref();
        let Some(request) = this.request.get() else { return false };
        if request.as_ref().is_lent() {
            // The clause that has borrowed the state may still be there.
            this.seal();
        }
        // Revokes the right to go on; the computation stays in place for the revoked right.
        this.revoked.set(this.revoked.get() + 1);
        this.owners.set(this.owners.get() + 1);
        abandon(base);
    }
    true
}

/// Ends a suspended computation without an owner to go on: unwinds its stack, where programs
/// unwind.
///
/// # Safety
///
/// The computation is suspended; the caller owns the computation, and gives it up.
#[cold]
pub(super) unsafe fn abandon(base: NonNull<Base>) {
    // SAFETY: by the contract.
    let this = unsafe { base.as_ref() };
    let advice = "resume each continuation, or let the computation borrow nothing (`Handler::stored`)";
    if !can_unwind("a handled computation", this.borrows, advice) {
        return;
    }
    let revoked = this.revoked.get();
    // SAFETY: by the contract.
    let failed = catch_unwind(AssertUnwindSafe(|| unsafe { request::fail(base, Box::new(Dropped)) }));
    if this.revoked.get() != revoked {
        // There was an answer, and its drop was suspended; meanwhile the region has ended the
        // computation, and has left this the block.
        // SAFETY: see `end_kept`; the block is not used any more.
        unsafe { release(base) };
        return go_on_with(failed.err());
    }
    // SAFETY: likewise; the panic is its answer now, in any case.
    let end = || unsafe { (this.kind.get().abandon)(base) };
    match failed {
        Ok(()) => end(),
        Err(payload) => {
            // There was an answer, and its drop has panicked. A second panic meanwhile is not
            // reported; and its drop may panic.
            mem::forget(catch_unwind(AssertUnwindSafe(end)));
            go_on_with(Some(payload));
        }
    }
}

/// Ends a computation that lost its continuation, in any case, and returns the panic meanwhile.
///
/// # Safety
///
/// The computation is not over, and the owner of its continuation does not use that.
#[cold]
pub(super) unsafe fn end_forgotten(base: NonNull<Base>) -> Option<Payload> {
    let mut panic = None;
    // SAFETY: the block is in place until its last owner has released it, and the caller is one.
    while unsafe { base.as_ref().state() } == State::Suspended {
        // SAFETY: the computation is suspended, and nobody else's.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe { abandon(base) }));
        panic = panic.or(outcome.err());
    }
    // SAFETY: as above.
    if unsafe { base.as_ref().state() } == State::Running {
        // This can't happen, since its resumer would be inside of the caller.
        std::process::abort();
    }
    panic
}

/// Raises a panic again that was put off, unless another one is under way.
#[cold]
pub(super) fn go_on_with(panic: Option<Payload>) {
    if let Some(payload) = panic {
        if thread::panicking() {
            // The panic was reported; to raise it again would end the process.
            mem::forget(payload);
        } else {
            resume_unwind(payload);
        }
    }
}
