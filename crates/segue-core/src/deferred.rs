//! Wakers that are called later: when the thread holds no lock of a context and owes nobody a resume.
//!
//! Used by whoever cancels or resumes several at once, and by the schedulers of tasks, to whom to wake is to call a waker.

use crate::atomic::local;
use crate::unwind::contain;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

local!(static DEFERRED: RefCell<VecDeque<Waker>> = RefCell::new(VecDeque::new()));
local!(static BATCHES: Cell<usize> = Cell::new(0));

/// Whoever has several waiters to resume, and calls [`wake_task`] for some, has this until all of them are resumed: until then the wakers wait.
///
/// A waker is foreign code, and may drop the task that it wakes (an executor's that was shut down does). If that task has a second waiter among those that are to be
/// resumed, its drop would wait for a resume that this very thread owes it.
pub(crate) struct Batch(());

impl Batch {
    pub(crate) fn new() -> Self {
        BATCHES.with(|batches| batches.set(batches.get() + 1));
        Self(())
    }
}

/// Whether this thread is resuming several waiters.
pub(crate) fn is_batched() -> bool {
    BATCHES.with(Cell::get) != 0
}

impl Drop for Batch {
    fn drop(&mut self) {
        BATCHES.with(|batches| batches.set(batches.get() - 1));
        call_deferred();
    }
}

/// Calls `waker` when the canceller on this thread has released its lock.
///
/// For the [`wake`](crate::Scheduler::wake) of schedulers that are hosted by foreign executors, and for [`Wake::Interrupt`](crate::Wake::Interrupt) only: a waker is foreign code, and
/// an interrupt comes under the lock of a context.
pub fn wake_after_interrupt(waker: Waker) {
    let mut waker = Some(waker);
    // In the destructors of a thread's local variables there is nowhere to keep it.
    let _ = DEFERRED.try_with(|deferred| deferred.borrow_mut().extend(waker.take()));
    waker.into_iter().for_each(call);
}

/// Calls `waker`, now or as soon as this thread has resumed all that it is about to resume. What it panics with stays inside.
///
/// For the [`wake`](crate::Scheduler::wake) of schedulers that are hosted by foreign executors, and for [`Wake::Resume`](crate::Wake::Resume).
#[inline]
pub fn wake_task(waker: Waker) {
    if BATCHES.with(Cell::get) == 0 { call(waker) } else { wake_after_interrupt(waker) }
}

pub(crate) fn call_deferred() {
    if BATCHES.with(Cell::get) != 0 {
        return;
    }
    // One at a time: each may cancel something, and come here again.
    let next = || DEFERRED.try_with(|deferred| deferred.borrow_mut().pop_front()).ok().flatten();
    std::iter::from_fn(next).for_each(call);
}

/// Calls a waker where nothing may unwind.
fn call(waker: Waker) {
    contain(|| waker.wake());
}
