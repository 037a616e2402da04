//! Which fiber it is: number, name, mark, attributes, drawn numbers.
//!
//! Used by reports, policies and users; here is also the job that it begins with. All of it is
//! fixed before the fiber runs, or for its own thread alone.
#![allow(unsafe_code)] // A job is kept as an address.

use crate::contract::fiber::Fiber;
use crate::contract::job::Job;
use crate::primitives::atomic::local;
use crate::values::locals::Locals;
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

    /// Where its fiber-local values are.
    #[inline]
    pub(crate) fn locals(&self) -> &Cell<*mut Locals> {
        &self.locals
    }

    /// Where its series of drawn numbers is. It begins with the fiber's own number: so a simulated
    /// schedule draws the same when it is replayed.
    #[inline]
    pub(crate) fn draws(&self) -> &Cell<u32> {
        &self.draws
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
