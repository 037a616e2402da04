//! The simulator: the same seed gives the same schedule, different seeds different ones; its clock
//! moves only when nothing can run; it finds a planted race and replays it; a deadlock is reported
//! with names and places.

use crate::common::{Meet, in_child};
use segue_core::{Builder, now, random, scope, shield, sleep, spawn, yield_now};
use segue_sched::{Deadlock, Sim, join};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Who ran when, of some fibers that yield, sleep, fork and meet.
fn trace(seed: u64) -> Vec<u32> {
    let trace = Mutex::new(Vec::new());
    let note = |what| trace.lock().unwrap().push(what);
    let run = Sim::new(seed).run(|| {
        let meet = Meet::new();
        scope(|s| {
            for n in 0..4 {
                let (note, meet) = (&note, &meet);
                drop(s.spawn(move || {
                    for step in 0..4 {
                        note(n * 10 + step);
                        match (n + step) % 4 {
                            0 => sleep(Duration::from_millis(u64::from(step))).unwrap(),
                            1 => drop(join(yield_now, || note(100 + n))),
                            _ => yield_now().unwrap(),
                        }
                    }
                    if n == 0 {
                        meet.put(())
                    } else {
                        meet.wait().unwrap()
                    }
                    note(200 + n);
                }));
            }
        });
    });
    run.unwrap();
    trace.into_inner().unwrap()
}

#[test]
fn random_numbers_follow_from_the_seed_and_the_fiber() {
    let drawn = |seed| {
        let run = Sim::new(seed).run(|| {
            let three = || [random(), random(), random()];
            [three(), spawn(three).join().unwrap(), spawn(three).join().unwrap()]
        });
        run.unwrap().concat()
    };
    let mut all = HashSet::new();
    for seed in 0..50 {
        let first = drawn(seed);
        assert_eq!(first, drawn(seed), "seed {seed}");
        all.extend(first);
    }
    assert_eq!(all.len(), 50 * 9, "each number of each fiber and seed is another");
}

#[test]
fn a_seed_is_a_schedule() {
    let mut schedules = HashSet::new();
    for seed in 0..50 {
        let first = trace(seed);
        assert_eq!(first, trace(seed), "seed {seed}");
        schedules.insert(first);
    }
    assert!(schedules.len() > 25, "50 seeds reached {} schedules", schedules.len());
}

#[test]
fn few_fibers_reach_every_order() {
    let orders: HashSet<Vec<u32>> = (0..200)
        .map(|seed| {
            let order = Mutex::new(Vec::new());
            let push = |n| order.lock().unwrap().push(n);
            Sim::new(seed).run(|| scope(|s| (0..3).for_each(|n| drop(s.spawn(move || push(n)))))).unwrap();
            order.into_inner().unwrap()
        })
        .collect();
    assert_eq!(orders.len(), 6);
}

/// Two fibers add to a number that they read before and write after their turn.
fn lost_update(seed: u64) -> u32 {
    let number = AtomicU32::new(0);
    let add = || {
        let seen = number.load(SeqCst);
        yield_now().unwrap();
        number.store(seen + 1, SeqCst);
    };
    Sim::new(seed).run(|| scope(|s| drop((s.spawn(add), s.spawn(add))))).unwrap();
    number.into_inner()
}

#[test]
fn a_planted_race_is_found_and_replayed() {
    let found = (0..50).find(|&seed| lost_update(seed) == 1).expect("within fifty seeds");
    for _ in 0..10 {
        assert_eq!(lost_update(found), 1, "seed {found}");
    }
    assert!((0..50).any(|seed| lost_update(seed) == 2), "the race is not in every schedule");
}

#[test]
fn the_clock_stands_while_anything_can_run() {
    for seed in 0..20 {
        let run = Sim::new(seed).run(|| {
            let start = now();
            let alarm = spawn(move || {
                sleep(Duration::from_secs(10)).unwrap();
                now() - start
            });
            for _ in 0..1000 {
                yield_now().unwrap();
                assert_eq!(now(), start, "others could run");
            }
            assert!(!alarm.is_finished());
            alarm.join().unwrap()
        });
        assert_eq!(run.unwrap(), Duration::from_secs(10), "it moves to the timer and not beyond");
    }
}

#[test]
fn the_clock_goes_from_timer_to_timer() {
    let run = Sim::new(1).run(|| {
        let start = now();
        let naps = [3, 1, 2].map(|n| spawn(move || sleep(Duration::from_secs(n)).map(|()| (now() - start).as_secs())));
        naps.map(|nap| nap.join().unwrap().unwrap())
    });
    assert_eq!(run.unwrap(), [3, 1, 2]);
}

