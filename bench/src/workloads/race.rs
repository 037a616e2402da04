//! `race`: what a choice costs by its shape, by how it ends, and by how many want to end it; an
//! operation is one choice. The micro-benchmarks of sections 5.1 to 5.3 of the paper on Gears.
//!
//! The sources are receives at a rendezvous. *One* is a receive that is no choice, *20 flat* a
//! choice among twenty, *20 nested* a choice of a choice of a choice, twenty deep, of one.
//!
//! * *handed* (figure 4, "complete"; figure 5, "complete" and "drops from all but one"): a fiber
//!   waits with it, and another one sends to the last source.
//! * *both choose* (figure 4, "lockBoth"): the other one sends by a choice as well, with a second
//!   arm that nobody ever serves.
//! * *in vain* (figure 5, "lockCompletely", "drops from none"): a look that finds nothing.
//! * *given up* (figure 5, "release", "drops from all"): it is registered, and then withdrawn from
//!   all its sources: a future that is polled and dropped.
//! * *one sends*, *all send* (figure 6): a choice among four choices of five, on one CPU; on the
//!   other, one of the twenty sources has a fiber that sends all the time, or each of them has.
//!
//! "Against" is against the same with one source; with all who send, against one who does. Timed:
//! the choices, and in the first two the fiber that sends. There are no rivals: who measures
//! against whom is in `select`.

use super::pair::bind_to_cpu;
use super::segue_run;
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use segue::channel::{Receiver, Sender, rendezvous};
use segue::core::{Source, Waitable};
use segue::{Closed, any_of};
use std::pin::pin;
use std::task::{Context, Waker};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "race", timed: "a choice by its shape and by how it ends, per choice", variants };

fn variants() -> Vec<Variant> {
    let alone = |name: &str, run: fn(u64) -> Span| Variant::new(name, "choice", 1).add(SEGUE, run);
    vec![
        alone("handed, one", |n| handed(n, &channels(), alone_of, send)),
        alone("handed, 20 flat", |n| handed(n, &channels(), flat, send)).against_first(),
        alone("handed, 20 nested", |n| handed(n, &channels(), nested, send)).against_first(),
        alone("both choose, one", |n| handed(n, &channels(), alone_of, send_or)),
        alone("both choose, 20 flat", |n| handed(n, &channels(), flat, send_or)).against_first(),
        alone("both choose, 20 nested", |n| handed(n, &channels(), nested, send_or)).against_first(),
        alone("in vain, one", |n| in_vain(n, &channels(), alone_of)),
        alone("in vain, 20 flat", |n| in_vain(n, &channels(), flat)).against_first(),
        alone("in vain, 20 nested", |n| in_vain(n, &channels(), nested)).against_first(),
        alone("given up, one", |n| given_up(n, &channels(), alone_of)),
        alone("given up, 20 flat", |n| given_up(n, &channels(), flat)).against_first(),
        alone("given up, 20 nested", |n| given_up(n, &channels(), nested)).against_first(),
        Variant::new("4 of 5, one sends", "choice", 2).add(SEGUE, |n| contended(n, 1)),
        Variant::new("4 of 5, all send", "choice", 2).add(SEGUE, |n| contended(n, SOURCES)).against_first(),
    ]
}

const SOURCES: usize = 20;

type Received = Result<u64, Closed>;

fn alone_of(from: &[Receiver<u64>]) -> Waitable<impl Source<Output = Received>> {
    from[SOURCES - 1].recv_source()
}

fn flat(from: &[Receiver<u64>]) -> Waitable<impl Source<Output = Received>> {
    let sources: [_; SOURCES] = std::array::from_fn(|index| from[index].recv_source());
    any_of(sources).map(|(_, received)| received)
}

