//! A handled computation on a stack of its own: what lies at the top of that stack, how it runs, and how it ends.
//!
//! Used by `handler`, which starts computations, by `perform`, which suspends them, and by continuations, which run them on.
//!
//! # The idea
//!
//! A handler with a clause that wants the continuation runs its computation on a coroutine. To perform is to leave a *request* on the performer's stack and to suspend the handler's
//! own coroutine, from however deep inside: whatever lies between is captured with it, in one switch. Whoever runs the computation finds the request and calls the clause, on its own stack, under its own
//! handlers. The continuation is the address of the computation. To resume it is to write the answer into the request and to run the computation on, from wherever that is asked.
//!
//! # States
//!
//! ```text
//!   Running --perform--> Suspended --resume, discontinue, drop--> Running --the body returns or panics--> Over
//! ```
//!
//! A computation that is suspended has one owner: a continuation, or a `Next` with its answer given. It is made by the clause's caller and consumed by `run`. So a computation is resumed at most
//! once for each perform, and no clause of a handler is entered while its computation runs.
//!
//! # What keeps it in place
//!
//! The clauses lie with the computation and may outlive it: a clause may drop or use up its continuation, and with that end the computation, while it runs itself. So the block is counted: one for the computation until it is over,
//! one for each clause that runs, one for a `handle` that has to see to the computation's end. What was forgotten stays for ever, as does its stack.
//!
//! # Trampoline
//!
//! `run` is a loop: a clause that ends in a resume yields the computation instead of running it, and the loop goes on with that. So any number of performs takes no stack.

#![allow(unsafe_code)] // Computations are reached by address, from whichever stack runs.

use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::thread;

use super::clauses::{Capture, Clauses, PanicCase, ValueCase};
use super::{Dropped, Effect};
use crate::arena::Stack;
use crate::backtrace::Backtrace;
use crate::chain::{self, Frame};
use crate::host::{Coroutine, LARGEST_HEADER, RawCoroutine};
use crate::outcome::{Step, count_leak};
use crate::region::{Kept, List};
use crate::thread_stacks;

pub(super) type Payload = Box<dyn Any + Send>;

/// What a computation waits for: lies on the performer's stack. Its other fields depend on the effect.
#[repr(C)]
pub(super) struct RequestBase {
    /// Makes a panic the answer, in place of what may be there. A panic leaves it when the drop of that panics, afterwards.
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
    /// `base` is the start of a `Slot<O>`, whose performer is suspended.
    unsafe fn fail(base: NonNull<RequestBase>, payload: Payload) {
        // SAFETY: by the contract nobody else uses it.
        let before = unsafe { (*base.cast::<Self>().as_ptr()).answer.replace(Err(payload)) };
        drop(before);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Suspended,
    Over,
}

/// What is known of a computation without its types. `repr(C)`: the frame comes first, so that the frame of a clause that captures is a `Base`.
#[repr(C)]
pub(super) struct Base {
    frame: Frame,
    raw: Cell<MaybeUninit<RawCoroutine>>,
    pub request: Cell<NonNull<RequestBase>>,
    /// The clause for the request, and its function.
    clause: Cell<*const ()>,
    call: Cell<*const ()>,
    state: Cell<State>,
    /// Counts the requests. Whoever has the computation knows the number of its own, and has it no more when that is over.
    turn: Cell<usize>,
    owners: Cell<usize>,
    kept: Kept,
    /// Whether what the computation borrows may end: then it must not be leaked.
    borrows: bool,
    /// Takes value and cases out of a computation whose body has ended, and yields the result: an [`End`].
    end: *const (),
    /// Runs a suspended computation whose answer was given, and drops the result.
    abandon: unsafe fn(NonNull<Base>),
    free: unsafe fn(NonNull<Base>),
}

type End<R> = unsafe fn(NonNull<Base>) -> R;

/// The rest of a computation: clauses `L`, cases `V` and `P`, state `S`, value `T`.
struct Parts<L, V, P, S, T> {
    list: L,
    /// Until the body has ended; then both are moved out.
    cases: UnsafeCell<MaybeUninit<(V, P)>>,
    state: UnsafeCell<MaybeUninit<S>>,
    /// From when the body has ended, until it is moved out.
    outcome: UnsafeCell<MaybeUninit<thread::Result<T>>>,
}

/// What lies at the top of the stack, if it is small enough; else a `Base` does, and the parts are boxed.
#[repr(C)]
struct Block<X> {
    base: Base,
    parts: X,
}

/// What comes next when a clause has ended.
pub(super) enum RawNext<R> {
    Done(R),
    /// This one is to be run on: its answer was given, and its handler's result is an `R`. Dropped, it gets a panic for an answer instead.
    Run(Held),
}

/// The right to go on with a suspended computation. Dropped, it ends the computation.
///
/// It may be revoked: then the computation has been ended by its region, and is there only so that this can be seen.
pub(super) struct Held {
    base: NonNull<Base>,
    turn: usize,
}

impl Held {
    /// # Safety
    ///
    /// The computation is suspended, and nobody else has it.
    #[inline]
    pub unsafe fn new(base: NonNull<Base>) -> Held {
        // SAFETY: by the contract.
        Held { base, turn: unsafe { base.as_ref() }.turn.get() }
    }

