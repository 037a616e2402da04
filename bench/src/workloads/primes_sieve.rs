//! `primes_sieve`: a chain of fibers, one for each of the first 1,000 primes, of which each drops
//! the multiples of its own; an operation is one message from one fiber to the next. One of the
//! five programs with which the paper "Composable Scheduler Activations for Haskell" measures
//! (there with 10,000 primes).
//!
//! The first fiber sends the numbers from 2 to 7,919. The main fiber takes what comes out at the
//! end of the chain, which is a prime, and starts a filter for it, from whose end it goes on. A
//! last message goes through all of the chain and ends it. Each number makes as many messages as
//! the smallest of its prime factors has primes up to it: 518,384 in each run.
//!
//! Timed: from before the first fiber is started until the last message is at the end of the chain:
//! waiting, resuming, a division for each message, and starting a thousand filters. Not timed:
//! starting the runtime, and waiting for the fibers' ends. The sum of the primes is checked.
//!
//! As in the paper, Segue has an `MVar` between two filters; "segue, channel" and the rivals have
//! channels of capacity 1. A fiber that has started stays on its worker, so with two workers
//! it matters where the filters start: "segue, two pools" says so, by a pool for each half of the
//! chain's work, in the default order or last in, first out; under the policies they start where a
//! worker is idle.

use super::channels::{AsyncChannel, Calls, Channel, Crossfire, Flume, Kanal, MVar, Tasks, Tokio};
use super::crowd::{self, SpawnFiber, SpawnTask};
use super::policies;
use crate::measure::{Span, Stopwatch, Variant, Workload, smoke};
use segue::sched::{Lifo, Policy, Stealing};
use std::sync::LazyLock;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "primes_sieve", timed: "a chain of 1,000 filters, one for each prime, per message", variants };

fn variants() -> Vec<Variant> {
    let with = |name, workers| {
        policies::add_all(Variant::new(name, "message", workers), move |policy, n| {
            crowd::segue(policy, workers, |fibers| repeat(n, || calls::<MVar, _>(|_| &fibers)))
        })
        .add("segue, channel", move |n| {
            crowd::segue(&policies::DEFAULT, workers, |fibers| repeat(n, || calls::<Channel, _>(|_| &fibers)))
        })
        .add("kanal on tokio", move |n| crowd::tokio(workers, move |start| tasks_often::<Kanal, _>(start, n)))
        .add("tokio", move |n| crowd::tokio(workers, move |start| tasks_often::<Tokio, _>(start, n)))
        .add("flume on tokio", move |n| crowd::tokio(workers, move |start| tasks_often::<Flume, _>(start, n)))
        .add("kanal on smol", move |n| crowd::smol(workers, move |start| tasks_often::<Kanal, _>(start, n)))
        .add("crossfire on tokio", move |n| crowd::tokio(workers, move |start| tasks_often::<Crossfire, _>(start, n)))
        .add("crossfire on smol", move |n| crowd::smol(workers, move |start| tasks_often::<Crossfire, _>(start, n)))
        .add("smol", move |n| crowd::smol(workers, move |start| tasks_often::<AsyncChannel, _>(start, n)))
        .add_go(&[&last().to_string(), &sum_of_primes().to_string(), &MESSAGES.to_string()])
        .absent("may", "its channels have no bound, so that its filters hardly wait")
        .absent("threads", "a thread for each prime takes seconds")
    };
    vec![
        with("one worker", 1),
        with("two workers", 2)
            .add("segue, two pools", |n| two_pools(Stealing::default, n))
            .add("segue, two pools, lifo", |n| two_pools(Lifo::default, n)),
    ]
}

/// The thousandth prime; to show that everything runs, the fortieth.
fn last() -> u64 {
    if smoke() { 173 } else { 7_919 }
}

/// The sum of all primes up to that.
fn sum_of_primes() -> u64 {
    if smoke() { 3_087 } else { 3_682_913 }
}

/// So many filters, from the beginning, get half of the messages: all primes come to the first, and
/// one to the last.
fn half() -> usize {
    if smoke() { 12 } else { 293 }
}

/// Goes through all of the chain.
const END: u64 = 0;

