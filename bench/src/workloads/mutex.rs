//! `mutex`: lock, add to the number inside, unlock; an operation is all three.
//!
//! * `uncontended`: one fiber or task alone.
//! * `8 fibers on 2 workers`: each locks and unlocks in a loop and does nothing in between. A
//!   runtime whose tasks meet a free mutex runs them one after the other on each worker, so that
//!   two contend at a time.
//! * `held across a yield`: 8 fibers on one worker, of which the owner gives up its turn before it
//!   adds: all others wait in the mutex's queue.
//!
//! Timed: the operations, and for eight fibers also spawning and joining them, which a round of
//! milliseconds makes small. Not timed: starting the runtime, making the mutex. std and parking_lot
//! have threads instead of fibers, except `std on tokio`: tasks may use it too as long as none
//! awaits while it holds it, so it takes no part in the last variant.

use super::policies::{self, Policy};
use super::{may_run, segue_run, smol_executor, tokio_runtime};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use std::hint::black_box;
use std::ops::DerefMut;
use std::sync::{Arc, Barrier};
use std::thread;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "mutex", timed: "lock, add to the number inside, unlock, per pair of lock and unlock", variants };

const FIBERS: u64 = 8;

fn variants() -> Vec<Variant> {
    use futures_util::lock::Mutex as Futures;
    vec![
        Variant::new("uncontended", "lock and unlock", 1)
            .add(SEGUE, |n| segue_run(1, || alone::<segue::sync::Mutex<u64>>(n)))
            .add("std", alone::<std::sync::Mutex<u64>>)
            .add("parking_lot", alone::<parking_lot::Mutex<u64>>)
            .add("tokio", |n| tokio::<tokio::sync::Mutex<u64>>(1, 1, n))
            .add("smol", |n| smol::<async_lock::Mutex<u64>>(1, 1, n))
            .add("futures on smol", |n| smol::<Futures<u64>>(1, 1, n))
            .add_apart("may", |n| may(1, 1, n, add))
            .add_go(&["1", "hold"]),
        policies::add_all(Variant::new("8 fibers on 2 workers", "lock and unlock", 2), |policy, n| {
            segue(policy, 2, n, add)
        })
        .add("tokio", |n| tokio::<tokio::sync::Mutex<u64>>(2, FIBERS, n))
        .add("std on tokio", std_on_tokio)
        .add("futures on tokio", |n| tokio::<Futures<u64>>(2, FIBERS, n))
        .add("async-lock on tokio", |n| tokio::<async_lock::Mutex<u64>>(2, FIBERS, n))
        .add("smol", |n| smol::<async_lock::Mutex<u64>>(2, FIBERS, n))
        .add("futures on smol", |n| smol::<Futures<u64>>(2, FIBERS, n))
        .add("std, threads", threads::<std::sync::Mutex<u64>>)
        .add("parking_lot, threads", threads::<parking_lot::Mutex<u64>>)
        .add_apart("may", |n| may(2, FIBERS, n, add))
        .add_go(&["8", "hold"]),
        policies::add_all(Variant::new("8 fibers, held across a yield", "lock and unlock", 1), |policy, n| {
            segue(policy, 1, n, |mutex, n| add_yielding(mutex, n, || segue::yield_now().expect("nobody cancels")))
        })
        .add("tokio", tokio_yield::<tokio::sync::Mutex<u64>>)
        .add("futures on tokio", tokio_yield::<Futures<u64>>)
        .add("async-lock on tokio", tokio_yield::<async_lock::Mutex<u64>>)
        .add("smol", smol_yield::<async_lock::Mutex<u64>>)
        .add("futures on smol", smol_yield::<Futures<u64>>)
        .add_apart("may", |n| may(1, FIBERS, n, |mutex, n| add_yielding(mutex, n, may::coroutine::yield_now)))
        .add_go(&["8", "yield"]),
    ]
}

/// A mutex whose lock is a call.
trait Calls: Send + Sync + 'static {
    fn new() -> Self;
    fn with<R>(&self, f: impl FnOnce(&mut u64) -> R) -> R;
}

