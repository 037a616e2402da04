//! A job that lies in its waiter's frame: no allocation, borrowed captures.
//!
//! Used by fork-join for children, by `Pool::run`, and for the first fiber of a runtime.
//!
//! The frame's owner calls the closure itself, or makes a [`Job`] of it, once, and then waits until
//! `done`. The signal of `done` is the runner's last touch.
#![allow(unsafe_code)] // Shared between a waiting frame and the thread that runs it.

use segue_core::scheduling::{Family, Job, JobHeader, Place, Work};
use segue_core::{Trigger, WaitsFor};
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A closure and room for its result.
///
/// Only the closure is written at first: header, trigger and result come into being when it becomes
/// a job, which most never do. So the owner says when it is over: by [`call`](StackJob::call),
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
    /// No job was made of it, or the job was taken back. One of `call`, `discard` and the job's run
    /// comes once.
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

    /// Makes a job of it.
    ///
    /// # Safety
    /// Called once. The frame stays until the job was taken back or [`wait`](StackJob::wait) has
    /// returned, and so do `family` and the contexts around `place`. The closure and its result may
    /// be sent to the thread that runs it.
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

    /// Ends what [`job`](StackJob::job) has begun, when the job was taken back.
    ///
    /// # Safety
    /// A job was made of it, and it is gone without having run; called once.
    pub(crate) unsafe fn unmake(&self) {
        // SAFETY: `job` has written the header, and nobody else has access any more.
        unsafe { (*self.header.get()).assume_init_drop() };
    }

    /// Whether the job has run.
    ///
    /// # Safety
    /// A job was made of it and not taken back, and [`wait`](StackJob::wait) has not returned.
    #[inline]
    pub(crate) unsafe fn has_run(&self) -> bool {
        // SAFETY: `job` has written it.
        unsafe { (*self.done.get()).assume_init_ref() }.outcome().is_some()
    }

    /// Waits until the job has run, whatever happens meanwhile, and takes its result.
    ///
    /// # Safety
    /// A job was made of it and not taken back; called once.
    pub(crate) unsafe fn wait(&self, waits_for: WaitsFor) -> std::thread::Result<R> {
        // SAFETY: `job` has written both; the result is not touched by others once `done` was
        // signalled.
        let result = unsafe {
            (*self.done.get()).assume_init_ref().wait_shielded(waits_for);
            (*self.result.get()).assume_init_mut().take()
        };
        result.unwrap_or_else(|| Err(Box::new("the scheduler ended before it ran this")))
    }
}

// SAFETY: `repr(C)` puts the header first; `job`'s caller promises that what it carries may be
// sent.
unsafe impl<F: FnOnce() -> R, R> Work for StackJob<F, R> {
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: the frame stays until `done` is signalled, and the waiter does not look before;
        // `job` has written the fields. This is where the work begins.
        unsafe {
            let this = this.as_ref();
            let result = segue_core::scheduling::retire(|| catch_unwind(AssertUnwindSafe(|| this.call())));
            *(*this.result.get()).assume_init_mut() = Some(result);
            (*this.done.get()).assume_init_ref().signal(0);
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: as in `run`; the closure is dropped instead of run, and nobody has taken what the
        // header has.
        unsafe {
            let this = this.as_ref();
            this.unmake();
            segue_core::unwind::contain(|| this.discard());
            (*this.done.get()).assume_init_ref().signal(0);
        }
    }
}
