//! `scope_spawn`: a scope spawns so many closures that borrow, and its end waits for all of them;
//! an operation is one closure.
//!
//! Each closure adds one to a number that is its own, of those that the caller has. Where tasks
//! can't borrow (tokio's `JoinSet`, smol), each has a count of the numbers' owners, as users write
//! it. The numbers are looked at afterwards. Std's scope starts a thread for each.
//!
//! Timed: the scopes, one after the other, each with making its closures, running them, and the
//! wait at its end. Not timed: starting the runtime. The caller is itself a fiber, a task or a job
//! of the pool.

use super::{crowd, segue_run};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "scope_spawn",
    timed: "a scope that spawns borrowing closures and waits for them, per closure",
    variants,
};

fn variants() -> Vec<Variant> {
    let with = |size, name: &str, workers| {
        let name = format!("{name}, {}", if workers == 1 { "one worker" } else { "two workers" });
        Variant::new(name, "closure", workers)
            .add(SEGUE, move |n| segue_run(workers, || scopes(size, n, segue)))
            .add("tokio", move |n| crowd::tokio(workers, move |_| tokio(size, n)))
            .add("smol", move |n| crowd::smol(workers, move |start| smol(start, size, n)))
            .add("rayon", move |n| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
                pool.install(|| scopes(size, n, rayon))
            })
            .add("std", move |n| scopes(size, n, std))
            .absent("may", "safe code can not spawn in its scopes")
    };
    let sizes = [(1, "of one"), (10, "of 10"), (1000, "of 1,000")];
    sizes.iter().flat_map(|(size, name)| [1, 2].map(|workers| with(*size, name, workers))).collect()
}

/// What the closures have.
type Numbers = Arc<[AtomicU64]>;

fn numbers(size: usize) -> Numbers {
    (0..size).map(|_| AtomicU64::new(0)).collect()
}

/// What a closure does. Nobody else uses its number meanwhile.
fn add_one(number: &AtomicU64) {
    number.store(number.load(Relaxed) + 1, Relaxed);
}

fn rounds(size: usize, n: u64) -> u64 {
    n.div_ceil(size as u64)
}

/// Every closure has run once in each round.
fn check(numbers: &[AtomicU64], rounds: u64) {
    assert!(numbers.iter().all(|number| number.load(Relaxed) == rounds));
}

/// Runs a scope over the numbers, so often that about `n` closures are called.
fn scopes(size: usize, n: u64, scope: impl Fn(&[AtomicU64])) -> Span {
    let (numbers, rounds) = (numbers(size), rounds(size, n));
    let watch = Stopwatch::start();
    for _ in 0..rounds {
        scope(black_box(&numbers));
    }
    let span = watch.stop(rounds * size as u64);
    check(&numbers, rounds);
    span
}

fn segue(numbers: &[AtomicU64]) {
    segue::scope(|s| {
        for number in numbers {
            s.spawn(|| add_one(number));
        }
    });
}

fn rayon(numbers: &[AtomicU64]) {
    rayon::scope(|s| {
        for number in numbers {
            s.spawn(|_| add_one(number));
        }
    });
}

fn std(numbers: &[AtomicU64]) {
    std::thread::scope(|s| {
        for number in numbers {
            s.spawn(|| add_one(number));
        }
    });
}

/// A set for each round.
async fn tokio(size: usize, n: u64) -> Span {
    let (numbers, rounds) = (numbers(size), rounds(size, n));
    let watch = Stopwatch::start();
    for _ in 0..rounds {
        let mut set = tokio::task::JoinSet::new();
        for at in 0..size {
            let numbers = Arc::clone(&numbers);
            set.spawn(async move { add_one(&numbers[at]) });
        }
        while let Some(joined) = set.join_next().await {
            joined.expect("no panic");
        }
    }
    let span = watch.stop(rounds * size as u64);
    check(&numbers, rounds);
    span
}

/// A list of tasks for each round.
async fn smol<S: crowd::SpawnTask>(start: S, size: usize, n: u64) -> Span {
    let (numbers, rounds) = (numbers(size), rounds(size, n));
    let watch = Stopwatch::start();
    for _ in 0..rounds {
        let mut tasks = Vec::with_capacity(size);
        for at in 0..size {
            let numbers = Arc::clone(&numbers);
            tasks.push(start.spawn(async move { add_one(&numbers[at]) }));
        }
        for task in tasks {
            S::join(task).await;
        }
    }
    let span = watch.stop(rounds * size as u64);
    check(&numbers, rounds);
    span
}
