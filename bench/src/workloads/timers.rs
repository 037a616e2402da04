//! `timers`: timers that are registered and withdrawn, and timers that fire; on one worker, in
//! processor time.
//!
//! *Registered and withdrawn*: a future for a time half a minute ahead is made, polled once, and
//! dropped; an operation is one of them. So is a time limit that is not reached. Timed is that
//! loop, in a task, while few others are pending, or a million: futures of the same kind, whose
//! times are around those of the loop. Not timed: making and dropping these. The times are
//! scattered over ten seconds, as limits that are set now and then are, and do not come in order.
//! Go makes a timer and stops it.
//!
//! *Sleep once*: so many tasks or fibers are spawned, each sleeps once, for one to three seconds or
//! so, and all are joined; an operation is one of them, from its spawn to its end. Timed is all of
//! that, and idling takes no processor time. No sleep ends before all have begun, which is checked:
//! so all timers are pending at a time. Go's sleeps are longer, since it takes longer to begin. A
//! fiber has a stack, which is new for most of them: a page fault of a microsecond or two, beside
//! which the timer is little. That is why fibers are shown with fewer and apart.

use super::crowd::{self, Smol, SpawnFiber, SpawnTask};
use super::policies::DEFAULT;
use super::smol_executor;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload, smoke};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "timers", timed: "timers: registered and withdrawn; registered and fired", variants };

fn variants() -> Vec<Variant> {
    let withdrawn = |name, pending: u64| {
        Variant::new(name, "timer", 1)
            .add(SEGUE, move |n| crowd::segue(&DEFAULT, 1, |_| segue_task(withdraw(pending, n, segue_timer))))
            .add("tokio", move |n| on_tokio(withdraw(pending, n, tokio::time::sleep)))
            .add("smol", move |n| on_smol(withdraw(pending, n, smol::Timer::after)))
            .add_go(&["withdrawn", &pending.to_string(), &at_least().to_string()])
            .absent("tokio, alternative timers", WITHOUT)
    };
    let fired = |variant: Variant, sleepers: Sleepers| {
        let Sleepers { count, hold, spread } = sleepers;
        let in_ns = |time: Duration| time.as_nanos().to_string();
        variant
            .add("tokio", move |n| on_tokio(sleepers.tasks(crowd::Tokio, n, tokio::time::sleep)))
            .add("smol", move |n| on_smol(sleepers.tasks(Smol::Local, n, smol::Timer::after)))
            .add_go(&["fired", &count.to_string(), &in_ns(2 * hold), &in_ns(spread)])
            .absent("tokio, alternative timers", WITHOUT)
    };
    let (many, fewer) = (Sleepers::new(1_000_000, 2000), Sleepers::new(100_000, 1000));
    let tasks =
        |sleepers: Sleepers| move |n| crowd::segue(&DEFAULT, 1, |_| segue_task(sleepers.tasks(Tasks, n, segue_timer)));
    vec![
        withdrawn("registered and withdrawn, few pending", 8),
        withdrawn("registered and withdrawn, a million pending", if smoke() { 10_000 } else { 1_000_000 }),
        fired(Variant::new("a million tasks sleep once", "task", 1).add(SEGUE, tasks(many)), many),
        fired(
            Variant::new("100,000 fibers or tasks sleep once", "fiber or task", 1)
                .add(SEGUE, move |n| crowd::segue(&DEFAULT, 1, |start| fewer.fibers(start, n)))
                .add("segue, tasks", tasks(fewer)),
            fewer,
        ),
    ]
}

const WITHOUT: &str = "they need `--cfg tokio_unstable` for all of this program";

/// So many timers in a round at least, so that those that are pending are not made too often.
fn at_least() -> u64 {
    if smoke() { 1000 } else { 200_000 }
}

fn segue_timer(duration: Duration) -> impl Future + Send {
    segue::after(duration).into_future()
}

/// Runs it as a task of the runtime in which the caller is.
fn segue_task<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> T {
    segue::spawn_task(task).join().expect("no panic")
}

