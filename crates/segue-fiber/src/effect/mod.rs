//! Effect handlers: ask an enclosing handler, which answers, or keeps the rest of the computation
//! for later.
//!
//! Used by applications, and by libraries that leave the meaning of an operation to their callers.
//!
//! An *effect* is a type. A [`perform`] calls the innermost [`Handler`] in place that has a clause
//! for the effect.
//!
//! ```
//! use segue_fiber::effect::{Effect, Handler, perform};
//!
//! /// A division by zero: the performer goes on with what it is told.
//! struct DivBy0(i64);
//! impl Effect for DivBy0 {
//!     type Output = i64;
//! }
//!
//! fn div(a: i64, b: i64) -> i64 {
//!     if b == 0 { perform(DivBy0(a)) } else { a / b }
//! }
//!
//! // One caller wants a number in any case,
//! let saturated = Handler::new().answer(|DivBy0(a)| a.signum() * i64::MAX).handle(|| div(7, 0) - 1);
//! assert_eq!(saturated, i64::MAX - 1);
//!
//! // another gives up,
//! let given_up = Handler::new()
//!     .on(|DivBy0(_), _continuation| None)
//!     .value(|result: i64| Some(result))
//!     .handle(|| div(7, 0) - 1);
//! assert_eq!(given_up, None);
//!
//! // and a third one looks at what becomes of it.
//! let looked_at = Handler::new().on(|DivBy0(_), k| k.resume(1) * 10).handle(|| div(7, 0) - 1);
//! assert_eq!(looked_at, 0);
//! ```
//!
//! The design follows "Retrofitting Effect Handlers onto OCaml" (Sivaramakrishnan and others, PLDI
//! 2021): handlers are deep, continuations are stacks and are used once, effects are not in the
//! types of functions. The difference is Rust's checks: that a continuation is used at most once,
//! is not sent, and does not outlive its borrowed data.
//!
//! # Which handler handles
//!
//! - The innermost handler in place with a clause for the effect's type. Clauses and cases run
//!   under the handlers outside of theirs.
//! - A fiber, and any other [`Coroutine`](crate::Coroutine), starts without handlers, but for
//!   [shared](SharedHandler) ones, which the halves of a join and the fibers of a scope inherit. A
//!   [generator](crate::generator()) runs under the handlers of the code that asks for the next
//!   element.
//! - While the thread panics, clauses that want the continuation are passed over, as if the effect
//!   were not theirs: a destructor that ran on in another order would confuse the count of panics,
//!   which std keeps for each thread. Clauses that answer work.
//!
//! # Unwinding
//!
//! A panic that leaves the body goes to the handler's case for panics, or to the caller that waits
//! for the handler's result: that of `handle` at first, later that of `resume`. A panic of a clause
//! or case goes there too; the continuation, if still the clause's, is dropped on the way, and so
//! the body unwound; or told, after a [`perform_result`]. A panic of a clause that answers goes to
//! the performer.
//!
//! # Shallow handling
//!
//! A handler is deep: in place again when its continuation is resumed. To handle each perform in
//! another way, let the clauses only report the effect. The handler's result is then a step, and to
//! resume yields the next one:
//!
//! ```
//! use segue_fiber::effect::{Continuation, Effect, Handler, perform};
//!
//! struct Read;
//! impl Effect for Read {
//!     type Output = u32;
//! }
//! struct Write(u32);
//! impl Effect for Write {
//!     type Output = ();
//! }
//!
//! enum Step {
//!     Read(Continuation<'static, u32, Step>),
//!     Write(u32, Continuation<'static, (), Step>),
//!     Done,
//! }
//!
//! let handler = Handler::stored().on(|Read, k| Step::Read(k)).on(|Write(it), k| Step::Write(it, k));
//! let first = handler.value(|()| Step::Done).handle(|| {
//!     let read = perform(Read);
//!     perform(Write(read + 1));
//!     perform(Read);
//! });
//! // First it has to read, then to write, and it is let go before it reads again.
//! let Step::Read(k) = first else { panic!() };
//! let Step::Write(written, k) = k.resume(41) else { panic!() };
//! assert_eq!(written, 42);
//! assert!(matches!(k.resume(()), Step::Read(_)));
//! ```
//!
//! # Waiting inside
//!
//! A fiber may wait inside a handled computation: all of its stacks are suspended at once, and its
//! handlers are in place again when the fiber goes on.
//!
//! The contexts that a computation has entered before a perform, a scope, a timeout, a shield,
//! belong to the computation. They leave along: the clause is not inside of the performer's
//! timeout. And they come back along, inside of the resumer's contexts of then: a cancellation or
//! deadline around the resumer shows in the computation. Only a clause that answers is a call of
//! the performer's, and runs inside of the performer's contexts.
//!
//! # Operations in progress
//!
//! No computation is captured across an operation. A waker, a hook, a closure of a source, a
//! policy, a drop: a perform in such code finds no handler outside of the operation around, and an
//! element for a generator outside is refused, with a message that names the operation. C frames
//! are like that in the paper. A join, a blocking call in place and a visit to another scheduler
//! are operations, too.
//!
//! # Programs to read
//!
//! The repository's `examples`: `calculator` restarts exceptions, `scheduler` is one in forty
//! lines, `effects_state`, `effects_io` and `transactions` are state, input and rollback,
//! `backtracking` searches with [`multi`](crate::multi), `generator` walks trees,
//! `testing_with_effects` runs a program without the world.
//!
//! # The content of an effect
//!
//! An effect is `'static`, and borrows nothing. A clause owns the effect, and may keep it when the
//! performer has gone on or is over; a borrow from the performer's stack would dangle then.
//! (Clauses that answer could be an exception, as the performer waits meanwhile; but whether a
//! clause answers is the handler's choice.)

