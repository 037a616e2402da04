//! `spawn_join`: a fiber spawns another and joins it, one by one; an operation is one child.
//!
//! Timed: making the child, its only run, its result's way back, waking the parent, and giving back
//! whatever the child used. Not timed: starting the runtime. The child only returns a number, which
//! the parent adds up. The parent is itself a fiber or task: a runtime's entry (`block_on`) is
//! slower to wake. With two workers a runtime may run the child where it likes; "CPUs busy" shows
//! whether it used both.

use super::crowd::{self, SpawnFiber, SpawnTask};
use super::policies;
use crate::measure::{Span, Stopwatch, Variant, Workload};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "spawn_join", timed: "spawn a child that returns a number and join it, one by one", variants };

fn variants() -> Vec<Variant> {
    let with = |name, workers| {
        policies::add_all(Variant::new(name, "child", workers), move |policy, n| {
            crowd::segue(policy, workers, |fibers| calls(fibers, n))
        })
        .add("smol", move |n| crowd::smol(workers, |start| tasks(start, n)))
        .add("tokio", move |n| crowd::tokio(workers, |start| tasks(start, n)))
        .add_apart("may", move |n| crowd::may(workers, move |fibers| calls(fibers, n)))
        .add_go(&[])
    };
    vec![with("one by one, one worker", 1), with("one by one, two workers", 2)]
}

/// What the parent's sum must be.
fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

/// The parent as a fiber.
fn calls<S: SpawnFiber>(fibers: S, n: u64) -> Span {
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 0..n {
        sum += S::join(fibers.spawn(move || i));
    }
    let span = watch.stop(n);
    assert_eq!(sum, sum_below(n));
    span
}

/// The parent as a task.
async fn tasks<S: SpawnTask>(start: S, n: u64) -> Span {
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 0..n {
        sum += S::join(start.spawn(async move { i })).await;
    }
    let span = watch.stop(n);
    assert_eq!(sum, sum_below(n));
    span
}
