//! The contract of schedulers, for the fibers of a worker.
//!
//! Used through `dyn Scheduler` by every fiber of the worker. Wakes from other threads go through
//! `group/remote.rs`.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

use crate::recorder::Leaves;
use crate::worker::common::{Common, Whole};
use crate::worker::group::Group;
use crate::worker::header::{Header, RESUME, header_of};
use crate::worker::local::Local;
use crate::worker::policy::{Policy, Started, Task, Why};
use segue_core::chain::barrier;
use segue_core::scheduling::{Clock, FamilyId, Job, Scheduler, Spawn, Wake};
use segue_core::switch::Switch;
use segue_core::{Fiber, WaitsFor};
use std::ptr::{self, NonNull};
use std::sync::Arc;

impl<P: Policy> Whole for Local<P> {
    #[inline]
    unsafe fn yields(&self, header: NonNull<Header>) {
        // First, since this may unpark another worker, which is foreign code: that must not find a
        // fiber that is ready and runs.
        if !self.common.forks.is_empty() {
            self.common.expose_forks();
        }
        let displaced = self.common.displaced.replace(false);
        if displaced {
            // The work from outside comes first, to which the fiber gives way.
            self.accept_closures();
        }
        let why = if displaced { Why::Displaced } else { Why::Yielded };
        // SAFETY: the fiber leaves at once, by the contract.
        self.ready(Task::Started(unsafe { Started::new(header) }), why);
    }

    #[cold]
    fn drain(&self) {
        self.common.remote().inbox.drain(|header, bits| {
            // SAFETY: a fiber with a letter under way has not been taken down: `bury` waits for the
            // letter.
            let at = unsafe { header.as_ref() };
            if bits & RESUME == 0 && !at.fiber.interrupted() {
                return;
            }
            self.common.pen.read(at.fiber.id(), bits & RESUME != 0);
            let worker = at.worker.get().cast::<Common>();
            if ptr::eq(worker, &self.common) {
                // SAFETY: the fiber waits here, and this was its one resume, or the cancellation
                // that the fiber has won.
                self.ready(Task::Started(unsafe { Started::new(header) }), Why::Resumed);
            } else {
                // SAFETY: the fiber has left for a worker of this thread, which has the fiber in
                // its list, and is suspended by now; its one resume was for us to pass on.
                unsafe { (*worker).resume_by_mail(header) };
            }
        });
    }

    fn let_in(&self) {
        self.read_mail();
        self.accept_closures();
    }

    fn accept(&self, job: Job) {
        self.ready(Task::Fresh(job), Why::Resumed);
    }

    #[cold]
    fn offer_spare(&self, all: bool) {
        barrier(WaitsFor::new("a policy"), || self.share_spare(all));
    }

    fn preempts(&self) -> bool {
        let ask = || {
            self.policy.try_borrow().is_ok_and(|policy| policy.may_preempt()) && {
                // The other halves of the fiber's joins may run instead of the fiber.
                self.common.expose_forks();
                self.adopt();
                self.policy.borrow_mut().preempts()
            }
        };
        P::simulates() && barrier(WaitsFor::new("a policy"), ask)
    }
}

// SAFETY: 1: `suspend` switches to the worker loop or to the fiber that gets the turn. Both go on
// only with a fiber that the policy has given out, and so with one that `ready` or `successor` has
// pushed: after a resume, or after a yield, which does not come through `suspend`, or after
// `interrupted` won a cancellation. A resume that comes before the switch, from this thread or
// another, waits in the policy or the inbox until somebody looks: the loop, or a fiber that passes
// its turn on. If such a fiber finds itself, the fiber was resumed or has yielded, and goes on. 2:
// headers and policies never leave the thread. 3: `switch_to` and `successor`. 4: `bury` is called
// after the job has returned, and waits for letters under way; the last access of a resume is the
// exchange that posts the letter, or the push into this thread's policy.
unsafe impl<P: Policy> Scheduler for Local<P> {
    #[inline]
    fn leave_to_park(&self) -> bool {
        let left = self.common.idles_in_park.get() && self.common.poll_soon();
        if left && self.common.pen.has_room() {
            // SAFETY: the fiber that runs, or null, stays for longer than this call (clause 3).
            if let Some(fiber) = unsafe { segue_core::scheduling::current().as_ref() } {
                self.common.pen.flies(fiber.id());
            }
        }
        left
    }

    #[inline]
    unsafe fn suspend(&self, fiber: &Fiber) -> Option<Switch> {
        if !self.common.forks.is_empty() {
            self.common.expose_forks();
        }
        // SAFETY: the caller is the running fiber, and waits.
        unsafe {
            let header = header_of(fiber);
            fiber.set_since(self.common.residence.time.get());
            let next = if self.can_pass_on() { self.successor(header, false) } else { None };
            self.leave(header, next, Leaves::Suspends)
        }
    }

    #[inline]
    unsafe fn wake(&self, fiber: NonNull<Fiber>, why: Wake) {
        // SAFETY: the fiber has not ended: a fiber waits to be resumed, or is a member of a
        // context, as no fiber is before its first run (C2).
        let header = unsafe { header_of(fiber.as_ref()) };
        // An interrupt comes under the lock of a context, where a policy, which is foreign code, is
        // not called (clause 12).
        if why == Wake::Resume && self.is_here() {
            // The fiber runs within a few turns, and its stack may be cold.
            segue_fiber::prefetch(header, true);
            if self.common.pen.has_room() {
                // SAFETY: the header is in place until the fiber has gone on.
                self.common.pen.woke(unsafe { header.as_ref() }.fiber.id());
            }
            // SAFETY: the fiber waits here, and this is its one resume, by the contract of `wake`.
            self.ready(Task::Started(unsafe { Started::new(header) }), Why::Resumed);
            return;
        }
        // SAFETY: as above.
        unsafe { self.wake_by_mail(header, why) };
    }

    #[inline]
    unsafe fn yield_now(&self, fiber: &Fiber) -> Option<Switch> {
        // SAFETY: the caller is the running fiber, and is in the policy at its suspension, to be
        // switched to once.
        unsafe {
            let header = header_of(fiber);
            let passes_on = self.can_pass_on() && self.common.forks.is_empty() && !self.common.displaced.get();
            let next = if passes_on {
                self.successor(header, true)
            } else {
                self.yields(header);
                None
            };
            self.leave(header, next, Leaves::Yields)
        }
    }

    #[inline]
    fn spawner(&self) -> &dyn Spawn {
        self
    }

    fn timers(&self) -> &dyn Clock {
        &self.timers
    }

    fn keeps(&self, family: FamilyId) -> bool {
        self.common.group.keeps(family)
    }

    #[cold]
    fn start_here(&self, job: Job) -> Result<(), Job> {
        let Some(stack) = self.stack_for(&job) else { return Err(job) };
        let header = self.fiber_for(stack, job).into_header();
        // SAFETY: the fiber has not run, and rests at its beginning; nobody else has its header.
        self.ready(Task::Started(unsafe { Started::new(header) }), Why::Spawned);
        Ok(())
    }
}

impl<P: Policy> Spawn for Local<P> {
    #[inline]
    fn spawn(&self, job: Job) {
        if self.is_here() {
            if self.common.pen.has_room() {
                self.common.pen.spawned(job.as_raw().addr().get());
            }
            self.ready(Task::Fresh(job), Why::Spawned);
        } else {
            self.common.group.inject(job);
        }
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        Arc::<Group>::clone(&self.common.group)
    }
}
