//! A job that lies in the frame of whoever waits for it: no allocation, borrowed captures.
//!
//! Used by fork-join for children, by `Pool::run`, and for the first fiber of a runtime.
//!
//! The frame's owner calls the closure itself, or makes a [`Job`] of it, once, and then waits until `done`. The signal
//! of `done` is the last touch by whoever ran it.
#![allow(unsafe_code)] // Shared between a waiting frame and the thread that runs it.

use segue_core::{Family, Fiber, Job, JobHeader, Place, Trigger, WaitsFor, Work};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;

/// A closure and room for its result.
#[repr(C)] // The header comes first. It is written when the closure becomes a job, which most never do.
pub(crate) struct FrameJob<F, R> {
    header: UnsafeCell<MaybeUninit<JobHeader>>,
    closure: UnsafeCell<Option<F>>,
    result: UnsafeCell<Option<std::thread::Result<R>>>,
    done: Trigger,
}

impl<F: FnOnce() -> R, R> FrameJob<F, R> {
    #[inline]
    pub(crate) fn new(closure: F) -> Self {
        Self {
            header: UnsafeCell::new(MaybeUninit::uninit()),
            closure: UnsafeCell::new(Some(closure)),
            result: UnsafeCell::new(None),
            done: Trigger::new(),
        }
    }

    /// The address that its job is known by.
    pub(crate) fn header(&self) -> NonNull<JobHeader> {
        NonNull::from(self).cast()
    }

    /// Runs the closure in place.
    ///
    /// # Safety
    /// No job was made of it, or the job was taken back. Called once.
    #[inline]
    pub(crate) unsafe fn call(&self) -> R {
        // SAFETY: nobody else has access, as the caller promises.
        let closure = unsafe { (*self.closure.get()).take() };
        // SAFETY: it was there from the start and is taken once.
        let closure = unsafe { closure.unwrap_unchecked() };
        closure()
    }

    /// Makes a job of it.
    ///
    /// # Safety
    /// Called once. The frame stays until the job was taken back or [`wait`](FrameJob::wait) has returned, and so do `family`
    /// and the contexts around `place`. The closure and its result may be sent to the thread that runs it.
    pub(crate) unsafe fn job(this: NonNull<Self>, place: Place, family: Option<&Family>) -> Job {
        // SAFETY: nobody else has access before the job is made.
        unsafe {
            let header = JobHeader::of::<Self>(place, family);
            (*this.as_ref().header.get()).write(header);
            Job::from_raw(this.cast())
        }
    }

    /// Waits until the job has run, whatever happens meanwhile, and takes its result.
    pub(crate) fn wait(&self, what: &'static str) -> std::thread::Result<R> {
        self.done.wait_shielded(WaitsFor::new(what));
        self.result()
    }

    /// The result of a job that has run.
    pub(crate) fn result(&self) -> std::thread::Result<R> {
        assert!(self.done.outcome().is_some(), "the job has not run");
        // SAFETY: whoever ran it is done with it.
        unsafe { (*self.result.get()).take() }
            .unwrap_or_else(|| Err(Box::new("the scheduler ended before it ran this")))
    }
}

// SAFETY: `repr(C)` puts the header first; `job`'s caller promises that what it carries may be sent.
unsafe impl<F: FnOnce() -> R, R> Work for FrameJob<F, R> {
    unsafe fn run(this: NonNull<Self>) {
        // SAFETY: the frame stays until `done` is signalled, and the waiter does not look before.
        unsafe {
            let this = this.as_ref();
            let result = catch_unwind(AssertUnwindSafe(|| this.call()));
            *this.result.get() = Some(result);
            segue_core::with_current(Fiber::retire);
            this.done.signal(0);
        }
    }

    unsafe fn abandon(this: NonNull<Self>) {
        // SAFETY: as in `run`.
        unsafe { this.as_ref() }.done.signal(0);
    }
}
