//! What is known of a handled computation without its types: its state, its owners, and where its
//! parts are.
//!
//! Used by all that has a computation by address: `computation` makes these, `request` and
//! `trampoline` run them, `held` ends them.
//!
//! # States
//!
//! ```text
//!   Running --perform--> Suspended --resume, discontinue, drop--> Running --the body returns or panics--> Over
//! ```
//!
//! One that was not run yet counts as Running; nobody but its maker has it then. Nothing keeps the
//! state itself: a computation is suspended while it has a request, and over when its coroutine is.
//!
//! A computation that is suspended has one owner: a continuation, or a `Next` with its answer
//! given. It is made by the clause's caller and consumed by `run`. So a computation is resumed at
//! most once for each perform, and no clause of a handler is entered while its computation runs.
//!
//! A computation that another one has captured counts as running: it is inside of a `step`, on a
//! stack that does not run.
//!
//! # What keeps it in place
//!
//! The clauses lie with the computation and may outlive it: a clause may drop or use up its
//! continuation, and with that end the computation, while it runs itself. So the block is counted:
//! one for the computation until it is over, one for a `handle` that has to see to its end, and so
//! outlives its clauses, one for each clause that runs without such a `handle`, one for a
//! continuation that was revoked. What was forgotten stays for ever, as does its stack.

#![allow(unsafe_code)] // Computations are reached by address, from whichever stack runs.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use super::clauses::Entries;
use super::request::Asked;
use crate::host::RawCoroutine;
use crate::region::Kept;
use segue_core::chain::Frame;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    Suspended,
    Over,
}

/// What is known of a computation without its types. `repr(C)`: the frame comes first, so that the
/// frame of a clause that captures is a `Base`.
#[repr(C)]
pub(super) struct Base {
    pub frame: Frame,
    pub raw: Cell<MaybeUninit<RawCoroutine>>,
    /// While it is suspended, what it waits for.
    pub request: Cell<Option<Asked>>,
    /// Whether what the computation borrows may end: then it must not be leaked.
    pub borrows: bool,
    /// How often the right to go on was revoked. Its owner knows what that was when it became the
    /// owner, and is owner no more when it has changed.
    pub revoked: Cell<usize>,
    pub owners: Cell<usize>,
    pub kept: Kept,
    pub kind: Cell<&'static Kind>,
}

/// What is known of all computations of the same types.
pub(super) struct Kind {
    /// When the body has ended: takes value and cases out of the computation, and yields the
    /// result: an [`End`].
    pub end: *const (),
    /// Runs a suspended computation that has its answer, and drops the result.
    pub abandon: unsafe fn(NonNull<Base>),
    pub free: unsafe fn(NonNull<Base>),
}

pub(super) type End<R> = unsafe fn(NonNull<Base>) -> R;

impl Base {
    /// Of a computation that was not run yet. It is to be told where its coroutine and its parts
    /// are.
    ///
    /// All of this is written for each handled call: what can wait until it is needed, or be said
    /// once for all, is not here.
    #[inline(always)]
    pub fn new(clauses: Entries, borrows: bool, kind: &'static Kind) -> Base {
        Base {
            frame: Frame::new(clauses.address(), ptr::null()),
            raw: Cell::new(MaybeUninit::uninit()),
            request: Cell::new(None),
            borrows,
            revoked: Cell::new(0),
            // The computation, and each owner that gets it from its maker.
            owners: Cell::new(2),
            kept: Kept::new(),
            kind: Cell::new(kind),
        }
    }

    /// # Safety
    ///
    /// It was told where its coroutine is.
    #[inline]
    pub unsafe fn state(&self) -> State {
        if self.request.get().is_some() {
            return State::Suspended;
        }
        // SAFETY: by the contract. It is neither dropped nor finished, as the block is in place.
        let has_returned = unsafe { self.raw.get().assume_init().has_returned() };
        if has_returned { State::Over } else { State::Running }
    }

    /// Takes the handler out of use: no perform finds its clauses, and its cases are not called.
    #[cold]
    pub fn seal(&self) {
        self.frame.seal();
    }

    /// Whether the handler is out of use. One without clauses has no computation.
    #[inline]
    pub fn is_sealed(&self) -> bool {
        self.frame.clauses().is_null()
    }
}

/// One of the owners that keep a computation in place.
pub(super) struct Owner(NonNull<Base>);

impl Owner {
    /// # Safety
    ///
    /// The computation is in place.
    #[inline]
    pub unsafe fn of(base: NonNull<Base>) -> Owner {
        // SAFETY: by the contract.
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
pub(super) unsafe fn release(base: NonNull<Base>) {
    // SAFETY: by the contract.
    unsafe {
        let owners = &base.as_ref().owners;
        owners.set(owners.get() - 1);
        if owners.get() == 0 {
            (base.as_ref().kind.get().free)(base);
        }
    }
}

/// The handler's state.
///
/// # Safety
///
/// The computation is suspended, its state is an `S`, and the caller owns it.
#[inline]
pub(super) unsafe fn state<'s, S>(base: NonNull<Base>) -> &'s mut S {
    // SAFETY: by the contract. Clauses that answer get a reference too, but only while the
    // computation runs. If a region makes it run while this reference is in use, it is sealed
    // before.
    unsafe {
        let this = base.as_ref();
        this.request.get().unwrap_unchecked().as_ref().lend();
        &mut *this.frame.state()
    }
}
