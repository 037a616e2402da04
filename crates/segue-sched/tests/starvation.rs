//! How long who has to wait under each policy: the bounds that their documentation states, and who starves where it says so.
#![cfg(not(miri))]

mod common;

use segue_core::{Builder, JoinHandle, scope, spawn, yield_now};
use segue_sched::{
    ByDeadline, ByPriority, Class, Due, Fair, Fifo, Hierarchical, Lifo, Policy, Priority, RoundRobin, Share, Stealing,
};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Runs `busy` fibers that yield all the time, and one more that yields `turns` times; answers the most turns that all others had together between two of its own.
fn longest_wait<P: Policy>(
    policy: impl Fn() -> P + Send + Sync,
    busy: usize,
    others: Builders,
    mine: Builders,
) -> usize {
    const TURNS: usize = 50;
    let (taken, done, worst) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let run = segue_sched::Builder::new().workers(1).run_with(policy, || {
        scope(|s| {
            for n in 0..busy {
                let (taken, done) = (&taken, &done);
                others(n).spawn_in(s, move || {
                    while !done.load(SeqCst) {
                        taken.fetch_add(1, SeqCst);
                        yield_now().unwrap();
                    }
                });
            }
            let (taken, done, worst) = (&taken, &done, &worst);
            mine(0).spawn_in(s, move || {
                for _ in 0..TURNS {
                    let before = taken.load(SeqCst);
                    yield_now().unwrap();
                    worst.fetch_max(taken.load(SeqCst) - before, SeqCst);
                }
                done.store(true, SeqCst);
            });
        });
    });
    run.unwrap();
    worst.into_inner()
}

type Builders = fn(usize) -> Builder;

fn plain(_: usize) -> Builder {
    Builder::new()
}

#[test]
fn whoever_yields_waits_for_each_of_the_others_once() {
    assert_eq!(longest_wait(Fifo::default, 10, plain, plain), 10);
    assert_eq!(longest_wait(Lifo::default, 10, plain, plain), 10);
    assert_eq!(longest_wait(Stealing::default, 10, plain, plain), 10);
    assert_eq!(longest_wait(RoundRobin::default, 10, plain, plain), 10);
    assert_eq!(longest_wait(ByPriority::strict, 10, plain, plain), 10);
    assert_eq!(longest_wait(ByDeadline::default, 10, plain, plain), 10);
}

#[test]
fn who_is_urgent_waits_for_nobody_less_urgent() {
    let urgent: Builders = |_| Builder::new().attribute(Priority(1));
    assert_eq!(longest_wait(ByPriority::strict, 10, plain, urgent), 0);
    // At every fourth turn one other.
    let relief = || ByPriority::relief(NonZero::new(4).unwrap());
    assert_eq!(longest_wait(relief, 10, plain, urgent), 1);
}

#[test]
fn relief_bounds_the_wait_of_who_is_less_urgent() {
    let urgent: Builders = |_| Builder::new().attribute(Priority(1));
    for n in [1, 2, 5] {
        let relief = move || ByPriority::relief(NonZero::new(n).unwrap());
        let waited = longest_wait(relief, 10, urgent, plain);
        // Ten others were ready before.
        assert!(waited <= n as usize * 11, "with relief at every turn {n} it waited for {waited}");
    }
}

#[test]
fn strict_priorities_starve_who_is_less_urgent_until_the_others_are_done() {
    let order = Mutex::new(Vec::new());
    let run = segue_sched::Builder::new().workers(1).run_with(ByPriority::strict, || {
        scope(|s| {
            let note = |n| order.lock().unwrap().push(n);
            Builder::new().attribute(Priority(-1)).spawn_in(s, move || note(-1));
            Builder::new().attribute(Priority(1)).spawn_in(s, move || {
                for _ in 0..1_000 {
                    yield_now().unwrap();
                }
                note(1);
            });
        });
    });
    run.unwrap();
    assert_eq!(order.into_inner().unwrap(), [1, -1]);
}

#[test]
fn a_group_of_weight_w_waits_for_one_turn_of_each_other_and_w_of_all() {
    // Ten groups of weight 4 against one of weight 1, with turns that take the same time by a clock that each looks at.
    let policy = || {
        let now = std::cell::Cell::new(Instant::now());
        // Two looks a turn.
        Fair::with_clock(move || {
            now.set(now.get() + Duration::from_micros(1));
            now.get()
        })
    };
    let heavy: Builders = |n| Builder::new().attribute(Share::new(n as u32 + 1, 4));
    let waited = longest_wait(policy, 10, heavy, plain);
    assert!(waited <= 10 + 10 * 4, "it waited for {waited} turns");
    assert!(waited >= 10 * 4 - 10, "the others were to have four times as much each: {waited}");
    let light: Builders = |n| Builder::new().attribute(Share::new(n as u32 + 1, 1));
    let mine: Builders = |_| Builder::new().attribute(Share::new(0, 10));
    let waited = longest_wait(policy, 10, light, mine);
    assert!(waited <= 10 + 1, "half of all turns were to be its own, and it waited for {waited}");
}

