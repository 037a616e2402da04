//! How long the running fiber has had its worker, by few looks at a clock.
//!
//! Used by checkpoints, which give up the turn when the slice of time is over (`checkpoint.rs`).

use segue_core::scheduling::Timers;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a turn may be, at checkpoints.
const SLICE: Duration = Duration::from_millis(1);

/// How often the clock is read, by and large.
pub(super) const GLANCE: Duration = Duration::from_micros(50);

/// The number of checkpoints after which the clock is read in any case.
const MOST: u32 = 1024;

/// How much of its slice the running fiber has used.
pub(crate) struct Slice {
    /// The turn that this is about.
    turn: Cell<usize>,
    /// When its first checkpoint and the last look at the clock were. `None` before the worker's
    /// first.
    times: Cell<Option<(Instant, Instant)>>,
    /// How many checkpoints there are between looks at the clock, and how many are left.
    every: Cell<u32>,
    left: Cell<u32>,
}

impl Slice {
    pub(crate) fn new() -> Self {
        Self { turn: Cell::new(0), times: Cell::new(None), every: Cell::new(1), left: Cell::new(1) }
    }

    /// Whether a look at the clock is due.
    #[inline]
    pub(super) fn tick(&self, turn: usize) -> bool {
        let left = self.left.get().wrapping_sub(1);
        self.left.set(left);
        left == 0 || self.turn.get() != turn
    }

    /// Looks at the clock, and answers whether the slice is over. A simulated clock stands still
    /// meanwhile: there the slice never is over.
    pub(super) fn is_over(&self, turn: usize, timers: &Timers) -> bool {
        let now = timers.now();
        let began = match self.times.get() {
            Some((began, last)) if self.turn.replace(turn) == turn => {
                let took = now.saturating_duration_since(last).as_nanos().max(1);
                let fit = u128::from(self.every.get()) * GLANCE.as_nanos() / took;
                let most = (self.every.get() * 2).min(MOST);
                self.every.set(u32::try_from(fit).unwrap_or(MOST).clamp(1, most));
                began
            }
            _ => {
                self.turn.set(turn);
                self.every.set(1);
                now
            }
        };
        self.left.set(self.every.get());
        self.times.set(Some((began, now)));
        now.saturating_duration_since(began) >= SLICE || timers.until_next().is_some_and(|left| left.is_zero())
    }
}
