//! A request: the question of a computation, and the way of its answer.
//!
//! Used by `perform`, which makes them; by clauses, which take the effect; by continuations, which
//! answer.
//!
//! # The idea
//!
//! A perform leaves a request on the performer's stack and suspends the handler's own coroutine,
//! from any depth: all between is captured along, in one switch. The resumer of the computation
//! gets the [`Question`] with that switch, in registers, and calls the clause. The clause answers
//! by writing into the request; the performer takes the answer out afterwards.
//!
//! # Cost
//!
//! A perform of the innermost handler's first clause, of `on_tail`, with a word each way, up to the
//! next one: 88 instructions on x86-64, of which
//!
//! | part | |
//! | --- | ---: |
//! | two switches, with the loads of both stack pointers | 24 |
//! | the search: the innermost frame, its clauses, the effect of the first | 13 |
//! | the call of the clause, its return, and the look at its handing control on | 8 |
//! | the effect is taken, the answer written, and read | 7 |
//! | the right to go on: suspended, running, the count of revocations, twice | 6 |
//! | the look whether the thread panics | 5 |
//! | the top of the chain, set at the suspension and afterwards | 5 |
//! | the request, and its address | 4 |
//! | the clause's address, and moves between registers | 4 |
//! | the look whether the computation is over | 2 |
//! | the comparison of its surroundings | 2 |
//! | the clause's own sum, and the loop that performs | 8 |
//!
//! # Access
//!
//! From when the performer has suspended until its continuation, the owner of the computation has
//! access, and nobody else. The clause's caller moves the effect out, once. The answer is there
//! before the performer goes on, and the performer moves that out, once; between, a panic may
//! replace it. A leaked performer leaves its request in place.

#![allow(unsafe_code)] // Requests lie on another stack than the clause.

use std::any::Any;
use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::resume_unwind;
use std::ptr::{self, NonNull};

use super::base::Base;
use super::find::{Entry, Found};
use super::{Discontinued, Effect};
use segue_core::chain::{self, Frame};
use segue_core::switch::Words;

pub(super) type Payload = Box<dyn Any + Send>;

/// The request of a suspended computation, which lies on the performer's stack.
pub(super) type Asked = NonNull<RequestBase>;

/// The part of a request that is the same for all effects.
pub(super) struct RequestBase {
    /// Of the clause that was found.
    entry: &'static Entry,
    state: Cell<State>,
}

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Its continuation has lent out the handler's state.
    Lent,
    Answered,
    Failed,
}

impl RequestBase {
    /// Says that its continuation lends out the handler's state.
    #[inline]
    pub fn lend(&self) {
        self.state.set(State::Lent);
    }

    /// Whether that was said, and the continuation is still there.
    pub fn is_lent(&self) -> bool {
        self.state.get() == State::Lent
    }
}

/// The end of a perform, as the state says.
#[repr(C)]
union Reply<O> {
    missing: (),
    value: ManuallyDrop<O>,
    panic: ManuallyDrop<Payload>,
}

/// A request with its reply.
#[repr(C)]
struct Slot<O> {
    base: RequestBase,
    reply: Reply<O>,
}

impl<O> Slot<O> {
    /// The reply, if there is one.
    ///
    /// # Safety
    ///
    /// Nothing is taken twice.
    #[inline(always)]
    unsafe fn take(&self) -> Option<Result<O, Payload>> {
        // SAFETY: by the contract, and as the state says.
        unsafe {
            match self.base.state.get() {
                State::Answered => Some(Ok(ManuallyDrop::into_inner((&raw const self.reply.value).read()))),
                State::Failed => Some(Err(ManuallyDrop::into_inner((&raw const self.reply.panic).read()))),
                State::Open | State::Lent => None,
            }
        }
    }
}

/// A request for an effect.
#[repr(C)]
pub(super) struct Request<E: Effect> {
    slot: Slot<E::Output>,
    /// Until the clause was called.
    pub effect: ManuallyDrop<E>,
}

/// The message of the performer to the resumer of the computation.
#[derive(Clone, Copy)]
pub(super) struct Question {
    pub request: Asked,
    pub clause: *const (),
    pub entry: &'static Entry,
}

impl Question {
    #[inline(always)]
    fn words(self) -> Words {
        [self.request.as_ptr().cast(), self.clause, ptr::from_ref(self.entry).cast()].map(MaybeUninit::new)
    }

