//! A handled computation on a stack of its own, with its types: the block at the top of that stack,
//! the start, and the way of the outcome.
//!
//! Used by `handler`, which starts computations.
//!
//! # The idea
//!
//! A handler with a clause that wants the continuation runs its computation on a coroutine. A
//! perform leaves a [request](super::request) on the performer's stack and suspends that coroutine.
//! The resumer of the computation ([`trampoline`](super::trampoline)) finds the request and calls
//! the clause, on its own stack, under its own handlers. The continuation is the address of the
//! computation ([`Held`](super::held::Held)). A resume writes the answer into the request and runs
//! the computation on, from the resumer's stack.
//!
//! Those three know a computation as its [`Base`], which has the states and the count of owners.
//! The parts that depend on the types are here, reached from there by function pointers that this
//! file puts in: the handler's result from a computation that is over, a run without a taker for
//! the result, the release of all of it.
//!
//! # Layout
//!
//! ```text
//!   coroutine's header:  Block { base, parts }            if that is small enough
//!                        Block { base, Box<Parts> }       else
//! ```
//!
//! The frame in the base has the address of the clauses, in the parts; so [`Parts::of`] finds them
//! either way. Cases, state and outcome are moved out when the body has ended; the clauses are
//! dropped by [`free`], with the last owner.

#![allow(unsafe_code)] // Computations are reached by address, from whichever stack runs.

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};
use std::thread;

use super::Dropped;
use super::base::{Base, End, Kind, State, release};
use super::clauses::{Clauses, PanicCase, ValueCase};
use super::held::{end_forgotten, end_kept, go_on_with};
use super::request::Question;
use super::trampoline::{enter, go_on, run, serve, step};
use crate::arena::Stack;
use crate::coroutine::{Coroutine, may_be_header};
use crate::outcome::Main;
use crate::region::{Kept, List};
use crate::thread_stacks;
use segue_core::chain;

/// The rest of a computation: clauses `L`, cases `V` and `P`, state `S`, value `T`.
struct Parts<L, V, P, S, T> {
    list: L,
    /// Until the body has ended; then both are moved out.
    cases: UnsafeCell<MaybeUninit<(V, P)>>,
    state: UnsafeCell<MaybeUninit<S>>,
    /// From the body's end until its move out.
    outcome: UnsafeCell<MaybeUninit<thread::Result<T>>>,
}

/// The block at the top of the stack. `X` is the parts, or a box with them.
#[repr(C)]
struct Block<X> {
    base: Base,
    parts: X,
}

impl<L, V, P, S, T> Parts<L, V, P, S, T> {
    const BOXED: bool = !may_be_header::<Block<Self>>();

    /// # Safety
    ///
    /// `base` is that of a computation with these types.
    #[inline]
    unsafe fn of(base: NonNull<Base>) -> NonNull<Self> {
        // SAFETY: by the contract: `start` has put the parts behind the base, or in a box, and
        // either way their list at the start of `list`.
        unsafe {
            let list = base.as_ref().frame.list.get();
            NonNull::new_unchecked(list.byte_sub(mem::offset_of!(Self, list)).cast_mut().cast())
        }
    }
}

/// Runs `body` on a stack of its own, under a handler, up to the handler's result.
///
/// # Safety
///
/// All that the arguments borrow outlives the computation, or the region in which it is entered;
/// `borrows` says that the borrowed data may end before the program.
#[inline]
pub(super) unsafe fn start<R, S, T, L, V, P, F>(
    (list, value, panic, state): (L, V, P, S),
    region: Option<List<'_>>,
    borrows: bool,
    size: Option<usize>,
    body: F,
) -> Started<R, S, T, L, V, P>
where
    L: Clauses<R, S>,
    V: ValueCase<S, T, R>,
    P: PanicCase<S, R>,
    F: FnOnce() -> T,
{
    let stack =
        thread_stacks::take_of(size).unwrap_or_else(|error| panic!("no stack for a handled computation: {error}"));
    let parts = Parts::<L, V, P, S, T> {
        list,
        cases: UnsafeCell::new(MaybeUninit::new((value, panic))),
        state: UnsafeCell::new(MaybeUninit::new(state)),
        outcome: UnsafeCell::new(MaybeUninit::uninit()),
    };
    let kind = const { &kind::<R, S, T, L, V, P>(free::<L, V, P, S, T>) };
    let base = Base::new(L::ENTRIES, borrows, kind);
    // SAFETY: by the contract.
    let base = unsafe {
        if Parts::<L, V, P, S, T>::BOXED {
            place(stack, Block { base, parts: Box::new(parts) }, body)
        } else {
            place(stack, Block { base, parts }, body)
        }
    };
    if let Some(list) = region {
        // SAFETY: the computation is at its final place, and leaves at its end.
        unsafe { Kept::enter(&raw const (*base.as_ptr()).kept, list, end_kept) };
    }
    Started(base, PhantomData)
}

