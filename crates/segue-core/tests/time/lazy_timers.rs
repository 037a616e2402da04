//! Limits of waits that share one timer: when they come up, and what entries they make.

use segue_core::drivers::{LazyTimer, Limit, TimeLimited};
use segue_core::scheduling::Timers;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Two {
    timers: [LazyTimer; 2],
    told: [AtomicUsize; 2],
}

impl TimeLimited for Two {
    fn timer(&self, number: usize) -> &LazyTimer {
        &self.timers[number]
    }

    fn expire(&self, number: usize) {
        self.told[number].fetch_add(1, Ordering::Relaxed);
    }
}

fn two() -> (Arc<Two>, Timers) {
    let two = || Arc::new(Two { timers: [LazyTimer::new(), LazyTimer::new()], told: Default::default() });
    // Limits are counted from the first one that was ever set, here and not between two tests.
    drop(set(&two(), 0, &Timers::simulated(), 1));
    (two(), Timers::simulated())
}

fn told(two: &Two) -> [usize; 2] {
    [0, 1].map(|number| two.told[number].load(Ordering::Relaxed))
}

fn set<'o>(two: &'o Arc<Two>, number: usize, timers: &Timers, millis: u64) -> Option<Limit<'o>> {
    Limit::set_among(timers, two, number, timers.now() + Duration::from_millis(millis))
}

const MILLISECOND: Duration = Duration::from_millis(1);

#[test]
fn a_limit_is_over_at_its_time_and_not_before() {
    let (two, timers) = two();
    let limit = set(&two, 1, &timers, 3).unwrap();
    timers.advance(3 * MILLISECOND - Duration::from_nanos(1));
    assert_eq!((timers.fire(), limit.is_over(), told(&two)), (0, false, [0, 0]));
    timers.advance(Duration::from_nanos(1));
    assert_eq!((timers.fire(), limit.is_over(), told(&two)), (1, true, [0, 1]));
    assert!(timers.is_empty());
    drop(limit);
    assert!(!set(&two, 1, &timers, 1).unwrap().is_over());
}

#[test]
fn a_thousand_waits_make_one_entry_that_is_moved_to_the_last() {
    let (two, timers) = two();
    let began = timers.now();
    for _ in 0..1000 {
        drop(set(&two, 0, &timers, 2000).unwrap());
        timers.advance(MILLISECOND);
        assert_eq!(timers.until_next(), Some(2000 * MILLISECOND - (timers.now() - began)));
    }
    let limit = set(&two, 0, &timers, 2000).unwrap();
    timers.advance(1000 * MILLISECOND);
    assert_eq!((timers.fire(), limit.is_over()), (0, false));
    assert_eq!(timers.until_next(), Some(1000 * MILLISECOND), "it is moved when it comes up");
    timers.advance(1000 * MILLISECOND);
    assert_eq!((timers.fire(), limit.is_over(), told(&two)), (1, true, [1, 0]));
}

#[test]
fn an_earlier_limit_has_the_entry_earlier() {
    let (two, timers) = two();
    drop(set(&two, 0, &timers, 1000).unwrap());
    let limit = set(&two, 0, &timers, 1).unwrap();
    assert_eq!(timers.until_next(), Some(MILLISECOND));
    timers.advance(MILLISECOND);
    assert_eq!((timers.fire(), limit.is_over()), (1, true));
    assert!(timers.is_empty(), "the later one has gone");
}

#[test]
fn an_entry_that_comes_up_without_a_wait_is_the_last() {
    let (two, timers) = two();
    drop(set(&two, 0, &timers, 1).unwrap());
    timers.advance(MILLISECOND);
    assert_eq!((timers.fire(), timers.is_empty(), told(&two)), (0, true, [0, 0]));
}

#[test]
fn one_wait_at_a_time_has_the_timer() {
    let (two, timers) = two();
    let limit = set(&two, 0, &timers, 1).unwrap();
    assert!(set(&two, 0, &timers, 1).is_none());
    assert!(set(&two, 1, &timers, 1).is_some(), "the other one is free");
    drop(limit);
    assert!(set(&two, 0, &timers, 1).is_some());
}

#[test]
fn a_wait_on_another_scheduler_takes_the_entry_there() {
    let (two, first) = two();
    let second = Timers::simulated();
    drop(set(&two, 0, &first, 1).unwrap());
    let limit = set(&two, 0, &second, 10).unwrap();
    assert!(first.is_empty());
    second.advance(10 * MILLISECOND);
    assert_eq!((second.fire(), limit.is_over()), (1, true));
}

#[test]
fn nothing_is_left_behind() {
    let (two, timers) = two();
    drop((set(&two, 0, &timers, 1).unwrap(), set(&two, 1, &timers, 2).unwrap()));
    assert_eq!(timers.until_next(), Some(MILLISECOND));
    drop(two);
    assert!(timers.is_empty());
}
