//! The parts of a handler: the clauses for effects, the case for a value, the case for a panic; and
//! the list that a builder makes of the clauses.
//!
//! Used by the builder, and by `perform`, which meets clauses as [`Entry`]s of a frame.
//!
//! The list is a type: each added clause wraps the list so far. `perform` looks at a constant of
//! that type, so that the installation of any handler writes a few words.

#![allow(unsafe_code)] // Clauses are called by address.

use std::any::{TypeId, type_name};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use super::Effect;
use super::base::{Base, Owner};
use super::continuation::{Continuation, Next};
use super::find::Entry;
use super::held::Held;
use super::request::{Asked, Payload, Request, fail_with};
use super::trampoline::RawNext;
use crate::region::List;
use segue_core::chain::{self, Frame};

/// The type of `Entry::call` of a clause that wants the continuation: with the computation, a place
/// for the handler's result, the request, and the clause: each in a register. The call answers with
/// the computation to run on, in registers for a result of any size; with nothing after writing
/// that result.
pub(super) type Capture<'k, R> = unsafe fn(NonNull<Base>, *mut R, Asked, *const ()) -> Option<Held<'k, ()>>;

/// The type of `Entry::call` of a clause that answers: with its frame, itself, and the effect.
pub(super) type Answer<E> = unsafe fn(*const Frame, *const (), E) -> <E as Effect>::Output;

/// The clauses of a handler with results `R` and state `S`.
pub trait Clauses<R, S> {
    /// The view of a clause for a search.
    const ENTRIES: Entries;
}

/// The entries of a list of clauses.
#[derive(Clone, Copy)]
pub struct Entries(pub(super) Option<&'static Entry>);

impl Entries {
    /// For the frame of a handler.
    pub(super) const fn address(self) -> *const chain::Clauses {
        match self.0 {
            Some(first) => ptr::from_ref(first).cast(),
            None => ptr::null(),
        }
    }

    /// Whether a clause wants the continuation.
    pub(super) const fn capture(self) -> bool {
        match self.0 {
            Some(first) => first.all.capture,
            None => false,
        }
    }
}

/// No clauses.
pub struct Nil;

impl<R, S> Clauses<R, S> for Nil {
    const ENTRIES: Entries = Entries(None);
}

/// One clause more.
pub struct Cons<C, L> {
    pub(super) head: C,
    pub(super) tail: L,
}

/// A clause of a handler with results `R` and state `S`.
///
/// # Safety
///
/// `CALL` is a function of the type that `CAPTURES` says, for the effect, and takes the address of
/// a `Self`.
pub unsafe trait Clause<R, S> {
    /// The effect of this clause.
    type Effect: Effect;
    /// Whether the clause wants the continuation; otherwise the clause answers.
    const CAPTURES: bool;
    /// A [`Capture`] or an [`Answer`].
    const CALL: *const ();
}

impl<R, S, C: Clause<R, S>, L: Clauses<R, S>> Clauses<R, S> for Cons<C, L> {
    const ENTRIES: Entries = Entries(Some(&Entry {
        all: chain::Clauses { capture: C::CAPTURES || L::ENTRIES.capture() },
        effect: TypeId::of::<C::Effect>(),
        place: const { &TypeId::of::<C::Effect>() },
        name: type_name::<C::Effect>,
        captures: C::CAPTURES,
        call: C::CALL,
        fail: fail_with::<<C::Effect as Effect>::Output>,
        head: offset_of!(Self, head),
        tail: offset_of!(Self, tail),
        next: L::ENTRIES.0,
    }));
}

/// Marks a clause that keeps its continuation within `handle`.
pub struct Scoped;

/// Marks a clause that may keep its continuation for `'r`, neither longer nor shorter: in a region,
/// or for ever.
pub struct Stored<'r>(pub(super) Option<List<'r>>, pub(super) PhantomData<fn(&'r ()) -> &'r ()>);

/// A clause that gets the continuation, and yields a result or hands control on.
pub struct Capturing<M, E, C>(pub(super) C, pub(super) PhantomData<fn(M, E)>);

/// A [`Capture`].
///
/// # Safety
///
/// The computation was just suspended, with a request of type `E`, for a handler with results `R`
/// and state `S`. Called once for the request. `result` may be written. The clause is a `C` that
/// stays in place until this returns; with `KEEPS`, as long as the computation has owners. All that
/// handler and computation hold is good for `'k`, or `C` is for any lifetime.
unsafe fn capture<'k, E: Effect, R, S, C, const KEEPS: bool>(
    base: NonNull<Base>,
    result: *mut R,
    request: Asked,
    clause: *const (),
) -> Option<Held<'k, ()>>
where
    C: Fn(E, Continuation<'k, E::Output, R, S>) -> Next<'k, R>,
{
    // SAFETY: by the contract. The effect is moved out once; the performer does not touch the
    // effect any more.
    let (_keeps, effect, continuation, clause) = unsafe {
        let keeps = KEEPS.then(|| Owner::of(base));
        base.as_ref().request.set(Some(request));
        let effect = (&raw const (*request.cast::<Request<E>>().as_ptr()).effect).cast::<E>().read();
        (keeps, effect, Continuation::new(base), &*clause.cast::<C>())
    };
    match clause(effect, continuation).0 {
        RawNext::Run(held) => Some(held.cast()),
        RawNext::Done(it) => {
            // SAFETY: by the contract.
            unsafe { result.write(it) };
            None
        }
    }
}

// SAFETY: `call` is a `Capture<R>`, for `E`. The newtype around the clause has its address.
unsafe impl<E: Effect, R, S, C> Clause<R, S> for Capturing<Scoped, E, C>
where
    C: for<'k> Fn(E, Continuation<'k, E::Output, R, S>) -> Next<'k, R>,
{
    type Effect = E;
    const CAPTURES: bool = true;
    // `handle` keeps the clause in place, and does not return before the clauses have.
    const CALL: *const () = capture::<'static, E, R, S, C, false> as Capture<'static, R> as *const ();
}

