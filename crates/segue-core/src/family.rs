//! The family: those fibers that one owner has to wait for.
//!
//! Used by scopes, which are the owners of theirs, and by runtimes, whose end cancels and joins theirs: the one that detached fibers belong to.
//!
//! # The idea
//!
//! A family counts its members: tasks from spawn to end, and one for its owner. The owner gives up its one at the end and waits for
//! the count to reach zero, shielded, since the members may borrow from the owner's frame. Whoever brings it to zero signals. As the owner cannot
//! leave before, the signal is the last touch of the family by a member. A worker may keep the membership of a runtime's fiber that has ended for the next
//! one that it makes: see `spare.rs`.
//!
//! Ordering: each `leave` releases and the last one acquires, so what all members did happens before the owner goes on.
#![allow(unsafe_code)] // Members and owner reach the family by its address.

use crate::async_task::Accept;
use crate::atomic::{AtomicUsize, Ordering};
use crate::cancel::{CancelToken, Reason};
use crate::context::Context;
use crate::fiber::WaitsFor;
use crate::job::Job;
use crate::lock::Lock;
use crate::scope::Builder;
use crate::spare;
use crate::task::{self, JoinHandle, Payload};
use crate::trigger::Trigger;
use std::sync::Arc;

/// The fibers that one owner has to wait for.
pub struct Family {
    context: Arc<Context>,
    live: AtomicUsize,
    done: Trigger,
    /// The first panic of a member; kept for the owner if it is one that re-raises.
    panic: Lock<Option<Payload>>,
    reraises: bool,
}

impl Family {
    /// The family of a runtime. Its members are detached: a panic stays with the one who panicked.
    #[must_use]
    pub fn detached() -> Self {
        Self::new(Context::root(), false)
    }

    /// The family of a runtime that its caller waits for: cancelled with the caller.
    ///
    /// # Safety
    /// It is completed, or dropped without members, inside of the contexts that the caller is in now, on the same thread.
    #[must_use]
    pub unsafe fn of_caller() -> Self {
        Self::new(Context::nested(), false)
    }

    /// The family of a scope that the caller enters: cancelled with the caller, and by a member's panic, which is kept for the caller.
    pub(crate) fn of_scope() -> Self {
        Self::new(Context::nested(), true)
    }

    fn new(context: Arc<Context>, reraises: bool) -> Self {
        Self { context, live: AtomicUsize::new(1), done: Trigger::new(), panic: Lock::new(None), reraises }
    }

    /// Runs `f` as the owner: inside of the family's context.
    pub fn enter_context<R>(&self, f: impl FnOnce() -> R) -> R {
        self.context.enter(f)
    }

    /// The right to cancel the family.
    pub fn token(&self) -> CancelToken {
        CancelToken::of(&self.context)
    }

    /// A job that belongs to this family, with a handle for its result.
    ///
    /// # Safety
    /// The family stays in place until [`complete`](Family::complete) has returned, which the caller will call, and what
    /// the closure and its result borrow lives until then.
    #[inline]
    pub unsafe fn job<F, T>(&self, given: Builder, closure: F) -> (Job, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises.
        unsafe { self.task(given, closure, self) }
    }

    /// # Safety
    /// As for [`job`](Family::job); and `detached`, to which what the closure detaches belongs, outlives the job.
    #[inline]
    pub(crate) unsafe fn task<F, T>(&self, given: Builder, closure: F, detached: *const Family) -> (Job, JoinHandle<T>)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: the family counts the task, and so it and its context outlive the job.
        let (job, task) = unsafe { task::new(closure, given, &*self.context, self, detached) };
        // SAFETY: this is the one handle of a new task.
        (job, unsafe { JoinHandle::new(task) })
    }

    /// As [`job`](Family::job), for a future.
    ///
    /// # Safety
    /// As for [`job`](Family::job).
    pub unsafe fn async_job<F>(
        &self,
        given: Builder,
        future: F,
        accept: Arc<dyn Accept>,
    ) -> (Job, JoinHandle<F::Output>)
    where
        F: Future + Send,
        F::Output: Send,
    {
        // SAFETY: as the caller promises.
        unsafe { self.async_task(given, future, accept, self) }
    }

    /// # Safety
    /// As for `task`.
    pub(crate) unsafe fn async_task<F>(
        &self,
        given: Builder,
        future: F,
        accept: Arc<dyn Accept>,
        detached: *const Family,
    ) -> (Job, JoinHandle<F::Output>)
    where
        F: Future + Send,
        F::Output: Send,
    {
        // SAFETY: the family counts the task, and so it and its context outlive the job.
        let (job, task) = unsafe { task::new_async(future, given, accept, &*self.context, self, detached) };
        // SAFETY: this is the one handle of a new task.
        (job, unsafe { JoinHandle::new(task) })
    }

    /// The context that its members run in.
    #[inline]
    pub(crate) fn context(&self) -> *const Context {
        Arc::as_ptr(&self.context)
    }

    /// Requests that its members stop.
    pub(crate) fn cancel(&self) {
        self.context.cancel(None);
    }

    /// The first panic of a member, for an owner that re-raises.
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        self.panic.lock().take()
    }

    #[inline]
    pub(crate) fn enter(&self) {
        if !spare::take(self) {
            self.live.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The last thing that a member does with its family.
    ///
    /// # Safety
    /// The family counts the caller, once for this call. It may be gone when this returns, hence the pointer.
    #[inline]
    pub(crate) unsafe fn leave(this: *const Self) {
        // SAFETY: the caller's membership keeps it in place, until it is kept or given up.
        if unsafe { (*this).reraises } || !spare::keep(this) {
            // SAFETY: as the caller promises.
            unsafe { Self::depart(this) };
        }
    }

    /// Gives up a membership.
    ///
    /// # Safety
    /// As for [`leave`](Family::leave).
    #[inline]
    pub(crate) unsafe fn depart(this: *const Self) {
        // SAFETY: the count, or the owner's wait for `done`, keeps it in place until the last line here has had its effect.
        unsafe {
            if (*this).live.fetch_sub(1, Ordering::AcqRel) == 1 {
                (*this).done.signal(0);
            }
        }
    }

    /// Takes note of a member's panic, and gives back what its handle is to report.
    #[cold]
    pub(crate) fn keep_panic(&self, payload: Payload) -> Payload {
        if !self.reraises {
            return payload;
        }
        let message = task::message(payload.as_ref()).to_owned();
        self.context.cancel(Some(Reason::new(format!("a fiber of the scope panicked: {message}"))));
        let mut kept = self.panic.lock();
        let superfluous = if kept.is_none() { kept.replace(payload) } else { Some(payload) };
        drop(kept);
        task::discard(superfluous);
        Box::new(message)
    }

    /// The owner's end: accepts no more, waits for every member, and leaves the tree. Neither cancellation nor a panic under way
    /// cuts it short.
    ///
    /// # Safety
    /// For the owner; called once, after which no member is made.
    #[track_caller]
    pub unsafe fn complete(&self) {
        spare::settle();
        if self.live.fetch_sub(1, Ordering::AcqRel) != 1 {
            self.done.wait_shielded(WaitsFor::new("the fibers of a scope"));
        }
        self.context.end();
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // In case that nobody has completed it: without members that is only to leave the tree.
        self.context.end();
    }
}

impl std::fmt::Debug for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Family").field("live", &self.live.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}
