//! Running a computation: to its next request, through the clause for it, up to the handler's
//! result.
//!
//! Used by `computation`, for the first run, and by continuations, for the further ones.
//!
//! # Trampoline
//!
//! The clause for a request runs on the stack of the computation's resumer, under the handlers
//! there. A clause that ends in a resume yields a computation and does not run it, and the loop in
//! [`go_on`] goes on with that. So any number of performs takes no stack.
//!
//! # The chain of handlers
//!
//! Each run names the handlers in place as the outer ones of the computation's own, and the
//! computation puts them back where control leaves: at a request, at the end. So clauses and cases
//! run under the outer handlers. A captured run finds the same ones afterwards: the captured
//! computation has put its own top back (`request`), and the frames from there to the capturing
//! computation's are captured along.

// Computations are reached by address, and so are functions with types that follow from the
// handler's.
#![allow(unsafe_code)]

use std::mem::{self, MaybeUninit};
use std::ptr::NonNull;

use super::base::{Base, End};
use super::clauses::Capture;
use super::held::Held;
use super::request::Question;
use crate::outcome::Step;
use segue_core::chain::{self, Frame};

/// The next step after a clause.
pub(super) enum RawNext<'k, R> {
    Done(R),
    /// This one is to be run on: its answer was given, and its handler's result is an `R`. A drop
    /// answers this computation with a panic.
    Run(Held<'k, R>),
}

/// Runs a computation to its next request, which is to be [served](serve) next, or to its end.
///
/// # Safety
///
/// The computation is new, or suspended with its answer given; the caller owns it. `outer` is the
/// innermost handler in place.
#[inline(always)]
pub(super) unsafe fn step(base: NonNull<Base>, outer: *const Frame) -> Option<Question> {
    debug_assert_eq!(chain::top(), outer);
    // SAFETY: by the contract.
    let this = unsafe { base.as_ref() };
    // SAFETY: the innermost handler is in place.
    unsafe { this.frame.put_inside(outer) };
    this.request.set(None);
    // SAFETY: likewise.
    let question = unsafe { enter(base) };
    if question.is_none() {
        this.kept.leave();
    }
    question
}

/// The switch into a computation, and back. Its fields are the caller's to set, before and after.
///
/// # Safety
///
/// As for `step`; the parent of its frame is the innermost handler in place.
#[inline(always)]
pub(super) unsafe fn enter(base: NonNull<Base>) -> Option<Question> {
    // SAFETY: by the contract. The coroutine was set by `place`; the coroutine is new or suspended,
    // and freed only at its end. Only `request` suspends the coroutine, which says a question.
    unsafe {
        match base.as_ref().raw.get().assume_init().resume_hearing() {
            (Step::Suspended, words) => Some(Question::from_words(words)),
            (Step::Returned, _) => None,
        }
    }
}

/// Calls the clause for a computation's request: either that writes the handler's result, or this
/// returns the computation to run on.
///
/// # Safety
///
/// The computation was just suspended, with this question; the caller owns it, and gives that up.
/// Its handler's result is `R`.
#[inline(always)]
pub(super) unsafe fn serve<R>(
    base: NonNull<Base>,
    question: Question,
    result: &mut MaybeUninit<R>,
) -> Option<Held<'static, ()>> {
    // SAFETY: by the contract; the parts of the question belong together, for a handler with this
    // result.
    unsafe {
        let Question { request, clause, entry } = question;
        mem::transmute::<*const (), Capture<R>>(entry.call)(base, result.as_mut_ptr(), request, clause)
    }
}

/// Serves a computation's request, and goes on with whatever the clause hands control to, up to a
/// result.
///
/// Inlined, so that a computation that is resumed last goes on below the same calls as before: its
/// returns match these calls, and processors predict that.
///
/// # Safety
///
/// As for `serve`.
#[inline(always)]
pub(super) unsafe fn go_on<R>(mut base: NonNull<Base>, mut question: Question) -> R {
    // A clause that has returned has put the top back.
    let outer = chain::top();
    let mut result = MaybeUninit::uninit();
    loop {
        // SAFETY: by the contract, and for the next ones by that of `Held`. The computation has
        // returned just now, and its `end` is of this type.
        unsafe {
            match serve(base, question, &mut result) {
                None => return result.assume_init(),
                Some(held) => base = held.take(),
            }
            match step(base, outer) {
                Some(next) => question = next,
                None => return end_of(base),
            }
        }
    }
}

/// Runs a computation, and whatever its clauses hand control to, up to a result.
///
/// # Safety
///
/// The computation is new, or suspended with its answer given; the caller owns it, and gives that
/// up. Its handler's result is `R`.
pub(super) unsafe fn run<R>(base: NonNull<Base>) -> R {
    // SAFETY: by the contract.
    unsafe {
        match step(base, chain::top()) {
            None => end_of(base),
            Some(question) => go_on(base, question),
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