    #[inline]
    fn is_revoked(&self) -> bool {
        // SAFETY: whoever revokes it sees to it that the computation stays in place until this is dropped.
        unsafe { self.base.as_ref() }.turn.get() != self.turn
    }

    /// Where the computation is suspended.
    pub fn backtrace(&self) -> Backtrace {
        if self.is_revoked() {
            return Backtrace::empty("its region has ended it");
        }
        // SAFETY: set by `place`. It is suspended and this one's, which is borrowed, and not another thread's, as this is not `Send`.
        unsafe { self.base.as_ref().raw.get().assume_init().backtrace() }
    }

    /// The computation, which is suspended and this one's.
    ///
    /// # Panics
    ///
    /// When it was revoked.
    #[inline]
    pub fn get(&self) -> NonNull<Base> {
        assert!(
            !self.is_revoked(),
            "a continuation is used in a destructor at the end of its region, which has ended the computation"
        );
        self.base
    }

    /// As `get`, for whoever gives it up.
    #[inline]
    pub fn take(self) -> NonNull<Base> {
        let base = self.get();
        mem::forget(self);
        base
    }
}

impl Drop for Held {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: if it was not revoked, it has a suspended computation; else it owns what whoever revoked it has left.
        unsafe { if self.is_revoked() { release(self.base) } else { abandon(self.base) } }
    }
}

/// `Kept::end`.
///
/// # Safety
///
/// `kept` is in the base of a computation in a list; what stands for the computation is not used any more other than to be dropped.
unsafe fn end_kept(kept: *const Kept) -> bool {
    // SAFETY: it was entered with an address that is good for the whole; what is in a list is in place.
    unsafe {
        let base = NonNull::new_unchecked(kept.byte_sub(mem::offset_of!(Base, kept)).cast_mut().cast::<Base>());
        let this = base.as_ref();
        if this.state.get() != State::Suspended {
            return false;
        }
        // Revokes what stands for it, on whose behalf it stays in place.
        this.turn.set(this.turn.get() + 1);
        this.owners.set(this.owners.get() + 1);
        abandon(base);
    }
    true
}

impl<L, V, P, S, T> Parts<L, V, P, S, T> {
    const BOXED: bool = size_of::<Block<Self>>() > LARGEST_HEADER || align_of::<Block<Self>>() > 64;

