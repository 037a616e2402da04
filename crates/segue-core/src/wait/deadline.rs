//! A point in time as something to wait for.
//!
//! Used by applications, by `select` with a time-out, and by `sleep`.
#![allow(unsafe_code)] // Registers triggers with the timers.

use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::thread::here::on_current;
use crate::timers::{Key, Timers};
use crate::tree::cancelled::Cancelled;
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable, wait};
use std::time::{Duration, Instant};

/// The clock of the caller's scheduler: virtual on the simulator, real elsewhere.
///
/// # Examples
///
/// ```
/// let before = segue_core::now();
/// assert!(segue_core::now() >= before);
/// ```
#[must_use]
pub fn now() -> Instant {
    on_current(|fiber| fiber.scheduler().timers().now())
}

/// The source that is ready at a point in time. Made by [`after`] and [`at`].
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// `None` is never.
    pub(super) at: Option<Instant>,
    pub(super) waits_for: WaitsFor,
    /// It was ahead just now, so the wait that begins need not look.
    is_ahead: bool,
}

impl Deadline {
    #[track_caller]
    pub(crate) fn at(at: Option<Instant>) -> Self {
        Self::new(at, WaitsFor::new("a point in time"))
    }

    pub(super) fn new(at: Option<Instant>, waits_for: WaitsFor) -> Self {
        Self { at, waits_for, is_ahead: false }
    }
}

/// Ready once `duration` has passed from now. A duration beyond what the clock can show is never;
/// and one of more than 292 years may be.
///
/// # Cancellation
/// *No effect*.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// segue_core::after(Duration::from_millis(1)).wait()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn after(duration: Duration) -> Waitable<Deadline> {
    at(now().checked_add(duration))
}

/// Ready at `instant`; `None` is never.
///
/// # Cancellation
/// *No effect*.
///
/// # Examples
///
/// ```
/// segue_core::at(Some(segue_core::now())).wait()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn at(instant: Option<Instant>) -> Waitable<Deadline> {
    Waitable::new(Deadline::at(instant))
}

/// A place among the timers of the waiter. It holds on to these timers, since a task may leave them
/// from elsewhere.
#[derive(Debug, Default)]
pub struct Alarm {
    timers: Option<Timers>,
    key: Option<Key>,
}

// SAFETY: `register` leaves the trigger with the timers under a key that `withdraw` takes out, of
// the same timers; these claim under their lock, and take out what they claim. What may unwind,
// starting the timers, is done by `prepare`.
unsafe impl Source for Deadline {
    type Output = ();
    type Slot = Alarm;

    fn waits_for(&self) -> WaitsFor {
        self.waits_for
    }

    /// It has no partners, and comes last.
    fn address(&self, _least: usize) -> Option<usize> {
        Some(usize::MAX)
    }

    fn attempt(&mut self) -> Option<()> {
        self.at.is_some_and(|at| at <= now()).then_some(())
    }

    unsafe fn prepare(&mut self, slot: &mut Alarm) {
        slot.timers = self.at.map(|_| on_current(|fiber| Timers::clone(fiber.scheduler().timers())));
    }

    unsafe fn start(&mut self, slot: &mut Alarm, trigger: &Trigger, arm: usize) -> Result<Option<()>, Retreat> {
        if !std::mem::take(&mut self.is_ahead) && self.attempt().is_some() {
            return Ok(Some(()));
        }
        // SAFETY: as the caller promises.
        unsafe {
            self.prepare(slot);
            trigger.expose();
            self.register(slot, trigger, arm)?;
        }
        Ok(None)
    }

    /// Does not look at the clock: if the time has come since the last look, the entry comes up
    /// when its worker looks next, as every other.
    unsafe fn register(&mut self, slot: &mut Alarm, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        let (Some(at), Some(timers)) = (self.at, &slot.timers) else { return Ok(()) };
        // SAFETY: the caller withdraws, or commits after the signal, before the trigger goes.
        slot.key = Some(unsafe { timers.signal_at(at, trigger, arm) });
        Ok(())
    }

    unsafe fn withdraw(&mut self, slot: &mut Alarm) {
        if let (Some(key), Some(timers)) = (slot.key.take(), &slot.timers) {
            timers.remove(key);
        }
    }

    unsafe fn commit(&mut self, slot: &mut Alarm, _arm: usize) -> Option<()> {
        slot.key = None;
        let (at, timers) = (self.at?, slot.timers.as_ref()?);
        // A waiter that was told of the end of a scheduler waits on.
        (!timers.is_closed() || at <= timers.now()).then_some(())
    }

    unsafe fn give_back(&mut self, slot: &mut Alarm, _arm: usize) {
        slot.key = None;
    }
}

/// Suspends the calling fiber, or parks the calling thread, for at least `duration`.
///
/// Zero returns at once; a duration that the clock can't show never ends by itself.
///
/// # Cancellation
/// *No effect*: the sleep ends at once.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Examples
///
/// ```
/// segue_core::sleep(std::time::Duration::from_millis(1))?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Result<(), Cancelled> {
    // One look at the clock, of which more would be a good part of a short sleep's costs.
    wait(&mut Deadline { is_ahead: !duration.is_zero(), ..after(duration).into_source() })
}
