//! The number of ops that may succeed in a row without waiting, so that a fiber that never has to wait can't starve the others.
//!
//! Used by `driver::run`, before each op.
//!
//! The count is the worker's and not the fiber's: it costs one thread-local cell, and bounds how long the worker stays away from its driver
//! whichever fibers the ops came from. A fiber that did one op may thus yield for another that did sixty; it loses a turn
//! and nothing else.

use segue_core::Cancelled;
use std::cell::Cell;

/// Ready ops in a row before a yield.
const READY_OPS: u32 = 64;

thread_local! {
    static LEFT: Cell<u32> = const { Cell::new(READY_OPS) };
}

/// Takes one op off the budget; with none left, lets others run first. Never switches on a plain thread.
#[inline]
pub(crate) fn spend() -> Result<(), Cancelled> {
    LEFT.with(|left| match left.get().checked_sub(1) {
        Some(rest) => {
            left.set(rest);
            Ok(())
        }
        None => {
            left.set(READY_OPS);
            if segue_core::in_fiber() { segue_core::yield_now() } else { Ok(()) }
        }
    })
}

/// The caller is about to suspend, which gives up the turn by itself.
#[inline]
pub(crate) fn refill() {
    LEFT.with(|left| left.set(READY_OPS));
}
