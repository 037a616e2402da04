//! The attribute `segue::test`: its forms, the attributes beside it, and what a failure says.

#![cfg(feature = "sched")]

use segue::sync::Mutex;
use segue::{spawn, yield_now};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

static RUNS: AtomicUsize = AtomicUsize::new(0);

#[segue::test]
fn without_arguments() {
    assert_eq!(spawn(|| 6 * 7).join().unwrap(), 42);
}

/// It has a comment, and attributes before and after.
#[allow(clippy::unnecessary_wraps)] // A test may return a result.
#[segue::test(policy = random, schedules = 3, seed = 0xff,)]
#[cfg(not(miri))]
fn with_a_result() -> Result<(), segue::Cancelled> {
    RUNS.fetch_add(1, SeqCst);
    yield_now()
}

#[test]
fn it_runs_as_often_as_it_says() {
    let before = RUNS.load(SeqCst);
    with_a_result();
    assert!(RUNS.load(SeqCst) >= before + 3);
}

#[segue::test(policy = pct(2), schedules = 200)]
#[should_panic(expected = "panicked: an addition was lost")]
fn a_failure_panics_with_its_message() {
    adds_twice();
}

#[segue::test(policy = exhaustive(1_000))]
#[should_panic(expected = "to replay it: SEGUE_SEED=choices-")]
fn a_failure_says_how_to_replay_it() {
    adds_twice();
}

#[segue::test(schedules = 50)]
#[should_panic(expected = "cargo test -p segue inside::a_failure_is_named -- --exact --ignored")]
fn a_name_in_a_module() {
    inside::a_failure_is_named();
}

mod inside {
    #[segue::test(schedules = 1)]
    #[ignore = "it fails; another test calls it"]
    pub fn a_failure_is_named() -> Result<(), &'static str> {
        Err("so it is")
    }
}

#[segue::test(leaks = forbid)]
#[should_panic(expected = "fiber `idle` waits for a mutex at")]
fn a_fiber_that_is_left() {
    let mutex = std::sync::Arc::new(Mutex::new(()));
    let held = mutex.lock().unwrap();
    let other = std::sync::Arc::clone(&mutex);
    drop(segue::Builder::new().name("idle").spawn(move || other.lock().map(drop)));
    // Until it waits.
    (0..3).for_each(|_| yield_now().unwrap());
    std::mem::forget(held);
}

#[segue::test(preempt = false, policy = exhaustive(1))]
fn without_preemption_there_is_one_schedule() {
    let number = Cell::new(0);
    let before = number.get();
    segue::check().unwrap();
    number.set(before + 1);
    assert_eq!(number.get(), 1);
}

#[segue::test(policy = exhaustive(3))]
#[should_panic(expected = "3 schedules have passed, and there are others")]
fn a_limit_that_is_too_low() {
    segue::scope(|s| (0..3).for_each(|_| drop(s.spawn(|| yield_now().unwrap()))));
}

fn adds_twice() {
    let number = std::sync::Arc::new(Mutex::new(0));
    let add = |number: std::sync::Arc<Mutex<u32>>| {
        move || {
            let seen = *number.lock().unwrap();
            *number.lock().unwrap() = seen + 1;
        }
    };
    let fibers = [spawn(add(number.clone())), spawn(add(number.clone()))];
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert!(*number.lock().unwrap() == 2, "an addition was lost");
}
