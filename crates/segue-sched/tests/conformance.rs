//! Every scheduler of this crate keeps the contract, alone, inside of a fiber of another, and
//! called from one.

mod common;

use common::gangs::Gangs;
use common::{STAND_IN, pool, scaled};
use segue_conformance::{Main, Suite};
use segue_core::{scope, yield_now};
use segue_sched::{
    ByDeadline, ByPriority, Fair, Fifo, Hierarchical, Lifo, Plain, Policy, Polled, RoundRobin, Runtime, Sim, Stealing,
};
use std::num::NonZero;

/// How often a race is run: less where fibers are threads, and little where every step is
/// interpreted.
const fn rounds(full: usize) -> usize {
    match (cfg!(miri), STAND_IN) {
        (true, _) => 10,
        (false, true) => full / 50,
        (false, false) => full,
    }
}

/// A suite with what is known of all of them. `workers` are its threads, unless each fiber is one.
fn suite(name: String, workers: usize, run: impl Fn(Main) + Send + Sync + 'static) -> Suite {
    let suite = Suite::new(name, run).rounds(rounds(10_000)).fibers(if cfg!(miri) { 4 } else { scaled(500, 32) });
    if STAND_IN { suite } else { suite.workers(workers) }
}

#[test]
fn the_simulator_with_several_seeds() {
    for seed in 0..scaled(5, 2) as u64 {
        let run = move |main: Main| Sim::new(seed).run(main).unwrap_or_else(|deadlock| panic!("{deadlock}"));
        suite(format!("sim with seed {seed}"), 1, run).simulated().rounds(rounds(2_000)).check();
    }
}

#[test]
fn the_plain_scheduler() {
    suite("plain".to_owned(), 1, Plain::run).check();
}

/// Runs the suite on a scheduler with that policy, on one worker and on two, alone and inside of
/// itself.
fn conforms<P: Policy>(name: &str, races: usize, make: impl Fn() -> P + Copy + Send + Sync + 'static) {
    for workers in [1, 2] {
        let run = move |main: Main| Runtime::new().workers(workers).run_with(make, main).unwrap();
        suite(format!("{name} on {workers}"), workers, run).rounds(rounds(races)).nests().check();
    }
}

#[test]
fn first_in_first_out() {
    conforms("fifo", 10_000, Fifo::default);
}

#[test]
fn stealing() {
    conforms("stealing", 10_000, Stealing::default);
}

#[test]
fn last_in_first_out() {
    conforms("lifo", 2_000, Lifo::default);
}

#[test]
fn round_robin() {
    conforms("round robin", 2_000, RoundRobin::default);
    conforms("round robin, last in, first out", 2_000, || RoundRobin::default().ordered_by(Lifo::default()));
}

#[test]
fn by_priority() {
    conforms("strict priorities", 2_000, ByPriority::strict);
    conforms("priorities with relief", 2_000, || ByPriority::relief(NonZero::new(4).unwrap()));
}

#[test]
fn by_deadline() {
    conforms("deadlines", 2_000, ByDeadline::default);
}

#[test]
fn fair_shares() {
    conforms("fair shares", 2_000, Fair::default);
}

#[test]
fn policies_in_a_policy() {
    let make = || Hierarchical::new().child(1, Stealing::default()).child(2, Fair::default());
    conforms("a hierarchy", 2_000, make);
    conforms("a hierarchy in a hierarchy", 2_000, move || Hierarchical::new().child(1, make()));
}

#[test]
fn gangs() {
    for workers in [1, 2] {
        let run = move |main: Main| {
            let gangs = Gangs::new();
            Runtime::new().workers(workers).run_with(|| gangs.policy(), main).unwrap();
        };
        suite(format!("gangs on {workers}"), workers, run).rounds(rounds(2_000)).nests().check();
    }
}

#[test]
fn a_pool_that_is_made_for_each_run() {
    for workers in [1, 2] {
        let run = move |main: Main| pool(workers).run(main).unwrap();
        suite(format!("a pool of {workers}"), workers, run).check();
    }
}

#[test]
fn driven_by_a_loop_of_its_callers() {
    let run = |main: Main| {
        // A channel, and not `park`: the token of that may be used up by what the fibers call.
        let (wake, events) = std::sync::mpsc::channel();
        let mut fibers = Runtime::new().driven(move || wake.send(()).unwrap_or(())).unwrap();
        let fiber = fibers.start(main).unwrap();
        loop {
            let polled = fibers.poll();
            match polled {
                _ if fiber.is_finished() => break,
                Polled::Again => {}
                Polled::Idle(None) => events.recv().unwrap(),
                Polled::Idle(Some(limit)) => events.recv_timeout(limit).unwrap_or(()),
            }
        }
        fiber.join().unwrap();
    };
    suite("driven".to_owned(), 1, run).rounds(rounds(2_000)).check();
}

#[test]
fn inside_of_a_fiber_of_another_scheduler() {
    // The outer scheduler has something else to do, so that its worker does not just stand where
    // the inner one waits.
    fn beside<T>(f: impl FnOnce() -> T) -> T {
        scope(|s| {
            s.spawn(|| (0..100).all(|_| yield_now().is_ok()));
            f()
        })
    }
    let run = |main: Main| {
        let inner = || Runtime::new().workers(1).run_with(Fifo::default, main).unwrap();
        Runtime::new().workers(1).run(|| beside(inner)).unwrap();
    };
    suite("fifo inside of stealing".to_owned(), 1, run).rounds(rounds(2_000)).nests().check();
    let run = |main: Main| {
        let inner = || Runtime::new().workers(2).run(main).unwrap();
        Runtime::new().workers(1).run_with(Fifo::default, || beside(inner)).unwrap();
    };
    suite("stealing inside of fifo".to_owned(), 2, run).rounds(rounds(2_000)).check();
}
