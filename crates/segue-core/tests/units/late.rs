//! What a worker finds that comes back while another thread fires its timers. Part of
//! `timers/late.rs`.

use super::{LATE, Look};
use crate::drivers::lazy_timer::{LazyTimer, Limit, TimeLimited};
use crate::timers::{Entry, Rare, Timers};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

struct Limited(LazyTimer);

impl TimeLimited for Limited {
    fn timer(&self, _: usize) -> &LazyTimer {
        &self.0
    }

    fn expire(&self, _: usize) {}
}

/// Asks for how long the worker may sleep, while the timers are fired in its stead.
struct ComesBack {
    timers: Timers,
    sleeps: Mutex<Vec<Option<Duration>>>,
}

impl Look for ComesBack {
    fn look(self: Arc<Self>) {
        self.sleeps.lock().unwrap().push(self.timers.until_next());
    }
}

#[test]
fn a_worker_that_comes_back_does_not_sleep_beyond_a_limit_that_a_look_has_in_its_hands() {
    let timers = Timers::real();
    let limited = Arc::new(Limited(LazyTimer::new()));
    let worker = Arc::new(ComesBack { timers: timers.clone(), sleeps: Mutex::default() });
    let due = Instant::now();
    let limit = Limit::set_among(&timers, &limited, 0, due).unwrap();
    let look = Rare::Look(Arc::<ComesBack>::downgrade(&worker) as Weak<dyn Look>);
    timers.insert(due, Entry::Rare(Box::new(look)));
    assert_eq!(timers.fire_due(true), 0);
    assert_eq!(*worker.sleeps.lock().unwrap(), [Some(LATE)]);
    assert!(!limit.is_over() && timers.until_next().is_some_and(|left| left.is_zero()));
    assert_eq!((timers.fire(), limit.is_over(), timers.until_next()), (1, true, None));
    assert!(timers.is_empty());
}
