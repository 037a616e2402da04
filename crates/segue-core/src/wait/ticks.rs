//! Ticks: points in time at equal distances, to be waited for one after the other.
//!
//! Used by loops that do something again and again, alone or as an arm of a choice or a merge.
#![allow(unsafe_code)] // `Source` is an unsafe trait.

use crate::contract::trigger::Trigger;
use crate::primitives::waits_for::WaitsFor;
use crate::tree::cancelled::Cancelled;
use crate::wait::deadline::{Alarm, Deadline, now};
use crate::wait::holders::{slot_of, steps_of};
use crate::wait::retreat::Retreat;
use crate::wait::source::{Source, Waitable};
use std::time::{Duration, Instant};

/// Ticks in every `period`, the first of them one period from now.
///
/// They come at fixed times, the start and a whole number of periods, however long the work in
/// between takes. A tick that nobody has waited for in time is not made up for: the next wait ends
/// at once, and yields how many ticks have come since the last one, so one that is over 1 says that
/// some were missed. The ticks after that are at the fixed times again. [`Ticks::missed`] says
/// otherwise.
///
/// The clock is that of the caller's scheduler, in a simulation the virtual one.
///
/// # Panics
/// If `period` is zero.
///
/// # Examples
///
/// ```
/// use segue_core::{Either, after, interval};
/// use std::time::Duration;
///
/// let mut ticks = interval(Duration::from_millis(1));
/// let end = after(Duration::from_millis(20));
/// let mut number = 0;
/// while let Either::Right(came) = end.or_else(ticks.tick_source()).wait()? {
///     number += came;
/// }
/// println!("{number} ticks in 20 ms");
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[must_use = "nothing happens before a tick is waited for"]
pub fn interval(period: Duration) -> Ticks {
    assert!(!period.is_zero(), "the period of an interval is zero: call `yield_now` in a loop to let others run");
    Ticks { period, next: now().checked_add(period), missed: Missed::Skip }
}

/// The rule for ticks that nobody has waited for in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// The next wait ends at once and yields the number of those that have come; those after it are
    /// at the fixed times again. For work at certain times, that may be left out.
    #[default]
    Skip,
    /// Each is made up for: waits end at once until all have been had, and each yields 1. For work
    /// to be done so many times, that may be late.
    Burst,
    /// The next wait ends at once and yields the number of those that have come; the next one comes
    /// a period later, and so on from there. For work with a pause in between.
    Delay,
}

/// Points in time at equal distances. Made by [`interval`].
#[derive(Debug)]
pub struct Ticks {
    period: Duration,
    /// `None` is never: beyond the end of the clock.
    next: Option<Instant>,
    missed: Missed,
}

impl Ticks {
    /// The same ticks; those that are missed become this.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Missed, interval, sleep};
    /// use std::time::Duration;
    ///
    /// let mut ticks = interval(Duration::from_millis(1)).missed(Missed::Burst);
    /// sleep(Duration::from_millis(3))?;
    /// assert_eq!([ticks.tick()?, ticks.tick()?, ticks.tick()?], [1, 1, 1]);
    /// # Ok::<(), segue_core::Cancelled>(())
    /// ```
    #[must_use = "it is the ticks that are given back that go by it"]
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// Waits for the next tick, and yields how many have come since the last one that was waited
    /// for: 1, if none was missed.
    ///
    /// # Cancellation
    /// *No effect*: the tick is there for the next call.
    ///
    /// # Errors
    /// [`Cancelled`] if the caller was cancelled.
    #[track_caller]
    pub fn tick(&mut self) -> Result<u64, Cancelled> {
        self.tick_source().wait()
    }

    /// [`tick`](Ticks::tick) for tasks and choices. The source can be waited for again: for the
    /// tick after that.
    ///
    /// # Cancellation
    /// As for [`tick`](Ticks::tick).
    #[track_caller]
    pub fn tick_source(&mut self) -> Waitable<impl Source<Output = u64>> {
        Waitable::new(Tick { ticks: self, waits_for: WaitsFor::new("a tick") })
    }

    /// Goes on to the next tick. Answers how many have come.
    fn advance(&mut self) -> u64 {
        let Some(next) = self.next else { unreachable!("never does not come") };
        let now = now();
        let period = self.period.as_nanos();
        let came = now.saturating_duration_since(next).as_nanos() / period + 1;
        let (came, from, periods) = match self.missed {
            Missed::Skip => (came, next, came),
            Missed::Burst => (1, next, 1),
            Missed::Delay => (came, now.max(next), 1),
        };
        self.next = duration(periods * period).and_then(|ahead| from.checked_add(ahead));
        u64::try_from(came).unwrap_or(u64::MAX)
    }
}

/// The source of [`Ticks::tick_source`].
struct Tick<'a> {
    ticks: &'a mut Ticks,
    waits_for: WaitsFor,
}

impl Tick<'_> {
    /// The next tick, until that has come.
    fn end(&self) -> Deadline {
        Deadline::new(self.ticks.next, self.waits_for)
    }
}

// SAFETY: every step is that of the source of the next tick, which is the same one until an attempt
// or a commit has yielded; nothing is registered then.
unsafe impl Source for Tick<'_> {
    type Output = u64;
    type Slot = Alarm;

    steps_of!(self => self.end(), slot => slot, |()| Some(self.ticks.advance()));
    slot_of!(self => self.end());
}

fn duration(nanos: u128) -> Option<Duration> {
    const SECOND: u128 = Duration::from_secs(1).as_nanos();
    Some(Duration::new(u64::try_from(nanos / SECOND).ok()?, (nanos % SECOND) as u32))
}
