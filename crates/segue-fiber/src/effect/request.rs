//! A request: what a computation waits for, and how it gets its answer.
//!
//! Used by `perform`, which makes them; by clauses, which take the effect; by continuations, which
//! answer.
//!
//! # The idea
//!
//! A perform leaves a request on the performer's stack and suspends the handler's own coroutine,
//! from however deep inside: whatever lies between is captured with it, in one switch. The resumer
//! of the computation finds the request and calls the clause. The clause answers by writing into
//! the request; the performer takes the answer out when it goes on.
//!
//! # Access
//!
//! From when the performer has suspended until it goes on, the owner of the computation has access,
//! and nobody else. The clause's caller moves the effect out, once. The answer is there before the
//! performer goes on, and the performer moves it out, once; between, a panic may replace it. A
//! performer that is leaked leaves its request where it is.

#![allow(unsafe_code)] // Requests lie on another stack than the clause.

use std::any::Any;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::resume_unwind;
use std::ptr::NonNull;

use super::base::{Asked, Base};
use super::{Discontinued, Effect};
use segue_core::chain::{self, Frame};

pub(super) type Payload = Box<dyn Any + Send>;

/// What a computation waits for: lies on the performer's stack. Its other fields depend on the
/// effect.
#[repr(C)]
pub(super) struct RequestBase {
    /// Makes a panic the answer, in place of what may be there. A panic leaves it when the drop of
    /// that panics, afterwards.
    fail: unsafe fn(NonNull<RequestBase>, Payload),
}

/// A request with its answer.
#[repr(C)]
pub(super) struct Slot<O> {
    base: RequestBase,
    answer: Option<Result<O, Payload>>,
}

/// A request for an effect.
#[repr(C)]
pub(super) struct Request<E: Effect> {
    slot: Slot<E::Output>,
    /// Until the clause was called.
    pub effect: ManuallyDrop<E>,
}

impl<O> Slot<O> {
    /// # Safety
    ///
    /// `base` is the start of a `Slot<O>`, and its performer is suspended.
    unsafe fn fail(base: NonNull<RequestBase>, payload: Payload) {
        // SAFETY: by the contract nobody else uses it.
        let before = unsafe { (*base.cast::<Self>().as_ptr()).answer.replace(Err(payload)) };
        drop(before);
    }
}

/// What a perform ends with. A type and not a value, so that a perform that unwinds is compiled as
/// if there were no other.
pub(super) trait Ending {
    type Of<O>;
    fn answered<O>(value: O) -> Self::Of<O>;
    fn discontinued<O>(payload: Payload) -> Self::Of<O>;
}

/// With the answer, or else it unwinds.
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

/// Suspends the computation of a handler until its clause, or somebody later, has an answer: what
/// it is resumed or discontinued with.
///
/// # Safety
///
/// `frame` is in place and that of a [`Base`], of a computation that the caller runs inside of.
/// `clause` is one of its clauses, for `E`, and `call` the clause's function.
#[inline(always)]
pub(super) unsafe fn request<E: Effect, T: Ending>(
    frame: *const Frame,
    clause: *const (),
    call: *const (),
    effect: E,
) -> T::Of<E::Output> {
    let top = chain::top();
    let slot = Slot { base: RequestBase { fail: Slot::<E::Output>::fail }, answer: None };
    let mut request = ManuallyDrop::new(Request::<E> { slot, effect: ManuallyDrop::new(effect) });
    let address: *mut Request<E> = &raw mut *request;
    // SAFETY: by the contract the frame is a base, and it runs. The request stays in place while
    // this is suspended; the owner of the computation has access to it, and nobody else before this
    // goes on. A computation that is leaked never does. The answer is moved out once, and the
    // effect is the clause's.
    unsafe {
        let base = &*frame.cast::<Base>();
        let request = NonNull::new_unchecked(address).cast();
        base.asked.set(MaybeUninit::new(Asked { request, clause, call }));
        base.turn.set(base.turn.get().wrapping_add(1));
        base.raw.get().assume_init().suspend();
        chain::set_top(top);
        match (&raw const (*address).slot.answer).read() {
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
/// The computation is suspended with a request that wants an `O`; the caller owns it.
#[inline]
pub(super) unsafe fn answer<O>(base: NonNull<Base>, value: O) {
    // SAFETY: by the contract. There is nothing to drop in its place.
    unsafe {
        (&raw mut (*base.as_ref().asked.get().assume_init().request.cast::<Slot<O>>().as_ptr()).answer)
            .write(Some(Ok(value)))
    }
}

/// As [`answer`], with a panic.
///
/// # Safety
///
/// The computation is suspended; the caller owns it.
pub(super) unsafe fn fail(base: NonNull<Base>, payload: Payload) {
    // SAFETY: by the contract.
    unsafe {
        let request = base.as_ref().asked.get().assume_init().request;
        (request.as_ref().fail)(request, payload);
    }
}