/// Likewise, of one of tokio's, with timers.
fn on_tokio<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> T {
    let built = tokio::runtime::Builder::new_current_thread().enable_time().build();
    built.expect("tokio starts").block_on(async { tokio::spawn(task).await }).expect("no panic")
}

/// Likewise, of smol's, on the thread that fires its timers.
fn on_smol<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> T {
    let executor = smol_executor();
    let task = executor.spawn(task);
    smol::block_on(executor.run(task))
}

/// The tasks of the Segue runtime in which the caller is.
#[derive(Clone)]
struct Tasks;

impl SpawnTask for Tasks {
    type Handle<T: Send + 'static> = segue::JoinHandle<T>;

    fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Self::Handle<T> {
        segue::spawn_task(task)
    }

    async fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.await.expect("no panic")
    }
}

/// A time between zero and `spread`, another one for each number.
fn scattered(number: u64, spread: Duration) -> Duration {
    Duration::from_nanos(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (spread.as_nanos() as u64).max(1))
}

async fn withdraw<F: Future>(pending: u64, n: u64, timer: impl Fn(Duration) -> F) -> Span {
    const AHEAD: Duration = Duration::from_secs(30);
    const SPREAD: Duration = Duration::from_secs(10);
    let n = n.max(at_least());
    let after = |number| timer(AHEAD + scattered(number, SPREAD));
    let mut others: Vec<_> = (0..pending).map(|number| Box::pin(after(number))).collect();
    poll_fn(|context| {
        assert!(others.iter_mut().all(|other| other.as_mut().poll(context).is_pending()), "it is far ahead");
        Poll::Ready(())
    })
    .await;
    let watch = Stopwatch::start();
    for number in 0..n {
        let mut one = pin!(after(number));
        poll_fn(|context| {
            assert!(one.as_mut().poll(context).is_pending(), "it is far ahead");
            Poll::Ready(())
        })
        .await;
    }
    watch.stop(n)
}

/// How many sleep, and for how long: `hold`, and up to `spread` more.
#[derive(Clone, Copy)]
struct Sleepers {
    count: u64,
    hold: Duration,
    spread: Duration,
}

impl Sleepers {
    fn new(count: u64, hold: u64) -> Self {
        let (count, hold) = if smoke() { (count / 100, hold / 4) } else { (count, hold) };
        let hold = Duration::from_millis(hold);
        Self { count, hold, spread: hold / 2 }
    }

    fn length(&self, number: u64) -> Duration {
        self.hold + scattered(number, self.spread)
    }

    async fn tasks<S: SpawnTask, F: Future + Send>(
        self,
        start: S,
        n: u64,
        sleep: impl Fn(Duration) -> F + Copy + Send + 'static,
    ) -> Span {
        let begun = Arc::new(AtomicU64::new(0));
        let count = n.max(self.count);
        let watch = Stopwatch::start();
        let mut all = Vec::new();
        for number in 0..count {
            let begun = begun.clone();
            all.push(start.spawn(async move {
                begun.fetch_add(1, Relaxed);
                sleep(self.length(number)).await;
                begun.load(Relaxed)
            }));
        }
        for one in all {
            assert_eq!(S::join(one).await, count, "a sleep has ended before all had begun");
        }
        watch.stop(count)
    }

    fn fibers<S: SpawnFiber>(self, start: S, n: u64) -> Span {
        let begun = Arc::new(AtomicU64::new(0));
        let count = n.max(self.count);
        let watch = Stopwatch::start();
        let mut all = Vec::new();
        for number in 0..count {
            let begun = begun.clone();
            all.push(start.spawn(move || {
                begun.fetch_add(1, Relaxed);
                segue::sleep(self.length(number)).expect("nobody cancels");
                begun.load(Relaxed)
            }));
        }
        for one in all {
            assert_eq!(S::join(one), count, "a sleep has ended before all had begun");
        }
        watch.stop(count)
    }
}
