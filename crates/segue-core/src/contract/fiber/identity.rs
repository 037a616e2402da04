//! The identity of a fiber: number, name and mark, and the job that the fiber begins with.
//!
//! Used by reports, policies and users. All of it is fixed before the fiber runs, or for the
//! fiber's own thread alone.
#![allow(unsafe_code)] // A job is kept as an address.

use crate::contract::fiber::Fiber;
use crate::contract::job::Job;
use crate::primitives::atomic::local;
use std::cell::Cell;
use std::ptr::{self, NonNull};

local!(static MARKS: Cell<u64> = Cell::new(0));

impl Fiber {
    /// The number that its scheduler gave it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that its spawner gave it.
    #[inline]
    pub fn name(&self) -> Option<&str> {
        self.name.as_ref().map(|name| &***name)
    }

    /// A number that no other fiber of its thread ever has; the address and `id` of one that has
    /// ended come again. Never zero. For the fiber's own thread.
    #[inline]
    pub fn mark(&self) -> u64 {
        if self.mark.get() == 0 {
            self.mark.set(MARKS.with(|marks| {
                marks.set(marks.get() + 1);
                marks.get()
            }));
        }
        self.mark.get()
    }

    /// Keeps the job that the fiber is for until it [begins](Fiber::begin).
    ///
    /// # Safety
    /// For the fiber's scheduler, before the fiber runs.
    #[inline]
    pub unsafe fn keep_job(&self, job: Job) {
        self.locals.set(job.into_raw().as_ptr().cast());
    }

    /// Takes the job, to run it.
    ///
    /// # Safety
    /// For the fiber itself, once, after [`keep_job`](Fiber::keep_job).
    #[inline]
    pub unsafe fn begin(&self) -> Job {
        let job = self.locals.replace(ptr::null_mut()).cast();
        // SAFETY: `keep_job` has put it there.
        unsafe { Job::from_raw(NonNull::new_unchecked(job)) }
    }
}

impl std::fmt::Display for Fiber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            Some(name) => write!(f, "fiber `{name}`"),
            None => write!(f, "fiber {}", self.id),
        }
    }
}