fn nested(from: &[Receiver<u64>]) -> Waitable<impl Source<Output = Received>> {
    macro_rules! nested {
        ($source:expr;) => { $source };
        ($source:expr; $level:tt $($more:tt)*) => { any_of([nested!($source; $($more)*)]).map(|(_, received)| received) };
    }
    nested!(from[SOURCES - 1].recv_source(); 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
}

/// A choice among choices of five.
fn groups(from: &[Receiver<u64>]) -> Waitable<impl Source<Output = Received>> {
    let group = |group: usize| {
        let sources: [_; 5] = std::array::from_fn(|index| from[5 * group + index].recv_source());
        any_of(sources).map(|(_, received)| received)
    };
    any_of([group(0), group(1), group(2), group(3)]).map(|(_, received)| received)
}

/// A source for each.
type Channels = (Vec<Sender<u64>>, Vec<Receiver<u64>>);

fn channels() -> Channels {
    (0..SOURCES).map(|_| rendezvous()).unzip()
}

fn send(to: &Sender<u64>, _: &Sender<u64>, number: u64) {
    to.send(number).expect("it receives");
}

/// By a choice, of which the other arm is never served.
fn send_or(to: &Sender<u64>, never: &Sender<u64>, number: u64) {
    let (_, sent) = any_of([to.send_source(number), never.send_source(number)]).wait().expect("nobody cancels");
    sent.expect("it receives");
}

/// A fiber waits, and another one sends.
fn handed<'a, S: Source<Output = Received>>(
    n: u64,
    (to, from): &'a Channels,
    choice: impl Fn(&'a [Receiver<u64>]) -> Waitable<S> + Send + 'a,
    send: fn(&Sender<u64>, &Sender<u64>, u64),
) -> Span {
    segue_run(1, || {
        let (never, _kept) = rendezvous();
        segue::scope(|s| {
            s.spawn(|| (0..=n).for_each(|number| send(&to[SOURCES - 1], &never, number)));
            choice(from).wait().expect("nobody cancels").expect("it sends");
            let mut sum = 0;
            let watch = Stopwatch::start();
            for _ in 0..n {
                sum += choice(from).wait().expect("nobody cancels").expect("it sends");
            }
            let span = watch.stop(n);
            assert_eq!(sum, n * (n + 1) / 2);
            span
        })
    })
}

/// Looks, and finds nothing.
fn in_vain<'a, S: Source<Output = Received>>(
    n: u64,
    (_, from): &'a Channels,
    choice: impl Fn(&'a [Receiver<u64>]) -> Waitable<S>,
) -> Span {
    segue_run(1, || {
        let watch = Stopwatch::start();
        for _ in 0..n {
            assert!(choice(from).attempt().is_none());
        }
        watch.stop(n)
    })
}

/// Registers everywhere, and leaves again.
fn given_up<'a, S: Source<Output = Received>>(
    n: u64,
    (_, from): &'a Channels,
    choice: impl Fn(&'a [Receiver<u64>]) -> Waitable<S>,
) -> Span {
    segue_run(1, || {
        let mut context = Context::from_waker(Waker::noop());
        let watch = Stopwatch::start();
        for turn in 0..n {
            assert!(pin!(choice(from).into_future()).poll(&mut context).is_pending());
            // A future that was polled more often in one turn is pending and registers nothing.
            if turn % 100 == 99 {
                segue::yield_now().expect("nobody cancels");
            }
        }
        watch.stop(n)
    })
}

/// Who chooses and who sends have a CPU each.
fn contended(n: u64, active: usize) -> Span {
    let pools = [(); 2].map(|()| segue::runtime().workers(1).pool().expect("segue starts"));
    let (to, from) = channels();
    // The others keep theirs open.
    let (active, _idle): (Vec<_>, Vec<_>) = to.into_iter().enumerate().partition(|(index, _)| *index < active);
    let senders: Vec<_> = active
        .into_iter()
        .map(|(_, to)| {
            pools[1].spawn(move || {
                bind_to_cpu(1);
                while to.send(1).is_ok() {}
            })
        })
        .collect();
    let choose = pools[0].spawn(move || {
        bind_to_cpu(0);
        let mut sum = 0;
        groups(&from).wait().expect("nobody cancels").expect("it sends");
        let watch = Stopwatch::start();
        for _ in 0..n {
            sum += groups(&from).wait().expect("nobody cancels").expect("it sends");
        }
        let span = watch.stop(n);
        assert_eq!(sum, n);
        span
    });
    let span = choose.join().expect("no panic");
    for sender in senders {
        sender.join().expect("no panic");
    }
    span
}
