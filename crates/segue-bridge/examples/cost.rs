//! What a wait across the bridges costs, in nanoseconds; the least and the median of eleven rounds.
//!
//! Timed: a round of many waits, from the first to the last, on one worker. Not timed: starting the scheduler. Run it with `--release`.

use segue_core::{WaitQueue, WaitsFor, spawn, wait_future, yield_now};
use segue_sched::{Builder, Fifo, hosted};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const WAITS: u32 = 1_000_000;

fn measure(what: &str, mut round: impl FnMut()) {
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64 / f64::from(WAITS)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{what:50} {:6.1} {:6.1}", times[0], times[times.len() / 2]);
}

thread_local! {
    static WAKER: RefCell<Option<Waker>> = const { RefCell::new(None) };
    static DONE: Cell<bool> = const { Cell::new(false) };
}

/// Pending once, with a clone of the waker kept where the waking side finds it.
struct Once(bool);

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        WAKER.with(|waker| waker.replace(Some(cx.waker().clone())));
        Poll::Pending
    }
}

fn wake() -> bool {
    WAKER.with(RefCell::take).is_some_and(|waker| {
        waker.wake();
        true
    })
}

fn on_one_worker(f: impl FnOnce()) {
    Builder::new().workers(1).run_with(Fifo::default, f).unwrap();
}

fn on_tokio(task: impl Future<Output = ()> + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, task);
}

fn main() {
    on_one_worker(|| {
        measure("yield of one of two fibers, twice", || {
            let other = spawn(|| (0..WAITS).for_each(|_| yield_now().unwrap()));
            (0..WAITS).for_each(|_| yield_now().unwrap());
            other.join().unwrap();
        });
        measure("wait(future), ready at once", || {
            (0..WAITS).for_each(|_| wait_future(std::future::ready(())).unwrap());
        });
        measure("wait(future) that wakes itself", || {
            for _ in 0..WAITS {
                let mut woken = false;
                let future = poll_fn(|cx| {
                    if std::mem::replace(&mut woken, true) {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                });
                wait_future(future).unwrap();
            }
        });
        measure("wait(future) that a fiber wakes, with its yield", || {
            DONE.set(false);
            let waker = spawn(|| {
                while !DONE.get() {
                    wake();
                    yield_now().unwrap();
                }
            });
            (0..WAITS).for_each(|_| wait_future(Once(false)).unwrap());
            DONE.set(true);
            waker.join().unwrap();
        });
        measure("wait at a queue that a fiber tells, with its yield", || {
            static QUEUE: WaitQueue<bool> = WaitQueue::new(false);
            DONE.set(false);
            let teller = spawn(|| {
                while !DONE.get() {
                    let mut queue = QUEUE.lock();
                    *queue.state() = true;
                    queue.notify_all(0);
                    drop(queue);
                    yield_now().unwrap();
                }
            });
            (0..WAITS).for_each(|_| QUEUE.wait(WaitsFor::new("cost"), |on| *on, |on| *on = false).unwrap());
            DONE.set(true);
            teller.join().unwrap();
        });
    });
    let waker = || {
        DONE.set(false);
        tokio::task::spawn_local(async {
            while !DONE.get() {
                wake();
                tokio::task::yield_now().await;
            }
        })
    };
    measure("tokio task that a task wakes, with its yield", || {
        on_tokio(async move {
            let other = waker();
            let task = tokio::task::spawn_local(async {
                for _ in 0..WAITS {
                    Once(false).await;
                }
            });
            task.await.unwrap();
            DONE.set(true);
            other.await.unwrap();
        });
    });
    measure("hosted fiber, wait(future), the same", || {
        on_tokio(async move {
            let other = waker();
            let task = tokio::task::spawn_local(hosted(|| (0..WAITS).for_each(|_| wait_future(Once(false)).unwrap())));
            task.await.unwrap().unwrap();
            DONE.set(true);
            other.await.unwrap();
        });
    });
    let queue: Rc<WaitQueue<bool>> = Rc::new(WaitQueue::new(false));
    let teller = |queue: Rc<WaitQueue<bool>>| {
        DONE.set(false);
        tokio::task::spawn_local(async move {
            while !DONE.get() {
                let mut guard = queue.lock();
                *guard.state() = true;
                guard.notify_all(0);
                drop(guard);
                tokio::task::yield_now().await;
            }
        })
    };
    measure("tokio task at a queue", || {
        let queue = Rc::clone(&queue);
        on_tokio(async move {
            let other = teller(Rc::clone(&queue));
            let task = tokio::task::spawn_local(async move {
                for _ in 0..WAITS {
                    let source = queue.source(WaitsFor::new("cost"), |on| *on, |on| *on = false);
                    segue_core::Waitable::new(source).await;
                }
            });
            task.await.unwrap();
            DONE.set(true);
            other.await.unwrap();
        });
    });
    measure("hosted fiber at a queue", || {
        let queue = Rc::clone(&queue);
        on_tokio(async move {
            let other = teller(Rc::clone(&queue));
            let task = tokio::task::spawn_local(hosted(move || {
                (0..WAITS).for_each(|_| queue.wait(WaitsFor::new("cost"), |on| *on, |on| *on = false).unwrap());
            }));
            task.await.unwrap().unwrap();
            DONE.set(true);
            other.await.unwrap();
        });
    });
    measure("tokio spawn_local and await of a task", || {
        on_tokio(async {
            for n in 0..WAITS {
                tokio::task::spawn_local(async move { n }).await.unwrap();
            }
        });
    });
    measure("the same of a hosted fiber", || {
        on_tokio(async {
            for n in 0..WAITS {
                tokio::task::spawn_local(hosted(move || n)).await.unwrap().unwrap();
            }
        });
    });
    measure("hosted fiber, awaited in place", || {
        on_tokio(async {
            for n in 0..WAITS {
                hosted(move || n).await.unwrap();
            }
        });
    });
}
