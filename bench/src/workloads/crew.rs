//! Programs that compute in parallel, and everybody who runs their jobs. Used by `k_nucleotide`,
//! `mandelbrot` and `spectral_norm`.
//!
//! A program is a function that hands numbered jobs to a [`Crew`] and waits for all their results,
//! as often as it likes. It is written once, as a future, so that jobs can be tasks; where waiting
//! is a call, that future never waits and is ready when it is first polled. The same jobs go to
//! everybody: one job is one fiber, task, or fork.
//!
//! Threads take numbers from a shared counter; with one worker that is a plain loop without a
//! runtime, which shows what the work itself takes.

use super::crowd::{self, SpawnFiber, SpawnTask};
use super::{policies, segue_run};
use crate::measure::{Span, Stopwatch, Variant};
use futures_util::FutureExt;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Somebody who runs jobs.
pub trait Crew: Sync {
    /// Runs `job` for each number below `count`, and answers with the results in the order of the
    /// numbers.
    fn all<T: Send + 'static>(
        &self,
        count: usize,
        job: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> impl Future<Output = Vec<T>> + Send;
}

/// A program that computes in parallel.
pub trait Program: 'static {
    /// The singular of what its operations are.
    const OP: &'static str;
    /// How many of them a run has.
    const OPS: u64;

    /// Makes the input. Not timed.
    fn prepare() {}

    /// Runs once, and checks the result.
    fn run(crew: &impl Crew) -> impl Future<Output = ()> + Send;
}

/// Everybody who takes part. Go's entry gets `go` as arguments.
pub fn variant<P: Program>(name: &str, workers: usize, go: &[&str]) -> Variant {
    policies::add_all(Variant::new(name, P::OP, workers), move |policy, n| {
        aside(|| crowd::segue(policy, workers, |fibers| now(repeat::<P>(Fiber(fibers), n))))
    })
    .add("segue, join", move |n| aside(|| segue_run(workers, || now(repeat::<P>(Forks, n)))))
    .add("chili", move |n| {
        let config = chili::Config { thread_count: NonZero::new(workers), ..Default::default() };
        aside(|| now(repeat::<P>(Chili(chili::ThreadPool::with_config(config)), n)))
    })
    .add("rayon", move |n| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
        pool.install(|| now(repeat::<P>(Rayon, n)))
    })
    .add("tokio", move |n| aside(|| crowd::tokio(workers, |tasks| repeat::<P>(Task(tasks), n))))
    .add("smol", move |n| aside(|| crowd::smol(workers, |tasks| repeat::<P>(Task(tasks), n))))
    .add("threads", move |n| aside(|| now(repeat::<P>(Threads(workers), n))))
    .add_apart("may", move |n| crowd::may(workers, move |fibers| now(repeat::<P>(Fiber(fibers), n))))
    .add_go(go)
}

/// Runs it on a thread of its own, like those whose workers all are: what a process's first thread
/// allocates and frees in large pieces is given back to the system and got again each time, and
/// that would be counted for those of whose workers it is one.
fn aside(run: impl FnOnce() -> Span + Send) -> Span {
    std::thread::scope(|threads| threads.spawn(run).join().expect("no panic"))
}

/// As many runs as have about `n` operations.
async fn repeat<P: Program>(crew: impl Crew, n: u64) -> Span {
    P::prepare();
    let times = (n / P::OPS).max(1);
    let watch = Stopwatch::start();
    for _ in 0..times {
        P::run(&crew).await;
    }
    watch.stop(times * P::OPS)
}

/// The output of a future that never waits.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("this crew's waits are calls")
}

struct Fiber<F>(F);

impl<F: SpawnFiber> Crew for Fiber<F> {
    async fn all<T: Send + 'static>(&self, count: usize, job: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
        let job = Arc::new(job);
        let fibers: Vec<_> = (0..count)
            .map(|number| {
                let job = job.clone();
                self.0.spawn(move || job(number))
            })
            .collect();
        fibers.into_iter().map(F::join).collect()
    }
}

struct Task<S>(S);

impl<S: SpawnTask> Crew for Task<S> {
    async fn all<T: Send + 'static>(&self, count: usize, job: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
        let job = Arc::new(job);
        let spawn = |number| {
            let job = job.clone();
            self.0.spawn(async move { job(number) })
        };
        let tasks: Vec<_> = (0..count).map(spawn).collect();
        let mut results = Vec::with_capacity(count);
        for task in tasks {
            results.push(S::join(task).await);
        }
        results
    }
}

/// Places for the results of forks.
fn collect<T>(count: usize, fill: impl FnOnce(&mut [Option<T>])) -> Vec<T> {
    let mut slots: Vec<_> = (0..count).map(|_| None).collect();
    fill(&mut slots);
    slots.into_iter().map(|slot| slot.expect("every job has run")).collect()
}

struct Forks;

impl Crew for Forks {
    async fn all<T: Send + 'static>(&self, count: usize, job: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
        fn halve<T: Send>(first: usize, slots: &mut [Option<T>], job: &(impl Fn(usize) -> T + Sync)) {
            if let [slot] = slots {
                *slot = Some(job(first));
                return;
            }
            let middle = slots.len() / 2;
            let (left, right) = slots.split_at_mut(middle);
            segue::join(|| halve(first, left, job), || halve(first + middle, right, job));
        }
        collect(count, |slots| halve(0, slots, &job))
    }
}

struct Chili(chili::ThreadPool);

impl Crew for Chili {
    async fn all<T: Send + 'static>(&self, count: usize, job: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
        fn halve<T: Send>(
            scope: &mut chili::Scope<'_>,
            first: usize,
            slots: &mut [Option<T>],
            job: &(impl Fn(usize) -> T + Sync),
        ) {
            if let [slot] = slots {
                *slot = Some(job(first));
                return;
            }
            let middle = slots.len() / 2;
            let (left, right) = slots.split_at_mut(middle);
            scope.join(|s| halve(s, first, left, job), |s| halve(s, first + middle, right, job));
        }
        collect(count, |slots| halve(&mut self.0.scope(), 0, slots, &job))
    }
}

struct Rayon;

impl Crew for Rayon {
    async fn all<T: Send + 'static>(&self, count: usize, job: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
        (0..count).into_par_iter().map(job).collect()
    }
}

/// This many threads, of which the caller is one.
pub struct Threads(pub usize);

impl Crew for Threads {
    async fn all<T: Send + 'static>(&self, count: usize, job: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
        let next = AtomicUsize::new(0);
        let work = || {
            let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Relaxed)).filter(|number| *number < count));
            numbers.map(|number| (number, job(number))).collect::<Vec<_>>()
        };
        let mut results = std::thread::scope(|threads| {
            let others: Vec<_> = (1..self.0).map(|_| threads.spawn(work)).collect();
            let mut results = work();
            results.extend(others.into_iter().flat_map(|other| other.join().expect("no panic")));
            results
        });
        results.sort_unstable_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}
