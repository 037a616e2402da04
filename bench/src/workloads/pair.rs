//! Two fibers, tasks or threads of which the first measures, on each runtime that takes part: side
//! by side or each on a runtime of its own. Used by the workloads in which two talk to each other.
//!
//! A side is a closure where waiting is a call and a future where it is an `.await`.

use super::policies::Policy;
use super::{may_run, smol_executor, smol_threads, tokio_runtime};
use crate::measure::Span;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use smol::{Executor, LocalExecutor};
use std::thread;

/// Runs both sides as fibers and answers with what the first measured.
pub fn segue<A, B>(policy: &Policy, workers: usize, (first, second): (A, B)) -> Span
where
    A: FnOnce() -> Span + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    policy.run(workers, || {
        let (first, second) = (segue::spawn(first), segue::spawn(second));
        second.join().expect("no panic");
        first.join().expect("no panic")
    })
}

/// Runs each side as a fiber of a pool that has one worker.
pub fn segue_apart<A, B>((first, second): (A, B)) -> Span
where
    A: FnOnce() -> Span + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    let pools = [(); 2].map(|()| segue::runtime().workers(1).pool().expect("segue starts"));
    let first = pools[0].spawn(|| {
        bind_to_cpu(0);
        first()
    });
    let second = pools[1].spawn(|| {
        bind_to_cpu(1);
        second();
    });
    second.join().expect("no panic");
    first.join().expect("no panic")
}

/// Runs both sides as tasks of smol's executors and answers with what the first measured.
pub fn smol<A, B>(workers: usize, (first, second): (A, B)) -> Span
where
    A: Future<Output = Span> + Send + 'static,
    B: Future<Output = ()> + Send + 'static,
{
    if workers == 1 {
        let executor = smol_executor();
        let (first, second) = (executor.spawn(first), executor.spawn(second));
        return smol::future::block_on(executor.run(async {
            second.await;
            first.await
        }));
    }
    let executor = Executor::new();
    smol_threads(workers, &executor, || {
        let (first, second) = (executor.spawn(first), executor.spawn(second));
        smol::future::block_on(async {
            second.await;
            first.await
        })
    })
}

/// Runs each side as a task of an executor and a thread of its own.
pub fn smol_apart<A, B>((first, second): (A, B)) -> Span
where
    A: Future<Output = Span> + Send + 'static,
    B: Future<Output = ()> + Send + 'static,
{
    fn run<T>(side: impl Future<Output = T>) -> T {
        let executor = LocalExecutor::new();
        smol::future::block_on(executor.run(executor.spawn(side)))
    }
    threads((|| run(first), || run(second)))
}

/// Runs both sides as tasks of tokio.
pub fn tokio<A, B>(workers: usize, (first, second): (A, B)) -> Span
where
    A: Future<Output = Span> + Send + 'static,
    B: Future<Output = ()> + Send + 'static,
{
    tokio_runtime(workers).block_on(async {
        let (first, second) = (tokio::spawn(first), tokio::spawn(second));
        second.await.expect("no panic");
        first.await.expect("no panic")
    })
}

/// Runs each side as a task of a runtime and a thread of its own.
pub fn tokio_apart<A, B>((first, second): (A, B)) -> Span
where
    A: Future<Output = Span> + Send + 'static,
    B: Future<Output = ()> + Send + 'static,
{
    fn run<T: Send + 'static>(side: impl Future<Output = T> + Send + 'static) -> T {
        tokio_runtime(1).block_on(async { tokio::spawn(side).await }).expect("no panic")
    }
    threads((|| run(first), || run(second)))
}

/// Runs each side on a thread of its own, which is bound to a CPU of its own: without that, the
/// kernel brings the two to one CPU in some rounds and not in others.
pub fn threads<A, B>((first, second): (A, B)) -> Span
where
    A: FnOnce() -> Span + Send,
    B: FnOnce() + Send,
{
    thread::scope(|threads| {
        let first = threads.spawn(|| {
            bind_to_cpu(0);
            first()
        });
        threads.spawn(|| {
            bind_to_cpu(1);
            second();
        });
        first.join().expect("no panic")
    })
}

/// Binds the calling thread to one of the CPUs on which it may run. Where there is only one, or the
/// system refuses, the thread stays unbound.
pub fn bind_to_cpu(which: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let Some(cpu) = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).nth(which) else { return };
    let mut one = CpuSet::new();
    one.set(cpu);
    let _ = sched_setaffinity(None, &one);
}

/// Runs both sides as coroutines of may.
pub fn may<A, B>(workers: usize, (first, second): (A, B)) -> Span
where
    A: FnOnce() -> Span + Send + 'static,
    B: FnOnce() + Send + 'static,
{
    may_run(workers, move || {
        let (first, second) = (may::go!(first), may::go!(second));
        second.join().expect("no panic");
        first.join().expect("no panic")
    })
}
