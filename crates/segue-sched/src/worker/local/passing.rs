//! A fiber that waits or yields passes its turn on to the next fiber.
//!
//! Used by the contract, where fibers suspend and yield.
//!
//! # Passing the turn on
//!
//! A fiber that waits or yields need not switch to the loop for the loop to switch to the next
//! fiber: the fiber asks the policy itself, and switches to that fiber, if the loop has nothing to
//! do in between. The loop is entered to start a fiber and to end one, to read mail, to start
//! closures that came from others, to give away, and to look around when the window's turns are
//! over: all of that happens in the same turn as if no turn were passed on. A turn that is passed
//! on is counted as the loop counts one, and the policy is asked in no fiber, as by the loop, if on
//! a fiber's stack. (A guest's loop runs in a fiber. There no turn is passed on.)
//!
//! The loop has switched to one fiber and may be switched back to by another: `runs` says which. A
//! closure that the policy gives out instead of a fiber waits in `next` for the loop, which starts
//! the closure before anything else; until then no other fiber asks the policy.
#![allow(unsafe_code)] // Fibers are reached by their headers' addresses.

use crate::recorder::Leaves;
use crate::worker::header::Header;
use crate::worker::local::Local;
use crate::worker::no_unwind::no_unwind;
use crate::worker::policy::{Goes, Policy, Started, Task, Why};
use segue_core::chain;
use segue_core::switch::Switch;
use std::ptr::{self, NonNull};

impl<P: Policy> Local<P> {
    /// Whether the running fiber can pass its turn on: the loop has nothing to do before the next
    /// one, and a turn is left until the loop is to look around.
    #[inline(always)]
    pub(super) fn can_pass_on(&self) -> bool {
        let common = &self.common;
        segue_fiber::PASSES_ON
            && !P::simulates()
            && self.passes_on.get()
            && common.until_look.get() > 1
            && !common.has_business()
            && !(self.may_spare.get() && common.is_asked())
            && chain::top().is_null()
            && self.is_here()
    }

    /// Asks the policy for the next fiber, to which the running fiber passes its turn on. A running
    /// fiber that yields is given to the policy first. The next fiber is current from now on.
    ///
    /// # Safety
    /// `from` is the running fiber, and [leaves](Self::leave) for the answer at once.
    #[inline(always)]
    pub(super) unsafe fn successor(&self, from: NonNull<Header>, yields: bool) -> Option<NonNull<Header>> {
        let no_unwind = no_unwind();
        // The policy, which is foreign code, is called in no fiber, as by the loop: this worker is
        // no guest.
        // SAFETY: null is always allowed.
        unsafe { segue_core::scheduling::set_current(ptr::null()) };
        let mut policy = self.policy.borrow_mut();
        if yields {
            // SAFETY: the running fiber leaves at once, as this function's contract says.
            let started = unsafe { Started::new(from) };
            let goes = policy.push(Task::Started(started), Why::Yielded);
            if !matches!(goes, Goes::Here) {
                self.held.set(self.held.get() + 1);
                drop(policy);
                // SAFETY: the header of the running fiber is in place.
                unsafe { segue_core::scheduling::set_current(&raw const (*from.as_ptr()).fiber) };
                self.goes_on(goes);
                no_unwind.disarm();
                return None;
            }
        }
        let next = match policy.pop() {
            Some(Task::Started(started)) => {
                let next = self.ours(started);
                if !yields {
                    self.held.set(self.held.get().wrapping_sub(1));
                }
                self.fetch_ahead(&policy);
                self.common.until_look.set(self.common.until_look.get() - 1);
                self.common.begin_turn();
                Some(next)
            }
            Some(Task::Fresh(job)) => {
                self.held.set(self.held.get() + usize::from(yields));
                self.next.set(Some(job));
                self.passes_on.set(false);
                None
            }
            None => {
                self.held.set(self.held.get() + usize::from(yields));
                None
            }
        };
        drop(policy);
        // SAFETY: the headers of both are in place. The running fiber switches to the next one at
        // once, or else goes on.
        unsafe { segue_core::scheduling::set_current(&raw const (*next.unwrap_or(from).as_ptr()).fiber) };
        no_unwind.disarm();
        next
    }

    /// Suspends the running fiber, for the next one or for the loop.
    ///
    /// # Safety
    /// As for [`Scheduler::suspend`].
    #[inline(always)]
    pub(super) unsafe fn leave(
        &self,
        from: NonNull<Header>,
        next: Option<NonNull<Header>>,
        why: Leaves,
    ) -> Option<Switch> {
        let pen = &self.common.pen;
        let Some(next) = next else {
            if pen.is_on() {
                // SAFETY: the header of the running fiber is in place.
                pen.left(unsafe { &from.as_ref().fiber }, why);
            }
            // SAFETY: by the contract of `suspend`, which is that of this function.
            return unsafe { segue_fiber::begin_suspend(from) };
        };
        if next == from {
            return None;
        }
        if pen.is_due() {
            // SAFETY: the headers of both are in place: one runs, the other is ready.
            let (from, next) = unsafe { (&from.as_ref().fiber, &next.as_ref().fiber) };
            pen.switched(from, why, next, self.common.turns.get());
        }
        self.runs.set(next);
        // SAFETY: by the contract of `suspend` for this fiber. The next fiber is ready, which is
        // told once, so this fiber rests and nobody else resumes it; it is this worker's, so this
        // is its thread. No handler is in place. The loop takes the fiber in `runs` for the fiber
        // that comes back.
        Some(unsafe { segue_fiber::pass_on(from, next) })
    }
}
