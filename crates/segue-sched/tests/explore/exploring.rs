//! The explorer: the same exploration finds the same; an exhaustive one tries each interleaving
//! once; priorities find bugs as often as is promised; what fails is replayed from its name, and
//! made plainer.

use crate::common::{in_child, scaled};
use segue_core::{
    CancelToken, Cancelled, WaitQueue, WaitsFor, check, preemption_point, random, scope, sleep, spawn, yield_now,
};
use segue_sched::{Cause, Explore, Leaks, Schedule, join};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

/// The orders in which `program` notes what it does, of all schedules of an exploration.
fn orders(explore: &Explore, program: impl Fn(&(dyn Fn(u32) + Sync))) -> (Vec<Vec<u32>>, bool) {
    let orders = Mutex::new(Vec::new());
    let explored = explore.run(|| {
        let order = Mutex::new(Vec::new());
        program(&|what| order.lock().unwrap().push(what));
        orders.lock().unwrap().push(order.into_inner().unwrap());
    });
    (orders.into_inner().unwrap(), explored.unwrap().complete)
}

/// Fibers, each of which notes itself, `steps` times, with a yield or a point between.
fn noting(fibers: u32, steps: u32, between: fn()) -> impl Fn(&(dyn Fn(u32) + Sync)) {
    move |note| {
        scope(|s| {
            for n in 0..fibers {
                drop(s.spawn(move || {
                    for step in 0..steps {
                        if step > 0 {
                            between();
                        }
                        note(n);
                    }
                }));
            }
        });
    }
}

fn factorial(n: u64) -> u64 {
    (1..=n).product()
}

#[test]
fn an_exhaustive_exploration_tries_each_interleaving_once() {
    for (fibers, steps) in
        [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (2, 5), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (5, 1)]
    {
        let explore = Explore::exhaustive(10_000).preemptive(false);
        let (orders, complete) = orders(&explore, noting(fibers, steps, || yield_now().unwrap()));
        let expected = factorial(u64::from(fibers * steps)) / factorial(steps.into()).pow(fibers);
        assert!(complete);
        assert_eq!(orders.len() as u64, expected, "{fibers} fibers of {steps} steps");
        assert_eq!(orders.iter().collect::<HashSet<_>>().len() as u64, expected, "each once");
    }
}

/// How many interleavings there are of fiber 0, which starts the others, one at each of its first
/// steps, and ends after them, counted in another way: by the numbers of steps that each has left.
fn interleavings(
    started: usize,
    left: &mut Vec<u32>,
    fibers: usize,
    steps: u32,
    known: &mut HashMap<(usize, Vec<u32>), u64>,
) -> u64 {
    if let Some(count) = known.get(&(started, left.clone())) {
        return *count;
    }
    let mut count = 0;
    // Fiber 0 goes on: it starts one more, or begins to wait, after which it is no choice.
    if started <= fibers {
        if started < fibers {
            left.push(steps);
        }
        count += interleavings(started + 1, left, fibers, steps, known);
        if started < fibers {
            left.pop();
        }
    }
    for n in 0..left.len() {
        if left[n] > 0 {
            left[n] -= 1;
            count += interleavings(started, left, fibers, steps, known);
            left[n] += 1;
        }
    }
    if started > fibers && left.iter().all(|left| *left == 0) {
        count = 1;
    }
    known.insert((started, left.clone()), count);
    count
}

#[test]
fn with_preemption_the_spawner_is_one_of_them() {
    for (fibers, steps) in [(1, 1), (1, 4), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2)] {
        let (orders, complete) = orders(&Explore::exhaustive(100_000), noting(fibers, steps, preemption_point));
        // The first step of fiber 0 starts fiber 1, without a choice.
        let expected = interleavings(1, &mut vec![steps], fibers as usize, steps, &mut HashMap::new());
        assert!(complete);
        assert_eq!(orders.len() as u64, expected, "{fibers} fibers of {steps} steps");
    }
}

