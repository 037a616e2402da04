//! The view that reports have of a fiber: the thing that it waits for, its job, its last
//! suspension.
//!
//! Used by the tree's own reports, by schedulers, and by dumps (`worker/snapshot.rs` of
//! `segue-sched`).
//!
//! # Why a job is forgotten
//!
//! A header outlives the job of its fiber: by the last steps of that job, by the way back to the
//! scheduler, and until that strikes the fiber off its list. Meanwhile the side that the work was
//! done for may free the job, which may lie in a frame of that side's. So the work has the header
//! forget the job before that side is told, and a report that comes later finds none.
#![allow(unsafe_code)] // Waits and jobs are reached by address.

use crate::contract::current::with_running;
use crate::contract::fiber::Fiber;
use crate::primitives::waits_for::{WaitsFor, WaitsOn};
use std::fmt::{self, Display, Formatter};
use std::panic::Location;
use std::ptr;

impl Fiber {
    /// The object of its wait, if the fiber is suspended. For the fiber's own thread.
    pub fn waits_for(&self) -> Option<WaitsFor> {
        self.waits_on().map(|waits| waits.waits_for)
    }

    /// The same, with the object's address. For the fiber's own thread, or while that is held.
    pub fn waits_on(&self) -> Option<WaitsOn> {
        // SAFETY: the frame of the wait stays until the pointer is taken back, by this thread.
        self.waits_on.look(|waits| unsafe { waits.as_ref() }.copied())
    }

    /// As [`waits_on`](Self::waits_on), and async-signal-safe: `None`, too, while another thread
    /// looks.
    pub fn glance_at_wait(&self) -> Option<WaitsOn> {
        // SAFETY: null, or the record in the frame of the wait, which stays until the pointer is
        // taken back: by this thread, which is here.
        self.waits_on.glance().and_then(|waits| unsafe { waits.as_ref() }.copied())
    }

    /// The job's address, its spawn site, and the address of the family that counts it; if the
    /// fiber has a job that is not over.
    ///
    /// # Safety
    /// The fiber is suspended, has not run, or has returned.
    #[must_use]
    pub unsafe fn of_job(&self) -> Option<(usize, Option<&'static Location<'static>>, usize)> {
        // SAFETY: null, or a job that is in place: it was not dropped, and is not over, as the
        // fiber forgets one that is ([`forget_job`]), and is in no step between.
        let job = unsafe { self.job.get().as_ref() }?;
        Some((ptr::from_ref(job).addr(), job.at, job.member_of.as_ptr().addr()))
    }

    /// Notes the time of a suspension, in the scheduler's units. For the fiber's scheduler.
    #[inline]
    pub fn set_since(&self, time: u32) {
        self.since.set(time);
    }

    /// The time that was [noted](Self::set_since) last, and how many waits have begun, modulo 2^32.
    pub fn last_wait(&self) -> (u32, u32) {
        (self.since.get(), self.waits.get())
    }
}

/// The job of the running fiber is over, and may be freed from now on: to be called before the side
/// that waits for the end is told.
#[inline(always)] // A store.
pub(crate) fn forget_job() {
    with_running(|fiber| {
        if let Some(fiber) = fiber {
            fiber.job.set(ptr::null());
        }
    });
}

impl Display for Fiber {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "fiber `{name}`"),
            None => write!(f, "fiber {}", self.id()),
        }
    }
}
