//! Where fibers come to lie that nobody has told where: on all workers alike, whoever has spawned
//! them; and a closure does not wait for a worker that is busy.
//!
//! Nothing here is timed: who spawns waits until what it has spawned has begun. Where it lies does
//! depend on how soon the operating system gives each worker a processor: so one of some rounds has
//! to be even. What a worker decides by its numbers, `tests/units/placing.rs` tests without
//! threads.
// On the stand-in host each fiber has a thread of its own, which says nothing about its worker.
#![cfg(not(any(miri, feature = "threads")))]

#[path = "../common/mod.rs"]
mod common;

use common::{Meet, scaled};
use segue_core::{Scope, WaitQueue, WaitsFor, scope};
use segue_sched::Runtime;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, ThreadId};

/// Fibers that wait, each until it is told to go.
struct Crowd {
    begun: WaitQueue<usize>,
    places: std::sync::Mutex<Vec<(ThreadId, Arc<Meet<()>>)>>,
}

impl Crowd {
    fn new() -> Self {
        Self { begun: WaitQueue::new(0), places: std::sync::Mutex::new(Vec::new()) }
    }

    /// Starts another one.
    fn grow<'s>(&'s self, s: &'s Scope<'s, '_>) {
        s.spawn(|| self.stay());
    }

    /// The calling fiber is one of them.
    fn stay(&self) {
        let gate = Arc::new(Meet::new());
        self.places.lock().unwrap().push((thread::current().id(), Arc::clone(&gate)));
        let mut begun = self.begun.lock();
        *begun.state() += 1;
        begun.notify_all(0);
        gate.wait().unwrap();
    }

    /// Waits until so many have begun.
    fn await_begun(&self, number: usize) {
        self.begun.wait(WaitsFor::new("a crowd"), |begun| *begun >= number, |_| ()).unwrap();
    }

    /// Lets those go that lie on such threads.
    fn let_go(&self, which: impl Fn(ThreadId) -> bool) {
        let mut places = self.places.lock().unwrap();
        for (_, gate) in places.extract_if(.., |(place, _)| which(*place)) {
            gate.put(());
        }
    }

    /// How many times its share the worker with the most has.
    fn busiest(&self, workers: usize) -> f64 {
        let places = self.places.lock().unwrap();
        let mut counts = HashMap::new();
        for (place, _) in &*places {
            *counts.entry(*place).or_insert(0) += 1;
        }
        f64::from(counts.into_values().max().unwrap_or(0)) * workers as f64 / places.len() as f64
    }
}

/// Goes on until all are alike in a round.
fn alike_in_a_round(round: impl Fn() -> f64) {
    let rounds: Vec<f64> = (0..20).map(|_| round()).take_while(|busiest| *busiest > 1.3).collect();
    assert!(rounds.len() < 20, "one worker has {rounds:.2?} times its share");
}

/// A crowd that has `grown` to its size lies alike on 2 workers and on 4: so many for each of them.
fn lies_alike(each: usize, grown: impl for<'s> Fn(&'s Crowd, &'s Scope<'s, '_>, usize)) {
    let round = |workers| {
        let busiest = Runtime::new().workers(workers).run(|| {
            let crowd = Crowd::new();
            scope(|s| {
                grown(&crowd, s, each * workers);
                let busiest = crowd.busiest(workers);
                crowd.let_go(|_| true);
                busiest
            })
        });
        busiest.unwrap()
    };
    [2, 4].into_iter().for_each(|workers| alike_in_a_round(|| round(workers)));
}

#[test]
fn fibers_that_trickle_in_lie_on_all_workers_alike() {
    lies_alike(50, |crowd, s, size| {
        for number in 1..=size {
            crowd.grow(s);
            crowd.await_begun(number);
        }
    });
}

#[test]
fn fibers_that_come_all_at_once_lie_on_all_workers_alike() {
    lies_alike(100, |crowd, s, size| {
        (0..size).for_each(|_| crowd.grow(s));
        crowd.await_begun(size);
    });
}

#[test]
fn what_comes_from_outside_lies_on_all_workers_alike() {
    alike_in_a_round(from_outside);
}

fn from_outside() -> f64 {
    let pool = Runtime::new().workers(2).pool().unwrap();
    let crowd = Arc::new(Crowd::new());
    let fibers: Vec<_> = (1..=100)
        .map(|number| {
            let all = Arc::clone(&crowd);
            let fiber = pool.spawn(move || all.stay());
            crowd.await_begun(number);
            fiber
        })
        .collect();
    let busiest = crowd.busiest(2);
    crowd.let_go(|_| true);
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    busiest
}

/// The other worker has nothing to do, but more fibers, so that it would leave the closure to its
/// owner, who does not come.
#[test]
fn a_closure_whose_worker_is_busy_starts_on_another_one_whatever_that_has() {
    Runtime::new()
        .workers(2)
        .run(|| {
            let crowd = Crowd::new();
            scope(|s| {
                (0..80).for_each(|_| crowd.grow(s));
                crowd.await_begun(80);
                // Those here end.
                let here = thread::current().id();
                crowd.let_go(|place| place == here);
                for _ in 0..scaled(20, 5) {
                    let ran = Arc::new(AtomicBool::new(false));
                    let child = s.spawn({
                        let ran = Arc::clone(&ran);
                        move || {
                            ran.store(true, SeqCst);
                            thread::current().id()
                        }
                    });
                    while !ran.load(SeqCst) {
                        thread::yield_now();
                    }
                    assert_ne!(child.join().unwrap(), here);
                }
                crowd.let_go(|_| true);
            });
        })
        .unwrap();
}

#[test]
fn what_is_to_be_spread_goes_to_the_worker_with_the_fewest_fibers_at_once() {
    for workers in [2, 3] {
        let crowd = Crowd::new();
        Runtime::new()
            .workers(workers)
            .run(|| {
                scope(|s| {
                    for spawned in 1..=scaled(120, 12) {
                        segue_core::Builder::new().attribute(segue_core::Spread).within(s).spawn(|| crowd.stay());
                        crowd.await_begun(spawned);
                    }
                    let mut shares = HashMap::<ThreadId, usize>::new();
                    for (place, _) in &*crowd.places.lock().unwrap() {
                        *shares.entry(*place).or_default() += 1;
                    }
                    let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
                    // The spawner is one of them; and an idle worker may have taken one.
                    assert!(shares.len() == workers && most - least <= 3, "{shares:?}");
                    crowd.let_go(|_| true);
                });
            })
            .unwrap();
    }
}
