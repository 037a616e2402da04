//! The window: after how many turns a busy worker looks around.
//!
//! Used by the worker loop.

use std::time::{Duration, Instant};

/// How often a busy worker polls its park and fires timers, by and large.
pub(super) const PERIOD: Duration = Duration::from_micros(250);

/// After how many turns a busy worker does so in any case. Turns of a few nanoseconds come to some
/// microseconds, beside which reading the clock is little.
const MOST_TURNS: u32 = 512;

/// The time that policies are told in turns: one part in so many of [`PERIOD`], 20 microseconds.
const PACES: u32 = 12;

/// After how many turns a busy worker looks around: so many that they take [`PERIOD`], as far as
/// the last ones tell. At least one and at most [`MOST_TURNS`].
///
/// So an event of a driver or a timer is found after a period and one turn, if turns are alike. If
/// they become longer all at once, the next window has a quarter of the turns and the one after it
/// as many as fit: this takes two windows of the new turns, of at most [`MOST_TURNS`] and a quarter
/// of that.
pub(super) struct Window {
    pub(super) turns: u32,
    /// The last one took much longer than a period.
    pub(super) was_long: bool,
    pub(super) since: Option<Instant>,
    /// See [`Policy::paced`].
    pub(super) pace: u32,
}

impl Window {
    /// A window with turns that are not known yet.
    pub(super) fn new() -> Self {
        Self { turns: MOST_TURNS / 8, was_long: false, since: None, pace: 1 }
    }

    /// The window's turns are over. By the clock of the timers: a simulated one does not move
    /// meanwhile, so that simulations do not depend on the time.
    pub(super) fn renew(&mut self, now: Instant) -> u32 {
        if let Some(since) = self.since.replace(now) {
            let took = now.saturating_duration_since(since).as_nanos().max(1);
            let fit = (u128::from(self.turns) * PERIOD.as_nanos() / took).max(1);
            let fit = u32::try_from(fit).unwrap_or(MOST_TURNS);
            // A window in which the system had taken the processor away says little of turns; two
            // in succession do.
            let least = (self.turns / 4).max(1);
            let is_long = fit < least;
            let believed = if is_long && !self.was_long { least } else { fit };
            self.was_long = is_long;
            // One window of short turns does not say that all will be.
            self.turns = believed.min(self.turns * 2).min(MOST_TURNS);
            self.pace = (believed / PACES).clamp(1, MOST_TURNS);
        }
        self.turns
    }
}
