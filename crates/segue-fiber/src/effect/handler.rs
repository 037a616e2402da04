//! The builder of handlers, and the handling itself where no continuation is wanted.
//!
//! Used by applications; `effect` has the tour.

#![allow(unsafe_code)] // Frames are linked into the chain by address.
#![allow(clippy::type_complexity)] // The type of a handler is the list of its clauses.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Effect;
use super::clauses::{
    Answering, Capturing, Caught, Clause, Clauses, Cons, Identity, Nil, PanicCase, Reraise, Scoped, Stored, Value,
    ValueCase,
};
use super::computation;
use super::continuation::{Continuation, Next};
use super::request::Payload;
use crate::region::List;
use segue_core::chain::{self, Frame, Restore};

/// A handler in the making: clauses for effects, a case for the value, a case for panics.
///
/// `R` is its result. Several clauses may be added; the one added last is asked first. The result
/// of the body is `R` itself if there is no case for the value.
///
/// # Which clause
///
/// | | gets | yields | costs |
/// | --- | --- | --- | --- |
/// | [`answer`](Self::answer), [`answer_with`](Self::answer_with) | the effect | the result of the perform | a call: a handler with only these runs its body in place |
/// | [`on`](Self::on) | the effect and the continuation | the handler's result | a stack for the body, a switch to and fro for each perform |
/// | [`on_tail`](Self::on_tail) | likewise | the result, or the value to resume with | the same, and a resume uses up no stack |
///
/// All of them run under the handlers *outside* of this one: a clause's performs are not handled by
/// its own handler.
///
/// A clause that gets the continuation may be entered again during its run, since resuming runs the
/// body, which may perform again. So this clause is an `Fn`. A changing value is either in the
/// handler's [state](Self::with_state), which is the continuation's while there is one, or in a
/// `Cell` of yours. A clause that answers can't be entered again, and is an `FnMut`.
///
/// # Borrows
///
/// Body, clauses and cases of [`Handler::new`] borrow freely: `handle` does not return before the
/// body is over. Its continuations can't be kept longer than that, which the compiler checks:
///
/// ```compile_fail
/// use segue_fiber::effect::{Continuation, Effect, Handler, perform};
/// use std::cell::Cell;
/// struct Ask;
/// impl Effect for Ask {
///     type Output = u32;
/// }
/// let kept: Cell<Option<Continuation<u32, u32>>> = Cell::new(None);
/// Handler::new().on(|_: Ask, k| { kept.set(Some(k)); 0 }).handle(|| perform(Ask));
/// ```
///
/// [`Handler::stored`] is for continuations that are kept for as long as one likes; then nothing
/// may be borrowed:
///
/// ```compile_fail,E0597
/// use segue_fiber::effect::{Effect, Handler, perform};
/// struct Ask;
/// impl Effect for Ask {
///     type Output = u32;
/// }
/// let local = 1;
/// let local = &local;
/// Handler::stored().on(|_: Ask, k| k.resume(1)).handle(move || perform(Ask) + *local);
/// ```
pub struct Handler<M, R, S = (), L = Nil, V = Identity, P = Reraise> {
    list: L,
    value: V,
    panic: P,
    state: S,
    mode: M,
    /// How much of its stack the body can use, if that was said.
    stack: Option<usize>,
    _yields: PhantomData<fn() -> R>,
}

impl<R> Handler<Scoped, R> {
    /// A handler of nothing. Its continuations stay within [`handle`](Self::handle).
    #[inline]
    pub fn new() -> Self {
        Self::with_state(())
    }
}

impl<R> Default for Handler<Scoped, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R, S> Handler<Scoped, R, S> {
    /// As [`new`](Handler::new), with a state that the clauses share.
    ///
    /// The state is one clause's at a time: [`Continuation::state`] lends it to the continuation's
    /// owner, [`answer_with`](Self::answer_with) to the clause, and the cases get it in the end.
    #[inline]
    pub fn with_state(state: S) -> Self {
        Self::of(Scoped, state)
    }
}

impl<R> Handler<Stored<'static>, R> {
    /// A handler of nothing. Its continuations may be kept and resumed later. Such a handler
    /// borrows nothing.
    #[inline]
    pub fn stored() -> Self {
        Self::stored_with_state(())
    }
}

impl<R, S> Handler<Stored<'static>, R, S> {
    /// As [`stored`](Handler::stored), with a state that the clauses share.
    #[inline]
    pub fn stored_with_state(state: S) -> Self {
        Self::kept(state, None)
    }
}

impl<'r, R, S> Handler<Stored<'r>, R, S> {
    /// For continuations that are kept in a region, or for ever.
    #[inline]
    pub(crate) fn kept(state: S, region: Option<List<'r>>) -> Self {
        Self::of(Stored(region, PhantomData), state)
    }
}

