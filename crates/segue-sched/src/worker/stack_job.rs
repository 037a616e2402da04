//! A job that lies in its waiter's frame: no allocation, borrowed captures.
//!
//! Used by fork-join for children, by `Pool::run`, and for the first fiber of a runtime.
//!
//! The frame's owner calls the closure itself, or makes a [`Job`], once, and then waits until
//! `done`. The signal of `done` is the runner's last touch. An owner that only waits says so
//! (`set_awaited`): then a job that is dropped comes back, and the owner calls the closure.
#![allow(unsafe_code)] // Shared between a waiting frame and the thread that runs it.

use segue_core::scheduling::{Family, Job, JobHeader, Place, Work};
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_core::{Outcome, Trigger, WaitsFor};
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A closure and room for its result.
///
/// Only the closure is written at first: header, trigger and result come into being with the job,
/// which most never do. So the owner ends it: by [`call`](StackJob::call),
/// [`discard`](StackJob::discard) or [`wait`](StackJob::wait).
#[repr(C)] // The header comes first.
pub(crate) struct StackJob<F, R> {
    header: UnsafeCell<MaybeUninit<JobHeader>>,
    done: UnsafeCell<MaybeUninit<Trigger>>,
    result: UnsafeCell<MaybeUninit<Option<std::thread::Result<R>>>>,
    closure: UnsafeCell<ManuallyDrop<F>>,
}

impl<F: FnOnce() -> R, R> StackJob<F, R> {
    #[inline]
    pub(crate) fn new(closure: F) -> Self {
        Self {
            header: UnsafeCell::new(MaybeUninit::uninit()),
            done: UnsafeCell::new(MaybeUninit::uninit()),
            result: UnsafeCell::new(MaybeUninit::uninit()),
            closure: UnsafeCell::new(ManuallyDrop::new(closure)),
        }
    }

    /// The address that its job is known by.
    pub(crate) fn header(&self) -> NonNull<JobHeader> {
        NonNull::from(self).cast()
    }

    /// Runs the closure in place.
    ///
    /// # Safety
    /// No job was made of the closure, or the job was taken back. One of `call`, `discard` and the
    /// job's run comes once.
    #[inline]
    pub(crate) unsafe fn call(&self) -> R {
        // SAFETY: nobody else has access, and the closure is still there, as the caller promises.
        let closure = unsafe { ManuallyDrop::take(&mut *self.closure.get()) };
        closure()
    }

    /// Drops the closure.
    ///
    /// # Safety
    /// As for [`call`](StackJob::call).
    pub(crate) unsafe fn discard(&self) {
        // SAFETY: as in `call`.
        unsafe { ManuallyDrop::drop(&mut *self.closure.get()) };
    }

    /// Makes a job of the closure.
    ///
    /// # Safety
    /// Called once. The frame stays until the job was taken back or [`wait`](StackJob::wait) has
    /// returned, and so do `family` and the contexts around `place`. The closure and its result may
    /// be sent to the running thread.
    pub(crate) unsafe fn job(this: NonNull<Self>, place: Place, family: Option<&Family>) -> Job {
        // SAFETY: nobody else has access before the job is made.
        unsafe {
            let frame = this.as_ref();
            (*frame.header.get()).write(JobHeader::of::<Self>(place, family));
            (*frame.done.get()).write(Trigger::new());
            (*frame.result.get()).write(None);
            Job::from_raw(this.cast())
        }
    }

    /// Undoes [`job`](StackJob::job), when the job was taken back.
    ///
    /// # Safety
    /// A job was made, and is gone without a run; called once.
    pub(crate) unsafe fn unmake(&self) {
        // SAFETY: `job` has written the header, and nobody else has access any more.
        unsafe { (*self.header.get()).assume_init_drop() };
    }

    /// Whether the job has run.
    ///
    /// # Safety
    /// A job was made and not taken back, and [`wait`](StackJob::wait) has not returned.
    #[inline]
    pub(crate) unsafe fn has_run(&self) -> bool {
        // SAFETY: `job` has written the field.
        unsafe { (*self.done.get()).assume_init_ref() }.outcome().is_some()
    }

    /// Waits until the job has run, whatever happens meanwhile, and takes its result.
    ///
    /// # Safety
    /// A job was made and not taken back, and is not [awaited](StackJob::set_awaited); called once.
    pub(crate) unsafe fn wait(&self, what: WaitsFor) -> std::thread::Result<R> {
        // SAFETY: as the caller promises.
        unsafe { self.wait_or_take_back(what) }.unwrap_or_else(|| unreachable!("only what is awaited comes back"))
    }

    /// As [`wait`](StackJob::wait), also for one that is awaited: `None` if its job was dropped.
    /// Then nobody else knows the frame any more, and its closure is there.
    ///
    /// # Safety
    /// A job was made and not taken back; called once.
    pub(crate) unsafe fn wait_or_take_back(&self, what: WaitsFor) -> Option<std::thread::Result<R>> {
        // SAFETY: `job` has written both; the result is not touched by others once `done` was
        // signalled.
        unsafe {
            let done = (*self.done.get()).assume_init_ref();
            done.wait_shielded(what);
            if done.outcome() == Some(Outcome::Taken(CAME_BACK)) {
                return None;
            }
            let result = (*self.result.get()).assume_init_mut().take();
            Some(result.unwrap_or_else(|| Err(Box::new("the scheduler ended before it ran this"))))
        }
    }

    /// The owner has nothing to do but to [wait](StackJob::wait_or_take_back), and gets the closure
    /// back if the job is dropped.
    ///
    /// # Safety
    /// A job was made and not taken back.
    pub(crate) unsafe fn set_awaited(&self) {
        // SAFETY: `job` has written the header, which stays in the frame.
        unsafe { JobHeader::set_awaited(self.header()) };
    }
}

/// The arm of `done` for a job that has not run.
const CAME_BACK: usize = 1;

// SAFETY: `repr(C)` puts the header first; `job`'s caller promises that its content may be sent.
unsafe impl<F: FnOnce() -> R, R> Work for StackJob<F, R> {
    #[inline(always)] // As that of a task.
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: the frame stays until `done` is signalled, and the waiter does not look before;
        // `job` has written the fields. This is where the work begins.
        unsafe {
            let this = this.as_ref();
            let call = || __rust_begin_short_backtrace(|| this.call());
            let result = segue_core::scheduling::retire(|| catch_unwind(AssertUnwindSafe(call)));
            *(*this.result.get()).assume_init_mut() = Some(result);
            (*this.done.get()).assume_init_ref().signal(0);
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: as in `run`; the closure is dropped instead of run, or left to the owner, and
        // nobody has taken the header's values.
        unsafe {
            let this = this.as_ref();
            let comes_back = (*this.header.get()).assume_init_ref().is_awaited();
            this.unmake();
            if !comes_back {
                segue_core::unwind::contain(|| this.discard());
            }
            (*this.done.get()).assume_init_ref().signal(if comes_back { CAME_BACK } else { 0 });
        }
    }
}
