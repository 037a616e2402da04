//! What the models share: how thoroughly they are explored, and counters of the outcomes that were
//! reached.
#![allow(dead_code)] // Each model uses a part of it.

pub mod queue;

use std::sync::atomic::{AtomicUsize, Ordering};

/// Explores every schedule with at most `preemptions` switches that no wait asked for.
pub fn model(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(f);
}

/// Counts over all schedules, so it is not a part of the model.
pub struct Reached(&'static str, AtomicUsize);

impl Reached {
    pub const fn new(what: &'static str) -> Self {
        Self(what, AtomicUsize::new(0))
    }

    pub fn note(&self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }

    pub fn note_if(&self, reached: bool) {
        self.1.fetch_add(usize::from(reached), Ordering::Relaxed);
    }

    #[track_caller]
    pub fn check(&self) {
        let times = self.1.load(Ordering::Relaxed);
        println!("{}: {times} schedules", self.0);
        assert!(times > 0, "never reached: {}", self.0);
    }
}

/// Fails if one of them was never reached.
#[track_caller]
pub fn check(outcomes: &[&Reached]) {
    outcomes.iter().for_each(|outcome| outcome.check());
}