/// The constants of computations of these types.
const fn kind<R, S, T, L, V: ValueCase<S, T, R>, P: PanicCase<S, R>>(free: unsafe fn(NonNull<Base>)) -> Kind {
    Kind { end: end::<R, S, T, L, V, P> as End<R> as *const (), abandon: run_for_nothing::<R, S, T, L, V, P>, free }
}

/// Puts a computation on its stack and sets the pointers to its parts.
///
/// # Safety
///
/// As for `start`.
#[inline]
unsafe fn place<L, V, P, S, T, X: Borrow<Parts<L, V, P, S, T>>>(
    stack: Stack,
    block: Block<X>,
    body: impl FnOnce() -> T,
) -> NonNull<Base> {
    // SAFETY: by the contract.
    let coroutine = unsafe { Coroutine::new_borrowing(stack, block, Body::<L, V, P, S, T, _>(body, PhantomData)) };
    let raw = coroutine.raw();
    let block = coroutine.into_header();
    // SAFETY: the block has just been put in place.
    let Block { base, parts } = unsafe { block.as_ref() };
    base.raw.set(MaybeUninit::new(raw));
    let parts = ptr::from_ref(parts.borrow());
    // SAFETY: these are the parts, wherever they lie. Not the address of a reference to the list,
    // which is good for that alone.
    unsafe {
        base.frame.list.set((&raw const (*parts).list).cast());
        base.frame.set_state((*parts).state.get());
    }
    block.cast()
}

/// The function on the stack.
struct Body<L, V, P, S, T, F>(F, PhantomData<(L, V, P, S, T)>);

impl<L, V, P, S, T, X, F: FnOnce() -> T> Main<Block<X>> for Body<L, V, P, S, T, F> {
    type Boxed = Body<L, V, P, S, T, Box<F>>;

    fn boxed(self) -> Self::Boxed {
        Body(Box::new(self.0), PhantomData)
    }

    #[inline(always)]
    fn run(self, Block { base, .. }: &Block<X>) {
        // Not the address of the frame alone: `perform` makes that of the base from this address.
        // SAFETY: the frame is in place while the body runs, and names the resumer's surroundings.
        unsafe { chain::set_top(ptr::from_ref(base).cast()) };
        let outcome = catch_unwind(AssertUnwindSafe(self.0));
        // SAFETY: the computation is of these types, and nobody looks for the outcome before this
        // has returned.
        unsafe { (*Parts::<L, V, P, S, T>::of(NonNull::from(base)).as_ref().outcome.get()).write(outcome) };
        // SAFETY: the resumer is inside of that.
        unsafe { chain::set_top(base.frame.parent()) };
    }
}

/// A computation that was not run yet.
pub(super) struct Started<R, S, T, L, V, P>(NonNull<Base>, PhantomData<(R, S, T, L, V, P)>);

impl<R, S, T, L, V: ValueCase<S, T, R>, P: PanicCase<S, R>> Started<R, S, T, L, V, P> {
    /// Runs the computation under a `handle` that does not return before its end.
    #[inline]
    pub fn run_to_the_end(self) -> R {
        /// Ends a computation that lost its continuation.
        struct End(NonNull<Base>);
        impl Drop for End {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: this is one of its owners, and the others can't use the computation any
                // more: a continuation does not outlive `handle`.
                unsafe {
                    let panic = if self.0.as_ref().state() == State::Over { None } else { end_forgotten(self.0) };
                    release(self.0);
                    if panic.is_some() {
                        go_on_with(panic);
                    }
                }
            }
        }
        self.run_with(|base, question| {
            let _end = End(base);
            // SAFETY: the computation was just suspended with this question, and is of this type.
            unsafe { go_on(base, question) }
        })
    }

    /// Runs the computation, and leaves its end to the owner of its continuation.
    #[inline]
    pub fn run(self) -> R {
        self.run_with(|base, question| {
            // SAFETY: this was one of its owners; the computation was just suspended with this
            // question, and is of this type.
            unsafe {
                release(base);
                go_on(base, question)
            }
        })
    }

    /// Runs the computation to its end, if nothing is performed on the way; else `suspended` goes
    /// on. Here all types are known, and nobody else has the computation yet.
    #[inline(always)]
    fn run_with(self, suspended: impl FnOnce(NonNull<Base>, Question) -> R) -> R {
        let base = self.0;
        // SAFETY: the computation is new, and of these types; `Base::new` has prepared the switch.
        // If the computation is over at once, its two owners are itself and this function, and the
        // block is freed here.
        unsafe {
            match enter(base) {
                Some(question) => suspended(base, question),
                None => {
                    base.as_ref().kept.leave();
                    let (cases, state, outcome) = take_out::<L, V, P, S, T>(base);
                    free::<L, V, P, S, T>(base);
                    settle(cases, state, outcome)
                }
            }
        }
    }
}