#![allow(unsafe_code)] // Frames of the chain are reached by address.

mod base;
pub(crate) mod clauses;
mod computation;
mod continuation;
mod discontinued;
mod find;
mod handler;
mod held;
mod request;
mod shared;
mod trampoline;
mod unhandled;

use std::any::TypeId;
use std::panic::Location;

use clauses::Answer;
use find::{Between, Found, Search, find, find_innermost, find_past};
use request::Ending;
use segue_core::chain::{self, Frame, Restore, Surrounding};

pub use continuation::{Continuation, Next};
pub use discontinued::Discontinued;
pub use handler::Handler;
pub use shared::SharedHandler;
pub use unhandled::Unhandled;

/// A request that a computation may make to a handler around.
pub trait Effect: Sized + 'static {
    /// The result of [`perform`]: the handler's answer.
    type Output;
}

/// The end of a computation after the drop of its continuation: the payload of the panic that
/// unwinds it, or of its [`Discontinued`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped;

/// Asks the innermost handler that has a clause for `E`, and returns its answer.
///
/// # Panics
///
/// With [`Unhandled`] if there is none. With the payload by which the handler discontinues the
/// computation; to unwind takes microseconds, [`perform_result`] does without.
#[inline(always)]
#[track_caller]
pub fn perform<E: Effect>(effect: E) -> E::Output {
    perform_to::<E, request::Answer>(effect)
}

/// As [`perform`]; but a discontinuation by the handler is a value here, and nothing is unwound.
///
/// # Errors
///
/// [`Discontinued`]. The computation has still to end: its result goes to the handler's case for a
/// value, as any other value.
///
/// # Panics
///
/// With [`Unhandled`] if there is no handler. With a panic of a clause that answers.
#[inline(always)]
#[track_caller]
pub fn perform_result<E: Effect>(effect: E) -> Result<E::Output, Discontinued> {
    perform_to::<E, request::Either>(effect)
}

// Inlined, down to the switch: a function that suspends has been called and returns after others
// have run, which processors predict wrongly, as they expect returns in the order of calls.
#[inline(always)]
#[track_caller]
fn perform_to<E: Effect, T: Ending>(effect: E) -> T::Of<E::Output> {
    #[cold]
    #[inline(never)]
    fn unhandled<E: Effect>(effect: E, location: &'static Location<'static>) -> ! {
        drop(effect);
        Unhandled::raise::<E>(location)
    }

    match try_perform_to::<E, T>(effect) {
        Ok(output) => output,
        Err(effect) => unhandled(effect, Location::caller()),
    }
}

/// As [`perform`], and gives the effect back if there is no handler.
///
/// # Errors
///
/// The effect itself.
///
/// # Panics
///
/// With the payload by which the handler discontinues the computation.
#[inline]
pub fn try_perform<E: Effect>(effect: E) -> Result<E::Output, E> {
    try_perform_to::<E, request::Answer>(effect)
}

#[inline(always)]
fn try_perform_to<E: Effect, T: Ending>(effect: E) -> Result<T::Of<E::Output>, E> {
    let top = chain::top();
    // SAFETY: the frame is the chain's.
    let (found, captures) = match unsafe { find_innermost::<E>(top) } {
        Some(found) => found,
        None => match find::<E>() {
            // Piece by piece, or the other search would leave its result in memory as well.
            Search::Found(Found { frame, clause, entry }) => (Found { frame, clause, entry }, entry.captures),
            // SAFETY: the search has come to this frame.
            Search::Past(frame) => return unsafe { perform_past::<E, T>(frame, effect) },
            Search::Nothing => return Err(effect),
        },
    };
    // SAFETY: found for this effect.
    Ok(unsafe { found.perform::<E, T>(top, captures, effect) })
}

