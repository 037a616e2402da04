//! `par_sort`: a vector of a million random numbers is sorted; an operation is one number.
//!
//! Timed: the sorts. Not timed: starting the pool, and copying the unsorted numbers before each.

use super::policies::{self, Policy};
use crate::measure::{Span, Stopwatch, Variant, Workload, smoke};
use std::hint::black_box;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "par_sort", timed: "a parallel sort of a million numbers, per number", variants };

fn len() -> usize {
    if smoke() { 10_000 } else { 1_000_000 }
}

fn variants() -> Vec<Variant> {
    let with = |name, workers, stable| {
        policies::add_all(Variant::new(name, "number", workers), move |policy, n| segue(policy, workers, stable, n))
            .add("rayon", move |n| rayon(workers, stable, n))
    };
    vec![
        with("stable, one worker", 1, true),
        with("stable, two workers", 2, true),
        with("unstable, one worker", 1, false),
        with("unstable, two workers", 2, false),
    ]
}

/// Sorts about `n` numbers.
fn often(n: u64, sort: impl Fn(&mut [u64])) -> Span {
    let mut random = fastrand::Rng::with_seed(1);
    let unsorted: Vec<u64> = (0..len()).map(|_| random.u64(..)).collect();
    let mut span: Option<Span> = None;
    for _ in 0..(n / len() as u64).max(1) {
        let mut numbers = unsorted.clone();
        let watch = Stopwatch::start();
        sort(black_box(&mut numbers));
        let one = watch.stop(len() as u64);
        assert!(numbers.is_sorted());
        span = Some(match span {
            Some(before) => before.and(one),
            None => one,
        });
    }
    span.expect("it was sorted at least once")
}

/// The calling thread is the first worker.
fn segue(policy: &Policy, workers: usize, stable: bool, n: u64) -> Span {
    use segue::par::prelude::*;
    policy.run(workers, || often(n, |numbers| if stable { numbers.par_sort() } else { numbers.par_sort_unstable() }))
}

/// From inside of the pool.
fn rayon(workers: usize, stable: bool, n: u64) -> Span {
    use rayon::prelude::*;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
    pool.install(|| often(n, |numbers| if stable { numbers.par_sort() } else { numbers.par_sort_unstable() }))
}