impl<M, R, S> Handler<M, R, S> {
    #[inline]
    fn of(mode: M, state: S) -> Self {
        Handler { list: Nil, value: Identity, panic: Reraise, state, mode, stack: None, _yields: PhantomData }
    }
}

impl<M, R, S, L, V, P> Handler<M, R, S, L, V, P> {
    #[inline]
    fn add<C>(self, head: C) -> Handler<M, R, S, Cons<C, L>, V, P> {
        let Handler { list, value, panic, state, mode, stack, .. } = self;
        Handler { list: Cons { head, tail: list }, value, panic, state, mode, stack, _yields: PhantomData }
    }

    /// The body can use `bytes` of its stack, on a stack of its own: not under a handler that only
    /// answers.
    ///
    /// Without this the stack has the [default size](crate::StackConfig::set_default_slot_size): by
    /// default 240 KiB of that can be used.
    ///
    /// ```
    /// use segue_fiber::effect::{Effect, Handler, perform};
    /// struct Ask;
    /// impl Effect for Ask {
    ///     type Output = u64;
    /// }
    /// fn sum(n: u64) -> u64 {
    ///     let frame = std::hint::black_box([n; 64]);
    ///     if n == 0 { perform(Ask) } else { sum(n - 1) + frame[0] }
    /// }
    /// let sum = Handler::new().stack_size(16 << 20).on(|_: Ask, k| k.resume(0)).handle(|| sum(10_000));
    /// assert_eq!(sum, 10_000 * 10_001 / 2);
    /// ```
    #[inline]
    pub fn stack_size(self, bytes: usize) -> Self {
        Self { stack: Some(bytes), ..self }
    }

    /// Answers an effect at once: the perform is a call of `clause`.
    ///
    /// The clause runs on the performer's stack, so that its panic is a panic of the perform.
    #[inline]
    pub fn answer<E: Effect, C: FnMut(E) -> E::Output>(
        self,
        mut clause: C,
    ) -> Handler<M, R, S, Cons<impl Clause<R, S>, L>, V, P> {
        self.answer_with(move |_, effect: E| clause(effect))
    }

    /// As [`answer`](Self::answer), with the handler's state.
    #[inline]
    pub fn answer_with<E: Effect, C: FnMut(&mut S, E) -> E::Output>(
        self,
        clause: C,
    ) -> Handler<M, R, S, Cons<impl Clause<R, S>, L>, V, P> {
        self.add(Answering::<E, C>(UnsafeCell::new(clause), PhantomData))
    }

    /// The case for the body's value. This case runs once, under the outer handlers.
    ///
    /// The type of its argument has to be written, since the body comes later.
    #[inline]
    pub fn value<T, F: FnOnce(T) -> R>(self, case: F) -> Handler<M, R, S, L, impl ValueCase<S, T, R>, P> {
        self.value_with(|_, value| case(value))
    }

    /// As [`value`](Self::value), with the handler's state.
    #[inline]
    pub fn value_with<T, F: FnOnce(S, T) -> R>(self, case: F) -> Handler<M, R, S, L, impl ValueCase<S, T, R>, P> {
        let Handler { list, panic, state, mode, stack, .. } = self;
        Handler { list, value: Value(case), panic, state, mode, stack, _yields: PhantomData }
    }

    /// The case for a panic that leaves the body, a discontinued one included. This case runs once,
    /// under the outer handlers. Without this case, the panic goes on in the caller that waits for
    /// the result.
    #[inline]
    pub fn panic<F: FnOnce(Payload) -> R>(self, case: F) -> Handler<M, R, S, L, V, impl PanicCase<S, R>> {
        self.panic_with(|_, payload| case(payload))
    }

    /// As [`panic`](Self::panic), with the handler's state.
    #[inline]
    pub fn panic_with<F: FnOnce(S, Payload) -> R>(self, case: F) -> Handler<M, R, S, L, V, impl PanicCase<S, R>> {
        let Handler { list, value, state, mode, stack, .. } = self;
        Handler { list, value, panic: Caught(case), state, mode, stack, _yields: PhantomData }
    }

    /// Runs a body in place; its performs are calls.
    #[inline]
    fn handle_in_place<T>(self, body: impl FnOnce() -> T) -> R
    where
        L: Clauses<R, S>,
        V: ValueCase<S, T, R>,
        P: PanicCase<S, R>,
    {
        let Handler { list, value, panic, state, .. } = self;
        let state = UnsafeCell::new(state);
        let frame = Frame::new(L::ENTRIES.address(), (&raw const list).cast());
        frame.set_state(state.get());
        let outcome = {
            // SAFETY: the frame around is in place until this returns.
            let _restore = unsafe { Restore::new() };
            // SAFETY: the frame is in place until `_restore` sets the top again.
            unsafe { chain::set_top(&frame) };
            if P::CATCHES { catch_unwind(AssertUnwindSafe(body)) } else { Ok(body()) }
        };
        let state = state.into_inner();
        match outcome {
            Ok(it) => value.end(state, it),
            Err(payload) => panic.end(state, payload),
        }
    }
}

