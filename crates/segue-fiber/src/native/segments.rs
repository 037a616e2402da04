//! From stack to stack: the calls of a suspended coroutine, and the way to the stack below.
//!
//! Used by `coroutine` for those that are suspended, and by `watch` for the copies of a running
//! thread.
//!
//! # The idea
//!
//! A stack is unwound by itself, from registers to its first call. The stack below is not found by
//! unwinding but by the root: the slot's label leads there, and the root's link to the resumer,
//! which rests with the words for the start of an unwind. So a stack on which unwinding fails costs
//! no more than its own calls.
//!
//! ```text
//!   A rests at   on B's stack              on A's stack
//!   ---------->  calls of B's code         calls of A's code      here it ends: A's own link is
//!                B's root: link ---------> A's root               of its last resume, and stale
//! ```
//!
//! # The end of a trace
//!
//! A suspended coroutine's trace ends at its own root. Its link was true during its run. Those
//! between are captured: they run, as far as they know, and their links name stacks that belong to
//! the same trace.
//!
//! # The memory that is read
//!
//! Of a stack, the words from its stack pointer to its slot's top, which are all mapped as long as
//! a coroutine is on it; the label, which is below that top; and the root to which the label leads,
//! in the same slot. The slot is found from the address alone, in `registry`. A coroutine's slot is
//! neither freed nor given to another before its function has returned, and those in question have
//! not.

#![allow(unsafe_code)] // Reads stacks.

use super::registry::{self, Label};
use crate::backtrace::{Backtrace, StackOwner, StackTrace};
use crate::platform::Registers;
use crate::platform::unwind::unwind;
use segue_core::switch::{self, Resting, Root};

/// Where a coroutine is that does not run.
///
/// # Safety
///
/// A coroutine of this thread with this root rests there, or has returned if that is null, and
/// nobody resumes that coroutine meanwhile.
pub(super) unsafe fn of_resting(rests: Resting, root: *const Root) -> Backtrace {
    if rests.is_null() {
        return Backtrace::empty("it has returned");
    }
    let mut stacks = Vec::new();
    let mut rests = rests;
    // A coroutine rests on a stack of this crate's, and so do those that were captured along.
    while let Some(slot) = registry::find(rests.addr()) {
        // SAFETY: somebody rests there: by the contract, or as the link of one that is captured
        // says. So a coroutine is on the slot.
        let (registers, label) = unsafe { (Registers::resting(rests), slot.label()) };
        if stacks.is_empty() && switch::is_in_root(registers.instruction) {
            return Backtrace::empty("it has not started");
        }
        let (addresses, whole) = unwind(&registers, |address| {
            let inside =
                address >= rests.addr().max(slot.bottom) && address.checked_add(size_of::<usize>())? <= slot.top;
            // SAFETY: between the guard and its top a slot that is in use can be read. Nobody runs
            // on the stack, so that nobody writes. Code that runs there later was compiled to
            // expect such reads: its stack escapes into the assembly of the switch.
            inside.then(|| unsafe { (address as *const usize).read_unaligned() })
        });
        stacks.push(StackTrace::new(owner(&label), addresses, whole));
        if label.root.cast_const() == root {
            return Backtrace::new(stacks, None);
        }
        // SAFETY: the slot is not the last, so its coroutine is captured and counts as running, and
        // the link names its resumer, which rests since.
        rests = unsafe { (*label.root).link };
    }
    unreachable!("a coroutine that is suspended rests on its stack or on that of one inside of it");
}

/// The coroutine that has this label.
pub(super) fn owner(label: &Label) -> StackOwner {
    match label.id() {
        Some(id) => StackOwner::Coroutine { id, name: String::from_utf8_lossy(label.name()).into_owned() },
        None => StackOwner::Computation,
    }
}