// SAFETY: as above.
unsafe impl<'r, E: Effect, R, S, C> Clause<R, S> for Capturing<Stored<'r>, E, C>
where
    C: Fn(E, Continuation<'r, E::Output, R, S>) -> Next<'r, R>,
{
    type Effect = E;
    const CAPTURES: bool = true;
    const CALL: *const () = capture::<'r, E, R, S, C, true> as Capture<'r, R> as *const ();
}

/// A clause that answers at once: such a clause can't be entered again during its run, as the
/// computation waits in the call.
pub struct Answering<E, C>(pub(super) UnsafeCell<C>, pub(super) PhantomData<fn(E)>);

// SAFETY: `answer` is an `Answer<E>`. The cell has the address of the clause.
unsafe impl<E: Effect, R, S, C: FnMut(&mut S, E) -> E::Output> Clause<R, S> for Answering<E, C> {
    type Effect = E;
    const CAPTURES: bool = false;
    const CALL: *const () = answer::<E, S, C> as Answer<E> as *const ();
}

/// An [`Answer`].
///
/// # Safety
///
/// `clause` is an `Answering<E, C>` of a handler that is in place, of a computation which performs
/// `E`; the handler's state is an `S`.
#[inline] // Where the compiler sees which clause is around, there is no call.
unsafe fn answer<E: Effect, S, C>(frame: *const Frame, clause: *const (), effect: E) -> E::Output
where
    C: FnMut(&mut S, E) -> E::Output,
{
    // SAFETY: by the contract; only the computation could call the clause as well, and that waits
    // for this call. The pointer came from a shared reference to the cell. Other clauses use the
    // state as well, but none of them runs while the computation does, or waits for this; and so do
    // continuations, of which there is none.
    let (clause, state) = unsafe {
        let clause = &mut *UnsafeCell::raw_get(clause.cast::<UnsafeCell<C>>());
        (clause, &mut *(*frame).state::<S>())
    };
    clause(state, effect)
}

/// As [`Answering`], from any thread, and by several at once; without the state.
pub struct AnsweringAll<E, C>(pub(super) C, pub(super) PhantomData<fn(E)>);

// SAFETY: `answer_all` is an `Answer<E>`. The newtype around the clause has its address.
unsafe impl<E: Effect, R, S, C: Fn(E) -> E::Output + Sync> Clause<R, S> for AnsweringAll<E, C> {
    type Effect = E;
    const CAPTURES: bool = false;
    const CALL: *const () = answer_all::<E, C> as Answer<E> as *const ();
}

/// An [`Answer`].
///
/// # Safety
///
/// `clause` is a `C` that is in place.
#[inline] // Where the compiler sees which clause is around, there is no call.
unsafe fn answer_all<E: Effect, C: Fn(E) -> E::Output>(_: *const Frame, clause: *const (), effect: E) -> E::Output {
    // SAFETY: by the contract; there are only shared references to the clause.
    let clause = unsafe { &*clause.cast::<C>() };
    clause(effect)
}

/// The case for the value of a computation.
pub trait ValueCase<S, T, R> {
    /// The handler's result, of its state and the value.
    fn end(self, state: S, value: T) -> R;
}

/// The value is the handler's result.
pub struct Identity;

impl<S, T> ValueCase<S, T, T> for Identity {
    #[inline]
    fn end(self, _: S, value: T) -> T {
        value
    }
}

/// The value is passed to a closure, with the handler's state.
pub struct Value<F>(pub(super) F);

impl<S, T, R, F: FnOnce(S, T) -> R> ValueCase<S, T, R> for Value<F> {
    #[inline]
    fn end(self, state: S, value: T) -> R {
        (self.0)(state, value)
    }
}

/// The case for a panic that leaves a computation.
pub trait PanicCase<S, R> {
    /// Whether the panic goes no further.
    const CATCHES: bool;
    /// The handler's result, of its state and the panic's payload.
    fn end(self, state: S, payload: Payload) -> R;
}

/// The panic goes on in the caller that waits for the handler's result.
pub struct Reraise;

impl<S, R> PanicCase<S, R> for Reraise {
    const CATCHES: bool = false;
    #[cold]
    fn end(self, _: S, payload: Payload) -> R {
        std::panic::resume_unwind(payload)
    }
}

/// Its payload is passed to a closure, with the handler's state.
pub struct Caught<F>(pub(super) F);

impl<S, R, F: FnOnce(S, Payload) -> R> PanicCase<S, R> for Caught<F> {
    const CATCHES: bool = true;
    fn end(self, state: S, payload: Payload) -> R {
        (self.0)(state, payload)
    }
}