macro_rules! calls {
    ($mutex:ty, |$self:ident| $lock:expr) => {
        impl Calls for $mutex {
            fn new() -> Self {
                <$mutex>::new(0)
            }

            #[inline]
            fn with<R>(&$self, f: impl FnOnce(&mut u64) -> R) -> R {
                f(&mut $lock)
            }
        }
    };
}

calls!(segue::sync::Mutex<u64>, |self| self.lock().expect("nobody cancels"));
calls!(std::sync::Mutex<u64>, |self| self.lock().expect("no panic"));
calls!(parking_lot::Mutex<u64>, |self| self.lock());
calls!(may::sync::Mutex<u64>, |self| self.lock().expect("no panic"));

fn add<M: Calls>(mutex: &M, n: u64) {
    for _ in 0..n {
        black_box(mutex).with(|number| *number += 1);
    }
}

fn add_yielding<M: Calls>(mutex: &M, n: u64, yield_now: impl Fn()) {
    for _ in 0..n {
        mutex.with(|number| {
            yield_now();
            *number += 1;
        });
    }
}

fn check<M: Calls>(mutex: &M, n: u64) {
    assert_eq!(mutex.with(|number| *number), n);
}

/// A mutex whose lock is awaited.
trait Awaited: Send + Sync + 'static {
    type Guard<'a>: DerefMut<Target = u64> + Send;
    fn new() -> Self;
    fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send;
}

macro_rules! awaited {
    ($mutex:ty, $guard:ident) => {
        impl Awaited for $mutex {
            type Guard<'a> = $guard<'a, u64>;

            fn new() -> Self {
                <$mutex>::new(0)
            }

            #[inline]
            fn lock(&self) -> impl Future<Output = Self::Guard<'_>> + Send {
                self.lock()
            }
        }
    };
}

use async_lock::MutexGuard as AsyncLockGuard;
use futures_util::lock::MutexGuard as FuturesGuard;
use tokio::sync::MutexGuard as TokioGuard;
awaited!(tokio::sync::Mutex<u64>, TokioGuard);
awaited!(async_lock::Mutex<u64>, AsyncLockGuard);
awaited!(futures_util::lock::Mutex<u64>, FuturesGuard);

async fn add_async<M: Awaited>(mutex: Arc<M>, n: u64) {
    for _ in 0..n {
        *black_box(&mutex).lock().await += 1;
    }
}

async fn add_yielding_async<M, F>(mutex: Arc<M>, n: u64, yield_now: impl Fn() -> F)
where
    M: Awaited,
    F: Future<Output = ()>,
{
    for _ in 0..n {
        let mut number = mutex.lock().await;
        yield_now().await;
        *number += 1;
    }
}

/// The calling thread alone.
fn alone<M: Calls>(n: u64) -> Span {
    let mutex = M::new();
    let watch = Stopwatch::start();
    add(&mutex, n);
    let span = watch.stop(n);
    check(&mutex, n);
    span
}

/// Eight fibers.
fn segue(policy: &Policy, workers: usize, n: u64, body: fn(&segue::sync::Mutex<u64>, u64)) -> Span {
    policy.run(workers, || {
        let (mutex, each) = (segue::sync::Mutex::new(0), n.div_ceil(FIBERS));
        let watch = Stopwatch::start();
        segue::scope(|scope| {
            for _ in 0..FIBERS {
                scope.spawn(|| body(&mutex, each));
            }
        });
        let span = watch.stop(each * FIBERS);
        check(&mutex, each * FIBERS);
        span
    })
}

fn threads<M: Calls>(n: u64) -> Span {
    let (mutex, each) = (M::new(), n.div_ceil(FIBERS));
    let watch = Stopwatch::start();
    thread::scope(|threads| {
        for _ in 0..FIBERS {
            threads.spawn(|| add(&mutex, each));
        }
    });
    let span = watch.stop(each * FIBERS);
    check(&mutex, each * FIBERS);
    span
}

