//! A region: a block of code that ends the computations suspended inside, before its own end.
//!
//! Used by applications for generators that borrow, and for continuations that borrow and are kept;
//! `generator` and `effect` enter into its list the computations that have to end.
//!
//! # Why
//!
//! A suspended computation holds frames, and frames may rely on being left: `std::thread::scope`
//! lends its caller's borrowed data to other threads, and takes them back at its return. If the
//! computation could be forgotten and the borrowed data ended, these threads would go on with those
//! data. So a value that stands for a computation can't be trusted to be dropped. The frame of a
//! function can: `region` returns when all computations suspended inside have ended.
//! `std::thread::scope` does the same for threads.
//!
//! # The end of a region
//!
//! The list has each computation from its making to its end. At the region's end nobody can use the
//! values that stand for computations any more, as all of them are good for `'r` only. So those
//! that are suspended are ended by unwinding them, one after the other. Computations that count as
//! running are captured by another one, which is suspended: they end along with that one. Values
//! that stand for a computation may lie on the stacks of others; they are told apart from those
//! that were forgotten by being dropped on the way, which has to do nothing then: see [`Kept`].

#![allow(unsafe_code)] // What is in the list is reached by address.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use crate::effect::Handler;
use crate::effect::clauses::Stored;
use crate::generator::{Generator, Yielder};
use segue_core::unwind::abort;

/// Runs `body`, which may suspend computations that borrow in its [`Region`], and ends those that
/// are left.
///
/// ```
/// use segue_fiber::{Yielder, region};
///
/// let words = vec!["a", "suspended", "computation"];
/// let total = region(|region| {
///     let lengths = region.generator(|y: &Yielder<usize>| words.iter().for_each(|word| y.give(word.len())));
///     lengths.take(2).sum::<usize>()
/// });
/// assert_eq!(total, 10);
/// ```
///
/// # Panics
///
/// With the panic that leaves `body`, or the destructors of bodies that are unwound at the end.
pub fn region<'env, T>(body: impl for<'r> FnOnce(&'r Region<'r, 'env>) -> T) -> T {
    let region = Region { first: Cell::new(ptr::null()), _lives: PhantomData, _borrows: PhantomData };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&region)));
    let panic = region.end();
    match (outcome, panic) {
        (Ok(value), None) => value,
        (Err(payload), _) | (Ok(_), Some(payload)) => resume_unwind(payload),
    }
}

/// A block of code that ends the computations suspended inside. Made by [`region()`].
///
/// A suspended computation may borrow data outside of the block (`'env`), and other things that
/// outlive the block's body. The value that stands for a computation stays in the block:
///
/// ```compile_fail
/// let escaped = segue_fiber::region(|region| region.generator(|y: &segue_fiber::Yielder<u32>| y.give(1)));
/// ```
///
/// ```compile_fail,E0373
/// segue_fiber::region(|region| {
///     let inside = 5;
///     region.generator(|y: &segue_fiber::Yielder<u32>| y.give(inside)).next();
/// });
/// ```
pub struct Region<'r, 'env: 'r> {
    first: Cell<*const Kept>,
    /// Neither longer nor shorter, as in `std::thread::Scope`.
    _lives: PhantomData<&'r mut &'r ()>,
    _borrows: PhantomData<&'env mut &'env ()>,
}

