//! `forced`: reading a lazy value that was forced before; an operation is one read. The paper's
//! claim is that it costs next to nothing, where a mutex would be paid each time.
//!
//! Timed: the reads, by one fiber or thread alone. Not timed: computing the value. parking_lot's
//! mutex is what a program without lazy values has; tokio and async-lock have cells with the same
//! words.

use super::segue_run;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use std::hint::black_box;
use std::sync::LazyLock;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "forced", timed: "reading a lazy value that was forced before", variants };

fn variants() -> Vec<Variant> {
    let by_segue = |n| {
        let lazy = segue::sync::Lazy::new(|| black_box(42));
        segue_run(1, || reads(n, || *black_box(&lazy).force().expect("nothing fails")))
    };
    let by_std = |n| {
        let lazy = LazyLock::new(|| black_box(42));
        reads(n, || **black_box(&lazy))
    };
    let by_tokio = |n| {
        let cell = tokio::sync::OnceCell::new_with(Some(42));
        reads(n, || *black_box(&cell).get().expect("it is there"))
    };
    let by_async_lock = |n| {
        let cell = async_lock::OnceCell::from(42);
        reads(n, || *black_box(&cell).get().expect("it is there"))
    };
    let by_mutex = |n| {
        let mutex = parking_lot::Mutex::new(42);
        reads(n, || *black_box(&mutex).lock())
    };
    vec![
        Variant::new("one reader", "read", 1)
            .add(SEGUE, by_segue)
            .add("std's LazyLock", by_std)
            .add("tokio's OnceCell", by_tokio)
            .add("async-lock's OnceCell", by_async_lock)
            .add("parking_lot's Mutex", by_mutex),
    ]
}

fn reads(n: u64, read: impl Fn() -> u64) -> Span {
    // The first one may compute it.
    black_box(read());
    let clock = Stopwatch::start();
    for _ in 0..n {
        black_box(read());
    }
    clock.stop(n)
}