/// How many messages a run has.
static MESSAGES: LazyLock<u64> = LazyLock::new(|| {
    let mut primes: Vec<u64> = Vec::new();
    let mut messages = 0;
    for number in 2..=last() {
        let dropped_by = primes.iter().position(|prime| number % prime == 0).unwrap_or(primes.len());
        messages += dropped_by as u64 + 1;
        if dropped_by == primes.len() {
            primes.push(number);
        }
    }
    // The end comes out of the last filter too.
    messages + primes.len() as u64 + 1
});

/// About `n` messages, of as many runs as have them.
fn repeat(n: u64, mut run: impl FnMut() -> Span) -> Span {
    let mut sum = run();
    while sum.ops + *MESSAGES / 2 < n {
        sum = sum.and(run());
    }
    sum
}

/// The chain is cut in two parts, which run in a pool of one worker each.
fn two_pools<P: Policy>(policy: impl Fn() -> P + Send + Sync + Copy + 'static, n: u64) -> Span {
    let pools = [(); 2].map(|()| segue::runtime().workers(1).pool_with(policy).expect("segue starts"));
    let place = |number| &pools[usize::from(number > half())];
    pools[1].run(|| repeat(n, || calls::<MVar, _>(place))).expect("nobody cancels")
}

/// A run with fibers; `place` says where the one with this number is started. `MVar`s cannot be
/// closed: the end is a message for everybody.
fn calls<'a, C: Calls, S: SpawnFiber + 'a>(place: impl Fn(usize) -> &'a S) -> Span {
    let mut ends = Vec::new();
    let watch = Stopwatch::start();
    let (first, mut at_end) = C::new();
    ends.push(place(0).spawn(move || {
        for number in (2..=last()).chain([END]) {
            assert!(C::send(&first, number), "the next one goes on");
        }
    }));
    let mut sum = 0;
    loop {
        let prime = C::recv(&mut at_end).expect("it ends by a message");
        if prime == END {
            break;
        }
        sum += prime;
        let (to, next) = C::new();
        let mut from = std::mem::replace(&mut at_end, next);
        ends.push(place(ends.len()).spawn(move || {
            loop {
                let number = C::recv(&mut from).expect("it ends by a message");
                if number % prime != 0 || number == END {
                    assert!(C::send(&to, number), "the next one goes on");
                }
                if number == END {
                    return;
                }
            }
        }));
    }
    let span = watch.stop(*MESSAGES);
    assert_eq!(sum, sum_of_primes());
    for end in ends {
        S::join(end);
    }
    span
}

async fn tasks_often<C: Tasks, S: SpawnTask>(start: S, n: u64) -> Span {
    let mut sum = tasks::<C, S>(start.clone()).await;
    while sum.ops + *MESSAGES / 2 < n {
        sum = sum.and(tasks::<C, S>(start.clone()).await);
    }
    sum
}

/// A run with tasks.
async fn tasks<C: Tasks, S: SpawnTask>(start: S) -> Span {
    let mut ends = Vec::new();
    let watch = Stopwatch::start();
    let (mut first, mut at_end) = C::new();
    ends.push(start.spawn(async move {
        for number in (2..=last()).chain([END]) {
            assert!(C::send(&mut first, number).await, "the next one goes on");
        }
    }));
    let mut sum = 0;
    loop {
        let prime = C::recv(&mut at_end).await.expect("it ends by a message");
        if prime == END {
            break;
        }
        sum += prime;
        let (mut to, next) = C::new();
        let mut from = std::mem::replace(&mut at_end, next);
        ends.push(start.spawn(async move {
            loop {
                let number = C::recv(&mut from).await.expect("it ends by a message");
                if number % prime != 0 || number == END {
                    assert!(C::send(&mut to, number).await, "the next one goes on");
                }
                if number == END {
                    return;
                }
            }
        }));
    }
    let span = watch.stop(*MESSAGES);
    assert_eq!(sum, sum_of_primes());
    for end in ends {
        S::join(end).await;
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_as_many_messages_as_numbers_pass_filters() {
        assert_eq!(*MESSAGES, 518_384);
        let span = segue::run(|| calls::<MVar, _>(|_| &crowd::Segue));
        assert_eq!(span.ops, *MESSAGES);
    }
}