#[test]
fn a_deadlock_is_reported_with_names_and_places() {
    for seed in 0..20 {
        let run = Sim::new(seed).run(|| {
            let (left, right) = (Meet::new(), Meet::new());
            scope(|s| {
                drop(Builder::new().name("left").within(s).spawn(|| left.wait().map(|()| right.put(()))));
                drop(Builder::new().name("right").within(s).spawn(|| right.wait().map(|()| left.put(()))));
            });
        });
        let deadlock: Deadlock = run.unwrap_err();
        assert_eq!(deadlock.seed, seed);
        let text = deadlock.to_string();
        for part in ["fiber `left` waits for a meeting at ", "fiber `right` waits for a meeting at ", "sim.rs:"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("the fibers of a scope"), "the first fiber waits too: {text}");
        assert_eq!(deadlock.fibers.len(), 3);
    }
}

#[test]
fn after_a_deadlock_everything_is_cancelled_and_unwound_in_order() {
    let drops = AtomicUsize::new(0);
    let run = Sim::new(7).run(|| {
        let held = crate::common::Counted(&drops);
        let waited = Meet::<()>::new().wait();
        drop(held);
        assert_eq!(waited.unwrap_err().to_string(), "cancelled: the simulation came to a deadlock (seed 7)");
        drops.load(SeqCst)
    });
    assert!(run.is_err(), "also where the program copes with it");
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn a_deadlock_in_a_shield_ends_with_the_report() {
    let end = in_child("a_deadlock_in_a_shield_ends_with_the_report", || {
        let _ = Sim::new(5).run(|| shield(|| Meet::<()>::new().wait()));
    });
    // Its stacks could be neither continued nor freed: the process ends.
    end.assert_aborted("still stuck after cancellation");
    for part in ["seed 5", "waits for a meeting at ", "sim.rs:"] {
        assert!(end.stderr.contains(part), "{part:?} is missing: {end:#?}");
    }
}

#[test]
fn a_wait_for_another_thread_counts_as_a_deadlock() {
    let meet = Meet::<u32>::new();
    std::thread::scope(|threads| {
        let run = Sim::new(0).run(|| meet.wait());
        threads.spawn(|| meet.put(1));
        assert!(run.is_err());
    });
}

#[test]
fn a_panic_in_the_simulation_comes_out() {
    let run = std::panic::catch_unwind(|| Sim::new(0).run(|| std::panic::panic_any(5_u64)));
    assert_eq!(*run.unwrap_err().downcast::<u64>().unwrap(), 5);
}

#[test]
fn an_open_world_waits_for_other_threads() {
    let answer = Sim::new(3).open().run(|| {
        let meet = std::sync::Arc::new(Meet::new());
        let other = std::sync::Arc::clone(&meet);
        let thread = std::thread::spawn(move || other.put(42));
        let answer = spawn(move || meet.wait().unwrap()).join().unwrap();
        thread.join().unwrap();
        answer
    });
    assert_eq!(answer, Ok(42));
}

#[inline(never)]
fn waits_for_nobody(meet: &Meet<()>) {
    let _ = meet.wait();
    std::hint::black_box(());
}

#[test]
fn a_deadlock_report_has_the_stacks_of_all_fibers_if_asked_for() {
    let found = |backtraces| {
        let sim = Sim::new(3).backtraces(backtraces);
        sim.run(|| {
            let fiber = Builder::new().name("lonely").spawn(|| waits_for_nobody(&Meet::new()));
            let _ = fiber.join();
        })
        .unwrap_err()
    };
    let bare = found(false);
    assert!(bare.fibers.iter().all(|stuck| stuck.backtrace.is_none()));
    let full = found(true);
    assert_eq!(full, found(true));
    assert_eq!(full.fibers.len(), 2);
    let lonely = full.fibers.iter().find(|stuck| stuck.fiber.contains("lonely")).unwrap();
    let (text, backtrace) = (lonely.to_string(), lonely.backtrace.as_ref().unwrap());
    if cfg!(feature = "threads") {
        assert!(backtrace.stacks().is_empty() && text.contains("no backtraces"), "{text}");
    } else {
        assert!(text.contains("waits_for_nobody") && text.contains("fiber 'lonely'"), "{text}");
        assert!(backtrace.stacks().iter().all(|stack| stack.is_whole()), "{text}");
        assert!(full.to_string().contains(&text));
    }
}
