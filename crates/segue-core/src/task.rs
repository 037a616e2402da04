//! A spawned closure and its handle: one allocation that two owners share, the job and the [`JoinHandle`].
//!
//! Used by `spawn` and by scopes; schedulers see only the [`Job`].
//!
//! # Who frees it
//!
//! The trigger `done` decides, so that no count is needed. The job signals it when the result is in place; the handle cancels it when it is
//! dropped, or when its wait is cancelled. One of the two succeeds. If the signal does, the handle reads the result and frees;
//! if the cancel does, the job frees. The loser does not touch the task again.
//!
//! | `done` | the job, at its end | the handle |
//! | --- | --- | --- |
//! | INITIAL | claims it: the handle frees | drop: cancels it: the job frees |
//! | WAITING, or linked to the trigger of a choice | claims it, resumes the joiner, which frees | is waiting |
//! | TAKEN | has ended | reads the result, frees |
//! | CANCELLED | its claim fails: drops the result, frees | gone |
#![allow(unsafe_code)] // One allocation behind two thin pointers.

use crate::async_task::{Accept, AsyncTask, Polls};
use crate::cancel::Cancelled;
use crate::context::Context;
use crate::family::Family;
use crate::fiber::{self, Fiber, WaitsFor};
use crate::future::SourceFuture;
use crate::job::{Job, JobHeader, Work};
use crate::link::Link;
use crate::preempt::preemption_point;
use crate::scope::Builder;
use crate::source::{Source, Waitable};
use crate::spare;
use crate::trigger::{Outcome, Trigger};
use crate::unwind::contain;
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::Arc;

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Why there is no result.
#[derive(Debug)]
pub enum JoinError {
    /// The wait was cancelled, or the fiber was cancelled before it started.
    Cancelled(Cancelled),
    /// The fiber panicked. Inside a scope the scope keeps the payload, and this one is the message.
    Panicked(Box<dyn Any + Send>),
}

impl JoinError {
    /// What `std::panic::resume_unwind` takes, if it was a panic.
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        match self {
            Self::Panicked(payload) => Some(payload),
            Self::Cancelled(_) => None,
        }
    }
}

impl From<Cancelled> for JoinError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cancelled(_) => f.write_str("cancelled before there was a result"),
            Self::Panicked(payload) => write!(f, "the fiber panicked: {}", message(payload.as_ref())),
        }
    }
}

impl std::error::Error for JoinError {}

/// The text of a panic, if it has one.
pub(crate) fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(a panic without a message)")
}

/// Drops a value of the user's.
pub(crate) fn discard<V>(value: V) {
    contain(|| drop(value));
}

/// The part of a task that its handle knows: everything but the closure's type.
#[repr(C)]
pub(crate) struct Head<T> {
    header: JobHeader,
    free: unsafe fn(NonNull<Head<T>>),
    done: Trigger,
    family: *const Family,
    result: UnsafeCell<Option<Result<T, JoinError>>>,
}

#[repr(C)] // The head comes first, and in it the job's header.
pub(crate) struct Task<F, T> {
    head: Head<T>,
    pub(crate) closure: UnsafeCell<Option<F>>,
}

/// Makes a task. `family` counts it from here to its end.
///
/// # Safety
/// `F` and `T` may borrow; the caller sees to it that the job has run or been dropped before what they borrow ends, and
/// that `context` and `family` outlive the job.
#[inline]
pub(crate) unsafe fn new<F, T>(
    closure: F,
    given: Builder,
    context: *const Context,
    family: *const Family,
    detached_family: *const Family,
) -> (Job, NonNull<TaskOf<T>>)
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let header = JobHeader::within::<Task<F, T>>(context, detached_family, given);
    // SAFETY: as the caller promises.
    unsafe { place(header, closure, family) }
}

