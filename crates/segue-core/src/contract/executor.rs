//! Fibers that are tasks: what an executor that runs some adds to the contract.
//!
//! Implemented by the hosts of fibers under foreign executors; used by waits for futures.
#![allow(unsafe_code)] // Unsafe to implement, as `Scheduler` is.

use crate::contract::fiber::Fiber;
use crate::primitives::switch::Switch;
use std::rc::Rc;
use std::task::Waker;

/// Runs fibers inside of the polls of a task. A future that such a fiber waits for is polled as if
/// the task itself polled it, with the task's waker.
///
/// A scheduler of such fibers implements it besides, and tells each fiber of it by
/// [`set_executor`](Fiber::set_executor).
///
/// # Safety
/// An implementation keeps clauses 21 and 22 of `docs/contract.md`.
pub unsafe trait Executor: Sync {
    /// The waker of the task that `fiber`, the running one, is: while one poll of the task lasts
    /// the same `Rc`, and after that as long as it still wakes the task.
    ///
    /// # Safety
    /// As for [`pend`](Executor::pend).
    unsafe fn task_waker(&self, fiber: &Fiber) -> Rc<Waker>;

    /// Suspends the calling fiber until its task is polled again, for whatever reason: in the call,
    /// or by the switch that it answers with.
    ///
    /// # Safety
    /// `fiber` is the calling one, and one of this executor's. The caller makes the switch at once.
    unsafe fn pend(&self, fiber: &Fiber) -> Option<Switch>;
}

impl Fiber {
    /// Says that it is a task, of `executor`.
    ///
    /// # Safety
    /// For the fiber's scheduler, before the fiber runs. The fiber is one of the executor's.
    pub unsafe fn set_executor(&self, executor: &'static &'static dyn Executor) {
        self.executor.set(Some(executor));
    }

    #[inline]
    pub(crate) fn executor(&self) -> Option<&'static dyn Executor> {
        self.executor.get().copied()
    }
}
