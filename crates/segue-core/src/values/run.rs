//! The run of a job: on a fiber of its own, or in the place of its caller.
//!
//! Used by schedulers. Either way the job begins with the fiber-local values that it inherits, and
//! not with those of its caller.
#![allow(unsafe_code)] // A job is used up by its address.

use crate::chain::Restore;
use crate::contract::current;
use crate::contract::job::Job;
use crate::primitives::at_end::at_end;
use crate::primitives::marks::UNBLOCKED;
use crate::values::locals;
use std::panic::Location;
use std::ptr;

impl Job {
    /// Where the spawn was called, if the maker has said so.
    #[inline]
    #[must_use]
    pub fn spawned_at(&self) -> Option<&'static Location<'static>> {
        // SAFETY: the header is in place until the work is run or abandoned, which uses up the job.
        unsafe { self.as_raw().as_ref() }.at
    }

    /// Runs the job to its end. Panics of the closure stay inside.
    ///
    /// For schedulers: on the fiber that [`Fiber::for_job`](crate::Fiber::for_job) was made for.
    /// Anywhere else, the job runs as a part of the caller.
    #[inline]
    pub fn run(self) {
        if !self.takes_fiber() {
            return self.run_in_place();
        }
        let inherited = self.take_locals();
        if !inherited.is_null() {
            // SAFETY: the table was the job's alone, and is taken out of the job, whose fiber
            // begins.
            unsafe { locals::put(inherited.cast()) };
        }
        self.start();
    }

    /// Runs the job on a fiber of the caller's, which goes back into its contexts, since the job
    /// leaves all at its end. The caller's mark for calls of the C library does not count for the
    /// job's, and a state of the thread that the caller carries is taken off meanwhile. The
    /// caller's handlers are not the job's: as on a fiber of its own, the job finds none of them,
    /// and so is not captured, with the values of another fiber, in the middle of this.
    #[cold]
    fn run_in_place(self) {
        let context = current::context();
        let inherited = self.take_locals();
        let mark =
            |mark| current::with_running(|fiber| fiber.is_some_and(|fiber| fiber.marks.replace(UNBLOCKED, mark)));
        let unblocked = mark(false);
        // The end of this job has the fiber forget its own.
        let own = current::with_running(|fiber| fiber.map(|fiber| fiber.job.get()));
        let _restore = at_end(|| {
            mark(unblocked);
            current::with_running(|fiber| _ = fiber.zip(own).map(|(fiber, own)| fiber.job.set(own)));
        });
        // SAFETY: there is no frame, and the present ones stay until this returns.
        let _chain = unsafe { Restore::inside(ptr::null()) };
        let start = || self.start();
        // SAFETY: the table was the job's alone, and is taken out of the job; nothing is captured
        // across the job, which begins a chain.
        let run = || unsafe { locals::instead(inherited.cast(), start) };
        current::with_running(|fiber| match fiber {
            Some(fiber) => fiber.marks.apart(run),
            None => run(),
        });
        // SAFETY: the running fiber was inside of this context all the time.
        unsafe { current::enter_context(context) };
    }
}