/// Makes an async task. `family` counts it from here to its end.
///
/// # Safety
/// As for [`new`].
pub(crate) unsafe fn new_async<F, T>(
    future: F,
    given: Builder,
    accept: Arc<dyn Accept>,
    context: *const Context,
    family: *const Family,
    detached_family: *const Family,
) -> (Job, NonNull<TaskOf<T>>)
where
    F: Future<Output = T> + Send,
    T: Send,
{
    let given = given.or_inherited();
    // SAFETY: as the caller promises.
    let polls = unsafe { Polls::new(future, accept, &given, context) };
    let header = JobHeader::within::<AsyncTask<F, T>>(context, detached_family, given);
    // SAFETY: as the caller promises.
    unsafe { place(header, polls, family) }
}

/// Puts a task into memory of its own.
///
/// # Safety
/// As for [`new`]; and the header is that of a work that is laid out like a `Task<F, T>`.
#[inline]
unsafe fn place<F, T>(header: JobHeader, closure: F, family: *const Family) -> (Job, NonNull<TaskOf<T>>) {
    // SAFETY: the caller keeps the family alive.
    if let Some(family) = unsafe { family.as_ref() } {
        family.enter();
    }
    let task = spare::allocate::<Task<F, T>>();
    let place = task.as_ptr();
    // Field by field: a task put together elsewhere would be copied in words of another size than it was written in, which waits for the writes.
    // SAFETY: each field of the new allocation is written, once.
    unsafe {
        (&raw mut (*place).head.header).write(header);
        (&raw mut (*place).head.free).write(free::<F, T>);
        (&raw mut (*place).head.done).write(Trigger::new());
        (&raw mut (*place).head.family).write(family);
        (&raw mut (*place).head.result).write(UnsafeCell::new(None));
        (&raw mut (*place).closure).write(UnsafeCell::new(Some(closure)));
    }
    // SAFETY: the header is the first field of the task, which stays until job and handle are done with it.
    (unsafe { Job::from_raw(task.cast()) }, task.cast())
}

/// What a handle points to. Opaque outside of this file.
#[repr(transparent)]
pub(crate) struct TaskOf<T>(Head<T>);

/// # Safety
/// Called once, by whoever the table at the head of the file names.
unsafe fn free<F, T>(head: NonNull<Head<T>>) {
    /// Gives the memory back also if a drop panics.
    struct Memory<X>(NonNull<X>);
    impl<X> Drop for Memory<X> {
        #[inline]
        fn drop(&mut self) {
            // SAFETY: it was allocated by `new` for this type, and nobody uses it any more.
            unsafe { spare::release(self.0) };
        }
    }
    let memory = Memory(head.cast::<Task<F, T>>());
    // SAFETY: the head is the first field of a `Task<F, T>`, and this is its only end.
    unsafe { memory.0.drop_in_place() };
}

// SAFETY: `repr(C)` puts the head first and the header first in it; the closure and the result are `Send` (see `new`).
unsafe impl<F: FnOnce() -> T, T> Work for Task<F, T> {
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: the job side alone uses the closure, and calls `run` once.
        let closure = unsafe { (*this.as_ref().closure.get()).take() }.expect("a job runs once");
        let head = this.cast::<Head<T>>();
        // Each result is written where it stays, and not put together elsewhere: it would be copied in words of another size than it was written in.
        // The context may end as soon as the family has been left.
        // SAFETY: nobody else looks at the task's result before `finish`.
        fiber::retire(|| unsafe {
            if let Err(cancelled) = crate::cancel::look() {
                discard(closure);
                store(head, Err(JoinError::Cancelled(cancelled)));
            } else {
                match catch_unwind(AssertUnwindSafe(closure)) {
                    Ok(value) => store(head, Ok(value)),
                    Err(payload) => store_panic(head, payload),
                }
            }
        });
        // SAFETY: this is the task's one end, and the result is in place.
        unsafe { finish(head) };
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: the job side alone uses the closure, and this is called instead of `run`.
        let closure = unsafe { (*this.as_ref().closure.get()).take() };
        discard(closure);
        // SAFETY: this is the task's one end.
        unsafe {
            store(this.cast::<Head<T>>(), Err(JoinError::Cancelled(Cancelled::new())));
            finish(this.cast::<Head<T>>());
        }
    }
}