/// An [`End`].
///
/// # Safety
///
/// The computation is of these types and over. Called once, by the owner on the computation's
/// behalf.
unsafe fn end<R, S, T, L, V: ValueCase<S, T, R>, P: PanicCase<S, R>>(base: NonNull<Base>) -> R {
    // SAFETY: by the contract.
    let (cases, state, outcome) = unsafe {
        let parts = take_out::<L, V, P, S, T>(base);
        release(base);
        parts
    };
    settle(cases, state, outcome)
}

/// The functions for a computation at its end.
///
/// # Safety
///
/// The computation is of these types and over. Called once.
#[inline(always)]
unsafe fn take_out<L, V, P, S, T>(base: NonNull<Base>) -> ((V, P), S, thread::Result<T>) {
    // SAFETY: by the contract; each is moved out once, and not used by anybody else any more: there
    // is no continuation.
    unsafe {
        let parts = Parts::<L, V, P, S, T>::of(base);
        let parts = parts.as_ref();
        (
            (*parts.cases.get()).assume_init_read(),
            (*parts.state.get()).assume_init_read(),
            (*parts.outcome.get()).assume_init_read(),
        )
    }
}

/// The handler's result, for a computation that is over.
#[inline(always)]
fn settle<R, S, T, V: ValueCase<S, T, R>, P: PanicCase<S, R>>(
    (value, panic): (V, P),
    state: S,
    outcome: thread::Result<T>,
) -> R {
    match outcome {
        Ok(it) => value.end(state, it),
        Err(payload) => panic.end(state, payload),
    }
}

/// `Base::abandon`. The computation's answer to this panic is its own affair; a panic of another
/// kind goes on.
///
/// # Safety
///
/// As for `run`, and the computation is of these types.
unsafe fn run_for_nothing<R, S, T, L, V: ValueCase<S, T, R>, P: PanicCase<S, R>>(base: NonNull<Base>) {
    // SAFETY: by the contract.
    let run = || unsafe {
        if let Some(question) = step(base, chain::top()) {
            let mut result = MaybeUninit::<R>::uninit();
            drop(match serve(base, question, &mut result) {
                None => result.assume_init(),
                Some(held) => run(held.take()),
            });
            return;
        }
        if base.as_ref().is_sealed() {
            // The rest is left to `free_sealed`.
            let outcome = (*Parts::<L, V, P, S, T>::of(base).as_ref().outcome.get()).assume_init_read();
            base.as_ref().kind.set(const { &kind::<R, S, T, L, V, P>(free_sealed::<L, V, P, S, T>) });
            release(base);
            if let Err(payload) = outcome {
                resume_unwind(payload);
            }
            return;
        }
        let (cases, state, outcome) = take_out::<L, V, P, S, T>(base);
        release(base);
        match outcome {
            // To raise the panic again would only mean a catch below.
            Err(payload) if !P::CATCHES && payload.is::<Dropped>() => {}
            outcome => drop(settle(cases, state, outcome)),
        }
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        go_on_with(Some(payload).filter(|payload| !payload.is::<Dropped>()));
    }
}

/// Frees block and stack.
///
/// # Safety
///
/// The computation is of these types and over, and has no owner any more.
unsafe fn free<L, V, P, S, T>(base: NonNull<Base>) {
    // SAFETY: made by `place`, with a block of this type; all but the clauses was moved out.
    let stack = unsafe {
        if Parts::<L, V, P, S, T>::BOXED {
            Coroutine::from_header(base.cast::<Block<Box<Parts<L, V, P, S, T>>>>()).into_stack()
        } else {
            Coroutine::from_header(base.cast::<Block<Parts<L, V, P, S, T>>>()).into_stack()
        }
    };
    thread_stacks::put(stack);
}

/// As [`free`], for one that still has its cases and its state.
///
/// # Safety
///
/// As for [`free`].
#[cold]
unsafe fn free_sealed<L, V, P, S, T>(base: NonNull<Base>) {
    // SAFETY: by the contract; each is moved out once. The continuation that lent the state is
    // gone, or this had an owner.
    unsafe {
        let parts = Parts::<L, V, P, S, T>::of(base);
        let parts = parts.as_ref();
        let _cases = (*parts.cases.get()).assume_init_read();
        let _state = (*parts.state.get()).assume_init_read();
        free::<L, V, P, S, T>(base);
    }
}
