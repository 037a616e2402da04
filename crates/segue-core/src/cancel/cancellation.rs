//! The cancellation of a token as something that can be waited for.
//!
//! Used as an arm of a choice, and by tasks, to which the tree of contexts does not reach.
//!
//! # The idea
//!
//! A context knows fibers. So a waiter joins the context by a header of its own, which lies in its
//! slot and never runs: its scheduler is the one in this file, to which an interrupt is the claim
//! of the waiter's trigger. The canceller makes it under the context's lock, after it has set the
//! flag; wakers that it leads to are called when it has released the lock (`context.rs` has them
//! wait).
//!
//! **Commit point**: the claim, or the look that finds the flag. **The race to fear**: a waiter
//! that looks before the flag is set, and joins after the canceller has passed. It looks under the
//! lock under which it joins, and the flag is set under that lock.
#![allow(unsafe_code)] // The slot is registered by address.

use crate::cancel::token::CancelToken;
use crate::contract::fiber::{Fiber, WaitsFor};
use crate::contract::scheduler::Wake;
use crate::contract::stand_in::{StandIn, StandIns};
use crate::contract::tree::cancelled::Cancelled;
use crate::contract::tree::context::Context;
use crate::contract::trigger::{Retreat, Trigger};
use crate::sim::preemption::preemption_point;
use crate::wait::source::{Source, Waitable};
use std::marker::PhantomPinned;
use std::ptr::{self, NonNull};
use std::sync::Arc;

impl CancelToken {
    /// Waits until the token is cancelled, and yields what waits under it fail with: a source, for
    /// a task to await, or for a choice of code that does not run under the token.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{CancelToken, Either, after};
    /// use std::time::Duration;
    ///
    /// let stop = CancelToken::new();
    /// let tick = || after(Duration::from_millis(1)).or(stop.cancelled_source()).wait();
    /// assert_eq!(tick(), Ok(Either::Left(())));
    /// stop.cancel_with("enough");
    /// assert!(matches!(stop.cancelled_source().wait(), Ok(why) if why.to_string() == "cancelled: enough"));
    /// ```
    #[track_caller]
    pub fn cancelled_source(&self) -> Waitable<Cancellation> {
        Waitable::new(Cancellation { context: Arc::clone(&self.0), waits_for: WaitsFor::new("a cancellation") })
    }
}

/// The source of [`CancelToken::cancelled_source`].
#[derive(Clone, Debug)]
pub struct Cancellation {
    context: Arc<Context>,
    waits_for: WaitsFor,
}

/// What a context reaches of a waiter.
#[derive(Default)]
pub struct Watch {
    /// `None` if it is not registered.
    member: Option<Fiber>,
    trigger: *const Trigger,
    arm: usize,
    /// The canceller reaches it while its waiter has a `&mut` to it.
    _shared: PhantomPinned,
}

// SAFETY: while it is registered others read it, under the lock of the context; its waiter changes
// it before it joins and after it has left.
unsafe impl Send for Watch {}

impl Cancellation {
    /// Leaves the context, if it has joined.
    fn leave(&self, watch: &mut Watch) {
        if let Some(member) = &watch.member {
            // SAFETY: it is a member since `register`, in place.
            unsafe { self.context.remove_member(NonNull::from(member)) };
            watch.member = None;
        }
    }
}

// SAFETY: the slot is reached under the lock of the context, and only before it has left that,
// which each step does that ends the registration; the canceller goes on from a member before it
// claims, and the claim's resume is its last use. The steps run no foreign code.
unsafe impl Source for Cancellation {
    type Output = Cancelled;
    type Slot = Watch;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    fn address(&self, least: usize) -> Option<usize> {
        Some(Arc::as_ptr(&self.context).addr()).filter(|address| *address >= least)
    }

    fn attempt(&mut self) -> Option<Cancelled> {
        preemption_point();
        self.context.is_cancelled().then(|| self.context.error())
    }

    unsafe fn register(&mut self, slot: &mut Watch, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        slot.trigger = trigger;
        slot.arm = arm;
        // SAFETY: there is no context.
        slot.member = Some(unsafe { WATCHES.header(ptr::null()) });
        let watch = ptr::from_ref(&*slot);
        let joined = slot.member.as_ref().is_some_and(|member| {
            // SAFETY: this is its scheduler. It stays in place until it has left.
            unsafe {
                member.set_host(watch.cast());
                self.context.add_member_unless_cancelled(NonNull::from(member))
            }
        });
        if joined {
            return Ok(());
        }
        slot.member = None;
        Err(trigger.retreat())
    }

    unsafe fn withdraw(&mut self, slot: &mut Watch) {
        self.leave(slot);
    }

    unsafe fn commit(&mut self, slot: &mut Watch, _arm: usize) -> Option<Cancelled> {
        self.leave(slot);
        Some(self.context.error())
    }

    unsafe fn give_back(&mut self, slot: &mut Watch, _arm: usize) {
        self.leave(slot);
    }
}

/// The scheduler of the headers that stand for waiters.
static WATCHES: StandIns<Watches> = StandIns::new();

struct Watches;

// SAFETY: the header is never current, and leaves the context before its slot ends.
unsafe impl StandIn for Watches {
    unsafe fn wake(fiber: NonNull<Fiber>, why: Wake) {
        debug_assert_eq!(why, Wake::Interrupt, "what stands for a waiter does not wait itself");
        // SAFETY: the caller holds the lock of the context, which the waiter takes before slot and
        // trigger end.
        let claimed = unsafe {
            let watch = &*fiber.as_ref().host().cast::<Watch>();
            (*watch.trigger).claim(watch.arm)
        };
        // One that was cancelled itself goes on as well.
        drop(claimed.unwrap_or_else(|refused| refused));
    }
}