/// Puts the result in place.
///
/// # Safety
/// Called once for a task, by the job's side, before [`finish`].
#[inline(always)]
pub(crate) unsafe fn store<T>(head: NonNull<Head<T>>, result: Result<T, JoinError>) {
    // SAFETY: the handle looks only after `done` was signalled; and there was none before, which would have to be dropped.
    unsafe { head.as_ref().result.get().write(Some(result)) };
}

/// As [`store`], for a panic, of which the family takes note.
///
/// # Safety
/// As for `store`.
#[cold]
pub(crate) unsafe fn store_panic<T>(head: NonNull<Head<T>>, payload: Payload) {
    // SAFETY: the family counts this task until it has finished; and as the caller promises.
    unsafe {
        let payload = match head.as_ref().family.as_ref() {
            Some(family) => family.keep_panic(payload),
            None => payload,
        };
        store(head, Err(JoinError::Panicked(payload)));
    }
}

/// Tells the handle or frees, and leaves the family.
///
/// # Safety
/// Called once for a task, by the job's side, with the result in place.
#[inline]
pub(crate) unsafe fn finish<T>(head: NonNull<Head<T>>) {
    // SAFETY: the job's side keeps the task alive until it has claimed `done` or freed it below.
    let task = unsafe { head.as_ref() };
    let (family, free) = (task.family, task.free);
    match task.done.claim(0) {
        Some(wakeup) => wakeup.wake(),
        // SAFETY: the claim failed, so the handle has gone and the job frees.
        None => _ = contain(|| unsafe { free(head) }),
    }
    if !family.is_null() {
        // SAFETY: it counts this task, and this is the last thing that the task does with it.
        unsafe { Family::leave(family) };
    }
}

/// Waits for a spawned fiber and takes its result.
///
/// Dropping the handle detaches the fiber: it goes on, and its result is dropped.
pub struct JoinHandle<T> {
    task: NonNull<TaskOf<T>>,
    result: PhantomData<T>,
}

// SAFETY: the handle gives away the result, by value and once, as a `Send` value may be.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: through a shared handle one can only ask whether the fiber has ended.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// # Safety
    /// `task` comes from [`new`], and no other handle was made from it.
    pub(crate) unsafe fn new(task: NonNull<TaskOf<T>>) -> Self {
        Self { task, result: PhantomData }
    }

    fn head(&self) -> &Head<T> {
        // SAFETY: the task lives until this handle frees it, or gives that up, which consumes the handle.
        &unsafe { self.task.as_ref() }.0
    }

    /// Suspends the calling fiber, or parks the calling thread, until the fiber has ended, and returns what it returned.
    ///
    /// # Cancellation
    /// The fiber goes on, detached, and its result is dropped: join under a [`shield`](crate::shield) to have it in any case.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] if it panicked; [`JoinError::Cancelled`] if the wait was cancelled, or if the fiber was
    /// cancelled before it started.
    ///
    /// # Examples
    ///
    /// ```
    /// let handle = segue_core::spawn(|| 6 * 7);
    /// assert_eq!(handle.join().unwrap(), 42);
    /// ```
    #[track_caller]
    pub fn join(self) -> Result<T, JoinError> {
        crate::budget::admit()?;
        let outcome = self.head().done.wait(WaitsFor::new("the end of a fiber"));
        let task = self.task.cast::<Head<T>>();
        std::mem::forget(self);
        match outcome {
            Outcome::Cancelled => Err(JoinError::Cancelled(fiber::with_current(Fiber::cancelled))),
            // SAFETY: it was signalled, and this handle, now forgotten, was the one to take the result.
            Outcome::Taken(_) => unsafe { take_result(task) },
        }
    }

    /// [`join`](JoinHandle::join) as a source: to be awaited, or chosen among others. A handle can also be awaited itself.
    ///
    /// # Cancellation
    /// The fiber goes on, detached, as if the handle had been dropped: also if another arm is chosen.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Either, after, spawn};
    /// use std::time::Duration;
    ///
    /// let first = spawn(|| 6 * 7).join_source().or(after(Duration::MAX)).wait();
    /// assert!(matches!(first, Ok(Either::Left(Ok(42)))));
    /// ```
    #[track_caller]
    pub fn join_source(self) -> Waitable<Joining<T>> {
        Waitable::new(Joining { handle: Some(self), waits_for: WaitsFor::new("the end of a fiber") })
    }

    /// Whether the fiber has ended. Never waits.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        preemption_point();
        self.head().done.outcome().is_some()
    }
}

