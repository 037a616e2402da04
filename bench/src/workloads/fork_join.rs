//! `fork_join`: fib(30), forking in every call with an argument above 1; an operation is one fork,
//! of which fib(30) has 1,346,268.
//!
//! Timed: the recursion, its forks and joins, and on two workers the stealing. Not timed: starting
//! the pool. There is no cutoff below which it goes on sequentially: the fork itself is what is
//! measured. Go computes fib(22) as often as fits a round, with a goroutine per fork, since its
//! fib(30) takes a second. May is left out: it has no fork-join, and would make a stack per fork.

use super::policies::{self, Policy};
use crate::measure::{Span, Stopwatch, Variant, Workload, smoke};
use std::num::NonZero;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "fork_join", timed: "fib(30) with a fork in every call, per fork", variants };

/// The argument, its Fibonacci number, and the calls with an argument above 1.
fn size() -> [u64; 3] {
    if smoke() { [18, 2_584, 4_180] } else { [30, 832_040, 1_346_268] }
}

fn variants() -> Vec<Variant> {
    let with = |name: &str, workers| {
        policies::add_all(Variant::new(name, "fork", workers), move |policy, n| segue(policy, workers, n))
            .add("chili", move |n| chili(workers, n))
            .add("rayon", move |n| rayon(workers, n))
            .add_go(&["22"])
    };
    vec![with("fib(30), one worker", 1), with("fib(30), two workers", 2)]
}

/// Times as many runs of `fib` as have about `n` forks.
fn repeat(n: u64, mut fib: impl FnMut(u64) -> u64) -> Span {
    let [argument, number, forks] = size();
    let times = (n / forks).max(1);
    let watch = Stopwatch::start();
    for _ in 0..times {
        assert_eq!(fib(argument), number);
    }
    watch.stop(times * forks)
}

/// The calling thread is the first worker.
fn segue(policy: &Policy, workers: usize, n: u64) -> Span {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = segue::join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    policy.run(workers, || repeat(n, fib))
}

/// The calling thread is the first worker.
fn chili(workers: usize, n: u64) -> Span {
    fn fib(scope: &mut chili::Scope<'_>, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = scope.join(|s| fib(s, n - 1), |s| fib(s, n - 2));
        a + b
    }
    let pool =
        chili::ThreadPool::with_config(chili::Config { thread_count: NonZero::new(workers), ..Default::default() });
    let mut scope = pool.scope();
    repeat(n, |argument| fib(&mut scope, argument))
}

fn rayon(workers: usize, n: u64) -> Span {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
    pool.install(|| repeat(n, fib))
}
