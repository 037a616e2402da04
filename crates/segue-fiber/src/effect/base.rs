//! The part of a handled computation without its types: its state, its owners, and the places of
//! its parts.
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
//! One that was not run yet counts as Running; nobody but its maker has that one then. Nothing
//! keeps the state itself: a computation is suspended while it has a request, and over when its
//! coroutine has returned.
//!
//! A computation that is suspended has one owner: a continuation, or a `Next` with its answer
//! given. The clause's caller makes the owner and `run` consumes it. So a computation is resumed at
//! most once for each perform, and no clause of a handler is entered while its computation runs.
//!
//! A captured computation counts as running: inside of a `step`, on a stack that does not run.
//!
//! # The count of owners
//!
//! The clauses lie with the computation and may outlive it: a clause may drop or use up its
//! continuation, and so end the computation, during its own run. So the block is counted: one for
//! the computation until its end, one for a `handle` that has to see to that end, and so outlives
//! its clauses, one for each clause that runs without such a `handle`, one for a continuation that
//! was revoked. A forgotten block stays for ever, as does its stack.

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

/// The part of a computation without its types. `repr(C)`: the frame comes first, so that the frame
/// of a clause that captures is a `Base`.
#[repr(C)]
pub(super) struct Base {
    pub frame: Frame,
    pub raw: Cell<MaybeUninit<RawCoroutine>>,
    /// The request of a suspended computation.
    pub request: Cell<Option<Asked>>,
    /// Whether the computation's borrowed data may end: then a leak is forbidden.
    pub borrows: bool,
    /// How often the right to go on was revoked. Each owner notes this count at its beginning, and
    /// is owner no more when the count has changed.
    pub revoked: Cell<usize>,
    pub owners: Cell<usize>,
    pub kept: Kept,
    pub kind: Cell<&'static Kind>,
}

/// The part common to all computations of the same types.
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
    /// Of a computation that was not run yet. Its coroutine and its parts are still to be set.
    ///
    /// All of this is written for each handled call: fields that can wait until their use, or be
    /// set once for all, are not here.
    #[inline(always)]
    pub fn new(clauses: Entries, borrows: bool, kind: &'static Kind) -> Base {
        Base {
            frame: Frame::new(clauses.address(), ptr::null()),
            raw: Cell::new(MaybeUninit::uninit()),
            request: Cell::new(None),
            borrows,
            revoked: Cell::new(0),
            // The computation, and each owner that gets the block from its maker.
            owners: Cell::new(2),
            kept: Kept::new(),
            kind: Cell::new(kind),
        }
    }

    /// # Safety
    ///
    /// The coroutine was set.
    #[inline]
    pub unsafe fn state(&self) -> State {
        if self.request.get().is_some() {
            return State::Suspended;
        }
        // SAFETY: by the contract. The block is neither dropped nor finished, as it is in place.
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
        // SAFETY: an `Owner` is one of the counted owners, and this one ends here.
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
/// The computation is suspended, its state is an `S`, and the caller owns the computation.
#[inline]
pub(super) unsafe fn state<'s, S>(base: NonNull<Base>) -> &'s mut S {
    // SAFETY: by the contract. Clauses that answer get a reference too, but only while the
    // computation runs. If a region makes the computation run while this reference is in use, the
    // region seals the computation before.
    unsafe {
        let this = base.as_ref();
        this.request.get().unwrap_unchecked().as_ref().lend();
        &mut *this.frame.state()
    }
}
