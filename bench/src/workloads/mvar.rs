//! `mvar`: one producer and one consumer with a place for one value between them; an operation is
//! one message. The set-up of Table 6.1 of the thesis "Effectively Composing Concurrency
//! Libraries".
//!
//! Timed, by the consumer: putting and taking, which on one worker suspends one of the two for
//! almost every message. Not timed: starting both sides, which the message before the first that
//! counts shows to have happened. An `MVar` and a channel of capacity 1 are alike here; the rivals
//! use channels, and so does "segue, channel".
//!
//! With two workers and free placement a runtime may bring both sides to one core; "CPUs busy"
//! shows it. Kept apart, each side has a thread of its own, bound to a CPU of its own: fibers have
//! a pool each, tasks a runtime each, goroutines are locked to their threads.
//!
//! May takes no part: its channels have no bound.

use super::channels::{
    AsyncChannel, Calls, Channel, Crossbeam, Crossfire, CrossfireCalls, Flume, FlumeCalls, Kanal, KanalCalls, MVar,
    Std, Tasks, Tokio,
};
use super::{pair, policies};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "mvar",
    timed: "producer and consumer with room for one value between them, per message",
    variants,
};

fn variants() -> Vec<Variant> {
    let together = |name: &str, workers| {
        policies::add_all(Variant::new(name, "message", workers), move |policy, n| {
            pair::segue(policy, workers, calls::<MVar>(n))
        })
        .add("segue, channel", move |n| pair::segue(&policies::DEFAULT, workers, calls::<Channel>(n)))
        .add("tokio", move |n| pair::tokio(workers, tasks::<Tokio>(n)))
        .add("kanal on tokio", move |n| pair::tokio(workers, tasks::<Kanal>(n)))
        .add("kanal on smol", move |n| pair::smol(workers, tasks::<Kanal>(n)))
        .add("crossfire on tokio", move |n| pair::tokio(workers, tasks::<Crossfire>(n)))
        .add("crossfire on smol", move |n| pair::smol(workers, tasks::<Crossfire>(n)))
        .add("flume on tokio", move |n| pair::tokio(workers, tasks::<Flume>(n)))
        .add("flume on smol", move |n| pair::smol(workers, tasks::<Flume>(n)))
        .add("smol", move |n| pair::smol(workers, tasks::<AsyncChannel>(n)))
        .add_go(&["together"])
        .absent("may", "its channels have no bound")
    };
    let apart = Variant::new("two workers, kept apart", "message", 2)
        .add(SEGUE, |n| pair::segue_apart(calls::<MVar>(n)))
        .add("segue, channel", |n| pair::segue_apart(calls::<Channel>(n)))
        .add("kanal, threads", |n| pair::threads(calls::<KanalCalls>(n)))
        .add("crossfire, threads", |n| pair::threads(calls::<CrossfireCalls>(n)))
        .add("crossbeam, threads", |n| pair::threads(calls::<Crossbeam>(n)))
        .add("flume, threads", |n| pair::threads(calls::<FlumeCalls>(n)))
        .add("std, threads", |n| pair::threads(calls::<Std>(n)))
        .add("tokio", |n| pair::tokio_apart(tasks::<Tokio>(n)))
        .add("kanal on tokio", |n| pair::tokio_apart(tasks::<Kanal>(n)))
        .add("kanal on smol", |n| pair::smol_apart(tasks::<Kanal>(n)))
        .add("crossfire on tokio", |n| pair::tokio_apart(tasks::<Crossfire>(n)))
        .add("crossfire on smol", |n| pair::smol_apart(tasks::<Crossfire>(n)))
        .add("smol", |n| pair::smol_apart(tasks::<AsyncChannel>(n)))
        .add_go(&["apart"]);
    vec![together("same worker", 1), together("two workers, free placement", 2), apart]
}

fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

/// Consumer and producer as tasks. The first message is 0 and only shows that both have started.
fn tasks<C: Tasks>(n: u64) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
    let (mut sender, mut receiver) = C::new();
    let consume = async move {
        C::recv(&mut receiver).await.expect("the producer goes on");
        let mut sum = 0;
        let watch = Stopwatch::start();
        for _ in 0..n {
            sum += C::recv(&mut receiver).await.expect("the producer goes on");
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    };
    let produce = async move {
        assert!(C::send(&mut sender, 0).await, "the consumer goes on");
        for number in 0..n {
            assert!(C::send(&mut sender, number).await, "the consumer goes on");
        }
    };
    (consume, produce)
}

/// The same as closures.
fn calls<C: Calls>(n: u64) -> (impl FnOnce() -> Span + Send + 'static, impl FnOnce() + Send + 'static) {
    let (sender, mut receiver) = C::new();
    let consume = move || {
        C::recv(&mut receiver).expect("the producer goes on");
        let mut sum = 0;
        let watch = Stopwatch::start();
        for _ in 0..n {
            sum += C::recv(&mut receiver).expect("the producer goes on");
        }
        let span = watch.stop(n);
        assert_eq!(sum, sum_below(n));
        span
    };
    let produce = move || {
        assert!(C::send(&sender, 0), "the consumer goes on");
        for number in 0..n {
            assert!(C::send(&sender, number), "the consumer goes on");
        }
    };
    (consume, produce)
}
