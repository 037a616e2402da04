//! How a fiber or a closure becomes ready: the worker's policy takes the fiber or
//! closure, or gives a closure away at once.
//!
//! Used by the contract, where fibers resume, yield and spawn, and by the worker loop, for closures
//! that come from others.
#![allow(unsafe_code)] // Fibers are posted by their headers' addresses.

use crate::worker::common::Whole;
use crate::worker::header::{Header, INTERRUPT, RESUME};
use crate::worker::local::Local;
use crate::worker::no_unwind::no_unwind;
use crate::worker::policy::{Goes, Policy, Task, Why};
use segue_core::WaitsFor;
use segue_core::chain::{self, barrier};
use segue_core::scheduling::{Job, Wake};
use std::ptr::NonNull;

impl<P: Policy> Local<P> {
    // Where a fiber yields, wakes and spawns: a call more is felt there.
    #[inline(always)]
    pub(super) fn ready(&self, task: Task, why: Why) {
        // The policy, which is foreign code, is borrowed meanwhile.
        if chain::top().is_null() { self.push(task, why) } else { self.push_behind(task, why) }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn push_behind(&self, task: Task, why: Why) {
        barrier(WaitsFor::new("a policy"), || self.push(task, why));
    }

    #[inline(always)]
    pub(super) fn push(&self, task: Task, why: Why) {
        let no_unwind = no_unwind();
        match self.policy.try_borrow_mut() {
            Ok(mut policy) => {
                // A started fiber can't come back from the policy but by `pop`.
                let started = matches!(task, Task::Started(_));
                self.held.set(self.held.get() + usize::from(started));
                let goes = policy.push(task, why);
                drop(policy);
                match goes {
                    Goes::Here if started => {}
                    // This worker may not look at its policy again for long.
                    Goes::Here => {
                        self.may_spare.set(true);
                        self.share();
                    }
                    goes => self.goes_on(goes),
                }
            }
            Err(_) => self.postpone(task),
        }
        no_unwind.disarm();
    }

    /// The policy has given a closure away.
    #[inline]
    pub(super) fn goes_on(&self, goes: Goes) {
        match goes {
            Goes::Here => {}
            Goes::Anywhere(job) => self.common.offer(job),
            Goes::To(worker, job) => {
                if let Err(job) = self.send(worker, job) {
                    self.common.offer(job);
                }
            }
        }
    }

    /// # Safety
    /// As for [`Scheduler::wake`].
    #[inline(never)] // Else the registers for this are saved by a wake-up on this thread as well.
    pub(super) unsafe fn wake_by_mail(&self, header: NonNull<Header>, why: Wake) {
        let remote = self.common.remote();
        if why == Wake::Resume {
            // SAFETY: as below; the number is fixed.
            self.common.count_crossing(unsafe { header.as_ref() }.fiber.id());
        }
        // SAFETY: the fiber's header stays until its letter was drained, and this worker until its
        // fibers have ended.
        unsafe {
            match why {
                Wake::Resume => remote.inbox.post(header, RESUME, || remote.waker()),
                Wake::Interrupt => remote.inbox.post(header, INTERRUPT, || remote.waker_after_interrupt()),
            }
        }
    }

    /// Sends a closure to a worker, or gives the closure back if that worker has ended.
    #[cold]
    pub(super) fn send(&self, worker: usize, job: Job) -> Result<(), Job> {
        let workers = self.common.group.len();
        assert!(worker < workers, "a policy sent a closure to worker {worker} of {workers}");
        self.common.group.send(worker, job)
    }

    /// Something became ready from inside of the policy, which dropped a closure for instance: this
    /// comes by mail.
    #[cold]
    pub(super) fn postpone(&self, task: Task) {
        match task {
            Task::Fresh(job) => self.common.group.inject(job),
            // SAFETY: the fiber is ready and does not run before its letter was drained; this is
            // the worker's own thread.
            Task::Started(started) => unsafe {
                self.common.remote().inbox.post(started.into_header(), RESUME, || || ());
            },
        }
    }

    /// Answers which task is to start now that this worker has taken a closure from a shelf.
    #[inline]
    pub(crate) fn taken(&self, job: Job) -> Option<Task> {
        if self.takes_arrivals {
            return self.let_order(job);
        }
        if self.common.is_marked() { self.common.place(job).map(Task::Fresh) } else { Some(Task::Fresh(job)) }
    }

    /// Lets the policy order a closure that was taken from a shelf.
    #[cold]
    pub(super) fn let_order(&self, job: Job) -> Option<Task> {
        let goes = self.policy.borrow_mut().push(Task::Fresh(job), Why::Taken);
        match goes {
            Goes::Here => {
                self.may_spare.set(true);
                self.next()
            }
            Goes::Anywhere(job) => Some(Task::Fresh(job)),
            Goes::To(worker, job) => self.send(worker, job).err().map(Task::Fresh),
        }
    }

    /// Hands over the closures that were sent to this worker, and those from outside if the policy
    /// takes these. Looks at each turn, and as a rule there is nothing.
    #[inline]
    pub(crate) fn accept_closures(&self) {
        if self.common.remote().sent.seems_to_hold()
            || (self.takes_arrivals && self.common.group.outside.seems_to_hold())
        {
            self.hand_over_closures();
        }
    }

    #[cold]
    pub(super) fn hand_over_closures(&self) {
        while let Some(job) = self.common.remote().sent.take_oldest() {
            self.ready(Task::Fresh(job), Why::Sent);
        }
        // A closure that this worker could not start would come back for ever.
        if self.takes_arrivals && !self.is_starved() {
            while let Some(job) = self.common.group.outside.take_oldest() {
                self.ready(Task::Fresh(job), Why::Arrived);
            }
        }
    }

    /// Offers a closure of the policy's to idle workers, if there are any.
    #[inline]
    pub(crate) fn share(&self) {
        if self.may_spare.get() && self.common.is_asked() {
            self.offer_spare(false);
        }
    }

    pub(super) fn share_spare(&self, all: bool) {
        while all || !self.common.remote().shelf.seems_to_hold() {
            let Ok(mut policy) = self.policy.try_borrow_mut() else { return };
            let no_unwind = no_unwind();
            let spare = policy.spare();
            no_unwind.disarm();
            drop(policy);
            self.may_spare.set(spare.is_some());
            let Some(job) = spare else { return };
            self.common.grant(job);
            if !all {
                return;
            }
        }
    }

    /// Gives the policy of a simulation all closures that lie on shelves.
    #[inline]
    pub(crate) fn adopt(&self) {
        if P::simulates() && !self.is_starved() {
            while let Some(job) = self.common.take_any() {
                self.ready(Task::Fresh(job), Why::Spawned);
            }
        }
    }
}