/// Performs past something else than handlers and generators.
///
/// # Safety
///
/// A search for `E` has just come to `frame`.
#[cold]
#[inline(never)]
unsafe fn perform_past<E: Effect, T: Ending>(frame: *const Frame, effect: E) -> Result<T::Of<E::Output>, E> {
    // SAFETY: by the contract; the entry is for this effect.
    unsafe {
        match find_past(frame, TypeId::of::<E>()) {
            None => Err(effect),
            Some((found, Between::Nothing)) => Ok(found.perform::<E, T>(chain::top(), found.entry.captures, effect)),
            Some((found, Between::Contexts(contexts))) => Ok(found.perform_inside::<E, T>(contexts, effect)),
            Some((found, Between::Border(further))) => Ok(T::answered(found.answer_inherited(further, effect))),
        }
    }
}

/// Runs `body` as if none of the handlers around were in place.
///
/// A computation that is handled outside can't be captured from inside either, nor can a generator
/// around give. Fibers can be [resumed](crate::Coroutine::resume_outside) here; for anything else
/// there is [`barrier`](segue_core::chain::barrier), with a message that names the obstacle.
pub fn outside<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: the frame around is in place until this returns.
    let _restore = unsafe { Restore::new() };
    // SAFETY: null is always allowed.
    unsafe { chain::set_top(std::ptr::null()) };
    body()
}

/// Whether no handler is in place and no generator around: the running code can't be captured.
#[must_use]
#[inline]
pub fn is_outside() -> bool {
    chain::top().is_null()
}

impl Found {
    /// # Safety
    ///
    /// Found for `E`, just now, with this `top` of the chain; and `captures` is known.
    #[inline(always)]
    unsafe fn perform<E: Effect, T: Ending>(self, top: *const Frame, captures: bool, effect: E) -> T::Of<E::Output> {
        if captures {
            // SAFETY: by the contract.
            return unsafe { request::request::<E, T>(top, self, effect) };
        }
        // SAFETY: the frames outside of the one that was found are in place until this returns,
        // since this call runs inside of them.
        let _restore = unsafe { Restore::new() };
        // SAFETY: as above; and the entry belongs to `E`.
        unsafe {
            chain::set_top((*self.frame).parent());
            T::answered(self.answer(effect))
        }
    }

    /// # Safety
    ///
    /// As for [`perform`](Self::perform); this is an answering clause, and the frames outside of
    /// its handler are in place.
    #[inline(always)]
    unsafe fn answer<E: Effect>(&self, effect: E) -> E::Output {
        // SAFETY: an entry that does not capture and belongs to `E` has a function of this type.
        // The frame is in place until this returns, since this call runs inside of the handled
        // body.
        unsafe {
            let answer = std::mem::transmute::<*const (), Answer<E>>(self.entry.call);
            answer(self.frame, self.clause, effect)
        }
    }

    /// As [`perform`](Self::perform), by a clause that was inherited. The clause sees handlers that
    /// were inherited from further out, and nothing of the performer's surroundings.
    ///
    /// # Safety
    ///
    /// As for [`perform`](Self::perform); `further` was inherited with the clause.
    unsafe fn answer_inherited<E: Effect>(self, further: chain::Heritage, effect: E) -> E::Output {
        // SAFETY: an inherited handler outlives its heir, which runs here, and answers; there is
        // nothing around that could capture this.
        outside(|| unsafe { chain::inherit(further, || self.answer(effect)) })
    }

    /// As [`perform`](Self::perform), from inside of contexts: a scope, a timeout, that the handler
    /// is outside of.
    ///
    /// # Safety
    ///
    /// As for [`perform`](Self::perform); `contexts` is the outermost of those between.
    unsafe fn perform_inside<E: Effect, T: Ending>(self, contexts: Surrounding<'_>, effect: E) -> T::Of<E::Output> {
        // SAFETY: by the contract. A computation that is captured takes its contexts along, and
        // `_away` is dropped when the computation goes on. A clause that answers is called by the
        // performer, from inside of these contexts.
        unsafe {
            if self.entry.captures {
                let _away = contexts.leave();
                request::request::<E, T>(chain::top(), self, effect)
            } else {
                T::answered(contexts.detour((*self.frame).parent(), || self.answer(effect)))
            }
        }
    }
}
