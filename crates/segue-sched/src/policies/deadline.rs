//! Earliest deadline first, by an attribute.
//!
//! For requests that each have a time by which they are to be answered.

use super::{Clock, Ordered};
use crate::worker::policy::{Goes, Policy, Task, Why};
use segue_core::Attribute;
use segue_core::scheduling::Job;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// By when a fiber is to have done its work. Children inherit the deadline. Nothing happens when
/// the deadline has passed: it is an order, not a limit (for that there is
/// [`deadline`](segue_core::deadline)).
///
/// The value counts from the next time that the fiber becomes ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due(Duration);

/// The origin of points in time, so that one fits into a word.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

impl Due {
    /// At this point in time. Earlier points than the making of the first one count as that
    /// instant.
    #[must_use]
    pub fn at(instant: Instant) -> Self {
        Self(instant.saturating_duration_since(epoch()))
    }

    /// So long from now.
    #[must_use]
    pub fn within(duration: Duration) -> Self {
        Self::at(Instant::now()).later(duration)
    }

    fn later(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Attribute for Due {
    #[inline]
    fn to_bits(self) -> u64 {
        // Five hundred years are enough.
        self.0.as_nanos().try_into().unwrap_or(u64::MAX)
    }

    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self(Duration::from_nanos(bits))
    }
}

/// Earliest [`Due`] first; among equals first in, first out.
///
/// Each worker runs next the ready fiber that is due first. A fiber without `Due` is due some
/// [patience](ByDeadline::patience) after becoming ready, each time. A fiber that is late by more
/// than that patience counts as late by just that. A closure runs on the worker of its spawner, one
/// from outside on the first worker that sees that closure, unless another worker has nothing to
/// do: that gets the one that is due first.
///
/// Good for: on one worker, work that can be done in time at all is done in time in this order, as
/// long as turns are short. Under overload this order is not good: then most things are late by a
/// little, rather than some by much.
///
/// # Starvation
/// None: points in time pass. A ready fiber is overtaken only by fibers that become ready before it
/// is late by the patience, however long ago they were due. (The clock is looked at for every 16th
/// of those that carry a `Due`.)
#[derive(Debug)]
pub struct ByDeadline {
    /// By the bits of their `Due`.
    ready: Ordered<u64>,
    patience: Duration,
    clock: Clock,
    /// The time when the clock was looked at last, less the patience: nothing is taken to be due
    /// earlier.
    earliest: Due,
    /// How many have carried a deadline.
    looks: u32,
}

/// For every so many of those that carry a deadline the clock is looked at.
const LOOKS: u32 = 16;

impl ByDeadline {
    /// A fiber without a deadline is due so long after becoming ready.
    #[must_use]
    pub fn patience(patience: Duration) -> Self {
        Self::with_clock(patience, Instant::now)
    }

    /// With a clock other than the real one.
    #[must_use]
    pub fn with_clock(patience: Duration, clock: impl Fn() -> Instant + 'static) -> Self {
        let (earliest, looks) = (Due(Duration::ZERO), 0);
        Self { ready: Ordered::default(), patience, clock: Clock::new(clock), earliest, looks }
    }

    fn look(&mut self) -> Due {
        let now = Due::at(self.clock.now());
        self.earliest = Due(now.0.saturating_sub(self.patience));
        now
    }
}

/// With a patience of a tenth of a second.
impl Default for ByDeadline {
    fn default() -> Self {
        Self::patience(Duration::from_millis(100))
    }
}

impl Policy for ByDeadline {
    #[inline]
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        let due = match task.attribute::<Due>() {
            None => self.look().later(self.patience),
            Some(due) => {
                self.looks = self.looks.wrapping_add(1);
                if self.looks.is_multiple_of(LOOKS) {
                    self.look();
                }
                due.max(self.earliest)
            }
        };
        self.ready.push(due.to_bits(), task);
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.ready.pop()
    }

    fn spare(&mut self) -> Option<Job> {
        self.ready.spare()
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}
