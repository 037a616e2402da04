//! The first step of every operation that can wait: a look for the caller's cancellation, and a
//! count, so that a fiber that never has to wait can't starve the others.
//!
//! Used by [`wait`](crate::wait), by structures with a fast way in front, and by I/O.
//!
//! A fiber may begin 128 operations in a turn. At the next one the fiber gives up its turn first,
//! holding nothing of the structure. To wait, to yield and to be made to yield begin a new count.
//! Operations that never wait (`try_x`, unlock, notify) don't count: they can't give up the turn.
//!
//! A task that awaits a source counts as well: the future wakes its task and is pending, once; see
//! `future.rs`. So a task that never has to wait starves nobody either, on any executor.
//!
//! The count is a cell in the fiber's header, which the look for cancellation reads anyway. For the
//! tasks that a thread polls without a fiber there is one cell in the thread, for all tasks: to
//! wake a task too often costs a poll. No other event begins a new count there, since a task may
//! begin a wait and give that up in the same turn. A wait of a plain thread has no count: the
//! system takes turns with threads.

use crate::contract::current;
use crate::contract::fiber::{Fiber, OPERATIONS};
use crate::primitives::atomic::local;
use crate::sim::preemption::preemption_point;
use crate::thread::here;
use crate::tree::cancelled::Cancelled;
use crate::tree::context::look;
use std::cell::Cell;

// How many operations the tasks that this thread polls without a fiber may begin, before one of
// them gives up its turn.
local!(static LEFT: Cell<u8> = Cell::new(OPERATIONS));

/// Fails if the caller was cancelled: for long computations. The check itself never waits. It is a
/// [preemption point](preemption_point), and so is every operation that can wait, each of which
/// begins with this check.
///
/// # Errors
/// [`Cancelled`] if the caller's cancellation was requested.
///
/// # Examples
///
/// ```
/// segue_core::check()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[inline]
pub fn check() -> Result<(), Cancelled> {
    preemption_point();
    look()
}

/// The first call of an operation that can wait, and has a fast way of its own in front of
/// [`wait`](crate::wait): fails if the caller was cancelled; and if the calling fiber has begun 128
/// such operations without waiting or yielding, lets other fibers run before the return.
///
/// A fiber that can't be suspended now, since this fiber panics or is being registered for another
/// wait, goes on. So does a plain thread.
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
    preemption_point();
    current::with_running(|fiber| {
        look()?;
        match fiber {
            Some(fiber) if !fiber.spend() => exhausted(fiber),
            _ => Ok(()),
        }
    })
}

/// Counts one more operation of the tasks that the calling thread polls without a fiber. If there
/// was none left, the answer is `false`, and a new count begins.
pub(crate) fn spend_of_thread() -> bool {
    LEFT.with(|left| match left.get().checked_sub(1) {
        Some(fewer) => {
            left.set(fewer);
            true
        }
        None => {
            left.set(OPERATIONS);
            false
        }
    })
}

/// Begins a new turn for the tasks that the calling thread polls without a fiber: for executors,
/// and for tests that poll by hand. A task that always finds something to do gives up its turn
/// after 128 operations, by waking itself.
pub fn begin_turn() {
    LEFT.with(|left| left.set(OPERATIONS));
}

impl Fiber {
    /// Takes one operation off the budget of this turn; answers whether there was one left.
    #[inline]
    #[must_use]
    pub(crate) fn spend(&self) -> bool {
        let left = self.budget.get();
        self.budget.set(left.saturating_sub(1));
        left != 0
    }

    /// Whether it may begin no further operation in this turn.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.budget.get() == 0
    }
}

/// Gives up the turn of a fiber that has begun 128 operations.
#[cold]
#[inline(never)]
pub(crate) fn exhausted(fiber: &Fiber) -> Result<(), Cancelled> {
    if fiber.must_not_suspend() {
        return Ok(());
    }
    here::give_up_turn(fiber);
    let _this_one = fiber.spend();
    // The fiber may have been cancelled meanwhile.
    check()
}
