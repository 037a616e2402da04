//! Policies, parks, hooks, and what runs elsewhere: all that a scheduler calls, in those who have
//! it called.

use crate::table::{
    Acting, ActingPark, Counts, Foreign, LONG, Must::*, RIGHT, Row, act, acts_in, fiber, is_armed, poll, scheduler,
    simulated, thread,
};
use segue_core::{
    WaitQueue, WaitsFor, after, check, preemption_point, scope, shield, sleep, spawn, timeout, yield_now,
};
use segue_sched::{
    ByDeadline, Explore, Fair, Fifo, Handle, Hierarchical, Policy, Pool, Runtime, Shutdown, Sim, StuckWorker,
    Survivors, Verdict, checkpoint, join, join_context, move_to, par::prelude::*, try_join,
};
use std::pin::pin;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const POLICY: &str = "a policy";
const RUN: &str = "the run of a scheduler";
const HOOK: &str = "a hook of a scheduler";
const UNPARK: &str = "an unpark";

fn acts() -> u64 {
    act();
    RIGHT
}

/// Does something in the table's own scheduler, which has `foreign` called.
fn here(foreign: Foreign, does: impl FnOnce()) -> u64 {
    acts_in(foreign);
    does();
    acts_in(Foreign::Nothing);
    RIGHT
}

/// The first time may be over when the worker comes to it.
fn sleep_until_called() {
    while is_armed() {
        sleep(Duration::from_millis(1)).unwrap();
    }
}

