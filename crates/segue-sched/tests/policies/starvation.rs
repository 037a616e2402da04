//! How long who has to wait under each policy: the bounds that their documentation states, and who
//! starves where it says so.
#![cfg(not(miri))]

use crate::common::gangs::Gangs;
use segue_core::{Builder, JoinHandle, scope, spawn, spawn_task, yield_now};
use segue_sched::{
    ByDeadline, ByPriority, Class, Due, Fair, Fifo, Handle, Hierarchical, Lifo, Policy, Priority, RoundRobin, Share,
    Sim, Stealing,
};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Runs `busy` fibers that yield all the time, and one more that yields `turns` times; answers the
/// most turns that all others had together between two of its own.
fn longest_wait<P: Policy>(
    policy: impl Fn() -> P + Send + Sync,
    busy: usize,
    others: Builders,
    mine: Builders,
) -> usize {
    const TURNS: usize = 50;
    let (taken, done, worst) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let run = segue_sched::Runtime::new().workers(1).run_with(policy, || {
        scope(|s| {
            for n in 0..busy {
                let (taken, done) = (&taken, &done);
                others(n).within(s).spawn(move || {
                    while !done.load(SeqCst) {
                        taken.fetch_add(1, SeqCst);
                        yield_now().unwrap();
                    }
                });
            }
            let (taken, done, worst) = (&taken, &done, &worst);
            mine(0).within(s).spawn(move || {
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
    let run = segue_sched::Runtime::new().workers(1).run_with(ByPriority::strict, || {
        scope(|s| {
            let note = |n| order.lock().unwrap().push(n);
            Builder::new().attribute(Priority(-1)).within(s).spawn(move || note(-1));
            Builder::new().attribute(Priority(1)).within(s).spawn(move || {
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
    // Ten groups of weight 4 against one of weight 1, with turns that take the same time by a clock
    // that each looks at.
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
    let run = segue_sched::Runtime::new().workers(1).run_with(policy, || {
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
    let run = segue_sched::Runtime::new().workers(1).run(|| {
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
    if crate::common::STAND_IN {
        return;
    }
    for run in [1, 4] {
        let policy = move || match run {
            1 => RoundRobin::default(),
            _ => RoundRobin::in_runs_of(NonZero::new(run).unwrap()),
        };
        let ended = segue_sched::Runtime::new().workers(WORKERS).run_with(policy, || {
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

/// Counts a turn of what keeps the worker busy, and answers whether that is to go on.
type Beat = Arc<dyn Fn() -> bool + Send + Sync>;

/// What keeps a worker busy for ever with things that are newer, or more urgent, than what else
/// there is.
#[derive(Clone, Copy, Debug)]
enum Busy {
    /// Each closure spawns the next, and one is queued at a time.
    Spawns,
    /// The same from outside.
    Arrivals,
    /// Two fibers resume each other.
    Resumes,
    /// Two fibers give up their turns.
    Yields,
    /// An async task wakes itself.
    Polls,
}

impl Busy {
    fn start(self, beat: Beat) {
        // What is due already, and urgent; children inherit it.
        let due = Due::at(Instant::now() - Duration::from_secs(1));
        let urgent = || Builder::new().attribute(Priority(1)).attribute(due);
        match self {
            Self::Spawns => drop(urgent().spawn(move || spawns(beat))),
            Self::Arrivals => drop(urgent().spawn(move || arrivals(beat))),
            Self::Resumes => {
                let gates = Arc::new([crate::common::Turns::new(), crate::common::Turns::new()]);
                for side in [0, 1] {
                    let (gates, beat) = (Arc::clone(&gates), Arc::clone(&beat));
                    urgent().spawn(move || {
                        gates[side].put();
                        while beat() && gates[1 - side].take().is_ok() {
                            gates[side].put();
                        }
                    });
                }
            }
            Self::Yields => {
                for _ in 0..2 {
                    let beat = Arc::clone(&beat);
                    urgent().spawn(move || while beat() && yield_now().is_ok() {});
                }
            }
            Self::Polls => drop(urgent().spawn_task(std::future::poll_fn(move |context| {
                context.waker().wake_by_ref();
                if beat() { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
            }))),
        }
    }
}

fn spawns(beat: Beat) {
    if beat() {
        drop(spawn(move || spawns(beat)));
    }
}

fn arrivals(beat: Beat) {
    if beat() {
        drop(Handle::current().unwrap().spawn(move || arrivals(beat)));
    }
}

/// The most turns of what keeps the worker busy that something of each kind has to wait for, which
/// is there before.
fn most_turns(busy: Busy) -> usize {
    const ENOUGH: usize = 20_000;
    let (turns, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let beat: Beat = {
        let (turns, over) = (Arc::clone(&turns), Arc::clone(&over));
        Arc::new(move || turns.fetch_add(1, SeqCst) < ENOUGH && !over.load(SeqCst))
    };
    let now = || {
        let turns = Arc::clone(&turns);
        move || turns.load(SeqCst)
    };
    // Two that have started and wait: for a resume, and for a wake-up.
    let gates = Arc::new([crate::common::Turns::new(), crate::common::Turns::new()]);
    let resumed = spawn({
        let (gates, now) = (Arc::clone(&gates), now());
        move || {
            gates[0].take().unwrap();
            now()
        }
    });
    let woken = spawn_task({
        let (gates, now) = (Arc::clone(&gates), now());
        async move {
            gates[1].taken().await;
            now()
        }
    });
    // And one that has started and gives up its turn.
    let start = Arc::new(AtomicBool::new(false));
    let yields = spawn({
        let (start, now) = (Arc::clone(&start), now());
        move || {
            while !start.load(SeqCst) {
                yield_now().unwrap();
            }
            now()
        }
    });
    while !(gates.iter().all(crate::common::Turns::is_awaited)) {
        yield_now().unwrap();
    }
    yield_now().unwrap();
    let closures: Vec<_> = (0..3).map(|_| spawn(now())).collect();
    let arrived = Handle::current().unwrap().spawn(now());
    gates.iter().for_each(crate::common::Turns::put);
    start.store(true, SeqCst);
    busy.start(beat);
    let all = closures.into_iter().chain([resumed, woken, yields, arrived]);
    let waited = all.map(|one| one.join().unwrap()).max().unwrap();
    over.store(true, SeqCst);
    waited
}

#[test]
fn nobody_waits_for_ever_under_a_policy_that_is_not_strict() {
    type Under = (&'static str, fn(&(dyn Fn() + Sync)));
    fn under<P: Policy>(policy: impl Fn() -> P + Send + Sync, main: &(dyn Fn() + Sync)) {
        segue_sched::Runtime::new().workers(1).run_with(policy, main).unwrap();
    }
    /// A microsecond for each look.
    fn steps() -> impl Fn() -> Instant {
        let now = std::cell::Cell::new(Instant::now());
        move || {
            now.set(now.get() + Duration::from_micros(1));
            now.get()
        }
    }
    let policies: &[Under] = &[
        ("stealing", |main| under(Stealing::default, main)),
        ("fifo", |main| under(Fifo::default, main)),
        ("lifo", |main| under(Lifo::default, main)),
        ("round robin", |main| under(RoundRobin::default, main)),
        ("round robin, lifo", |main| under(|| RoundRobin::default().ordered_by(Lifo::default()), main)),
        ("round robin, stealing", |main| under(|| RoundRobin::default().ordered_by(Stealing::default()), main)),
        ("by priority, with relief", |main| under(|| ByPriority::relief(NonZero::new(8).unwrap()), main)),
        ("by deadline", |main| under(|| ByDeadline::with_clock(Duration::from_micros(10), steps()), main)),
        ("fair", |main| under(|| Fair::with_clock(steps()), main)),
        ("stealing in a hierarchy", |main| {
            under(|| Hierarchical::with_clock(steps()).child(1, Stealing::default()).child(1, Fifo::default()), main);
        }),
        ("lifo in a hierarchy", |main| under(|| Hierarchical::with_clock(steps()).child(1, Lifo::default()), main)),
        ("gangs", |main| {
            let gangs = Gangs::new();
            under(move || gangs.policy(), main);
        }),
        ("sim", |main| Sim::new(1).run(main).unwrap()),
    ];
    for (name, under) in policies {
        for busy in [Busy::Spawns, Busy::Arrivals, Busy::Resumes, Busy::Yields, Busy::Polls] {
            under(&|| {
                let waited = most_turns(busy);
                assert!(waited <= 1_500, "{name}: something waited for {waited} turns of {busy:?}");
            });
        }
    }
}

#[test]
fn those_that_resume_each_other_go_before_the_others_for_a_while() {
    // The pace of a worker is 512 turns at most, and each of the two may be in the queue, too.
    const MOST: usize = 512 + 2;
    let longest = |policy: fn() -> Box<dyn Policy>| {
        let run = segue_sched::Runtime::new().workers(1).run_with(policy, || {
            let turns = Arc::new(AtomicUsize::new(0));
            let over = Arc::new(AtomicBool::new(false));
            let beat: Beat = {
                let (turns, over) = (Arc::clone(&turns), Arc::clone(&over));
                Arc::new(move || turns.fetch_add(1, SeqCst) < usize::MAX && !over.load(SeqCst))
            };
            Busy::Resumes.start(beat);
            let others: Vec<_> = (0..3)
                .map(|_| {
                    let turns = Arc::clone(&turns);
                    spawn(move || {
                        let mut longest = 0;
                        // The worker looks around twice until it knows its pace.
                        for _ in 0..2_000 {
                            let before = turns.load(SeqCst);
                            yield_now().unwrap();
                            longest = longest.max(turns.load(SeqCst) - before);
                        }
                        longest
                    })
                })
                .collect();
            let longest = others.into_iter().map(|other| other.join().unwrap()).max();
            over.store(true, SeqCst);
            longest.unwrap()
        });
        run.unwrap()
    };
    // First in, first out, each has one turn.
    assert_eq!(longest(|| Box::new(Fifo::default())), 2);
    let waited = longest(|| Box::new(Stealing::default()));
    assert!((3..=MOST).contains(&waited), "the others waited for {waited} turns");
}

#[test]
fn what_is_strict_starves_what_is_old_or_less_urgent() {
    let one = || segue_sched::Runtime::new().workers(1);
    assert!(one().run_with(Lifo::strict, || most_turns(Busy::Spawns)).unwrap() >= 20_000);
    assert!(one().run_with(ByPriority::strict, || most_turns(Busy::Spawns)).unwrap() >= 20_000);
}
