//! `par_reduce`: a sum over a slice of a million numbers, of each of which something is made first;
//! an operation is one number.
//!
//! * *cheap elements*: a multiplication and a shift; the loop is bound by what a processor can do
//!   at once.
//! * *costly elements*: 200 multiplications, each of which needs the one before.
//! * *elements that wait*: of 10,000 each gives up its turn once, and so is a fiber that goes on
//!   later. As a rule 16 for each worker are under way at once; "no bound" has all of them. Nobody
//!   else's loops can wait.
//!
//! Timed: the loops, one after the other. Not timed: starting the pool.

use super::policies::{self, Policy};
use super::segue_run;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use std::hint::black_box;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "par_reduce", timed: "a parallel sum over a slice, per element", variants };

const LEN: usize = 1_000_000;

fn variants() -> Vec<Variant> {
    fn with<const STEPS: usize>(name: &'static str, workers: usize) -> Variant {
        policies::add_all(Variant::new(name, "element", workers), move |policy, n| segue::<STEPS>(policy, workers, n))
            .add("rayon", move |n| rayon::<STEPS>(workers, n))
    }
    vec![
        with::<1>("cheap elements, one worker", 1),
        with::<1>("cheap elements, two workers", 2),
        with::<200>("costly elements, one worker", 1),
        with::<200>("costly elements, two workers", 2),
        waiting("elements that wait, one worker", 1),
        waiting("elements that wait, two workers", 2),
    ]
}

fn waiting(name: &'static str, workers: usize) -> Variant {
    use segue::par::prelude::*;
    /// Elements of one loop.
    const WAITING: u64 = 10_000;
    let often = move |n: u64, count: fn() -> usize| {
        segue_run(workers, || {
            let times = n.div_ceil(WAITING);
            let watch = Stopwatch::start();
            for _ in 0..times {
                assert_eq!(count(), WAITING as usize);
            }
            watch.stop(times * WAITING)
        })
    };
    fn yields<T>(_: &T) -> bool {
        segue::yield_now().is_ok()
    }
    Variant::new(name, "element", workers)
        .add(SEGUE, move |n| often(n, || (0..WAITING).into_par_iter().filter(yields).count()))
        .add("segue, no bound", move |n| {
            often(n, || (0..WAITING).into_par_iter().at_most(usize::MAX).filter(yields).count())
        })
}

/// Of a number of steps that the compiler knows: else it makes a loop within the loop, for one
/// contestant and not for the other, as it happens.
#[inline]
fn made_of<const STEPS: usize>(mut number: u64) -> u64 {
    for _ in 0..STEPS {
        number = (number ^ (number >> 7)).wrapping_mul(0x5851_f42d_4c95_7f2d);
    }
    number >> 32
}

/// Runs `sum` over about `n` elements.
fn often<const STEPS: usize>(n: u64, sum: impl Fn(&[u64]) -> u64) -> Span {
    let len = LEN / STEPS;
    let numbers: Vec<u64> = (0..len as u64).collect();
    let expected: u64 = numbers.iter().map(|n| made_of::<STEPS>(*n)).sum();
    let times = (n / len as u64).max(1);
    let watch = Stopwatch::start();
    for _ in 0..times {
        let sum = sum(black_box(&numbers));
        assert_eq!(sum, expected);
    }
    watch.stop(times * len as u64)
}

/// The calling thread is the first worker.
fn segue<const STEPS: usize>(policy: &Policy, workers: usize, n: u64) -> Span {
    use segue::par::prelude::*;
    policy.run(workers, || often::<STEPS>(n, |numbers| numbers.par_iter().map(|n| made_of::<STEPS>(*n)).sum()))
}

/// From inside of the pool.
fn rayon<const STEPS: usize>(workers: usize, n: u64) -> Span {
    use rayon::prelude::*;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
    pool.install(|| often::<STEPS>(n, |numbers| numbers.par_iter().map(|n| made_of::<STEPS>(*n)).sum()))
}
