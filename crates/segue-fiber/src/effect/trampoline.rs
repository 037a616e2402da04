//! Running a computation: to its next request, through the clause for it, up to the handler's
//! result.
//!
//! Used by `computation`, for the first run, and by continuations, which run it on.
//!
//! # Trampoline
//!
//! The clause for a request runs on the stack of the computation's resumer, under the handlers
//! there. A clause that ends in a resume yields a computation instead of running it, and the loop
//! in [`go_on`] goes on with that. So any number of performs takes no stack.
//!
//! # The chain of handlers
//!
//! Each run names the handlers in place as the outer ones of the computation's own, and puts them
//! back when control returns: at a request, at the end. So clauses and cases run under the outer
//! handlers. A run that is itself captured finds the same ones when it goes on: what is captured
//! has put its own top back (`request`), and the frames from there to the capturing computation's
//! are captured with it.

// Computations are reached by address, and so are functions with types that follow from the
// handler's.
#![allow(unsafe_code)]

use std::mem;
use std::ptr::NonNull;

use super::base::{Base, End, Owner, State};
use super::clauses::Capture;
use super::held::Held;
use crate::outcome::Step;
use segue_core::chain::{self, Frame};

/// What comes next when a clause has ended.
pub(super) enum RawNext<'k, R> {
    Done(R),
    /// This one is to be run on: its answer was given, and its handler's result is an `R`. Dropped,
    /// it gets a panic for an answer instead.
    Run(Held<'k, R>),
}

/// Runs a computation to its next request, or to its end.
///
/// # Safety
///
/// It is new, or suspended with its answer given; the caller owns it. `outer` is the innermost
/// handler in place.
#[inline(always)]
pub(super) unsafe fn step(base: NonNull<Base>, outer: *const Frame) -> Step {
    debug_assert_eq!(chain::top(), outer);
    // SAFETY: by the contract.
    let this = unsafe { base.as_ref() };
    // SAFETY: the innermost handler is in place.
    unsafe { this.frame.put_inside(outer) };
    this.state.set(State::Running);
    // SAFETY: likewise.
    let step = unsafe { enter(base, outer) };
    match step {
        Step::Suspended => this.state.set(State::Suspended),
        Step::Returned => {
            this.state.set(State::Over);
            this.kept.leave();
        }
    }
    step
}

/// The switch into a computation, and back. What is known of it is the caller's to set, before and
/// after.
///
/// # Safety
///
/// As for `step`.
#[inline(always)]
pub(super) unsafe fn enter(base: NonNull<Base>, outer: *const Frame) -> Step {
    // SAFETY: by the contract. The coroutine was set by `place`; it is new or suspended, and freed
    // only when it is over.
    let step = unsafe { base.as_ref().raw.get().assume_init().resume() };
    // SAFETY: it was the top before, and control is back where it was.
    unsafe { chain::set_top(outer) };
    step
}

/// Calls the clause for a computation's request.
///
/// # Safety
///
/// The computation was just suspended by a perform; the caller owns it, and gives it up. Its
/// handler's result is `R`.
#[inline(always)]
pub(super) unsafe fn serve<R>(base: NonNull<Base>) -> RawNext<'static, R> {
    // SAFETY: by the contract; `request` has set clause and function to what belongs together, for
    // a request of a handler with this result.
    unsafe {
        // The clause stays while it runs.
        let _clause = Owner::of(base);
        let asked = base.as_ref().asked.get().assume_init();
        mem::transmute::<*const (), Capture<R>>(asked.call)(base, asked.clause)
    }
}

/// Serves a computation's request, and goes on with whatever the clause hands control to, up to a
/// result.
///
/// Inlined, so that a computation that is resumed last goes on below the same calls as before: what
/// it returns from then was called below these, and processors predict that.
///
/// # Safety
///
/// As for `serve`.
#[inline(always)]
pub(super) unsafe fn go_on<R>(mut base: NonNull<Base>) -> R {
    // A clause that has returned has put it back.
    let outer = chain::top();
    loop {
        // SAFETY: by the contract, and for the next ones by that of `Held`. What has returned is
        // over since just now, and its `end` is of this type.
        unsafe {
            match serve(base) {
                RawNext::Done(result) => return result,
                RawNext::Run(held) => base = held.take(),
            }
            if step(base, outer) == Step::Returned {
                return end_of(base);
            }
        }
    }
}

/// Runs a computation, and whatever its clauses hand control to, up to a result.
///
/// # Safety
///
/// The computation is new, or suspended with its answer given; the caller owns it, and gives it up.
/// Its handler's result is `R`.
pub(super) unsafe fn run<R>(base: NonNull<Base>) -> R {
    // SAFETY: by the contract.
    unsafe {
        match step(base, chain::top()) {
            Step::Returned => end_of(base),
            Step::Suspended => go_on(base),
        }
    }
}

/// # Safety
///
/// As for [`End`], which this calls.
#[inline(always)]
pub(super) unsafe fn end_of<R>(base: NonNull<Base>) -> R {
    // SAFETY: by the contract.
    unsafe { mem::transmute::<*const (), End<R>>(base.as_ref().kind.get().end)(base) }
}
