//! `bridge`: where fibers and futures meet.
//!
//! * `wait for a future that wakes itself`: an operation is one await of a future that wakes its
//!   own waker at the first poll and is ready at the second: one suspension, and nobody else has a
//!   turn.
//! * `wait for a future that another fiber wakes`: as above, but the other fiber or task of the
//!   same worker makes the future ready, wakes it and yields; an operation is one await, and
//!   includes that yield.
//! * `wait for a future that a thread wakes`: a thread and the waiting fiber or task make each
//!   other's futures ready in turn, each bound to a CPU of its own; an operation is one await of
//!   the fiber and one of the thread, which uses `pollster`.
//! * `wait on tokio's LocalSet`: the first again, by a task of tokio's `LocalSet`, or by a fiber
//!   that such a task hosts.
//! * `an async task awaits a child, same thread`: an operation is one child that returns a number,
//!   spawned and awaited one by one by a task of tokio's current-thread runtime.
//! * `an async task awaits a child, another thread`: the same with the children on one other
//!   thread, which they are handed by their own runtime or pool. Nobody is bound to a CPU; "CPUs
//!   busy" shows whether the kernel used two.
//!
//! Timed: making the future, suspending, waking, resuming; for children also spawning, running,
//! their end. Not timed: starting runtimes, pools and the two sides.

use super::policies::DEFAULT;
use super::{pair, segue_run, smol_executor, tokio_runtime};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use futures_util::task::AtomicWaker;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "bridge", timed: "fibers that wait for futures, futures that wait for fibers", variants };

fn variants() -> Vec<Variant> {
    vec![
        Variant::new("wait for a future that wakes itself", "wait", 1)
            .add(SEGUE, |n| segue_run(1, || wake_itself_in_fiber(n)))
            .add("tokio", |n| {
                tokio_runtime(1).block_on(async { tokio::spawn(wake_itself(n)).await }).expect("no panic")
            })
            .add("smol", |n| {
                let executor = smol_executor();
                smol::future::block_on(executor.run(executor.spawn(wake_itself(n))))
            })
            .add("pollster", |n| pollster::block_on(wake_itself(n)))
            .add("futures-lite", |n| smol::future::block_on(wake_itself(n))),
        Variant::new("wait for a future that another fiber wakes", "wait", 1)
            .add(SEGUE, |n| pair::segue(&DEFAULT, 1, woken_by_fiber(n)))
            .add("tokio", |n| pair::tokio(1, woken_by_task(n, tokio::task::yield_now)))
            .add("smol", |n| pair::smol(1, woken_by_task(n, smol::future::yield_now))),
        Variant::new("wait for a future that a thread wakes", "wait", 2)
            .add(SEGUE, |n| {
                let signals = Arc::<(Signal, Signal)>::default();
                let thread = thread_side(signals.clone(), n);
                let fiber = move || woken_by_thread_in_fiber(&signals, n);
                pair::threads((|| segue_run(1, fiber), || pollster::block_on(thread)))
            })
            .add("tokio", |n| {
                let (first, second) = woken_by_thread(n);
                let first = || tokio_runtime(1).block_on(async { tokio::spawn(first).await }).expect("no panic");
                pair::threads((first, || pollster::block_on(second)))
            })
            .add("smol", |n| {
                let (first, second) = woken_by_thread(n);
                let first = || {
                    let executor = smol::LocalExecutor::new();
                    smol::future::block_on(executor.run(executor.spawn(first)))
                };
                pair::threads((first, || pollster::block_on(second)))
            })
            .add("pollster", |n| {
                let (first, second) = woken_by_thread(n);
                pair::threads((|| pollster::block_on(first), || pollster::block_on(second)))
            }),
        Variant::new("wait on tokio's LocalSet", "wait", 1)
            .add(SEGUE, |n| {
                on_local_set(async move {
                    segue_bridge::direct_local(move || wake_itself_in_fiber(n)).await.expect("no panic")
                })
            })
            .add("tokio, LocalSet", |n| on_local_set(wake_itself(n))),
        Variant::new("an async task awaits a child, same thread", "child", 1)
            .add(SEGUE, |n| {
                on_local_set(spawn_and_await(n, |i| async move {
                    segue_bridge::direct_local(move || i).await.expect("no panic")
                }))
            })
            .add("tokio", |n| parent(n, |i| async move { tokio::spawn(async move { i }).await.expect("no panic") }))
            .add("tokio, LocalSet", |n| {
                on_local_set(spawn_and_await(n, |i| async move {
                    tokio::task::spawn_local(async move { i }).await.expect("no panic")
                }))
            }),
        Variant::new("an async task awaits a child, another thread", "child", 2)
            .add(SEGUE, |n| {
                let pool = segue::runtime().workers(1).pool().expect("segue starts");
                parent(n, move |i| {
                    let child = pool.spawn(move || i);
                    async move { child.await.expect("no panic") }
                })
            })
            .add("tokio, two runtimes", |n| {
                let other =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("tokio starts");
                let handle = other.handle().clone();
                parent(n, move |i| {
                    let child = handle.spawn(async move { i });
                    async move { child.await.expect("no panic") }
                })
            })
            .add("tokio, spawn_blocking", |n| {
                parent(n, |i| async move { tokio::task::spawn_blocking(move || i).await.expect("no panic") })
            })
            .add("rayon and a oneshot", |n| {
                let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("rayon starts"));
                parent(n, move |i| {
                    let (end, ended) = tokio::sync::oneshot::channel();
                    pool.spawn(move || end.send(i).expect("the parent waits"));
                    async move { ended.await.expect("no panic") }
                })
            }),
    ]
}

