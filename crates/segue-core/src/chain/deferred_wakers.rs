//! Wakers that are called later: when the thread holds no lock of a context and owes nobody a
//! resume.
//!
//! Used by code that cancels or resumes several at once, and by the schedulers of tasks, which wake
//! by calling a waker.
//!
//! # Wakers that call wakers
//!
//! A waker may fill a promise, and the waker of the task that awaits this may fill the next.
//! [`DEEPEST`] of them are called inside of each other. Wakers further in are kept, and the call at
//! that depth makes their calls, one after the other, as soon as its own waker has returned: so a
//! chain of any length takes a bounded stack.
//!
//! The depth is that of one stack, so the depth counts for the fiber (or thread) that makes the
//! calls, and for no other.
//!
//! **The race to fear**: the waker at that depth waits, for a wake-up that it has kept. Therefore a
//! wait first calls the kept wakers ([`let_go`]), and so does a worker loop that a waker runs
//! ([`afresh`]). So nothing is kept while other code has the thread.

use crate::chain::unwind::contain;
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::primitives::at_end::at_end;
use crate::primitives::atomic::{local, local_with_destructor};
use crate::primitives::prefetch::prefetch;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ptr;
use std::task::Waker;

local_with_destructor!(static DEFERRED: RefCell<VecDeque<Waker>> = RefCell::new(VecDeque::new()));
local!(static BATCHES: Cell<usize> = Cell::new(0));
local!(static CALLS: Cell<Calls> = Cell::new(Calls { by: ptr::null(), depth: 0 }));

/// How many wakers are called inside of each other.
const DEEPEST: u32 = 8;

/// The wakers that are being called inside of each other on this thread, by the fiber that made the
/// last such call.
#[derive(Clone, Copy)]
struct Calls {
    /// Null for the thread itself.
    by: *const Fiber,
    depth: u32,
}

/// The wakers that the caller is inside of.
#[inline]
fn depth() -> u32 {
    let calls = CALLS.with(Cell::get);
    if ptr::eq(calls.by, current::current()) { calls.depth } else { 0 }
}

/// Says how many wakers the caller is inside of.
#[inline]
fn set_depth(depth: u32) {
    CALLS.with(|calls| calls.set(Calls { by: current::current(), depth }));
}

/// A resumer of several waiters that calls [`wake_task`] for some holds this until all of them are
/// resumed: until then the wakers wait.
///
/// A waker is foreign code, and may drop the woken task (an executor's that was shut down does). If
/// that task has a second waiter in the same batch, its drop would wait for a resume that this very
/// thread owes.
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
/// For the [`wake`](crate::scheduling::Scheduler::wake) of schedulers that are hosted by foreign
/// executors, and for [`Wake::Interrupt`](crate::scheduling::Wake::Interrupt) only: a waker is
/// foreign code, and an interrupt comes under the lock of a context.
pub fn wake_after_interrupt(waker: Waker) {
    let mut waker = Some(waker);
    // In the destructors of a thread's local variables there is no place to keep a waker.
    let _ = DEFERRED.try_with(|deferred| deferred.borrow_mut().extend(waker.take()));
    waker.into_iter().for_each(call);
}

/// Calls `waker`: now; or, if this thread is about to resume several, after that; or, if the caller
/// is inside of many wakers, as soon as the innermost has returned or waits. Its panic stays
/// inside.
///
/// For the [`wake`](crate::scheduling::Scheduler::wake) of schedulers that are hosted by foreign
/// executors, and for [`Wake::Resume`](crate::scheduling::Wake::Resume).
#[inline]
pub fn wake_task(waker: Waker) {
    if BATCHES.with(Cell::get) == 0 && depth() < DEEPEST {
        call(waker);
    } else {
        // The call as a rule touches the target of the waker first.
        prefetch(waker.data());
        wake_after_interrupt(waker);
    }
}

pub(crate) fn call_deferred() {
    if BATCHES.with(Cell::get) == 0 && depth() < DEEPEST {
        // One at a time: each may cancel something, and come here again.
        std::iter::from_fn(next).for_each(call);
    }
}

fn next() -> Option<Waker> {
    DEFERRED.try_with(|deferred| deferred.borrow_mut().pop_front()).ok().flatten()
}

/// Calls a waker where nothing may unwind, and the kept ones too at the deepest call.
fn call(waker: Waker) {
    let outside = depth();
    let mut waker = Some(waker);
    while let Some(called) = waker {
        set_depth(outside + 1);
        contain(|| called.wake());
        // Others that have had the thread meanwhile have left their own depth.
        set_depth(outside);
        waker = if outside + 1 < DEEPEST { None } else { next() };
    }
}

/// To be called before the caller gives the thread to others, or blocks: the caller may be inside
/// of a waker, and nobody else calls the wakers that this one keeps. Answers whether wakers may
/// have been called.
#[inline]
pub(crate) fn let_go() -> bool {
    CALLS.with(Cell::get).depth != 0 && call_kept()
}

#[cold]
#[inline(never)]
fn call_kept() -> bool {
    let outside = depth();
    let calls = outside != 0 && BATCHES.with(Cell::get) == 0;
    if calls {
        // Deeper than any: those that they wake are kept in their turn.
        set_depth(DEEPEST - 1);
        std::iter::from_fn(next).for_each(call);
        set_depth(outside);
    }
    calls
}

/// Runs `f` as outside of all wakers. For worker loops, which a waker may start: the wakers that
/// this one keeps are called first.
pub fn afresh<R>(f: impl FnOnce() -> R) -> R {
    let_go();
    let outside = depth();
    let _restore = at_end(|| set_depth(outside));
    set_depth(0);
    f()
}
