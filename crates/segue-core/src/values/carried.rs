//! A state of the thread that a fiber carries along: the carrier takes the state off the thread
//! where the fiber is suspended, and puts that back where the fiber goes on.
//!
//! Used by `segue-trace`, for the spans that a fiber has entered. Fibers that carry nothing pay for
//! a look at their header, at each suspension and after.
//!
//! # Where the carrier is called
//!
//! On the fiber, which is current, directly before its scheduler is asked for a suspension, and
//! directly after; around a job that runs in the fiber's place (`run.rs`), and around a move to
//! another scheduler of the thread. So the carrier finds the fiber's own fiber-local values. The
//! fiber may be registered for a wait by then, and be owed a resume: as for wakers that are called
//! there (`wait/trigger.rs`), the fiber refuses a wait in the carrier. An unwinding carrier would
//! take away a frame that a claimer is about to read: so a panic ends the process. And no effect in
//! the carrier captures the fiber: a barrier stands before.

use crate::chain::barrier;
use crate::chain::unwind::NoUnwind;
use crate::contract::current::with_running;
use crate::contract::fiber::Fiber;
use crate::primitives::marks::{CARRIER, CARRIES, Crossing};
use crate::primitives::waits_for::{WaitsFor, WaitsOn};
use std::sync::OnceLock;

/// Sets the code that is called when a fiber that [carries](carry) something is about to be
/// suspended, and when it is back. Answers whether there was none: a process has one.
///
/// The carrier is called on the fiber itself, and finds its fiber-local values. The carrier must
/// not wait: a wait fails there as if cancelled, and a yield does. A panic there ends the process.
///
/// # Examples
///
/// ```
/// use segue_core::scheduling::{Crossing, set_carrier};
///
/// assert!(set_carrier(|crossing| match crossing {
///     Crossing::Leaves => {}
///     Crossing::Returns => {}
/// }));
/// assert!(!set_carrier(|_| ()));
/// ```
#[must_use]
pub fn set_carrier(carrier: fn(Crossing)) -> bool {
    static CALLED: OnceLock<fn(Crossing)> = OnceLock::new();
    if CALLED.set(carrier).is_err() {
        return false;
    }
    let call = |crossing| {
        let no_unwind = NoUnwind::new("the carrier of a fiber panicked; its wait can't go on");
        let carrier = CALLED.get().expect("set before this");
        let waits_on = WaitsOn::from(WaitsFor::new("the carrier of a fiber"));
        let call = |fiber: Option<&Fiber>| {
            // As in `registered` (`wait/source.rs`): also at a yield, which names no wait.
            let before = fiber.map(|fiber| fiber.waits_on.replace(&raw const waits_on));
            carrier(crossing);
            fiber.zip(before).map(|(fiber, before)| fiber.waits_on.replace(before))
        };
        barrier(waits_on.waits_for, || with_running(call));
        no_unwind.disarm();
    };
    CARRIER.set(call).is_ok()
}

/// Says whether the calling fiber carries something from now on: then the
/// [carrier](set_carrier) is called for that one. Answers whether the caller is a fiber; on a plain
/// thread, which is its own, this does nothing.
pub fn carry(carries: bool) -> bool {
    with_running(|fiber| fiber.map(|fiber| fiber.marks.replace(CARRIES, carries)).is_some())
}

impl Fiber {
    /// Calls `leave`, in which the fiber, the calling one, leaves its thread to others by a way of
    /// its scheduler's own, and comes back: between two calls of the carrier, if the fiber carries
    /// something.
    pub fn carried_over(&self, leave: impl FnOnce()) {
        self.marks.apart(leave);
    }
}
