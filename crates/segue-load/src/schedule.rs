//! The instants at which the requests of one thread are due. Used by the fibers of its connections,
//! which take one request after the other: so the earliest waits the shortest for a connection.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The requests of one thread, of which each connection takes the next when it is free.
pub struct Schedule {
    start: Instant,
    end: Instant,
    /// From one request of this thread to the next, in nanoseconds; none is a closed loop.
    period: Option<f64>,
    /// Of the first one behind the start.
    offset: f64,
    taken: Cell<u64>,
}

impl Schedule {
    /// Of `rate` requests a second, every `threads`th from the one of this number on.
    pub(crate) fn new(
        start: Instant,
        duration: Duration,
        rate: Option<f64>,
        thread: usize,
        threads: usize,
    ) -> Schedule {
        let apart = rate.map(|rate| 1e9 / rate);
        Schedule {
            start,
            end: start + duration,
            period: apart.map(|apart| apart * threads as f64),
            offset: apart.unwrap_or(0.0) * thread as f64,
            taken: Cell::new(0),
        }
    }

    /// Takes the next request, which may be due later. `None` if there is no other one: requests
    /// that were due before the end, and found no connection by then, are not sent.
    pub(crate) fn take(&self, now: Instant) -> Option<Instant> {
        let due = self.period.map_or(now, |period| self.due(period, self.taken.get()));
        if due >= self.end || now >= self.end {
            return None;
        }
        self.taken.set(self.taken.get() + 1);
        Some(due)
    }

    /// Takes the next request if it is due.
    pub(crate) fn take_due(&self, now: Instant) -> Option<Instant> {
        match self.period {
            Some(period) if self.due(period, self.taken.get()) > now => None,
            _ => self.take(now),
        }
    }

    /// How many requests were due by now, and not taken.
    pub(crate) fn left(&self, now: Instant) -> u64 {
        let Some(period) = self.period else { return 0 };
        let time = now.min(self.end).saturating_duration_since(self.start).as_nanos() as f64;
        // Request 0 is due at the offset.
        let due = if time > self.offset { ((time - self.offset) / period).ceil() as u64 } else { 0 };
        due.saturating_sub(self.taken.get())
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    fn due(&self, period: f64, number: u64) -> Instant {
        self.start + Duration::from_nanos((self.offset + period * number as f64) as u64)
    }
}