/// Pending once, and woken at once.
struct WakesItself(bool);

impl Future for WakesItself {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn wake_itself(n: u64) -> Span {
    let watch = Stopwatch::start();
    for _ in 0..n {
        WakesItself(false).await;
    }
    watch.stop(n)
}

/// Made ready by one side for the other, over and over.
#[derive(Default)]
struct Signal {
    ready: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    fn signal(&self) {
        self.ready.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// A future that takes one signal.
    fn wait(&self) -> Wait<'_> {
        Wait(self)
    }
}

struct Wait<'a>(&'a Signal);

impl Future for Wait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0.ready.swap(false, Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.0.waker.register(context.waker());
        // Signalled before it was registered?
        if self.0.ready.swap(false, Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The waiting side, and the side that signals whenever the other waits again. The first signal
/// shows that both have started.
fn woken_by_task<F>(
    n: u64,
    yield_now: fn() -> F,
) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let signal = Arc::new(Signal::default());
    let shared = signal.clone();
    let first = async move {
        shared.wait().await;
        let watch = Stopwatch::start();
        for _ in 0..n {
            shared.wait().await;
        }
        watch.stop(n)
    };
    let second = async move {
        for _ in 0..=n {
            signal.signal();
            yield_now().await;
            assert!(!signal.ready.load(Ordering::Relaxed), "the other side had its turn");
        }
    };
    (first, second)
}

/// The same as `wake_itself` in a fiber.
fn wake_itself_in_fiber(n: u64) -> Span {
    let watch = Stopwatch::start();
    for _ in 0..n {
        segue_bridge::wait(WakesItself(false)).expect("nobody cancels");
    }
    watch.stop(n)
}

/// The same as `woken_by_task` in two fibers.
fn woken_by_fiber(n: u64) -> (impl FnOnce() -> Span + Send + 'static, impl FnOnce() + Send + 'static) {
    let signal = Arc::new(Signal::default());
    let shared = signal.clone();
    let first = move || {
        segue_bridge::wait(shared.wait()).expect("nobody cancels");
        let watch = Stopwatch::start();
        for _ in 0..n {
            segue_bridge::wait(shared.wait()).expect("nobody cancels");
        }
        watch.stop(n)
    };
    let second = move || {
        for _ in 0..=n {
            signal.signal();
            // The other side has its turn, but for once: it may not have started yet.
            while signal.ready.load(Ordering::Relaxed) {
                segue::yield_now().expect("nobody cancels");
            }
        }
    };
    (first, second)
}

/// The same as the first side of `woken_by_thread` in a fiber.
fn woken_by_thread_in_fiber(signals: &(Signal, Signal), n: u64) -> Span {
    let (mine, other) = signals;
    segue_bridge::wait(mine.wait()).expect("nobody cancels");
    let watch = Stopwatch::start();
    for _ in 0..n {
        other.signal();
        segue_bridge::wait(mine.wait()).expect("nobody cancels");
    }
    watch.stop(n)
}

/// Two sides that signal each other in turn.
fn woken_by_thread(n: u64) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
    let signals = Arc::<(Signal, Signal)>::default();
    let shared = signals.clone();
    let first = async move {
        let (mine, other) = &*shared;
        mine.wait().await;
        let watch = Stopwatch::start();
        for _ in 0..n {
            other.signal();
            mine.wait().await;
        }
        watch.stop(n)
    };
    (first, thread_side(signals, n))
}

async fn thread_side(signals: Arc<(Signal, Signal)>, n: u64) {
    let (other, mine) = &*signals;
    other.signal();
    for _ in 0..n {
        mine.wait().await;
        other.signal();
    }
}

/// Runs `main` as a task of a `LocalSet`.
fn on_local_set(main: impl Future<Output = Span> + 'static) -> Span {
    let local = tokio::task::LocalSet::new();
    local.block_on(&tokio_runtime(1), async { tokio::task::spawn_local(main).await }).expect("no panic")
}

/// A task of tokio's current-thread runtime that awaits what `child` makes of each number.
fn parent<F>(n: u64, child: impl Fn(u64) -> F + Send + 'static) -> Span
where
    F: Future<Output = u64> + Send + 'static,
{
    tokio_runtime(1).block_on(async { tokio::spawn(spawn_and_await(n, child)).await }).expect("no panic")
}

async fn spawn_and_await<F: Future<Output = u64>>(n: u64, child: impl Fn(u64) -> F) -> Span {
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 0..n {
        sum += child(i).await;
    }
    let span = watch.stop(n);
    assert_eq!(sum, n * n.saturating_sub(1) / 2);
    span
}
