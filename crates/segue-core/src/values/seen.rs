//! The words of a fiber's header that reports and dumps read: its wait, its job, and its last
//! suspension.
//!
//! Used by the tree's lists, by schedulers, and by dumps.
#![allow(unsafe_code)] // The record of a wait, and a job, are reached by address.

use crate::contract::fiber::Fiber;
use crate::primitives::waits_for::{WaitsFor, WaitsOn};
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
        // SAFETY: the frame of the wait stays until the pointer is taken back, as in `waits_on`.
        self.waits_on.glance().and_then(|waits| unsafe { waits.as_ref() }.copied())
    }

    /// Address, spawn site and context of the job, if the fiber has one.
    ///
    /// # Safety
    /// The fiber is suspended, or has not run: its job is in place.
    #[must_use]
    pub unsafe fn of_job(&self) -> Option<(usize, Option<&'static Location<'static>>, usize)> {
        // SAFETY: null, or a job that has neither returned nor been dropped, by the contract.
        let job = unsafe { self.job.get().as_ref() }?;
        Some((ptr::from_ref(job).addr(), job.at, job.context.addr()))
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
