//! Continuations, and what a clause may end with.
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
/// It wants an `O`, the output of the effect, and yields an `R`, what the handler yields. The
/// handler goes along (it is *deep*): what the computation performs next is handled by the same
/// clauses. `S` is the handler's state.
///
/// It is used up by what it is used for, so that nobody resumes a computation twice. Dropped, it is
/// [discontinued](Self::discontinue) with [`Dropped`](super::Dropped), and the result is dropped:
/// so what the computation has to clean up is cleaned up. (If programs abort on panics, its stack
/// is leaked instead, and counted by [`leaked_stacks`](crate::leaked_stacks); if it borrows, the
/// process aborts.)
///
/// Its owner may keep it for `'k` and resume it on the same thread, under other handlers. The
/// handlers from the perform up to its own one come along; an effect that these do not handle goes
/// to the handlers of the resumer.
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
    /// `R` and state `S`; the caller gives it up. What it holds is good for `'k`.
    #[inline]
    pub(super) unsafe fn new(base: NonNull<Base>) -> Self {
        // SAFETY: by the contract.
        Self { held: unsafe { Held::new(base) } }
    }

    /// The perform returns `value`; this call returns what the handler yields in the end.
    ///
    /// It takes stack until then: a clause that resumes as the last thing it does should rather be
    /// one of [`on_tail`](super::Handler::on_tail).
    ///
    /// # Panics
    ///
    /// With what leaves the computation, if the handler has no case for panics, or leaves its
    /// clauses and cases.
    #[inline]
    pub fn resume(self, value: O) -> R {
        let base = self.held.take();
        // SAFETY: it is suspended, wants an `O` and yields an `R`, and was this continuation's.
        unsafe {
            request::answer(base, value);
            trampoline::run(base)
        }
    }

    /// The perform panics with `payload`, without a message: the computation is unwound from there.
    /// If it has performed by [`perform_result`](super::perform_result), it gets the payload as a
    /// value instead. This call returns what the handler yields then.
    ///
    /// If programs abort on panics, the panic ends the process, as every panic does.
    ///
    /// # Panics
    ///
    /// As [`resume`](Self::resume): with `payload` itself, if the computation lets it pass and the
    /// handler has no case for panics.
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
        // SAFETY: it is suspended and yields an `R`, and was this continuation's.
        unsafe {
            request::fail(base, payload);
            trampoline::run(base)
        }
    }

    /// To resume as the last thing that a clause does: what the clause returns, so that it is over
    /// before the computation runs.
    ///
    /// The continuation need not be the one that the clause has got.
    #[inline]
    pub fn tail(self, value: O) -> Next<'k, R> {
        // SAFETY: it is suspended, wants an `O`, and is this continuation's.
        unsafe { request::answer(self.held.get(), value) };
        Next(RawNext::Run(self.held.cast()))
    }

    /// To discontinue as the last thing that a clause does, see [`tail`](Self::tail).
    pub fn tail_discontinue<P: Any + Send>(self, payload: P) -> Next<'k, R> {
        // SAFETY: it is suspended, and is this continuation's.
        unsafe { request::fail(self.held.get(), Box::new(payload)) };
        Next(RawNext::Run(self.held.cast()))
    }

    /// Where the computation is: from the perform outwards, through the stacks of all handlers that
    /// were captured with it, to the body of its own.
    ///
    /// Costs about as much as [`Coroutine::backtrace`](crate::Coroutine::backtrace).
    pub fn backtrace(&self) -> Backtrace {
        self.held.backtrace()
    }

    /// The handler's state, which is the continuation's while the computation is suspended.
    ///
    /// If it was lent and a [region](crate::region()) ends that still has the computation with this
    /// continuation, the reference may be in use on a stack that ends later. Then the body is
    /// unwound without its handler: what it performs goes to outer handlers, the cases are not
    /// called, and the state is dropped with the continuation.
    #[inline]
    pub fn state(&mut self) -> &mut S {
        // SAFETY: it is suspended, its state is an `S`, and it is this continuation's, which is
        // borrowed.
        unsafe { base::state(self.held.get()) }
    }
}

impl<O, R, S> fmt::Debug for Continuation<'_, O, R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation").finish_non_exhaustive()
    }
}

/// How a clause of [`on_tail`](super::Handler::on_tail) ends: with a result, or by handing control
/// to a continuation.
///
/// Dropped instead of returned, it is as a continuation that was dropped.
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