impl<T> IntoFuture for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    type IntoFuture = SourceFuture<Joining<T>>;

    #[track_caller]
    fn into_future(self) -> SourceFuture<Joining<T>> {
        self.join_source().into_future()
    }
}

/// Takes the result out of a task that has ended, and frees it.
///
/// # Safety
/// It was signalled, so that the result is in place and the job's side is done with the task; and its handle is not used any more.
unsafe fn take_result<T>(task: NonNull<Head<T>>) -> Result<T, JoinError> {
    // SAFETY: as the caller promises.
    unsafe {
        let result = (*task.as_ref().result.get()).take();
        (task.as_ref().free)(task);
        result.expect("the result is in place before the signal")
    }
}

/// The source of [`JoinHandle::join_source`].
pub struct Joining<T> {
    /// `None` once the result was taken.
    handle: Option<JoinHandle<T>>,
    waits_for: WaitsFor,
}

impl<T> std::fmt::Debug for Joining<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Joining").field(&self.handle).finish()
    }
}

// SAFETY: the link is reached until it was left, or until the trigger was claimed through it; the result is in place before the task signals. A
// handle that is `Send` may end its link on another thread.
unsafe impl<T> Source for Joining<T> {
    type Output = Result<T, JoinError>;
    type Slot = Link;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    fn slot(&self) -> Link {
        Link::new()
    }

    fn attempt(&mut self) -> Option<Result<T, JoinError>> {
        if !self.handle.as_ref()?.is_finished() {
            return None;
        }
        let handle = self.handle.take()?;
        let task = handle.task.cast::<Head<T>>();
        std::mem::forget(handle);
        // SAFETY: it has an outcome, which a handle that is there has not brought about; and the handle is forgotten.
        Some(unsafe { take_result(task) })
    }

    unsafe fn register(&mut self, slot: &mut Link, trigger: &Trigger, arm: usize) -> bool {
        match &self.handle {
            // SAFETY: as the caller promises; the handle is the only one that waits for the task.
            Some(handle) => unsafe { slot.join(&handle.head().done, trigger, arm) },
            // The result was taken: it never comes again.
            None => true,
        }
    }

    unsafe fn withdraw(&mut self, slot: &mut Link) {
        if let Some(handle) = &self.handle {
            // SAFETY: the slot was linked to this handle's task, if at all.
            unsafe { slot.leave(&handle.head().done) };
        }
    }

    unsafe fn commit(&mut self, _slot: &mut Link, _arm: usize) -> Option<Result<T, JoinError>> {
        self.attempt()
    }

    unsafe fn give_back(&mut self, _slot: &mut Link, _arm: usize) {
        // The result stays in the task, and goes with the handle.
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if !self.head().done.cancel() {
            let task = self.task.cast::<Head<T>>();
            // SAFETY: it was signalled, so freeing falls to the handle, and this is its end.
            unsafe { (task.as_ref().free)(task) };
        }
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}