#[test]
fn a_group_gets_no_more_for_having_more_fibers() {
    let policy = || Hierarchical::new().child(1, Fifo::default()).child(1, Stealing::default());
    let other: Builders = |_| Builder::new().attribute(Class(1));
    let fair: Builders = |_| Builder::new().attribute(Share::new(1, 1));
    let step = || {
        let now = std::cell::Cell::new(Instant::now());
        move || {
            now.set(now.get() + Duration::from_micros(1));
            now.get()
        }
    };
    assert!(longest_wait(move || Fair::with_clock(step()), 10, fair, plain) <= 2);
    let timed = move || Hierarchical::with_clock(step()).child(1, Fifo::default()).child(1, Stealing::default());
    assert!(longest_wait(timed, 10, other, plain) <= 2);
    // By the real clock nobody knows how long a turn takes; but each gets some.
    longest_wait(policy, 10, other, plain);
}

#[test]
fn what_is_due_gets_its_turn_however_much_is_spawned_later() {
    let policy = || ByDeadline::patience(Duration::from_millis(1));
    let run = segue_sched::Builder::new().workers(1).run_with(policy, || {
        let done = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&done);
        let patient = spawn(move || end.store(true, SeqCst));
        // Each has a deadline, and they don't end until the one without has run.
        let mut others = 0_u64;
        while !done.load(SeqCst) {
            others += 1;
            Builder::new().attribute(Due::within(Duration::from_micros(100))).spawn(|| ()).join().unwrap();
        }
        patient.join().unwrap();
        others
    });
    println!("{} were first", run.unwrap());
}

#[test]
fn new_closures_and_started_fibers_take_turns_under_stealing() {
    // A flood of closures, each of which spawns the next, against a fiber that yields.
    fn flood(seen: Arc<AtomicUsize>, done: Arc<AtomicBool>) -> JoinHandle<()> {
        spawn(move || {
            seen.fetch_add(1, SeqCst);
            if !done.load(SeqCst) {
                drop(flood(seen, done));
            }
        })
    }
    let run = segue_sched::Builder::new().workers(1).run(|| {
        let (seen, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for _ in 0..3 {
            drop(flood(Arc::clone(&seen), Arc::clone(&done)));
        }
        for _ in 0..1_000 {
            let before = seen.load(SeqCst);
            yield_now().unwrap();
            let waited = seen.load(SeqCst) - before;
            assert!(waited <= 2, "a started fiber waited for {waited} closures");
        }
        done.store(true, SeqCst);
        // The other way round: fibers that yield, and a closure.
        let turns = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..10 {
            let (turns, stop) = (Arc::clone(&turns), Arc::clone(&stop));
            spawn(move || {
                while !stop.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    yield_now().unwrap();
                }
            });
        }
        while turns.load(SeqCst) < 100 {
            yield_now().unwrap();
        }
        for _ in 0..100 {
            let (before, now) = (turns.load(SeqCst), Arc::clone(&turns));
            let waited = spawn(move || now.load(SeqCst) - before).join().unwrap();
            assert!(waited <= 2, "a closure waited for {waited} turns of fibers");
        }
        stop.store(true, SeqCst);
    });
    run.unwrap();
}

#[test]
fn each_worker_gets_every_nth_closure_or_run_of_closures_in_turn() {
    const WORKERS: usize = 3;
    const RUNS: usize = 50;
    // Which thread a fiber is on says nothing where each has its own.
    if common::STAND_IN {
        return;
    }
    for run in [1, 4] {
        let policy = move || match run {
            1 => RoundRobin::default(),
            _ => RoundRobin::in_runs_of(NonZero::new(run).unwrap()),
        };
        let ended = segue_sched::Builder::new().workers(WORKERS).run_with(policy, || {
            let place = || std::thread::current().id();
            let mine = place();
            let fibers: Vec<_> = (0..WORKERS * RUNS * run).map(|_| spawn(place)).collect();
            let places: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
            // The first worker spawns: the next two get the first runs, it itself the third.
            for (n, place) in places.iter().enumerate() {
                let turn = n / run % WORKERS;
                assert_eq!(*place, places[turn * run], "closure {n}");
                assert_eq!(*place == mine, turn == WORKERS - 1, "closure {n}");
            }
            assert_ne!(places[0], places[run]);
        });
        ended.unwrap();
    }
}
