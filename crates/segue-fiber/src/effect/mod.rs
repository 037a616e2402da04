//! Effect handlers: ask an enclosing handler, which answers, or keeps the rest of the computation for later.
//!
//! Used by applications, and by libraries that leave it to their callers what an operation means.
//!
//! An *effect* is a type. To [`perform`] one is to call the innermost [`Handler`] in place that has a clause for it.
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
//! The design follows "Retrofitting Effect Handlers onto OCaml" (Sivaramakrishnan and others, PLDI 2021): handlers are deep, continuations are stacks and are used once, effects are
//! not in the types of functions. What differs is what Rust can check: that a continuation is used at most once, is not sent, and does not outlive what it borrows.
//!
//! # Who handles
//!
//! - The innermost handler in place with a clause for the effect's type. Clauses and cases run under the handlers outside of theirs.
//! - A fiber, and any other [`Coroutine`](crate::Coroutine), starts without handlers. A [generator](crate::generator()) runs under those of whoever asks it for the next element.
//! - While the thread panics, clauses that want the continuation are passed over, as if the effect were not theirs: a destructor that ran on in another
//!   order would confuse the count of panics, which std keeps for each thread. Clauses that answer work.
//!
//! # Unwinding
//!
//! A panic that leaves the body goes to the handler's case for panics, or to whoever waits for the handler's result: the caller of `handle` at first, later that of `resume`. A panic of a clause or case goes there too;
//! the continuation, if the clause had it still, is dropped on the way, and so the body unwound. A panic of a clause that answers goes to the performer.
//!
//! # Shallow handling
//!
//! A handler is deep: it is in place again when its continuation is resumed. To handle each perform in another way, let the clauses only say what was performed. The handler's result is then a step, and
//! to resume yields the next one:
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
//! let first = Handler::stored().on(|Read, k| Step::Read(k)).on(|Write(it), k| Step::Write(it, k)).value(|()| Step::Done).handle(|| {
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
//! A fiber may wait inside a handled computation: all of its stacks are suspended at once, and its handlers are in place again when it goes on.
//!
//! A computation that performs inside of a scope, timeout, shield or the like is to be resumed there: by its clause, or later by the same fiber inside of what it was in. If the scope's surroundings are left
//! before, or it is resumed by another fiber, the process ends with a message.
//!
//! # Programs to read
//!
//! The repository's `examples`: `calculator` restarts exceptions, `scheduler` is one in forty lines, `effects_state`, `effects_io` and `transactions` are state, input and rollback, `backtracking` searches
//! with [`multi`](crate::multi), `generator` walks trees, `testing_with_effects` runs a program without the world.
//!
//! # What an effect can carry
//!
//! An effect is `'static`: it borrows nothing. A clause has the effect for itself, and may keep it while the performer, whose stack would hold what is borrowed, has gone on or
//! is over. (For clauses that answer it could be otherwise, as the performer waits meanwhile; but whether a clause answers is the handler's choice.)

#![allow(unsafe_code)] // Frames of the chain are reached by address.

mod base;
pub(crate) mod clauses;
mod computation;
mod continuation;
mod handler;
mod held;
mod request;
mod trampoline;
mod unhandled;

use std::any::TypeId;
use std::panic::Location;

use crate::chain::{self, Entry, Frame, Restore};
use clauses::Answer;

pub use continuation::{Continuation, Next};
pub use handler::Handler;
pub use unhandled::Unhandled;

/// Something that a computation may ask of a handler around it.
pub trait Effect: Sized + 'static {
    /// What [`perform`] returns: the handler's answer.
    type Output;
}

/// The payload of the panic that unwinds a computation whose continuation was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped;

/// Asks the innermost handler that has a clause for `E`, and returns its answer.
///
/// # Panics
///
/// With [`Unhandled`] if there is none. With what the handler discontinues the computation with.
// Inlined, down to the switch: a function that suspends has been called and returns after others have run, which processors predict wrongly, as they expect returns in the order of calls.
#[inline(always)]
#[track_caller]
pub fn perform<E: Effect>(effect: E) -> E::Output {
    #[cold]
    #[inline(never)]
    fn unhandled<E: Effect>(effect: E, location: &'static Location<'static>) -> ! {
        drop(effect);
        Unhandled::raise::<E>(location)
    }

    match find(TypeId::of::<E>()) {
        // SAFETY: found for this effect.
        Some(found) => unsafe { found.perform(effect) },
        None => unhandled(effect, Location::caller()),
    }
}

/// As [`perform`], and gives the effect back if there is no handler for it.
///
/// # Errors
///
/// The effect itself.
///
/// # Panics
///
/// With what the handler discontinues the computation with.
#[inline]
pub fn try_perform<E: Effect>(effect: E) -> Result<E::Output, E> {
    match find(TypeId::of::<E>()) {
        None => Err(effect),
        // SAFETY: found for this effect.
        Some(found) => Ok(unsafe { found.perform(effect) }),
    }
}

/// Runs `body` as if none of the handlers around were in place.
///
/// A computation that is handled outside can't be captured from inside either, nor can a generator around give.
pub fn outside<T>(body: impl FnOnce() -> T) -> T {
    let _restore = Restore(chain::top());
    chain::set_top(std::ptr::null());
    body()
}

/// Whether no handler is in place and no generator around: what runs can't be captured.
#[must_use]
#[inline]
pub fn is_outside() -> bool {
    chain::top().is_null()
}

/// A clause of a handler in place.
struct Found {
    frame: *const Frame,
    clause: *const (),
    entry: &'static Entry,
}

/// The innermost clause for an effect that can be used.
#[inline]
fn find(effect: TypeId) -> Option<Found> {
    let mut frame = chain::top();
    // SAFETY: the frames from the top outwards are in place.
    while let Some(this) = unsafe { frame.as_ref() } {
        let mut list = this.list.get();
        let mut next = this.clauses.get();
        while let Some(entry) = next {
            if entry.effect == effect && (!entry.captures || !std::thread::panicking()) {
                return Some(Found { frame, clause: list.wrapping_byte_add(entry.head), entry });
            }
            list = list.wrapping_byte_add(entry.tail);
            next = entry.next;
        }
        frame = this.parent.get();
    }
    None
}

impl Found {
    /// # Safety
    ///
    /// Found for `E`, just now.
    #[inline(always)]
    unsafe fn perform<E: Effect>(self, effect: E) -> E::Output {
        let Found { frame, clause, entry } = self;
        if entry.captures {
            // SAFETY: it is in place, and a clause that captures belongs to a computation. The entry belongs to `E`.
            return unsafe { request::request(frame, clause, entry.call, effect) };
        }
        let _restore = Restore(chain::top());
        // SAFETY: an entry that does not capture and belongs to `E` has a function of this type. The frame is in place until this returns, since this runs inside of
        // what it handles.
        unsafe {
            chain::set_top((*frame).parent.get());
            let answer = std::mem::transmute::<*const (), Answer<E>>(entry.call);
            answer(frame, clause, effect)
        }
    }
}