impl<'r> Region<'r, '_> {
    /// As [`generator`](crate::generator()), and may borrow.
    ///
    /// # Panics
    ///
    /// Without a stack for the body.
    #[inline]
    pub fn generator<T: 'r, F: FnOnce(&Yielder<T>) + 'r>(&'r self, body: F) -> Generator<'r, T> {
        // SAFETY: the borrowed data outlive the region, in which the body is entered.
        unsafe { Generator::new(body, Some(self.list()), None) }
    }

    /// As [`generator_with_stack`](crate::generator_with_stack), and may borrow.
    ///
    /// # Panics
    ///
    /// Without a stack for the body, or for such a size.
    pub fn generator_with_stack<T: 'r, F: FnOnce(&Yielder<T>) + 'r>(
        &'r self,
        bytes: usize,
        body: F,
    ) -> Generator<'r, T> {
        // SAFETY: the borrowed data outlive the region, in which the body is entered.
        unsafe { Generator::new(body, Some(self.list()), Some(bytes)) }
    }

    /// As [`Handler::stored`], and may borrow: its continuations may be kept in this region.
    #[inline]
    pub fn handler<R>(&'r self) -> Handler<Stored<'r>, R> {
        self.handler_with_state(())
    }

    /// As [`handler`](Self::handler), with a state that the clauses share.
    #[inline]
    pub fn handler_with_state<R, S>(&'r self, state: S) -> Handler<Stored<'r>, R, S> {
        Handler::kept(state, Some(self.list()))
    }

    pub(crate) fn list(&'r self) -> List<'r> {
        List(&self.first)
    }

    /// Ends the suspended computations, and returns their panic.
    fn end(&self) -> Option<Box<dyn Any + Send>> {
        let mut panic = None;
        while !self.first.get().is_null() {
            let mut next = self.first.get();
            loop {
                let kept = next;
                // SAFETY: the entries of the list are in place.
                let Some(this) = (unsafe { kept.as_ref() }) else {
                    // All are captured, but there is nobody left that could have captured them.
                    abort("a region ends while a computation in it runs, which can't be; aborting");
                };
                next = this.next.get();
                // SAFETY: the computation was entered.
                let end = unsafe { this.end.get().assume_init() };
                // SAFETY: the computation is in place, and the value that stands for it is not used
                // any more other than to be dropped. Not the address of the reference, which is
                // good for less.
                match catch_unwind(AssertUnwindSafe(|| unsafe { end(kept) })) {
                    Ok(false) => {}
                    Ok(true) => break,
                    Err(payload) => {
                        // The first one is told of; the drop of another may panic.
                        if let Some(other) = panic.replace(payload) {
                            mem::forget(panic.replace(other));
                        }
                        break;
                    }
                }
            }
        }
        panic
    }
}

segue_core::impl_debug!([] Region<'_, '_>);

/// A region's list, for the computations to enter.
#[derive(Clone, Copy)]
pub struct List<'r>(&'r Cell<*const Kept>);

/// A computation's place in a region's list. `repr(C)` structures with such a place at their start
/// find themselves by its address.
pub(crate) struct Kept {
    /// The pointer to this place: in the one before, or in the list. Null outside of a list.
    link: Cell<*const Cell<*const Kept>>,
    next: Cell<*const Kept>,
    /// Set at the entry.
    end: Cell<MaybeUninit<End>>,
}

/// Ends a suspended computation, and takes the right to go on from the value that stands for it;
/// answers `false` for a captured one.
pub(crate) type End = unsafe fn(*const Kept) -> bool;

impl Kept {
    #[inline]
    pub fn new() -> Kept {
        Kept { link: Cell::new(ptr::null()), next: Cell::new(ptr::null()), end: Cell::new(MaybeUninit::uninit()) }
    }

    /// Enters the computation, at its final place.
    ///
    /// # Safety
    ///
    /// `this` is valid until [`leave`](Self::leave), and for `end` to find the whole.
    #[inline]
    pub unsafe fn enter(this: *const Kept, list: List<'_>, end: End) {
        // SAFETY: by the contract, which those in the list have kept.
        unsafe {
            (*this).end.set(MaybeUninit::new(end));
            let next = list.0.replace(this);
            if let Some(next) = next.as_ref() {
                next.link.set(&raw const (*this).next);
            }
            (*this).next.set(next);
            (*this).link.set(list.0);
        }
    }

    /// Takes the computation out of its list, if there is one.
    #[inline]
    pub fn leave(&self) {
        // SAFETY: the pointer to this place is in place, and so is the next one.
        unsafe {
            let Some(link) = self.link.get().as_ref() else { return };
            self.link.set(ptr::null());
            link.set(self.next.get());
            if let Some(next) = self.next.get().as_ref() {
                next.link.set(link);
            }
        }
    }
}