    /// # Safety
    ///
    /// They are those of a question.
    #[inline(always)]
    pub unsafe fn from_words([request, clause, entry]: Words) -> Self {
        // SAFETY: by the contract.
        unsafe {
            Question {
                request: NonNull::new_unchecked(request.assume_init().cast_mut().cast()),
                clause: clause.assume_init(),
                entry: &*entry.assume_init().cast(),
            }
        }
    }
}

/// The type of [`Entry::fail`](super::find::Entry::fail).
pub(super) type Fail = unsafe fn(Asked, Payload);

/// Makes a panic the answer, in place of an earlier answer. A panic leaves this call when the drop
/// of that answer panics, afterwards.
///
/// # Safety
///
/// The request wants an `O`, and its performer is suspended.
pub(super) unsafe fn fail_with<O>(request: Asked, payload: Payload) {
    // SAFETY: by the contract nobody else uses the request. An earlier answer is replaced.
    let before = unsafe {
        let slot = request.cast::<Slot<O>>().as_mut();
        let before = slot.take();
        slot.reply.panic = ManuallyDrop::new(payload);
        slot.base.state.set(State::Failed);
        before
    };
    drop(before);
}

/// The end of a perform. A type and not a value, so that a perform that unwinds is compiled as if
/// there were no other.
pub(super) trait Ending {
    type Of<O>;
    fn answered<O>(value: O) -> Self::Of<O>;
    fn discontinued<O>(payload: Payload) -> Self::Of<O>;
}

/// With the answer, or by an unwind.
pub(super) struct Answer;

impl Ending for Answer {
    type Of<O> = O;

    #[inline(always)]
    fn answered<O>(value: O) -> O {
        value
    }

    #[inline(always)]
    fn discontinued<O>(payload: Payload) -> O {
        resume_unwind(payload)
    }
}

/// With either, as a value.
pub(super) struct Either;

impl Ending for Either {
    type Of<O> = Result<O, Discontinued>;

    #[inline(always)]
    fn answered<O>(value: O) -> Self::Of<O> {
        Ok(value)
    }

    #[inline(always)]
    fn discontinued<O>(payload: Payload) -> Self::Of<O> {
        Err(Discontinued(payload))
    }
}

/// Suspends the computation of a handler until its clause, or somebody later, has an answer, for a
/// resume or a discontinuation.
///
/// # Safety
///
/// `found` captures, and was found for `E`, just now, with this `top` of the chain: so its frame is
/// that of a [`Base`], of a computation that the caller runs inside of.
#[inline(always)]
pub(super) unsafe fn request<E: Effect, T: Ending>(top: *const Frame, found: Found, effect: E) -> T::Of<E::Output> {
    let Found { frame, clause, entry } = found;
    let slot = Slot { base: RequestBase { entry, state: Cell::new(State::Open) }, reply: Reply { missing: () } };
    let mut request = Request::<E> { slot, effect: ManuallyDrop::new(effect) };
    let address = &raw mut request;
    // SAFETY: by the contract the frame is a base, and runs; its parent is the resumer's
    // surroundings. The request stays in place while this is suspended; the owner of the
    // computation has access, and nobody else before this goes on. A computation that is leaked
    // never does. The answer is moved out once, and the effect is the clause's.
    unsafe {
        let base = &*frame.cast::<Base>();
        let question = Question { request: NonNull::new_unchecked(address).cast(), clause, entry };
        chain::set_top(base.frame.parent());
        base.raw.get().assume_init().suspend_saying(question.words());
        chain::set_top(top);
        match (*address).slot.take() {
            Some(Ok(value)) => T::answered(value),
            Some(Err(payload)) => T::discontinued(payload),
            None => unreachable!("a computation is run on only with an answer"),
        }
    }
}

/// Gives a suspended computation its answer, the first one.
///
/// # Safety
///
/// The computation is suspended with a request that wants an `O`; the caller owns the computation.
#[inline]
pub(super) unsafe fn answer<O>(base: NonNull<Base>, value: O) {
    // SAFETY: by the contract. There is nothing to drop in its place.
    unsafe {
        let slot = base.as_ref().request.get().unwrap_unchecked().cast::<Slot<O>>().as_mut();
        slot.reply.value = ManuallyDrop::new(value);
        slot.base.state.set(State::Answered);
    }
}

/// As [`answer`], with a panic.
///
/// # Safety
///
/// The computation is suspended; the caller owns the computation.
pub(super) unsafe fn fail(base: NonNull<Base>, payload: Payload) {
    // SAFETY: by the contract.
    unsafe {
        let request = base.as_ref().request.get().unwrap_unchecked();
        (request.as_ref().entry.fail)(request, payload);
    }
}
