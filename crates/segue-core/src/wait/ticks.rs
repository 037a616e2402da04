//! Ticks: points in time at equal distances, to be waited for one after the other.
//!
//! Used by loops that do something again and again, alone or as an arm of a choice.

use crate::contract::timers::now;
use crate::contract::tree::cancelled::Cancelled;
use crate::wait::deadline::at;
use crate::wait::source::{Source, Waitable};
use std::time::{Duration, Instant};

/// Ticks in every `period`, the first of them one period from now.
///
/// They come at fixed times, the start and a whole number of periods, however long what is done in
/// between takes. A tick that nobody has waited for in time is not made up for: the next wait ends
/// at once, and yields how many ticks have come since the last one, so one that is over 1 says that
/// some were missed. The ticks after that are at the fixed times again.
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
    Ticks { period, next: now().checked_add(period) }
}

/// Points in time at equal distances. Made by [`interval`].
#[derive(Debug)]
pub struct Ticks {
    period: Duration,
    /// `None` is never: beyond what the clock can show.
    next: Option<Instant>,
}

impl Ticks {
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

    /// [`tick`](Ticks::tick) for tasks and choices.
    ///
    /// # Cancellation
    /// As for [`tick`](Ticks::tick).
    #[track_caller]
    pub fn tick_source(&mut self) -> Waitable<impl Source<Output = u64>> {
        at(self.next).map(|()| self.advance())
    }

    /// Goes on to the first tick after now. Answers how many have come.
    fn advance(&mut self) -> u64 {
        let Some(next) = self.next else { unreachable!("never does not come") };
        let (late, period) = (now().saturating_duration_since(next).as_nanos(), self.period.as_nanos());
        let came = late / period + 1;
        self.next = duration(came * period).and_then(|ahead| next.checked_add(ahead));
        u64::try_from(came).unwrap_or(u64::MAX)
    }
}

fn duration(nanos: u128) -> Option<Duration> {
    const SECOND: u128 = Duration::from_secs(1).as_nanos();
    Some(Duration::new(u64::try_from(nanos / SECOND).ok()?, (nanos % SECOND) as u32))
}