impl<R, S, L, V, P> Handler<Scoped, R, S, L, V, P> {
    /// Handles an effect with the continuation: the result of `clause` is the handler's result.
    ///
    /// The continuation is resumed within the clause, or ended.
    #[inline]
    pub fn on<E: Effect, C>(self, clause: C) -> Handler<Scoped, R, S, Cons<impl Clause<R, S>, L>, V, P>
    where
        C: for<'k> Fn(E, Continuation<'k, E::Output, R, S>) -> R,
    {
        self.on_tail(move |effect, continuation| Next::done(clause(effect, continuation)))
    }

    /// As [`on`](Self::on), for a clause with a resume as its last act: it returns
    /// [`Continuation::tail`]. Any number of performs takes no more stack than one.
    #[inline]
    pub fn on_tail<E: Effect, C>(self, clause: C) -> Handler<Scoped, R, S, Cons<impl Clause<R, S>, L>, V, P>
    where
        C: for<'k> Fn(E, Continuation<'k, E::Output, R, S>) -> Next<'k, R>,
    {
        self.add(Capturing::<Scoped, E, C>(clause, PhantomData))
    }

    /// Runs `body` under this handler, and yields the handler's result.
    ///
    /// A continuation that a clause has forgotten is discontinued before this returns.
    ///
    /// # Panics
    ///
    /// With a panic of the body, if there is no case for panics, and with panics of clauses and
    /// cases. When there is no stack for the body.
    #[inline]
    pub fn handle<T>(self, body: impl FnOnce() -> T) -> R
    where
        L: Clauses<R, S>,
        V: ValueCase<S, T, R>,
        P: PanicCase<S, R>,
    {
        if const { L::ENTRIES.capture() } {
            let Handler { list, value, panic, state, stack, .. } = self;
            // SAFETY: `run_to_the_end` does not return before the computation is over, and so
            // before the end of the data borrowed here.
            unsafe { computation::start((list, value, panic, state), None, true, stack, body) }.run_to_the_end()
        } else {
            self.handle_in_place(body)
        }
    }
}

impl<'r, R, S, L, V, P> Handler<Stored<'r>, R, S, L, V, P> {
    /// Handles an effect with the continuation: the result of `clause` is the handler's result. The
    /// continuation may be kept.
    #[inline]
    pub fn on<E: Effect, C>(self, clause: C) -> Handler<Stored<'r>, R, S, Cons<impl Clause<R, S>, L>, V, P>
    where
        C: Fn(E, Continuation<'r, E::Output, R, S>) -> R,
    {
        self.on_tail(move |effect, continuation| Next::done(clause(effect, continuation)))
    }

    /// As [`on`](Self::on), for a clause with a resume as its last act: it returns
    /// [`Continuation::tail`], of this continuation or of one that was kept.
    #[inline]
    pub fn on_tail<E: Effect, C>(self, clause: C) -> Handler<Stored<'r>, R, S, Cons<impl Clause<R, S>, L>, V, P>
    where
        C: Fn(E, Continuation<'r, E::Output, R, S>) -> Next<'r, R>,
    {
        self.add(Capturing::<Stored<'r>, E, C>(clause, PhantomData))
    }

    /// Runs `body` under this handler, up to a result of the handler. The body goes on later if its
    /// continuation was kept.
    ///
    /// # Panics
    ///
    /// With a panic of the body, if there is no case for panics, and with panics of clauses and
    /// cases. When there is no stack for the body.
    #[inline]
    pub fn handle<T>(self, body: impl FnOnce() -> T + 'r) -> R
    where
        L: Clauses<R, S> + 'r,
        V: ValueCase<S, T, R> + 'r,
        P: PanicCase<S, R> + 'r,
        R: 'r,
        S: 'r,
        T: 'r,
    {
        if const { L::ENTRIES.capture() } {
            let Handler { list, value, panic, state, mode, stack, .. } = self;
            // SAFETY: the borrowed data outlive the region, in which the computation is entered;
            // without a region nothing is borrowed.
            unsafe { computation::start((list, value, panic, state), mode.0, mode.0.is_some(), stack, body) }.run()
        } else {
            self.handle_in_place(body)
        }
    }
}

segue_core::impl_debug!([M, R, S, L, V, P] Handler<M, R, S, L, V, P>);
