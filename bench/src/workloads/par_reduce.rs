//! `par_reduce`: a sum over a slice of a million numbers, of each of which something is made first;
//! an operation is one number.
//!
//! * *cheap elements*: a multiplication and a shift; the loop is bound by what a processor can do
//!   at once.
//! * *costly elements*: 200 multiplications, each of which needs the one before.
//!
//! Timed: the loops, one after the other. Not timed: starting the pool.

use super::policies::{self, Policy};
use crate::measure::{Span, Stopwatch, Variant, Workload};
use std::hint::black_box;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "par_reduce", timed: "a parallel sum over a slice, per element", variants };

const LEN: usize = 1_000_000;

fn variants() -> Vec<Variant> {
    let with = |name, workers, steps| {
        policies::add_all(Variant::new(name, "element", workers), move |policy, n| segue(policy, workers, steps, n))
            .add("rayon", move |n| rayon(workers, steps, n))
    };
    vec![
        with("cheap elements, one worker", 1, 1),
        with("cheap elements, two workers", 2, 1),
        with("costly elements, one worker", 1, 200),
        with("costly elements, two workers", 2, 200),
    ]
}

#[inline]
fn made_of(mut number: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        number = (number ^ (number >> 7)).wrapping_mul(0x5851_f42d_4c95_7f2d);
    }
    number >> 32
}

/// Runs `sum` over about `n` elements.
fn often(steps: u32, n: u64, sum: impl Fn(&[u64]) -> u64) -> Span {
    let len = LEN / steps as usize;
    let numbers: Vec<u64> = (0..len as u64).collect();
    let expected: u64 = numbers.iter().map(|n| made_of(*n, steps)).sum();
    let times = (n / len as u64).max(1);
    let watch = Stopwatch::start();
    for _ in 0..times {
        let sum = sum(black_box(&numbers));
        assert_eq!(sum, expected);
    }
    watch.stop(times * len as u64)
}

/// The calling thread is the first worker.
fn segue(policy: &Policy, workers: usize, steps: u32, n: u64) -> Span {
    use segue::par::prelude::*;
    policy.run(workers, || often(steps, n, |numbers| numbers.par_iter().map(|n| made_of(*n, steps)).sum()))
}

/// From inside of the pool.
fn rayon(workers: usize, steps: u32, n: u64) -> Span {
    use rayon::prelude::*;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
    pool.install(|| often(steps, n, |numbers| numbers.par_iter().map(|n| made_of(*n, steps)).sum()))
}
