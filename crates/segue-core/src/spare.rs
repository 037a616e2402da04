//! A membership that its task no longer needs, kept for the next one that this thread makes.
//!
//! Used by [`Family`], and by worker loops, which switch it on.
//!
//! # The idea
//!
//! To enter a family and to leave it are atomic additions to one counter, and most fibers of a runtime are made and end on the same worker.
//! So a task that ends may leave its membership behind, in a slot of the thread, and the next that is spawned there takes it over: the
//! counter still counts somebody, only not who. The slot holds one membership.
//!
//! A kept membership keeps its owner waiting. So a thread keeps them only between [`keep_memberships`]`(true)` and `(false)`, and gives one up by
//! [`settle`] whenever it has nothing else to do; what it runs until then are members themselves, or work that the owner waits for. Only families of
//! runtimes are kept: their owners wait for the runtime to run dry. A scope's owner goes on as soon as its last fiber has ended.
//!
//! What holds: the slot has a family's address only while that family counts this thread once more than it has members. So the
//! family is in place, and who finds its address there has found that family and not another one in the same place.
//!
//! Ordering: the next task is made by the thread on which the last one ended, so its leaving releases what that one did, too.
#![allow(unsafe_code)] // A family is left by its address.

use crate::atomic::local;
use crate::scope::Family;
use std::cell::Cell;
use std::ptr;

/// In the slot: nothing is kept, and nothing will be.
const OFF: *const Family = ptr::without_provenance(1);

local!(static SPARE: Cell<*const Family> = Cell::new(OFF));

/// Takes a membership of `family`, if one is kept.
#[inline]
pub(crate) fn take(family: &Family) -> bool {
    SPARE.with(|spare| {
        let found = ptr::eq(spare.get(), family);
        if found {
            spare.set(ptr::null());
        }
        found
    })
}

/// Keeps a membership, if there is room. The caller has one, and has it no longer if the answer is `true`.
#[inline]
pub(crate) fn keep(family: *const Family) -> bool {
    SPARE.with(|spare| {
        let room = spare.get().is_null();
        if room {
            spare.set(family);
        }
        room
    })
}

/// Gives up what the thread keeps for the fibers that it will make. Answers whether there was something: then a fiber may have become
/// ready.
///
/// For worker loops, when there is nothing to run and before they sleep.
#[inline]
pub fn settle() -> bool {
    let kept = SPARE.with(|spare| {
        let kept = spare.get();
        if kept.is_null() || kept == OFF {
            return ptr::null();
        }
        spare.set(ptr::null());
        kept
    });
    if !kept.is_null() {
        // SAFETY: the family counts what was kept.
        unsafe { Family::depart(kept) };
    }
    !kept.is_null()
}

/// Allows this thread to keep the membership of a fiber that has ended for the next, or forbids it, and gives back what was. Either way it
/// [settles](settle) first.
///
/// For worker loops: allowed at their beginning, and put back at their end. While it is allowed they call [`settle`] before they sleep; if they
/// did not, the end of a runtime might never come.
pub fn keep_memberships(allowed: bool) -> bool {
    settle();
    let before = SPARE.with(|spare| spare.replace(if allowed { ptr::null() } else { OFF }));
    before != OFF
}