#[test]
fn a_limit_ends_an_exhaustive_exploration() {
    let explored = Explore::exhaustive(19).preemptive(false).run(|| noting(2, 3, || yield_now().unwrap())(&|_| ()));
    let explored = explored.unwrap();
    assert_eq!((explored.schedules, explored.complete), (19, false), "there are 20");
}

#[test]
fn the_halves_of_a_join_meet_in_every_order() {
    let (orders, complete) = orders(&Explore::exhaustive(1_000), |note| {
        let twice = |n| {
            note(n);
            preemption_point();
            note(n);
        };
        join(|| twice(0), || twice(1));
    });
    assert!(complete);
    let distinct: HashSet<_> = orders.iter().collect();
    // The second half begins at a point of the first, or after it: so the first step is the first
    // half's.
    assert_eq!(distinct, [&vec![0, 0, 1, 1], &vec![0, 1, 0, 1], &vec![0, 1, 1, 0]].into());
}

/// A little of everything: yields, sleeps, forks, cancellation, a queue.
fn varied(note: &(dyn Fn(u32) + Sync)) {
    let queue: WaitQueue<u32, u32> = WaitQueue::new(0);
    let token = CancelToken::new();
    scope(|s| {
        for n in 0..3 {
            let (queue, token) = (&queue, &token);
            drop(s.spawn(move || {
                note(n * 10);
                match n {
                    0 => sleep(Duration::from_millis(3)).unwrap(),
                    1 => drop(join(|| check().map(|()| note(11)), || note(12))),
                    _ => yield_now().unwrap(),
                }
                if n == 2 {
                    token.cancel();
                    let mut queue = queue.lock();
                    *queue.state() += 1;
                    queue.notify_one(0);
                } else {
                    let waited = queue.wait(WaitsFor::new("a coin"), |coins| *coins > 0, std::mem::take);
                    note(n * 10 + 1 + waited.unwrap_or(8));
                    let mut queue = queue.lock();
                    *queue.state() += 1;
                    queue.notify_one(0);
                }
                note(n * 10 + 5 + u32::from(token.run(check).is_err()));
            }));
        }
    });
}

#[test]
fn the_same_exploration_is_the_same() {
    for explore in
        [Explore::random(60), Explore::random(60).preemptive(false), Explore::pct(3, 60), Explore::exhaustive(60)]
    {
        let first = orders(&explore, varied);
        assert_eq!(first, orders(&explore, varied), "{explore:?}");
        let distinct: HashSet<_> = first.0.iter().collect();
        assert!(distinct.len() > 3, "{explore:?} has found {} orders", distinct.len());
    }
}

/// Fails if the second of two additions reads before the first has written.
fn lost_update() -> Result<(), u32> {
    let number = AtomicU32::new(0);
    let add = || {
        let seen = number.load(SeqCst);
        preemption_point();
        number.store(seen + 1, SeqCst);
    };
    scope(|s| drop((s.spawn(add), s.spawn(add))));
    match number.into_inner() {
        2 => Ok(()),
        n => Err(n),
    }
}

#[test]
fn what_fails_fails_again_from_its_name() {
    for explore in [Explore::random(100), Explore::pct(2, 100), Explore::exhaustive(100)] {
        let failure = explore.run(lost_update).unwrap_err();
        assert_eq!(failure, explore.run(lost_update).unwrap_err(), "the same report");
        assert_eq!(failure.cause, Cause::Failed("1".to_owned()));
        for schedule in [&failure.schedule, failure.plainest()] {
            let named: Schedule = schedule.to_string().parse().unwrap();
            assert_eq!(named, *schedule);
            let again = Explore::random(1).replay(&named, lost_update).unwrap_err();
            assert_eq!((again.cause, again.schedule), (failure.cause.clone(), named));
        }
    }
}

