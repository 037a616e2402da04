//! What every operation that can wait does first: it looks whether its caller was cancelled, and counts, so that a fiber that never has to wait can't starve the others.
//!
//! Used by [`wait`](crate::wait), by the structures whose fast way comes before it, and by I/O.
//!
//! A fiber may begin [`OPERATIONS`] operations in a turn. At the next one it gives up its turn first, when it holds nothing of what the operation is about. To wait, to yield and to
//! be made to yield begin a new count. Operations that never wait (`try_x`, unlock, notify) don't count: they can't give up the turn.
//!
//! The count is a cell in the fiber's header, which the look for cancellation reads anyway. Plain threads have none: the system takes turns with them.
#![allow(unsafe_code)] // Yields through the contract.

use crate::cancel::{self, Cancelled};
use crate::fiber::{self, Fiber};

/// How many operations that need not wait a fiber may begin in one turn.
pub(crate) const OPERATIONS: u32 = 128;

/// To be called first by an operation that can wait, and has a fast way of its own before [`wait`](crate::wait): fails if the caller was cancelled; and if the calling fiber has begun
/// 128 such operations without waiting or yielding, lets other fibers run before it returns.
///
/// A fiber that can't be suspended now, since it panics or is being registered for another wait, goes on. So does a plain thread.
///
/// # Cancellation
/// *No effect*: the operation has not begun.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Examples
///
/// ```
/// use segue_core::{Cancelled, admit};
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// /// A lock with nothing but a fast way.
/// fn lock(word: &AtomicBool, slow: impl Fn() -> Result<(), Cancelled>) -> Result<(), Cancelled> {
///     admit()?;
///     if word.swap(true, Ordering::Acquire) { slow() } else { Ok(()) }
/// }
/// assert_eq!(lock(&AtomicBool::new(false), || unreachable!()), Ok(()));
/// ```
#[inline]
pub fn admit() -> Result<(), Cancelled> {
    cancel::check()?;
    match fiber::running() {
        Some(fiber) if !fiber.spend() => exhausted(fiber),
        _ => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn exhausted(fiber: &Fiber) -> Result<(), Cancelled> {
    if fiber.must_not_suspend() {
        return Ok(());
    }
    // SAFETY: it is the calling one.
    unsafe { fiber.scheduler().yield_now(fiber) };
    fiber.refill();
    let _this_one = fiber.spend();
    // It may have been cancelled meanwhile.
    cancel::check()
}
