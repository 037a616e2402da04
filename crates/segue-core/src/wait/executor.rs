//! Fibers that are tasks: the addition of their executor to the contract.
//!
//! Implemented by the hosts of fibers under foreign executors; used by waits for futures.
#![allow(unsafe_code)] // Unsafe to implement, as `Scheduler` is.

use crate::contract::fiber::Fiber;
use crate::primitives::impl_debug::impl_debug;
use crate::primitives::switch::Switch;
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::task::Waker;

/// Runs fibers inside of the polls of a task. A future that such a fiber waits for is polled as by
/// the task itself, with the task's waker.
///
/// A scheduler of such fibers implements this besides, and tells each fiber by
/// [`set_task`](Fiber::set_task).
///
/// # Safety
/// An implementation keeps clauses 21 and 22 of `docs/contract.md`.
pub unsafe trait Executor: Sync {
    /// The waker of the task that `fiber`, the running one, is: while one poll of the task lasts
    /// the same `Rc`, and afterwards as long as that one still wakes the task.
    ///
    /// # Safety
    /// As for [`pend`](Executor::pend).
    unsafe fn task_waker(&self, fiber: &Fiber) -> Rc<Waker>;

    /// Suspends the calling fiber until its task is polled again, for any reason: in the call, or
    /// by the returned switch.
    ///
    /// # Safety
    /// `fiber` is the calling one, and one of this executor's. The caller makes the switch at once.
    unsafe fn pend(&self, fiber: &Fiber) -> Option<Switch>;
}

/// The part behind the header of a fiber that is a task.
pub struct AsTask {
    executor: &'static dyn Executor,
    /// See [`has_waker`](AsTask::has_waker).
    waker: Cell<*const Waker>,
}

impl AsTask {
    /// For a fiber of this executor.
    pub fn new(executor: &'static dyn Executor) -> Self {
        Self { executor, waker: Cell::new(ptr::null()) }
    }

    /// Sets the answer of [`task_waker`](Executor::task_waker) until further notice, or by `None`
    /// none.
    ///
    /// # Safety
    /// For the executor, which keeps the waker until the next such call.
    #[inline]
    pub unsafe fn has_waker(&self, waker: Option<&Rc<Waker>>) {
        self.waker.set(waker.map_or(ptr::null(), Rc::as_ptr));
    }

    /// The waker, if the executor has said which.
    #[inline]
    pub(crate) fn waker(&self) -> Option<Rc<Waker>> {
        let waker = self.waker.get();
        if waker.is_null() {
            return None;
        }
        // SAFETY: the pointer was made by `as_ptr` of an `Rc` that the executor keeps.
        unsafe {
            Rc::increment_strong_count(waker);
            Some(Rc::from_raw(waker))
        }
    }

    /// Whether the waker is this one, by the executor's word.
    #[inline]
    pub(crate) fn is_woken_by(&self, waker: &Rc<Waker>) -> bool {
        ptr::eq(self.waker.get(), Rc::as_ptr(waker))
    }

    #[inline]
    pub(crate) fn executor(&self) -> &'static dyn Executor {
        self.executor
    }
}

impl_debug!([] AsTask);

impl Fiber {
    /// Makes the fiber a task.
    ///
    /// # Safety
    /// For the fiber's scheduler, before the fiber runs. The fiber is one of the executor's, and
    /// the target stays in place until its job has returned.
    pub unsafe fn set_task(&self, task: NonNull<AsTask>) {
        self.task.set(task.as_ptr().cast_const().cast());
    }

    /// The task of this fiber, if there is one.
    #[inline(always)]
    pub(crate) fn as_task(&self) -> Option<&AsTask> {
        // SAFETY: by the contract of `set_task` the task is in place while this fiber runs.
        unsafe { self.task.get().cast::<AsTask>().as_ref() }
    }
}