/// Runs a scheduler on the caller's stack, which has `foreign` called.
fn run(foreign: Foreign) -> u64 {
    here(foreign, || {
        let sum = scheduler::<false, _>(|| {
            let fibers: Vec<_> = (0..8).map(|n| spawn(move || yield_now().map(|()| n).unwrap())).collect();
            if matches!(foreign, Foreign::Idle | Foreign::Park) {
                sleep_until_called();
            }
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 28);
    })
}

fn run_simulated(foreign: Foreign) -> u64 {
    here(foreign, || assert_eq!(scheduler::<true, _>(|| spawn(|| check().is_ok()).join().ok()), Some(true)))
}

/// Runs a scheduler with this hook.
fn hooked(hook: fn(Runtime) -> Runtime) -> u64 {
    let seven = hook(Runtime::new().workers(1)).run(|| {
        for _ in 0..5 {
            sleep(Duration::from_millis(1)).unwrap();
        }
        RIGHT
    });
    seven.unwrap()
}

fn wake_another() {
    let queue = WaitQueue::<u64, u64>::new(0);
    scope(|s| {
        let waiting = s.spawn(|| queue.wait(WaitsFor::new("a number"), |n| *n > 0, |n| *n).unwrap());
        while !queue.lock().has_waiters() {
            yield_now().unwrap();
        }
        acts_in(Foreign::Push);
        let mut guard = queue.lock();
        *guard.state() = RIGHT;
        guard.notify_all(0);
        acts_in(Foreign::Nothing);
        assert!(waiting.join().is_ok());
    });
}

/// A scheduler that its caller drives, and which is told from outside of its polls.
fn driven(spawns: impl FnOnce(&mut segue_sched::Driven) -> segue_core::JoinHandle<u64>) -> u64 {
    crate::table::disarm();
    let mut driven = Runtime::new().workers(1).driven(act).unwrap();
    crate::table::arm();
    let handle = spawns(&mut driven);
    let woken = Arc::new(Counts::default());
    let mut joined = pin!(handle.into_future());
    loop {
        let _ = driven.poll();
        if let Some(result) = poll(joined.as_mut(), &woken.waker()) {
            return result.unwrap();
        }
    }
}

fn driven_with(foreign: Foreign) -> u64 {
    acts_in(foreign);
    let park = || Ok(ActingPark::default());
    let mut driven = Runtime::new().workers(1).park(park).driven_with(Acting::<false>::default(), || ()).unwrap();
    let handle = driven.start(|| yield_now().map(|()| RIGHT).unwrap()).unwrap();
    while !handle.is_finished() {
        let _ = driven.poll();
    }
    drop(driven);
    acts_in(Foreign::Nothing);
    handle.join().unwrap()
}

/// Of a scheduler whose worker is on the same thread.
fn visit() -> u64 {
    let (there, over) = (Mutex::new(None), AtomicBool::new(false));
    scope(|s| {
        s.spawn(|| {
            let stays = || {
                *there.lock().unwrap() = Handle::current();
                until(|| over.load(SeqCst));
            };
            Runtime::new().workers(1).run_with(Fifo::default, stays).unwrap();
        });
        until(|| there.lock().unwrap().is_some());
        let handle = there.lock().unwrap().take().expect("just seen");
        let seven = move_to(&handle, acts).unwrap();
        over.store(true, SeqCst);
        seven
    })
}

fn until(it_is_so: impl Fn() -> bool) {
    while !it_is_so() {
        yield_now().unwrap();
    }
}

fn pool() -> Pool {
    Runtime::new().workers(1).pool().unwrap()
}

fn clock() -> Instant {
    act();
    Instant::now()
}

/// Runs a scheduler with a policy that looks at the clock.
fn clocked<P: Policy>(policy: impl Fn() -> P + Send + Sync) -> u64 {
    Runtime::new().workers(1).run_with(policy, || spawn(|| RIGHT).join()).unwrap().unwrap()
}

/// A fiber that blocks its worker until the monitor has told.
fn stuck() -> u64 {
    let (tell, told) = mpsc::channel();
    let hook = move |_: &StuckWorker| {
        act();
        let _ = tell.send(RIGHT);
    };
    Runtime::new().workers(1).monitor(Duration::from_millis(1)).on_stuck(hook).run(|| told.recv().unwrap()).unwrap()
}

/// A fiber that stays until the shutdown has told that it does.
fn survived() -> u64 {
    let (tell, told) = mpsc::channel();
    let hook = move |_: &Survivors| {
        act();
        let _ = tell.send(RIGHT);
    };
    let shutdown = Shutdown::new().deadline(Duration::from_millis(1)).on_survivors(hook);
    let run = Runtime::new().workers(1).shutdown(shutdown).run(|| {
        Handle::current().unwrap().shutdown();
        loop {
            if let Ok(told) = told.try_recv() {
                break told;
            }
            shield(yield_now).unwrap();
        }
    });
    run.unwrap()
}

pub static ROWS: &[Row] = &[
    fiber("Policy::push, at a spawn", Refused(POLICY), || {
        here(Foreign::Push, || assert_eq!(spawn(|| 1).join().ok(), Some(1)))
    }),
    fiber("Policy::push, at a spawn in a scope", Refused(POLICY), || {
        here(Foreign::Push, || scope(|s| assert_eq!(s.spawn(|| 1).join().ok(), Some(1))))
    }),
    fiber("Policy::push, at a wake", Refused(POLICY), || {
        wake_another();
        RIGHT
    }),
    fiber("Policy::push, at a yield", Refused(POLICY), || here(Foreign::Push, || yield_now().unwrap())),
    fiber("Policy::push, when operations are used up", Refused(POLICY), || {
        here(Foreign::Push, || (0..200).for_each(|_| segue_core::admit().unwrap()))
    }),
    fiber("Policy::push, at a checkpoint", Refused(POLICY), || {
        here(Foreign::Push, || {
            while is_armed() {
                checkpoint().unwrap();
            }
        })
    }),
    fiber("Policy::pop, while the caller waits", Apart, || here(Foreign::Pop, sleep_until_called)),
    fiber("Policy::idle, while the caller waits", Apart, || here(Foreign::Idle, sleep_until_called)),
    fiber("Park::park, while the caller waits", Apart, || here(Foreign::Park, sleep_until_called)),
    simulated("Policy::may_preempt, at a preemption point", Refused(POLICY), || {
        here(Foreign::MayPreempt, preemption_point)
    }),
    simulated("Policy::preempts, at a preemption point", Refused(POLICY), || here(Foreign::Preempts, preemption_point)),
    simulated("Policy::preempts, at a look", Refused(POLICY), || here(Foreign::Preempts, || check().unwrap())),
    thread("Policy::seated, in a run", Captured, || run(Foreign::Seated)),
    thread("Policy::takes_arrivals, in a run", Captured, || run(Foreign::TakesArrivals)),
    thread("Policy::push, in a run", Apart, || run(Foreign::Push)),
    thread("Policy::pop, in a run", Apart, || run(Foreign::Pop)),
    thread("Policy::idle, in a run", Apart, || run(Foreign::Idle)),
    thread("Policy::upcoming, in a run", Apart, || run(Foreign::Upcoming)),
    thread("Policy::begins, in a run", Apart, || run_simulated(Foreign::Begins)),
    thread("a policy's end, in a run", Refused(RUN), || run(Foreign::EndOfPolicy)),
    thread("what makes the policy of a run", Captured, || {
        let policy = || {
            act();
            Fifo::default()
        };
        Runtime::new().workers(1).run_with(policy, || RIGHT).unwrap()
    }),
    thread("what makes the park of a run", Captured, || {
        let park = || {
            act();
            Ok(ActingPark::default())
        };
        Runtime::new().workers(1).park(park).run(|| RIGHT).unwrap()
    }),
    thread("Park::unparker, in a run", Refused(RUN), || run(Foreign::Unparker)),
    thread("Park::enter, in a run", Apart, || run(Foreign::Enter)),
    thread("Park::park, in a run", Apart, || run(Foreign::Park)),
    thread("Park::leave, in a run", Apart, || run(Foreign::Leave)),
    thread("Park::poll, in a run", Apart, || {
        here(Foreign::Poll, || scheduler::<false, _>(|| (0..2000).for_each(|_| yield_now().unwrap())))
    }),
    thread("a park's end, in a run", Refused(RUN), || run(Foreign::EndOfPark)),
    fiber("Park::enter, in a run in a fiber", Apart, || run(Foreign::Enter)),
    fiber("Park::leave, in a run in a fiber", Apart, || run(Foreign::Leave)),
    fiber("Policy::pop, in a run in a fiber", Apart, || run(Foreign::Pop)),
    fiber("a policy's end, in a run in a fiber", Refused(RUN), || run(Foreign::EndOfPolicy)),
    thread("the first fiber of a run", Apart, || Runtime::new().workers(1).run(acts).unwrap()),
    thread("Runtime::on_thread_start", Refused(HOOK), || hooked(|b| b.on_thread_start(|_| act()))),
    thread("Runtime::on_thread_stop", Refused(HOOK), || hooked(|b| b.on_thread_stop(|_| act()))),
    thread("Runtime::on_park", Apart, || hooked(|b| b.on_park(|_| act()))),
    thread("Runtime::on_unpark", Apart, || hooked(|b| b.on_unpark(|_| act()))),
    fiber("what wakes a driven scheduler, by Driven::spawn", Refused(UNPARK), || {
        driven(|driven| driven.spawn(|| RIGHT))
    }),
    thread("what wakes a driven scheduler, by Driven::spawn, on a thread", Refused(UNPARK), || {
        driven(|driven| driven.spawn(|| RIGHT))
    }),
    fiber("what wakes a driven scheduler, by Handle::spawn", Refused(UNPARK), || {
        driven(|driven| driven.handle().spawn(|| RIGHT))
    }),
    fiber("the closure of Driven::start", Apart, || driven(|driven| driven.start(acts).unwrap())),
    thread("the closure of Driven::start, on a thread", Apart, || driven(|driven| driven.start(acts).unwrap())),
    thread("Policy::push, in a poll of a driven scheduler", Apart, || driven_with(Foreign::Push)),
    thread("Policy::pop, in a poll of a driven scheduler", Apart, || driven_with(Foreign::Pop)),
    thread("Park::enter, in a poll of a driven scheduler", Apart, || driven_with(Foreign::Enter)),
    thread("Park::poll, in a poll of a driven scheduler", Apart, || driven_with(Foreign::Poll)),
    thread("Park::leave, in a poll of a driven scheduler", Apart, || driven_with(Foreign::Leave)),
    thread("Park::unparker, of a driven scheduler", Captured, || driven_with(Foreign::Unparker)),
    thread("a policy's end, of a driven scheduler", Captured, || driven_with(Foreign::EndOfPolicy)),
    thread("a park's end, of a driven scheduler", Captured, || driven_with(Foreign::EndOfPark)),
    fiber("join: the first half", Refused("a join"), || join(acts, || 1).0),
    fiber("join: the second half", Refused("a join"), || join(|| 1, acts).1),
    thread("join: the first half, on a thread", Refused("a join"), || join(acts, || 1).0),
    thread("join: the second half, on a thread", Refused("a join"), || join(|| 1, acts).1),
    fiber("try_join: the first half", Refused("a join"), || try_join(acts, || 1).map_or(RIGHT, |pair| pair.0)),
    fiber("join_context: the second half", Refused("a join"), || join_context(|_| 1, |_| acts()).1),
    fiber("a closure of a parallel loop", Refused("a parallel loop"), || {
        (0..2).into_par_iter().map(|n| if n == 0 { acts() } else { 0 }).sum()
    }),
    thread("a closure of a parallel loop, on a thread", Apart, || {
        (0..2).into_par_iter().map(|n| if n == 0 { acts() } else { 0 }).sum()
    }),
    fiber("a comparison of a parallel sort", Refused("a parallel loop"), || {
        let (mut numbers, acted) = ((0..3000).collect::<Vec<u64>>(), AtomicU64::new(0));
        numbers.par_sort_by(|a, b| {
            if acted.fetch_add(1, Relaxed) == 0 {
                assert_eq!(acts(), RIGHT);
            }
            a.cmp(b)
        });
        RIGHT
    }),
    fiber("what starts the threads of a pool", Refused("the start of a pool"), || {
        let pool = Runtime::new().workers(1).pool_on(|worker| {
            act();
            drop(std::thread::spawn(|| worker.run()));
            Ok(())
        });
        pool.map_or(RIGHT, |pool| pool.run(|| RIGHT).unwrap_or(RIGHT))
    }),
    fiber("move_to", Refused("a visit to another scheduler"), visit),
    fiber("move_to another thread", Apart, || move_to(&pool().handle(), acts).unwrap_or(RIGHT)),
    fiber("Pool::run", Apart, || pool().run(acts).unwrap()),
    thread("Pool::run, on a thread", Apart, || pool().run(acts).unwrap()),
    fiber("Pool::call", Apart, || pool().call(acts)),
    fiber("Pool::spawn", Apart, || {
        let pool = pool();
        pool.spawn(acts).join().unwrap()
    }),
    fiber("Handle::spawn", Apart, || Handle::current().unwrap().spawn(acts).join().unwrap()),
    thread("Sim::run", Apart, || Sim::new(0).run(acts).unwrap()),
    thread("Explore::run", Apart, || {
        Explore::random(1).run(|| _ = acts()).unwrap();
        RIGHT
    }),
    thread("the clock of fair shares", Apart, || clocked(|| Fair::with_clock(clock))),
    thread("the clock of deadlines", Apart, || clocked(|| ByDeadline::with_clock(LONG, clock))),
    thread("the clock of a hierarchy", Apart, || {
        clocked(|| Hierarchical::with_clock(clock).child(1, Fifo::default()).child(1, Fifo::default()))
    }),
    fiber("the hook of a monitor", Apart, stuck),
    thread("the hook of a monitor, on a thread", Apart, stuck),
    fiber("the hook of a shutdown", Apart, survived),
    thread("the hook of a shutdown, on a thread", Apart, survived),
    thread("Verdict::complaint", Captured, || {
        struct Complains;
        impl Verdict for Complains {
            fn complaint(self) -> Option<String> {
                act();
                None
            }
        }
        Explore::random(1).run(|| Complains).unwrap();
        RIGHT
    }),
    fiber("a timer that is made while the caller is captured", Captured, || {
        timeout(LONG, || {
            act();
            timeout(Duration::from_micros(1), || after(LONG).wait()).map_or(RIGHT, |()| 0)
        })
    }),
];