    /// # Safety
    ///
    /// `base` is that of a computation with these types.
    #[inline]
    unsafe fn of(base: NonNull<Base>) -> NonNull<Self> {
        // SAFETY: by the contract: `start` has put the parts behind the base, or in a box, and either way their list at the start of `list`.
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
/// All that the arguments borrow outlives the computation, or the region in which it is entered; `borrows` says that it may end before the program does.
#[inline]
pub(super) unsafe fn start<R, S, T, L, V, P, F>(
    (list, value, panic, state): (L, V, P, S),
    region: Option<List<'_>>,
    borrows: bool,
    body: F,
) -> Started<R, S, T, L, V, P>
where
    L: Clauses<R, S>,
    V: ValueCase<S, T, R>,
    P: PanicCase<S, R>,
    F: FnOnce() -> T,
{
    let stack = thread_stacks::take().unwrap_or_else(|error| panic!("no stack for a handled computation: {error}"));
    let parts = Parts::<L, V, P, S, T> {
        list,
        cases: UnsafeCell::new(MaybeUninit::new((value, panic))),
        state: UnsafeCell::new(MaybeUninit::new(state)),
        outcome: UnsafeCell::new(MaybeUninit::uninit()),
    };
    let base = Base {
        frame: Frame {
            parent: Cell::new(std::ptr::null()),
            clauses: L::ENTRIES.0,
            list: Cell::new(std::ptr::null()),
            state: Cell::new(std::ptr::null_mut()),
        },
        raw: Cell::new(MaybeUninit::uninit()),
        request: Cell::new(NonNull::dangling()),
        clause: Cell::new(std::ptr::null()),
        call: Cell::new(std::ptr::null()),
        state: Cell::new(State::Suspended),
        // The computation, and whoever gets it from here.
        owners: Cell::new(2),
        turn: Cell::new(0),
        kept: Kept::new(end_kept),
        borrows,
        end: end::<R, S, T, L, V, P> as End<R> as *const (),
        abandon: run_for_nothing::<R, S, T, L, V, P>,
        free: free::<L, V, P, S, T>,
    };
    let base = if Parts::<L, V, P, S, T>::BOXED {
        let parts = NonNull::from(Box::leak(Box::new(parts)));
        // SAFETY: by the contract.
        unsafe { place(stack, base, move |base: &Base| main::<L, V, P, S, T, F>(base, body), move |_| parts) }
    } else {
        let block = Block { base, parts };
        // SAFETY: by the contract. The parts lie in the block, of which this is the address.
        unsafe {
            place(
                stack,
                block,
                move |block: &Block<_>| main::<L, V, P, S, T, F>(&block.base, body),
                |block| NonNull::new_unchecked(&raw mut (*block.cast::<Block<Parts<L, V, P, S, T>>>().as_ptr()).parts),
            )
        }
    };
    if let Some(list) = region {
        // SAFETY: it is at its final place, and leaves when it is over.
        unsafe { Kept::enter(&raw const (*base.as_ptr()).kept, list) };
    }
    Started(base, PhantomData)
}

/// Puts a computation on its stack and tells it where things are.
///
/// # Safety
///
/// As for `start`. `H` starts with the base; `parts` finds the parts.
#[inline]
unsafe fn place<H, L, V, P, S, T>(
    stack: Stack,
    header: H,
    main: impl FnOnce(&H),
    parts: impl FnOnce(NonNull<Base>) -> NonNull<Parts<L, V, P, S, T>>,
) -> NonNull<Base> {
    // SAFETY: by the contract.
    let coroutine = unsafe { Coroutine::new_borrowing(stack, header, main) };
    let raw = coroutine.raw();
    let base = coroutine.into_header().cast::<Base>();
    // SAFETY: both have just been put in place.
    unsafe {
        let parts = parts(base).as_ptr();
        let base = base.as_ref();
        base.raw.set(MaybeUninit::new(raw));
        base.frame.list.set((&raw const (*parts).list).cast());
        base.frame.state.set((*parts).state.get().cast());
    }
    base
}

/// What runs on the stack.
#[inline(always)]
fn main<L, V, P, S, T, F: FnOnce() -> T>(base: &Base, body: F) {
    // Not the address of the frame alone: `perform` makes that of the base of it.
    chain::set_top(std::ptr::from_ref(base).cast());
    let outcome = catch_unwind(AssertUnwindSafe(body));
    // SAFETY: the computation is of these types, and nobody looks for the outcome before this has returned.
    unsafe { (*Parts::<L, V, P, S, T>::of(NonNull::from(base)).as_ref().outcome.get()).write(outcome) };
}

/// A computation that was not run yet.
pub(super) struct Started<R, S, T, L, V, P>(NonNull<Base>, PhantomData<(R, S, T, L, V, P)>);

impl<R, S, T, L, V: ValueCase<S, T, R>, P: PanicCase<S, R>> Started<R, S, T, L, V, P> {
    /// Runs it under a `handle` that does not return before it is over.
    #[inline]
    pub fn run_to_the_end(self) -> R {
        /// Ends a computation whose continuation was forgotten.
        struct End(NonNull<Base>);
        impl Drop for End {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: this is one of its owners, and the others can't use it any more: a continuation does not outlive `handle`.
                unsafe {
                    let panic = if self.0.as_ref().state.get() == State::Over { None } else { end_forgotten(self.0) };
                    release(self.0);
                    if panic.is_some() {
                        go_on_with(panic);
                    }
                }
            }
        }
        self.run_with(|base| {
            let _end = End(base);
            // SAFETY: it is suspended with a request, and of this type.
            unsafe { go_on(base) }
        })
    }

    /// Runs it, and leaves its end to whoever has its continuation.
    #[inline]
    pub fn run(self) -> R {
        self.run_with(|base| {
            // SAFETY: this was one of its owners; it is suspended with a request, and of this type.
            unsafe {
                release(base);
                go_on(base)
            }
        })
    }

    /// Runs it to its end, if it performs nothing on the way; else `suspended` goes on. Here all types are known, and nobody else has the computation yet.
    #[inline(always)]
    fn run_with(self, suspended: impl FnOnce(NonNull<Base>) -> R) -> R {
        let base = self.0;
        // SAFETY: it is new, and of these types. If it is over at once, its two owners are itself and this, and it is freed here.
        unsafe {
            match step(base, chain::top()) {
                Step::Suspended => suspended(base),
                Step::Returned => {
                    let (cases, state, outcome) = take_out::<L, V, P, S, T>(base);
                    free::<L, V, P, S, T>(base);
                    settle(cases, state, outcome)
                }
            }
        }
    }
}

/// Ends a computation whose continuation was forgotten, whatever it takes, and says what panicked meanwhile.
///
/// # Safety
///
/// It is not over, and whoever has its continuation does not use it.
#[cold]
unsafe fn end_forgotten(base: NonNull<Base>) -> Option<Payload> {
    let mut panic = None;
    // SAFETY: it is in place until its last owner has released it, and the caller is one.
    while unsafe { base.as_ref() }.state.get() == State::Suspended {
        // SAFETY: it is suspended, and nobody else's.
        let outcome = catch_unwind(AssertUnwindSafe(|| unsafe { abandon(base) }));
        panic = panic.or(outcome.err());
    }
    // SAFETY: as above.
    if unsafe { base.as_ref() }.state.get() == State::Running {
        // It can't be, since whoever runs it would be inside of the caller.
        std::process::abort();
    }
    panic
}

/// Raises a panic again that was put off, unless another one is under way.
#[cold]
fn go_on_with(panic: Option<Payload>) {
    if let Some(payload) = panic {
        if thread::panicking() {
            // It was reported; to raise it again would end the process.
            mem::forget(payload);
        } else {
            resume_unwind(payload);
        }
    }
}

/// Runs a computation to its next request, or to its end.
///
/// # Safety
///
/// It is new, or suspended with its answer given; the caller owns it. `outer` is the innermost handler in place.
#[inline(always)]
unsafe fn step(base: NonNull<Base>, outer: *const Frame) -> Step {
    debug_assert_eq!(chain::top(), outer);
    // SAFETY: by the contract. The coroutine was set by `place`; it is new or suspended, and freed only when it is over.
    let (this, step) = unsafe {
        let this = base.as_ref();
        this.frame.parent.set(outer);
        this.state.set(State::Running);
        (this, this.raw.get().assume_init().resume())
    };
    chain::set_top(outer);
    match step {
        Step::Suspended => this.state.set(State::Suspended),
        Step::Returned => {
            this.state.set(State::Over);
            this.kept.leave();
        }
    }
    step
}

/// Calls the clause for a computation's request.
///
/// # Safety
///
/// The computation was just suspended by a perform; the caller owns it, and gives it up. Its handler's result is `R`.
#[inline(always)]
unsafe fn serve<R>(base: NonNull<Base>) -> RawNext<R> {
    // The clause stays while it runs.
    let _clause = Owner::of(base);
    // SAFETY: `perform` has set both to what belongs together, for a request of a handler with this result.
    unsafe {
        let this = base.as_ref();
        let call = mem::transmute::<*const (), Capture<R>>(this.call.get());
        call(base, this.clause.get())
    }
}

/// Serves a computation's request, and goes on with whatever the clause hands control to, up to a result.
///
/// Inlined, so that a computation that is resumed last goes on below the same calls as before: what it returns from then was called below these, and processors predict that.
///
/// # Safety
///
/// As for `serve`.
#[inline(always)]
unsafe fn go_on<R>(mut base: NonNull<Base>) -> R {
    // A clause that has returned has put it back.
    let outer = chain::top();
    loop {
        // SAFETY: by the contract, and for the next ones by that of `Held`. What has returned is over since just now, and its `end` is of this type.
        unsafe {
            match serve(base) {
                RawNext::Done(result) => return result,
                RawNext::Run(held) => base = held.take(),
            }
            if step(base, outer) == Step::Returned {
                return end_of(base);
            }
        }
    }
}

/// Runs a computation, and whatever its clauses hand control to, up to a result.
///
/// # Safety
///
/// The computation is new, or suspended with its answer given; the caller owns it, and gives it up. Its handler's result is `R`.
pub(super) unsafe fn run<R>(base: NonNull<Base>) -> R {
    // SAFETY: by the contract.
    unsafe {
        match step(base, chain::top()) {
            Step::Returned => end_of(base),
            Step::Suspended => go_on(base),
        }
    }
}

/// # Safety
///
/// As for [`End`], which this calls.
#[inline(always)]
unsafe fn end_of<R>(base: NonNull<Base>) -> R {
    // SAFETY: by the contract.
    unsafe { mem::transmute::<*const (), End<R>>(base.as_ref().end)(base) }
}

/// One of those who keep a computation in place.
struct Owner(NonNull<Base>);

impl Owner {
    #[inline]
    fn of(base: NonNull<Base>) -> Owner {
        // SAFETY: the caller is an owner.
        let owners = unsafe { &base.as_ref().owners };
        owners.set(owners.get() + 1);
        Owner(base)
    }
}

impl Drop for Owner {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it is an owner, and gives that up.
        unsafe { release(self.0) }
    }
}

