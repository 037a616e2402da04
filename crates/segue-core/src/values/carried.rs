//! A state of the thread that a fiber carries with it: the carrier takes the state off the thread
//! where the fiber is suspended, and puts it back where the fiber goes on.
//!
//! Used by `segue-trace`, for the spans that a fiber has entered. Fibers that carry nothing pay for
//! a look at their header, at each suspension and after.
//!
//! # Where the carrier is called
//!
//! On the fiber, which is current, directly before its scheduler is asked to suspend it, and
//! directly after. So the carrier finds the fiber's own fiber-local values. The fiber may be
//! registered for a wait by then, and a resume may be owed to it: as for wakers that are called
//! there (`wait/trigger.rs`), a wait in the carrier is refused by the fiber, and blocks nobody but
//! the thread. An unwinding carrier would take away a frame that a claimer is about to read: so a
//! panic ends the process. And no effect in the carrier captures the fiber: a barrier stands before
//! it.

use crate::chain::barrier;
use crate::chain::unwind::NoUnwind;
use crate::contract::current::with_running;
use crate::primitives::marks::{CARRIER, CARRIES, Crossing};
use crate::primitives::waits_for::WaitsFor;
use std::sync::OnceLock;

/// Sets the code that is called when a fiber that [carries](carry) something is about to be
/// suspended, and when it is back. Answers whether there was none: a process has one.
///
/// The carrier is called on the fiber itself, and finds its fiber-local values. It must not wait:
/// a wait fails there as if cancelled. If it panics, the process ends.
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
        barrier(WaitsFor::new("the carrier of a fiber"), || carrier(crossing));
        no_unwind.disarm();
    };
    CARRIER.set(call).is_ok()
}

/// Says whether the calling fiber carries something from now on: then the
/// [carrier](set_carrier) is called for it. Answers whether the caller is a fiber; on a plain
/// thread, which is its own, this does nothing.
pub fn carry(carries: bool) -> bool {
    with_running(|fiber| fiber.map(|fiber| fiber.marks.replace(CARRIES, carries)).is_some())
}
