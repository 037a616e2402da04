//! Virtual time with work outside: the clock stands, and no deadlock is reported, until the answer
//! is there.

use crate::common::Meet;
use segue_core::{OutsideWork, now, outside_work, scope, sleep, spawn, yield_now};
use segue_sched::{Explore, Sim};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Calls `f` on a thread of its own, and has the calling fiber wait for it.
fn elsewhere<T: Clone + Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let answer = Arc::new(Meet::new());
    let (resolve, outside) = (Arc::clone(&answer), outside_work());
    let thread = thread::spawn(move || {
        resolve.put(f());
        drop(outside);
    });
    let value = answer.wait().unwrap();
    thread.join().unwrap();
    value
}

#[test]
fn the_simulator_waits_for_an_answer_from_outside() {
    for seed in 0..20 {
        assert_eq!(Sim::new(seed).run(|| elsewhere(|| 6 * 7)), Ok(42));
    }
}

#[test]
fn the_clock_stands_meanwhile() {
    for seed in 0..20 {
        let run = Sim::new(seed).run(|| {
            let start = now();
            let (release, held) = mpsc::channel::<()>();
            let sleeper = spawn(move || {
                sleep(Duration::from_secs(60)).unwrap();
                now() - start
            });
            let worker = spawn(move || {
                elsewhere(move || held.recv().is_err());
                now() - start
            });
            // Both wait by now, for the clock and for the thread, and the thread for this.
            (0..20).for_each(|_| yield_now().unwrap());
            assert!(!sleeper.is_finished() && !worker.is_finished());
            drop(release);
            (worker.join().unwrap(), sleeper.join().unwrap())
        });
        assert_eq!(run.unwrap(), (Duration::ZERO, Duration::from_secs(60)));
    }
}

#[test]
fn a_sleep_before_an_answer_takes_no_time_on_either_clock() {
    let started = Instant::now();
    let run = Sim::new(1).run(|| {
        let start = now();
        let (asks, asked) = mpsc::channel();
        scope(|s| {
            drop(s.spawn(|| {
                // The first nap is over before anything is asked.
                sleep(Duration::from_secs(3_600)).unwrap();
                elsewhere(move || asked.recv().unwrap());
            }));
            drop(s.spawn(|| {
                sleep(Duration::from_secs(3_600)).unwrap();
                asks.send(()).unwrap();
                sleep(Duration::from_secs(3_600)).unwrap();
            }));
        });
        now() - start
    });
    assert_eq!(run.unwrap(), Duration::from_secs(7_200));
    assert!(started.elapsed() < Duration::from_secs(600));
}

#[test]
fn work_that_ends_without_an_answer_leaves_a_deadlock() {
    for seed in 0..20 {
        let run = Sim::new(seed).run(|| {
            let outside = outside_work();
            let (start, started) = mpsc::channel::<()>();
            let thread = thread::spawn(move || {
                let _ = started.recv();
                drop(outside);
            });
            drop(start);
            let waited = Meet::<()>::new().wait();
            thread.join().unwrap();
            waited
        });
        // Whether the thread was done before or after the simulator had found nothing to do.
        assert_eq!(run.unwrap_err().fibers.len(), 1, "seed {seed}");
    }
}

#[test]
fn several_are_counted() {
    let run = Sim::new(4).run(|| {
        let start = now();
        let held: Vec<OutsideWork> = (0..3).map(|_| outside_work()).collect();
        let thread = thread::spawn(move || held.into_iter().for_each(drop));
        sleep(Duration::from_secs(5)).unwrap();
        thread.join().unwrap();
        now() - start
    });
    assert_eq!(run.unwrap(), Duration::from_secs(5), "nobody answers, so the clock goes on when the last is over");
}

#[test]
fn answers_that_race_with_the_clock_are_never_overtaken() {
    for _ in 0..300 {
        let run = Sim::new(0).run(|| {
            let start = now();
            let timed = spawn(move || sleep(Duration::from_secs(1)));
            let answered = elsewhere(|| 1);
            let at = now() - start;
            timed.join().unwrap().unwrap();
            (answered, at)
        });
        assert_eq!(run.unwrap(), (1, Duration::ZERO), "the clock has moved while an answer was under way");
    }
}

#[test]
fn an_exploration_can_have_work_outside() {
    let explored = Explore::random(50).check(|| {
        let fibers = [1, 2, 3].map(|n| spawn(move || elsewhere(move || n * n)));
        assert_eq!(fibers.map(|fiber| fiber.join().unwrap()), [1, 4, 9]);
    });
    assert_eq!(explored.schedules, 50);
}

#[test]
fn elsewhere_it_has_no_effect() {
    drop(outside_work());
    let worker = segue_sched::Runtime::new().workers(1);
    worker.run(|| drop((outside_work(), sleep(Duration::from_millis(1))))).unwrap();
}
