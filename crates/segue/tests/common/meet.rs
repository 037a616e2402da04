//! What the tests of structures share: every scheduler in turn, and an executor for tasks that is
//! as small as can be.
#![allow(dead_code, reason = "each test uses some of it")]

use segue::core::{WaitQueue, WaitsFor};
use segue::sched::{ByPriority, Fifo, RoundRobin};
use segue::testing::Sim;
use segue::{Pool, scope, shield};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

/// Calls its closure when it is dropped.
pub struct AtDrop<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A pool that steals.
pub fn pool(workers: usize) -> Pool {
    segue::sched::Runtime::new().workers(workers).pool().unwrap()
}

/// Runs `body` as the first fiber of a simulation for each of so many seeds. What is printed names
/// the one that it failed on.
pub fn simulated(seeds: u64, body: impl Fn(u64)) {
    simulated_by(seeds, &body);
}

/// Compiled once, whatever the closures of a test program.
fn simulated_by(seeds: u64, body: &dyn Fn(u64)) {
    for seed in 0..seeds {
        println!("on the simulator with seed {seed}");
        Sim::new(seed).run(|| body(seed)).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
}

/// Runs `body` as the first fiber of every scheduler. What is printed names the one that it failed
/// on.
pub fn everywhere(body: impl Fn() + Send + Sync) {
    everywhere_by(&body);
}

/// Compiled once, whatever the closures of a test program.
fn everywhere_by(body: &(dyn Fn() + Send + Sync)) {
    simulated(20, |_| body());
    for workers in [1, 2] {
        println!("on {workers} workers");
        segue::sched::Runtime::new().workers(workers).run_with(Fifo::default, body).unwrap();
        segue::sched::Runtime::new().workers(workers).run(body).unwrap();
        segue::runtime().workers(workers).run(body).unwrap();
        pool(workers).run(body).unwrap();
    }
    println!("under other policies");
    segue::sched::Runtime::new().workers(2).run_with(RoundRobin::default, body).unwrap();
    segue::sched::Runtime::new().workers(2).run_with(ByPriority::strict, body).unwrap();
    println!("on plain threads");
    body();
}

/// Runs `body(n)` for each `n` below `count` at once: as fibers, as tasks, and as plain threads, in
/// turn. Not for the simulator, whose world is closed.
pub fn mixed(count: usize, body: impl Fn(usize) + Sync) {
    mixed_by(count, &body);
}

/// Compiled once, whatever the closures of a test program.
fn mixed_by(count: usize, body: &(dyn Fn(usize) + Sync)) {
    let (a, b) = (pool(1), pool(2));
    std::thread::scope(|threads| {
        for n in 0..count {
            let (a, b) = (&a, &b);
            threads.spawn(move || match n % 3 {
                0 => a.run(|| body(n)).unwrap(),
                1 => b.run(|| scope(|s| drop(s.spawn(|| body(n))))).unwrap(),
                _ => body(n),
            });
        }
    });
}

/// Awaits `future` on the calling fiber or thread, which is suspended or parked while the task is
/// pending. Cancellation does not show, as in any task.
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    struct Gate(WaitQueue<bool>);
    impl Wake for Gate {
        fn wake(self: Arc<Self>) {
            let mut gate = self.0.lock();
            *gate.state() = true;
            gate.notify_all(0);
        }
    }
    let gate = Arc::new(Gate(WaitQueue::new(false)));
    let waker = Waker::from(Arc::clone(&gate));
    let mut future = pin!(future.into_future());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        shield(|| gate.0.wait(WaitsFor::new("a task"), |woken| *woken, |woken| *woken = false)).unwrap();
    }
}

/// A task that is polled by hand.
pub struct Task<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'a>>,
    wakes: Arc<Wakes>,
    /// How often it has given up its turn.
    turns: usize,
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl<'a, T> Task<'a, T> {
    pub fn new(future: impl IntoFuture<Output = T, IntoFuture: Send + 'a>) -> Self {
        Self { future: Box::pin(future.into_future()), wakes: Arc::new(Wakes(AtomicUsize::new(0))), turns: 0 }
    }

    /// A task that was polled once, and waits.
    pub fn waiting(future: impl IntoFuture<Output = T, IntoFuture: Send + 'a>) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_none(), "it was to wait");
        task
    }

    /// Polls it; once more if it has only given up its turn, as every 129th wait does that begins.
    pub fn poll(&mut self) -> Option<T> {
        let before = self.all_wakes();
        self.poll_in_turn().or_else(|| {
            if self.all_wakes() == before {
                return None;
            }
            self.turns += 1;
            self.poll_in_turn()
        })
    }

    /// Polls it once, whatever it answers.
    pub fn poll_in_turn(&mut self) -> Option<T> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// How often it was woken, but for the ends of its turns.
    pub fn wakes(&self) -> usize {
        self.all_wakes() - self.turns
    }

    /// How often it was woken.
    pub fn all_wakes(&self) -> usize {
        self.wakes.0.load(SeqCst)
    }
}

/// Polls a task once, with a waker that does nothing.
pub fn poll_once<F: Future>(task: &mut Pin<Box<F>>) -> Option<F::Output> {
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A future that is to be polled by hand.
pub fn task<F: IntoFuture>(task: F) -> Pin<Box<F::IntoFuture>> {
    Box::pin(task.into_future())
}