fn tokio<M: Awaited>(workers: usize, tasks: u64, n: u64) -> Span {
    let mutex = Arc::new(M::new());
    let shared = mutex.clone();
    let span = tokio_tasks(workers, tasks, n, move |each| add_async(shared.clone(), each));
    assert_eq!(*smol::future::block_on(mutex.lock()), span.ops);
    span
}

fn tokio_yield<M: Awaited>(n: u64) -> Span {
    tokio_tasks(1, FIBERS, n, {
        let mutex = Arc::new(M::new());
        move |each| add_yielding_async(mutex.clone(), each, tokio::task::yield_now)
    })
}

fn std_on_tokio(n: u64) -> Span {
    let mutex = Arc::new(std::sync::Mutex::new(0));
    tokio_tasks(2, FIBERS, n, move |each| {
        let mutex = mutex.clone();
        async move { add(&*mutex, each) }
    })
}

/// Spawns so many tasks, each with its part of the operations, from a task.
fn tokio_tasks<F>(workers: usize, tasks: u64, n: u64, body: impl Fn(u64) -> F + Send + 'static) -> Span
where
    F: Future<Output = ()> + Send + 'static,
{
    let each = n.div_ceil(tasks);
    let main = async move {
        let watch = Stopwatch::start();
        let tasks: Vec<_> = (0..tasks).map(|_| tokio::spawn(body(each))).collect();
        let ops = each * tasks.len() as u64;
        for task in tasks {
            task.await.expect("no panic");
        }
        watch.stop(ops)
    };
    tokio_runtime(workers).block_on(async { tokio::spawn(main).await }).expect("no panic")
}

fn smol<M: Awaited>(workers: usize, tasks: u64, n: u64) -> Span {
    let mutex = Arc::new(M::new());
    let shared = mutex.clone();
    let span = smol_tasks(workers, tasks, n, move |each| add_async(shared.clone(), each));
    assert_eq!(*smol::future::block_on(mutex.lock()), span.ops);
    span
}

fn smol_yield<M: Awaited>(n: u64) -> Span {
    smol_tasks(1, FIBERS, n, {
        let mutex = Arc::new(M::new());
        move |each| add_yielding_async(mutex.clone(), each, smol::future::yield_now)
    })
}

/// The same on smol's executors.
fn smol_tasks<F>(workers: usize, tasks: u64, n: u64, body: impl Fn(u64) -> F) -> Span
where
    F: Future<Output = ()> + Send + 'static,
{
    let each = n.div_ceil(tasks);
    if workers == 1 {
        let executor = smol_executor();
        return smol::future::block_on(executor.run(async {
            let watch = Stopwatch::start();
            let tasks: Vec<_> = (0..tasks).map(|_| executor.spawn(body(each))).collect();
            let ops = each * tasks.len() as u64;
            for task in tasks {
                task.await;
            }
            watch.stop(ops)
        }));
    }
    let executor = smol::Executor::new();
    let (end, ended) = smol::channel::bounded::<()>(1);
    let started = Barrier::new(workers + 1);
    thread::scope(|threads| {
        for _ in 0..workers {
            threads.spawn(|| {
                started.wait();
                smol::future::block_on(executor.run(ended.recv()))
            });
        }
        started.wait();
        let watch = Stopwatch::start();
        let tasks: Vec<_> = (0..tasks).map(|_| executor.spawn(body(each))).collect();
        let ops = each * tasks.len() as u64;
        smol::future::block_on(async {
            for task in tasks {
                task.await;
            }
        });
        let span = watch.stop(ops);
        drop(end);
        span
    })
}

fn may(workers: usize, fibers: u64, n: u64, body: fn(&may::sync::Mutex<u64>, u64)) -> Span {
    may_run(workers, move || {
        let (mutex, each) = (Arc::new(may::sync::Mutex::new(0)), n.div_ceil(fibers));
        let watch = Stopwatch::start();
        let all: Vec<_> = (0..fibers)
            .map(|_| {
                let mutex = mutex.clone();
                may::go!(move || body(&mutex, each))
            })
            .collect();
        for one in all {
            one.join().expect("no panic");
        }
        let span = watch.stop(each * fibers);
        check(&*mutex, each * fibers);
        span
    })
}
