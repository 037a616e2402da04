//! The points at which a simulator may take the turn away from a running fiber.
//!
//! Called at the beginning of every operation of the structures, those that never wait included, and after each spawn; switched on by the simulator
//! of `segue-sched`.
//!
//! A fiber runs until it waits or yields, so a schedule can differ from another only there, while two fibers on two workers meet anywhere. A simulator
//! that tries schedules gets the rest from here: between two operations of a fiber others may run, and inside of an operation nobody sees it half done.
//!
//! Elsewhere a point costs a load of a word that is never written, and a branch that is never taken.
#![allow(unsafe_code)] // The running fiber is reached by its address, and handed to its own scheduler.

use crate::deferred;
use crate::fiber;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many simulations ask for points. Not loom's: a model has no simulator in it.
static SIMULATIONS: AtomicUsize = AtomicUsize::new(0);

/// In a simulation that [asks for it](PreemptionPoints), other fibers may run here. Elsewhere it has no effect.
///
/// For those who write structures, at the beginning of each operation that others can see; and for code under test that shares plain atomics, between two
/// accesses. It is not called where a fiber can't be suspended: under the lock of a queue, nor by an
/// [`Operation`](crate::Operation) that is called there. While the fiber is panicking, or begins to wait, it has no effect.
///
/// # Cancellation
/// *No effect*: it does not look.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// fn add_one(number: &AtomicU32) {
///     let seen = number.load(Ordering::Relaxed);
///     segue_core::preemption_point();
///     number.store(seen + 1, Ordering::Relaxed);
/// }
/// add_one(&AtomicU32::new(1));
/// ```
#[inline]
pub fn preemption_point() {
    // A hint: a simulation that begins does so before it starts its fibers, on the thread that they run on.
    if SIMULATIONS.load(Ordering::Relaxed) != 0 {
        at_point();
    }
}

#[cold]
#[inline(never)]
fn at_point() {
    // SAFETY: the current header is in place.
    let Some(fiber) = (unsafe { fiber::current().as_ref() }) else { return };
    // Whoever is in the middle of resuming several others owes them that first.
    if !fiber.must_not_suspend() && !deferred::is_batched() {
        // SAFETY: it is the calling one, and belongs to that scheduler.
        unsafe { fiber.scheduler().preemption_point(fiber) };
    }
}

/// While one exists, [points](preemption_point) are passed on to the schedulers of the fibers that come to them. For simulators.
#[derive(Debug)]
#[must_use = "points are passed on until it is dropped"]
pub struct PreemptionPoints(());

impl PreemptionPoints {
    /// Has points passed on.
    pub fn enable() -> Self {
        SIMULATIONS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for PreemptionPoints {
    fn drop(&mut self) {
        SIMULATIONS.fetch_sub(1, Ordering::Relaxed);
    }
}
