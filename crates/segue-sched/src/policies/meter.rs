//! How long things run, for policies that divide the processor by time: a clock, and what each of
//! several has used.
//!
//! Used by `fair` and `hierarchical`; the clock also by `deadline`.

use std::num::NonZero;
use std::time::Instant;

/// What time it is. Tests bring their own.
pub(super) struct Clock(Box<dyn Fn() -> Instant>);

impl Clock {
    pub(super) fn new(clock: impl Fn() -> Instant + 'static) -> Self {
        Self(Box::new(clock))
    }

    pub(super) fn now(&self) -> Instant {
        (self.0)()
    }
}

segue_core::impl_debug!([] Clock);

/// The key that has the processor, and since when.
#[derive(Debug)]
pub(super) struct Meter<W> {
    clock: Clock,
    running: Option<(W, Instant)>,
}

impl<W> Meter<W> {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, running: None }
    }

    pub(super) fn start(&mut self, key: W) {
        self.running = Some((key, self.clock.now()));
    }

    /// The key that has run since `start`, if any, and how long in nanoseconds: one at least.
    pub(super) fn stop(&mut self) -> Option<(W, u128)> {
        let (key, since) = self.running.take()?;
        Some((key, self.clock.now().saturating_duration_since(since).as_nanos().max(1)))
    }
}

/// What has been used in relation to a share: nanoseconds for a share of one, in fixed point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Used(u128);

impl Used {
    pub(super) fn charge(&mut self, nanoseconds: u128, share: NonZero<u32>) {
        self.0 += (nanoseconds << 32) / u128::from(share.get());
    }
}