/// # Safety
///
/// The caller is an owner, and does not use the computation any more.
#[inline]
unsafe fn release(base: NonNull<Base>) {
    // SAFETY: by the contract.
    unsafe {
        let owners = &base.as_ref().owners;
        owners.set(owners.get() - 1);
        if owners.get() == 0 {
            (base.as_ref().free)(base);
        }
    }
}

/// An [`End`].
///
/// # Safety
///
/// The computation is of these types and over. Called once, by the owner on the computation's behalf.
unsafe fn end<R, S, T, L, V: ValueCase<S, T, R>, P: PanicCase<S, R>>(base: NonNull<Base>) -> R {
    // SAFETY: by the contract.
    let (cases, state, outcome) = unsafe {
        let parts = take_out::<L, V, P, S, T>(base);
        release(base);
        parts
    };
    settle(cases, state, outcome)
}

/// What is needed of a computation when it is over.
///
/// # Safety
///
/// The computation is of these types and over. Called once.
#[inline(always)]
unsafe fn take_out<L, V, P, S, T>(base: NonNull<Base>) -> ((V, P), S, thread::Result<T>) {
    // SAFETY: by the contract; each is moved out once, and not used by anybody else any more: there is no continuation.
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

/// Frees block and stack.
///
/// # Safety
///
/// The computation is of these types and over, and nobody owns it any more.
unsafe fn free<L, V, P, S, T>(base: NonNull<Base>) {
    /// Gives the stack back, also when the drop of a clause panics.
    struct Stack<H>(NonNull<H>);
    impl<H> Drop for Stack<H> {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: made by `into_header`; its function has returned. What is left in the header needs no drop.
            thread_stacks::put(unsafe { Coroutine::from_header(self.0) }.into_stack());
        }
    }

    if Parts::<L, V, P, S, T>::BOXED {
        let _stack = Stack(base);
        // SAFETY: leaked by `start`; all but the clauses was moved out.
        drop(unsafe { Box::from_raw(Parts::<L, V, P, S, T>::of(base).as_ptr()) });
    } else {
        // The header without a drop, since the parts are dropped here.
        let _stack = Stack(base.cast::<Block<ManuallyDrop<Parts<L, V, P, S, T>>>>());
        // SAFETY: by the contract, once; all but the clauses was moved out.
        unsafe { Parts::<L, V, P, S, T>::of(base).drop_in_place() };
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
    unsafe { (&raw mut (*base.as_ref().request.get().cast::<Slot<O>>().as_ptr()).answer).write(Some(Ok(value))) }
}

/// As [`answer`], with a panic.
///
/// # Safety
///
/// The computation is suspended; the caller owns it.
pub(super) unsafe fn fail(base: NonNull<Base>, payload: Payload) {
    // SAFETY: by the contract.
    unsafe {
        let request = base.as_ref().request.get();
        (request.as_ref().fail)(request, payload);
    }
}

/// The handler's state.
///
/// # Safety
///
/// The computation is suspended, its state is an `S`, and the caller owns it.
#[inline]
pub(super) unsafe fn state<'s, S>(base: NonNull<Base>) -> &'s mut S {
    // SAFETY: by the contract. Clauses that answer get a reference too, but only while the computation runs.
    unsafe { &mut *base.as_ref().frame.state.get().cast() }
}

/// Ends a suspended computation that nobody goes on with: unwinds it, where programs unwind.
///
/// # Safety
///
/// The computation is suspended; the caller owns it, and gives it up.
#[cold]
pub(super) unsafe fn abandon(base: NonNull<Base>) {
    // SAFETY: by the contract.
    let this = unsafe { base.as_ref() };
    if cfg!(panic = "abort") && this.borrows {
        eprintln!(
            "a handled computation was dropped that may have lent out what it borrows; without unwinding it can neither end nor stay: resume each \
             continuation, or let the computation borrow nothing (`Handler::stored`); aborting"
        );
        std::process::abort();
    }
    // While the thread's local variables are dropped, what was suspended before may be in the middle of a use of one; what borrows was not.
    if cfg!(panic = "abort") || (!this.borrows && thread_stacks::are_gone()) {
        count_leak();
        return;
    }
    // SAFETY: by the contract.
    let failed = catch_unwind(AssertUnwindSafe(|| unsafe { fail(base, Box::new(Dropped)) }));
    // SAFETY: likewise; the panic is its answer now, in any case.
    let end = || unsafe { (this.abandon)(base) };
    match failed {
        Ok(()) => end(),
        Err(payload) => {
            // It had an answer, whose drop has panicked. What panics meanwhile is not told of; and its drop may panic.
            mem::forget(catch_unwind(AssertUnwindSafe(end)));
            go_on_with(Some(payload));
        }
    }
}

/// `Base::abandon`. What the computation does about it is its own affair; a panic of another kind goes on.
///
/// # Safety
///
/// As for `run`, and the computation is of these types.
unsafe fn run_for_nothing<R, S, T, L, V: ValueCase<S, T, R>, P: PanicCase<S, R>>(base: NonNull<Base>) {
    // SAFETY: by the contract.
    let run = || unsafe {
        if step(base, chain::top()) == Step::Suspended {
            return match serve::<R>(base) {
                RawNext::Done(result) => drop(result),
                RawNext::Run(held) => drop(run::<R>(held.take())),
            };
        }
        let (cases, state, outcome) = take_out::<L, V, P, S, T>(base);
        release(base);
        match outcome {
            // It would be raised again only to be caught below.
            Err(payload) if !P::CATCHES && payload.is::<Dropped>() => {}
            outcome => drop(settle(cases, state, outcome)),
        }
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        go_on_with(Some(payload).filter(|payload| !payload.is::<Dropped>()));
    }
}

/// Suspends the computation of a handler until its clause, or somebody later, has an answer.
///
/// # Safety
///
/// `frame` is in place and that of a [`Base`], of a computation that the caller runs inside of. `clause` is one of its clauses, for `E`, and `call` the clause's function.
#[inline(always)]
pub(super) unsafe fn request<E: Effect>(
    frame: *const Frame,
    clause: *const (),
    call: *const (),
    effect: E,
) -> E::Output {
    let top = chain::top();
    let slot = Slot { base: RequestBase { fail: Slot::<E::Output>::fail }, answer: None };
    let mut request = ManuallyDrop::new(Request::<E> { slot, effect: ManuallyDrop::new(effect) });
    let address: *mut Request<E> = &raw mut *request;
    // SAFETY: by the contract the frame is a base, and it runs. The request stays in place while this is suspended; who owns the computation has access to it, and
    // nobody else before this goes on. A computation that is leaked never does. The answer is moved out once, and the effect is the clause's.
    unsafe {
        let base = &*frame.cast::<Base>();
        base.request.set(NonNull::new_unchecked(address).cast());
        base.clause.set(clause);
        base.call.set(call);
        base.turn.set(base.turn.get().wrapping_add(1));
        base.raw.get().assume_init().suspend();
        chain::set_top(top);
        match (&raw const (*address).slot.answer).read() {
            Some(Ok(value)) => value,
            Some(Err(payload)) => resume_unwind(payload),
            None => unreachable!("a computation is run on only with an answer"),
        }
    }
}
