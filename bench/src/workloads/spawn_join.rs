//! `spawn_join`: a fiber spawns another and joins it, one by one; an operation is one child.
//!
//! Timed: making the child, its only run, its result's way back, waking the parent, and giving back
//! whatever the child used. Not timed: starting the runtime. The child only returns a number, which
//! the parent adds up. The parent is itself a fiber or task: a runtime's entry (`block_on`) is
//! slower to wake.

use super::{may_run, segue_run, smol_executor, tokio_runtime};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "spawn_join", timed: "spawn a child that returns a number and join it, one by one", variants };

fn variants() -> Vec<Variant> {
    vec![
        Variant::new("one by one, one worker", "child", 1)
            .add(SEGUE, segue)
            .add("smol", smol)
            .add("tokio", tokio)
            .add_apart("may", may)
            .add_go(&[]),
    ]
}

/// What the parent's sum must be.
fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

fn segue(n: u64) -> Span {
    segue_run(1, || {
        let watch = Stopwatch::start();
        let mut sum = 0;
        for i in 0..n {
            sum += segue::spawn(move || i).join().expect("no panic");
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    })
}

fn smol(n: u64) -> Span {
    let executor = smol_executor();
    let parent = executor.spawn(async move {
        let watch = Stopwatch::start();
        let mut sum = 0;
        for i in 0..n {
            sum += executor.spawn(async move { i }).await;
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    });
    smol::future::block_on(executor.run(parent))
}

fn tokio(n: u64) -> Span {
    let parent = async move {
        let watch = Stopwatch::start();
        let mut sum = 0;
        for i in 0..n {
            sum += tokio::spawn(async move { i }).await.expect("no panic");
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    };
    tokio_runtime(1).block_on(async { tokio::spawn(parent).await }).expect("no panic")
}

fn may(n: u64) -> Span {
    may_run(1, move || {
        let watch = Stopwatch::start();
        let mut sum = 0;
        for i in 0..n {
            sum += may::go!(move || i).join().expect("no panic");
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    })
}
