//! Where the structures are tested: on every scheduler, on plain threads, and as tasks that are polled by hand.
#![allow(dead_code)] // Not every test uses all of it.

use segue::{Fifo, Pool, Sim};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A pool of the default policy.
pub fn pool(workers: usize) -> Pool {
    segue::sched::Builder::new().workers(workers).pool().unwrap()
}

/// Runs `body` as the first fiber of the simulator, with each of many seeds. What is printed names the one that it failed on.
pub fn simulated(seeds: u64, body: impl Fn(u64) + Send + Sync) {
    for seed in 0..seeds {
        println!("on the simulator with seed {seed}");
        Sim::new(seed).run(|| body(seed)).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
}

/// Runs `body` as the first fiber of every scheduler, and on a plain thread.
pub fn everywhere(body: impl Fn() + Send + Sync) {
    simulated(20, |_| body());
    for workers in [1, 2] {
        println!("on {workers} workers");
        segue::sched::Builder::new().workers(workers).run_with(Fifo::default, &body).unwrap();
        segue::sched::Builder::new().workers(workers).run(&body).unwrap();
        pool(workers).run(&body).unwrap();
    }
    println!("on plain threads");
    body();
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a task on the calling thread, which parks while the task waits.
pub fn block_on<F: IntoFuture>(task: F) -> F::Output {
    let mut task = pin!(task.into_future());
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    loop {
        if let Poll::Ready(output) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

/// Polls a task once, with a waker that does nothing.
pub fn poll_once<F: Future>(task: &mut Pin<Box<F>>) -> Option<F::Output> {
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// A task that is to be polled by hand.
pub fn task<F: IntoFuture>(task: F) -> Pin<Box<F::IntoFuture>> {
    Box::pin(task.into_future())
}