/// What three fibers draw, in which order, where they meet.
fn drawn() -> Vec<u64> {
    let drawn = Mutex::new(Vec::new());
    let draw = || {
        for _ in 0..3 {
            let number = random();
            drawn.lock().unwrap().push(number);
            yield_now().unwrap();
        }
    };
    scope(|s| {
        draw();
        drop((s.spawn(draw), s.spawn(draw)));
    });
    drawn.into_inner().unwrap()
}

#[test]
fn what_a_schedule_draws_is_drawn_again_from_its_name() {
    // It fails where the numbers are even, of which the order of the fibers decides nothing: so the
    // plainer schedule has to draw from the same seed.
    for explore in [Explore::random(200), Explore::pct(2, 200)] {
        let lucky = || match drawn() {
            drawn if drawn.iter().filter(|number| *number % 2 == 0).count() == 7 => Err(drawn),
            _ => Ok(()),
        };
        let explore = explore.seed(5);
        let failure = explore.run(lucky).unwrap_err();
        assert_eq!(failure, explore.run(lucky).unwrap_err(), "the same report");
        let plainer = failure.shrunk.as_ref().expect("no choice matters");
        for (schedule, cause) in [(&failure.schedule, &failure.cause), (&plainer.schedule, &plainer.cause)] {
            let named: Schedule = schedule.to_string().parse().unwrap();
            assert_eq!(named, *schedule);
            assert_eq!(Explore::random(1).replay(&named, lucky).unwrap_err().cause, *cause, "{named}");
        }
        assert!(plainer.schedule.to_string().starts_with("plain-"), "{failure}");
    }
}

#[test]
fn all_schedules_of_an_exhaustive_exploration_draw_the_same() {
    let seen = Mutex::new(HashSet::new());
    let explore = Explore::exhaustive(10_000).preemptive(false).seed(7);
    let explored = explore.run(|| {
        let mut drawn = drawn();
        drawn.sort_unstable();
        seen.lock().unwrap().insert(drawn);
    });
    assert!(explored.unwrap().complete);
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), 1, "fibers are numbered in the order in which they start");
    assert_eq!(seen.into_iter().flatten().collect::<HashSet<_>>().len(), 9, "no number twice");
}

#[test]
fn a_long_schedule_is_made_plainer() {
    let long = || {
        scope(|s| {
            for _ in 0..3 {
                drop(s.spawn(|| (0..20).for_each(|_| preemption_point())));
            }
            lost_update()
        })
    };
    let failure = Explore::random(1_000).run(long).unwrap_err();
    let shrunk = failure.shrunk.as_ref().expect("most of it is of no use");
    let (now, before) = shrunk.departures;
    // One preemption between the reading and the writing, and the start of the other before it, is
    // what it takes; the others may need no departure at all.
    assert!(now <= 3 && before > 20, "{failure}");
    assert_eq!(shrunk.cause, failure.cause);
    assert_eq!(Explore::random(1).replay(&shrunk.schedule, long).unwrap_err().cause, failure.cause);
    assert!(failure.to_string().contains(&format!("{before} choices out of order come down to {now}")), "{failure}");
}

/// How many of many schedules fail, and how many at least should, by the bound of the paper.
fn found_of(depth: u32, program: fn() -> Result<(), u32>, seeds: u64) -> (u64, u64) {
    let size = Explore::pct(depth, 20).shrink(false);
    let passing = size
        .run(|| {
            let _ = program();
        })
        .unwrap();
    let (fibers, steps) = (passing.most_fibers, passing.most_steps);
    let fails = |seed: &u64| {
        let schedule = Schedule::Pct { depth, steps, seed: *seed };
        Explore::random(1).shrink(false).replay(&schedule, program).is_err()
    };
    let found = (0..seeds).filter(fails).count() as u64;
    let least = seeds / (fibers * steps.pow(depth - 1));
    println!("depth {depth}: {fibers} fibers, {steps} steps: {found} of {seeds}, promised are {least}");
    (found, least)
}

/// Depth 2: a fiber has to stop between two certain steps while another runs.
fn depth_two() -> Result<(), u32> {
    lost_update()
}

