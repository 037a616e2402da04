//! The points at which a simulator may take the turn away from a running fiber.
//!
//! Called at the beginning of every operation of the structures, those that never wait included,
//! and after each spawn; switched on by the simulator of `segue-sched`.
//!
//! A fiber runs until it waits or yields, so a schedule can differ from another only there, while
//! two fibers on two workers meet anywhere. A simulator that tries schedules gets the rest from
//! here: between two operations of a fiber others may run, and inside of an operation nobody sees a
//! half-done state.
//!
//! Elsewhere a point costs a load of a word that is never written, and a branch that is never
//! taken.

use crate::chain::deferred_wakers;
use crate::contract::current;
use crate::contract::fiber::Fiber;
use crate::primitives::waits_for::WaitsFor;
use crate::tree::membership::IN_BODY;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many simulations ask for points. Not loom's: a model has no simulator.
static SIMULATIONS: AtomicUsize = AtomicUsize::new(0);

/// The effect of a point.
static HOOK: OnceLock<fn()> = OnceLock::new();

/// In a simulation that [asks for it](PreemptionPoints), other fibers may run here. Elsewhere a
/// point has no effect.
///
/// For authors of structures, at the beginning of each operation that others can see; and for code
/// under test that shares plain atomics, between two accesses. A point is not called where a fiber
/// can't be suspended: under the lock of a queue, nor by an [`Operation`](crate::Operation) that is
/// called there. While the fiber is panicking, or begins to wait, a point has no effect.
///
/// # Cancellation
/// *No effect*: a point does not look.
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
    // A hint: a simulation begins that before the start of its fibers, on the thread that they run
    // on.
    if is_simulated() {
        at_point();
    }
}

#[cold]
#[inline(never)]
fn at_point() {
    let may_suspend = current::with_running(|fiber| fiber.is_some_and(|fiber| !fiber.must_not_suspend()));
    // A fiber in the middle of resuming several others owes them that first.
    if may_suspend && !deferred_wakers::is_batched() {
        deferred_wakers::let_go();
        HOOK.get().inspect(|hook| hook());
    }
}

/// Whether a [point](preemption_point) may have an effect, on this thread or another one: for
/// code that would have many of them.
#[inline]
#[must_use]
pub fn is_simulated() -> bool {
    SIMULATIONS.load(Ordering::Relaxed) != 0
}

/// A [`preemption_point`] in the [body](crate::scheduling::no_suspend_in_body) of a transaction,
/// which is not to wait, and which others may interrupt all the same.
///
/// # Cancellation
/// *No effect*: a point does not look.
#[inline]
pub fn preemption_point_in_body() {
    if is_simulated() {
        at_point_in_body();
    }
}

#[cold]
#[inline(never)]
fn at_point_in_body() {
    // Not within a `no_suspend` of the body's own, which has another mark.
    let in_body = |what: &WaitsFor| ptr::eq(what.what, IN_BODY);
    let lift = |fiber: &Fiber| fiber.waits_for().filter(in_body).map(|_| fiber.waits_on.replace(ptr::null()));
    let lifted = current::with_running(|fiber| fiber.and_then(lift));
    if let Some(lifted) = lifted {
        at_point();
        current::with_running(|fiber| _ = fiber.map(|fiber| fiber.waits_on.replace(lifted)));
    }
}

/// Sets the effect of a [point](preemption_point) on a fiber, while there are [`PreemptionPoints`].
/// For simulators: `hook` may yield if the calling fiber is the simulator's, and does nothing if
/// not.
///
/// A process has one simulator: the first call counts.
pub fn set_preemption(hook: fn()) {
    HOOK.get_or_init(|| hook);
}

/// While one exists, [points](preemption_point) call the simulator's [hook](set_preemption).
#[derive(Debug)]
#[must_use = "points call the hook until it is dropped"]
pub struct PreemptionPoints(());

impl PreemptionPoints {
    /// Has points call the hook.
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
