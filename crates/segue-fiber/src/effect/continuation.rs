//! Continuations, and the ends of a clause.
//!
//! Used by the clauses of handlers.

#![allow(unsafe_code)] // A continuation is the address of a suspended computation.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use super::base::{self, Base};
use super::held::Held;
use super::request::{self, Payload};
use super::trampoline::{self, RawNext};
use crate::backtrace::Backtrace;

/// The rest of a handled computation, from a [`perform`](super::perform) on: usable once.
///
/// A continuation wants an `O`, the output of the effect, and yields an `R`, the handler's result.
/// The handler goes along (is *deep*): the same clauses handle the computation's next perform. `S`
/// is the handler's state.
///
/// Each use consumes the continuation, so that nobody resumes a computation twice. A drop
/// [discontinues](Self::discontinue) the computation with [`Dropped`](super::Dropped), and drops
/// the result: so the computation's cleanup runs. (If programs abort on panics, its stack is leaked
/// instead, and counted by [`leaked_stacks`](crate::leaked_stacks); with borrowed data the process
/// aborts.)
///
/// Its owner may keep a continuation for `'k` and resume on the same thread, under other handlers.
/// The handlers from the perform up to its own one come along; an effect that these do not handle
/// goes to the handlers of the resumer.
///
/// ```compile_fail,E0277
/// use segue_fiber::effect::Continuation;
/// fn moves_to_another_thread<T: Send>() {}
/// moves_to_another_thread::<Continuation<'static, u32, u32>>();
/// ```
///
/// ```compile_fail,E0382
/// use segue_fiber::effect::{Effect, Handler, perform};
/// struct Ask;
/// impl Effect for Ask {
///     type Output = u32;
/// }
/// Handler::new().on(|_: Ask, k| k.resume(1) + k.resume(2)).handle(|| perform(Ask));
/// ```
#[must_use = "a continuation that is dropped ends its computation"]
pub struct Continuation<'k, O, R, S = ()> {
    held: Held<'k, (O, R, S)>,
}

impl<'k, O, R, S> Continuation<'k, O, R, S> {
    /// # Safety
    ///
    /// The computation is suspended with a request that wants an `O`, for a handler with results
    /// `R` and state `S`; the caller gives the computation up. The values that the computation
    /// holds are good for `'k`.
    #[inline]
    pub(super) unsafe fn new(base: NonNull<Base>) -> Self {
        // SAFETY: by the contract.
        Self { held: unsafe { Held::new(base) } }
    }

    /// The perform returns `value`; this call returns the handler's final result.
    ///
    /// The call takes stack until then: a clause with a resume as its last act should rather be one
    /// of [`on_tail`](super::Handler::on_tail).
    ///
    /// # Panics
    ///
    /// With a panic of the computation, if the handler has no case for panics, or of its clauses
    /// and cases.
    #[inline]
    pub fn resume(self, value: O) -> R {
        let base = self.held.take();
        // SAFETY: the computation is suspended, wants an `O` and yields an `R`, and was this
        // continuation's.
        unsafe {
            request::answer(base, value);
            trampoline::run(base)
        }
    }

    /// The perform panics with `payload`, without a message: the computation is unwound from there.
    /// After a [`perform_result`](super::perform_result) the computation gets the payload as a
    /// value instead. This call then returns the handler's result.
    ///
    /// If programs abort on panics, the panic ends the process, as every panic does.
    ///
    /// # Panics
    ///
    /// As [`resume`](Self::resume): with `payload` itself, if the computation lets that pass and
    /// the handler has no case for panics.
    pub fn discontinue<P: Any + Send>(self, payload: P) -> R {
        self.discontinue_with(Box::new(payload))
    }

    /// As [`discontinue`](Self::discontinue), with a payload that was caught.
    ///
    /// # Panics
    ///
    /// As [`discontinue`](Self::discontinue).
    pub fn discontinue_with(self, payload: Payload) -> R {
        let base = self.held.take();
        // SAFETY: the computation is suspended and yields an `R`, and was this continuation's.
        unsafe {
            request::fail(base, payload);
            trampoline::run(base)
        }
    }

    /// A resume as the last act of a clause: the clause returns this value, and so is over before
    /// the computation runs.
    ///
    /// The continuation need not be the one that the clause has got.
    #[inline]
    pub fn tail(self, value: O) -> Next<'k, R> {
        // SAFETY: the computation is suspended, wants an `O`, and is this continuation's.
        unsafe { request::answer(self.held.get(), value) };
        Next(RawNext::Run(self.held.cast()))
    }

    /// To discontinue as the last thing that a clause does, see [`tail`](Self::tail).
    pub fn tail_discontinue<P: Any + Send>(self, payload: P) -> Next<'k, R> {
        // SAFETY: the computation is suspended, and is this continuation's.
        unsafe { request::fail(self.held.get(), Box::new(payload)) };
        Next(RawNext::Run(self.held.cast()))
    }

    /// The calls of the computation: from the perform outwards, through the stacks of all handlers
    /// that were captured along, to the body of its own.
    ///
    /// Costs about as much as [`Coroutine::backtrace`](crate::Coroutine::backtrace).
    pub fn backtrace(&self) -> Backtrace {
        self.held.backtrace()
    }

    /// The handler's state, which is the continuation's while the computation is suspended.
    ///
    /// If the state was lent and a [region](crate::region()) ends that still has the computation
    /// with this continuation, the reference may be in use on a stack that ends later. Then the
    /// body is unwound without its handler: its performs go to outer handlers, the cases are not
    /// called, and the state is dropped with the continuation.
    #[inline]
    pub fn state(&mut self) -> &mut S {
        // SAFETY: the computation is suspended, its state is an `S`, and belongs to this
        // continuation, which is borrowed.
        unsafe { base::state(self.held.get()) }
    }
}

segue_core::impl_debug!([O, R, S] Continuation<'_, O, R, S>);

/// How a clause of [`on_tail`](super::Handler::on_tail) ends: with a result, or by handing control
/// to a continuation.
///
/// A tail that is dropped and not returned acts as a dropped continuation.
#[must_use = "it is to be returned by the clause"]
pub struct Next<'k, R>(pub(super) RawNext<'k, R>);

impl<R> Next<'_, R> {
    /// The handler yields `result`.
    #[inline]
    pub fn done(result: R) -> Self {
        Next(RawNext::Done(result))
    }
}

impl<R> fmt::Debug for Next<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            RawNext::Done(_) => "Next::done",
            RawNext::Run(_) => "Next",
        })
    }
}