/// Depth 3: a fiber has to stop in one place, and the other, after that, in another.
fn depth_three() -> Result<(), u32> {
    let (left, right) = (AtomicU32::new(0), AtomicU32::new(0));
    scope(|s| {
        drop(s.spawn(|| {
            left.store(1, SeqCst);
            preemption_point();
            left.store(2, SeqCst);
            preemption_point();
            if right.load(SeqCst) == 1 {
                left.store(9, SeqCst);
            }
        }));
        drop(s.spawn(|| {
            if left.load(SeqCst) == 1 {
                right.store(1, SeqCst);
                preemption_point();
                right.store(2, SeqCst);
            }
        }));
    });
    match left.into_inner() {
        9 => Err(9),
        _ => Ok(()),
    }
}

#[test]
fn priorities_find_bugs_as_often_as_promised() {
    let seeds = scaled(2_000, 500) as u64;
    let (found, least) = found_of(2, depth_two, seeds);
    assert!(found >= least && least > 0, "{found} of {least}");
    let (found, least) = found_of(3, depth_three, seeds * 10);
    assert!(found >= least && least > 0, "{found} of {least}");
    // Fewer changes do not reach it, so that it is of depth 3.
    assert_eq!(found_of(2, depth_three, seeds).0, 0);
    assert_eq!(found_of(1, depth_two, seeds).0, 0);
}

#[test]
fn a_deadlock_names_who_waits_and_they_learn_of_it() {
    let told = RefCell::new(String::new());
    let failure = Explore::random(1)
        .run(|| {
            let waited = WaitQueue::new(()).wait(WaitsFor::new("a day off"), |()| false, |()| ());
            *told.borrow_mut() = waited.unwrap_err().to_string();
        })
        .unwrap_err();
    let text = failure.to_string();
    assert!(text.contains("deadlock") && text.contains("fiber 0 waits for a day off at "), "{text}");
    let schedule = &failure.schedule;
    assert_eq!(told.into_inner(), format!("cancelled: the simulation came to a deadlock (schedule {schedule})"));
}

#[test]
fn a_fiber_that_does_not_end_learns_how_long_it_has_had() {
    let told = RefCell::new(None);
    let forever = || {
        while let Ok(()) = yield_now() {}
        told.replace(segue_core::check().err().map(|cancelled| cancelled.to_string()));
    };
    assert!(Explore::random(1).steps(100).shrink(false).run(forever).is_err());
    assert_eq!(told.into_inner().unwrap(), "cancelled: the simulation was not over after 100 steps");
}

#[test]
fn a_panic_after_a_deadlock_does_not_hide_it() {
    let run = || WaitQueue::new(()).wait(WaitsFor::new("nothing"), |()| false, |()| ()).unwrap();
    assert!(matches!(Explore::random(1).run(run).unwrap_err().cause, Cause::Deadlock(_)));
    assert!(segue_sched::Sim::new(0).run(run).is_err());
}

#[test]
fn fibers_that_are_left_are_named() {
    let program = || {
        let name = |name: &str| segue_core::Builder::new().name(name);
        drop(name("sleeper").spawn(|| sleep(Duration::from_secs(1))));
        yield_now().unwrap();
        drop(name("new").spawn(|| ()));
        drop(name("over").spawn(|| ()).join());
    };
    assert!(Explore::random(20).run(program).is_ok(), "they are allowed, if nothing is said");
    let failure = Explore::exhaustive(100).preemptive(false).leaks(Leaks::Forbid).run(program).unwrap_err();
    let text = failure.to_string();
    let Cause::Leaked(left) = failure.cause else { panic!("{text}") };
    assert!(
        left.iter().any(|stuck| stuck.fiber == "fiber `sleeper`"
            && stuck.waits_for.is_some_and(|what| what.what == "a point in time"))
    );
    assert!(text.contains("fiber `sleeper` waits for a point in time at ") && !text.contains("over"), "{text}");
    // Who has not even started is named as well.
    let unstarted = || drop(segue_core::Builder::new().name("new").spawn(|| ()));
    let failure = Explore::exhaustive(1).preemptive(false).leaks(Leaks::Forbid).run(unstarted).unwrap_err();
    assert!(failure.to_string().contains("fiber `new` is ready"), "{failure}");
    let joined = Explore::exhaustive(100).leaks(Leaks::Forbid).run(|| spawn(|| ()).join());
    assert!(joined.unwrap().complete);
}

