//! The attempts that are under way on a thread, by their fibers.
//!
//! Used by transactions inside of a body, which are a part of the one around.
#![allow(unsafe_code)] // Attempts are reached by address.

use crate::plain_thread_local;
use crate::tx::Tx;
use segue_core::Fiber;
use segue_core::scheduling::current;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// An attempt with a body that runs.
struct Open {
    /// The fiber of the body; null for a plain thread.
    owner: *const Fiber,
    attempt: NonNull<Tx<'static>>,
    outer: Cell<*const Self>,
}

plain_thread_local! {
    /// The attempts of this thread: one, but in a simulation, which interrupts them.
    static OPEN: Cell<*const Open> = Cell::new(ptr::null());
}

/// Runs `f` with the attempt around, if the caller is inside of the body of one.
#[inline]
pub(crate) fn with_outer<R>(f: impl FnOnce(&Tx<'static>) -> R) -> Option<R> {
    let first = OPEN.with(Cell::get);
    if first.is_null() {
        return None;
    }
    let attempt = find(first)?;
    // SAFETY: the attempt is that of the body which calls this, and so stays until `f` has
    // returned. Its lifetime is the body's choice: `f` hands the attempt on to code that takes any.
    Some(f(unsafe { attempt.as_ref() }))
}

#[cold]
fn find(mut at: *const Open) -> Option<NonNull<Tx<'static>>> {
    let caller = current();
    // SAFETY: an attempt leaves the list before its frame goes.
    while let Some(open) = unsafe { at.as_ref() } {
        if open.owner == caller {
            return Some(open.attempt);
        }
        at = open.outer.get();
    }
    None
}

/// Runs `f`, the body of this attempt.
#[inline]
pub(crate) fn during<R>(attempt: &Tx<'_>, f: impl FnOnce() -> R) -> R {
    let attempt = NonNull::from(attempt).cast();
    let open = Open { owner: current(), attempt, outer: Cell::new(OPEN.with(Cell::get)) };
    OPEN.with(|first| first.set(&raw const open));
    let _leave = Leave(&open);
    f()
}

struct Leave<'a>(&'a Open);

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        let (own, outer) = (ptr::from_ref(self.0), self.0.outer.get());
        if OPEN.with(Cell::get) == own {
            return OPEN.with(|first| first.set(outer));
        }
        // Attempts that have begun later, in a simulation, stand in front.
        let mut at = OPEN.with(Cell::get);
        // SAFETY: as in `find`; this attempt is in the list.
        while let Some(open) = unsafe { at.as_ref() } {
            at = open.outer.get();
            if at == own {
                open.outer.set(outer);
            }
        }
    }
}