#[test]
fn a_loop_without_waits_lets_others_run() {
    // The choices that go on are the first ones, and the priorities never change: only patience
    // ends the loop.
    for explore in [Explore::exhaustive(1), Explore::pct(1, 20), Explore::random(20)] {
        let explored = explore.run(|| {
            let flag = AtomicU32::new(0);
            scope(|s| {
                drop(s.spawn(|| {
                    while flag.load(SeqCst) == 0 {
                        preemption_point();
                    }
                }));
                drop(s.spawn(|| flag.store(1, SeqCst)));
            });
        });
        assert!(explored.is_ok(), "{explore:?}");
    }
}

#[test]
fn a_program_without_an_end_is_a_failure() {
    let endless = || -> Result<(), Cancelled> {
        loop {
            yield_now()?;
        }
    };
    let failure = Explore::random(1).steps(10_000).run(endless).unwrap_err();
    assert_eq!(failure.cause, Cause::Endless(10_000));
    let forever = || scope(|s| (0..2).for_each(|_| drop(s.spawn(endless))));
    assert_eq!(Explore::pct(2, 1).steps(10_000).shrink(false).run(forever).unwrap_err().cause, Cause::Endless(10_000));
}

#[test]
fn a_program_that_ignores_its_end_ends_the_process() {
    let end = in_child("a_program_that_ignores_its_end_ends_the_process", || {
        let _ = Explore::random(1).steps(1_000).run(|| {
            while segue_core::in_fiber() {
                preemption_point();
            }
        });
    });
    end.assert_aborted("although it was cancelled");
}

#[test]
#[should_panic(expected = "the schedule choices-7 is of another program")]
fn a_schedule_of_another_program_is_refused() {
    let _ = Explore::random(1).replay(&"choices-7".parse().unwrap(), lost_update);
}

#[test]
fn bad_names_are_refused() {
    for text in [
        "",
        "7",
        "random",
        "random-x",
        "pct-0-1-1",
        "pct-3-1",
        "choices-1..2",
        "choices-a",
        "choices-1.",
        "choices-1-",
        "plain-",
        "dfs-1",
    ] {
        let error = text.parse::<Schedule>().unwrap_err().to_string();
        assert!(error.contains(&format!("`{text}` names no schedule; write random-SEED")), "{error}");
    }
    for text in ["random-0", "pct-3-120-7", "plain", "plain-7", "choices-0.2.1", "choices-0.2.1-7"] {
        assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
    }
    assert_eq!("choices-".parse::<Schedule>(), "plain".parse::<Schedule>());
}

#[test]
fn points_do_nothing_where_nobody_explores() {
    // Explorations elsewhere in this process have points passed on; these fibers are not theirs.
    let _points = segue_core::scheduling::PreemptionPoints::enable();
    preemption_point();
    let run = segue_sched::Sim::new(1).run(|| {
        let order = Mutex::new(Vec::new());
        scope(|s| {
            drop(s.spawn(|| {
                order.lock().unwrap().push(1);
                preemption_point();
                order.lock().unwrap().push(2);
            }));
            drop(s.spawn(|| order.lock().unwrap().push(3)));
        });
        order.into_inner().unwrap()
    });
    assert!([vec![1, 2, 3], vec![3, 1, 2]].contains(&run.unwrap()));
    segue_sched::Runtime::new().workers(1).run(|| spawn(preemption_point).join().unwrap()).unwrap();
}
