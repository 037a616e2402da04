//! `select`: a choice among receives from several channels; and two that would both send or
//! receive. An operation is one choice.
//!
//! * *ready*: a fiber sends to one channel, with room for 1, and then chooses among all: of 2, of
//!   8. Which channel it is goes around.
//! * *waiting*: a fiber sends to one channel after the other and takes an answer from another
//!   channel, with room for 1; a second fiber chooses among all, waiting each time, and answers.
//!   The answer is a part of the operation.
//! * *both sides*: two would each send over one of two rendezvous or receive from the other, so
//!   that a choice of one meets one of the other. *Kept apart*, each has a thread and a CPU of its
//!   own.
//! * *ends together*: of 10,000 channels whose receivers stay registered all senders go at once;
//!   the operation is one end that is seen, and its arm that is removed. Tokio's `StreamMap` looks
//!   through all of its streams each time.
//!
//! Timed: sending, choosing, the answers; of the ends also making the channels, and registering.
//! Not timed: starting the runtime. The sum of what was received is checked.
//!
//! Segue is with `select!`; "biased" begins with the first arm, where it is not said a random one.
//! Crossbeam and flume's `Selector` block threads: with an arm ready, and kept apart. Tokio's
//! channels have no rendezvous, and a future that sends and one that receives can't be chosen among
//! by two at once without losing messages.

use super::policies::DEFAULT;
use super::{crowd, pair, segue_run};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use std::array;

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "select",
    timed: "a choice among receives, and of two that send or receive, per choice",
    variants,
};

fn variants() -> Vec<Variant> {
    vec![
        ready::<2>("ready, of 2"),
        ready::<8>("ready, of 8"),
        waiting::<2>("waiting, of 2"),
        waiting::<8>("waiting, of 8"),
        Variant::new("both sides, one worker", "choice", 1)
            .add(SEGUE, |n| pair::segue(&DEFAULT, 1, both::segue(n)))
            .add_go(&["together"]),
        Variant::new("both sides, kept apart", "choice", 2)
            .add(SEGUE, |n| pair::segue_apart(both::segue(n)))
            .add("crossbeam, threads", |n| pair::threads(both::crossbeam(n)))
            .add_go(&["apart"])
            .absent("flume", "of two of its selectors that meet, both may go on waiting"),
        Variant::new("ends together, of 10,000", "end", 1)
            .add("segue, merge", |n| segue_run(1, || on_segue::ends(n)))
            .add("futures and async-channel on smol", |n| crowd::smol(1, |_| on_smol::ends(n))),
    ]
}

fn ready<const ARMS: usize>(name: &str) -> Variant {
    Variant::new(name, "choice", 1)
        .add(SEGUE, |n| segue_run(1, || on_segue::ready::<ARMS, false>(n)))
        .add("segue, biased", |n| segue_run(1, || on_segue::ready::<ARMS, true>(n)))
        .add("tokio", |n| crowd::tokio(1, |_| on_tokio::ready::<ARMS, false>(n)))
        .add("tokio, biased", |n| crowd::tokio(1, |_| on_tokio::ready::<ARMS, true>(n)))
        .add("futures and async-channel on smol", |n| crowd::smol(1, |_| on_smol::ready::<ARMS>(n)))
        .add("crossbeam, thread", on_thread::crossbeam::<ARMS>)
        .add("flume, thread", on_thread::flume::<ARMS>)
        .add_go(&["ready", &ARMS.to_string()])
}

fn waiting<const ARMS: usize>(name: &str) -> Variant {
    Variant::new(name, "choice", 1)
        .add(SEGUE, |n| pair::segue(&DEFAULT, 1, on_segue::waiting::<ARMS, false>(n)))
        .add("segue, biased", |n| pair::segue(&DEFAULT, 1, on_segue::waiting::<ARMS, true>(n)))
        .add("tokio", |n| pair::tokio(1, on_tokio::waiting::<ARMS, false>(n)))
        .add("tokio, biased", |n| pair::tokio(1, on_tokio::waiting::<ARMS, true>(n)))
        .add("futures and async-channel on smol", |n| pair::smol(1, on_smol::waiting::<ARMS>(n)))
        .add_go(&["waiting", &ARMS.to_string()])
}

/// How many channels end together.
const ENDING: u64 = 10_000;

fn sum_below(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

/// So many channels of one kind.
fn channels<S, R, const ARMS: usize>(new: impl Fn() -> (S, R)) -> ([S; ARMS], [R; ARMS]) {
    let mut receivers = [const { None }; ARMS];
    let senders = array::from_fn(|arm| {
        let (sender, receiver) = new();
        receivers[arm] = Some(receiver);
        sender
    });
    (senders, receivers.map(|receiver| receiver.expect("as many as senders")))
}

/// Sends to one after the other, and chooses.
macro_rules! ready {
    ($arms:ident, $n:ident, |$arm:ident, $number:ident| $send:expr, $choose:expr) => {{
        let mut sum = 0;
        let watch = Stopwatch::start();
        for $number in 0..$n {
            let $arm = $number as usize % $arms;
            $send;
            sum += $choose;
        }
        let span = watch.stop($n);
        assert_eq!(sum, sum_below($n));
        span
    }};
}

mod on_segue {
    use super::{ENDING, Span, Stopwatch, channels, sum_below};
    use segue::channel::{Receiver, bounded};
    use segue::select;
    use segue::source::merge;

    pub fn ends(n: u64) -> Span {
        let rounds = n.div_ceil(ENDING);
        let watch = Stopwatch::start();
        for _ in 0..rounds {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..ENDING).map(|_| bounded::<u64>(1)).unzip();
            let mut merged = merge(receivers.iter().map(Receiver::recv_source));
            assert!(merged.try_next().is_none(), "none has ended");
            drop(senders);
            while !merged.is_empty() {
                let (arm, received) = merged.next().expect("nobody cancels");
                assert!(received.is_err(), "it has ended");
                merged.remove(arm);
            }
        }
        watch.stop(rounds * ENDING)
    }

    macro_rules! choose {
        ($biased:expr, $from:ident: $($name:ident $index:tt),+) => {{
            if $biased {
                select! { biased; $($name = $from[$index].recv_source() => $name,)+ }
            } else {
                select! { $($name = $from[$index].recv_source() => $name,)+ }
            }
        }};
    }

    #[inline]
    fn choose<const ARMS: usize, const BIASED: bool>(from: &[Receiver<u64>; ARMS]) -> u64 {
        let received = match ARMS {
            2 => choose!(BIASED, from: a 0, b 1),
            8 => choose!(BIASED, from: a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7),
            _ => unreachable!("not one of the variants"),
        };
        received.expect("nobody cancels").expect("it is not closed")
    }

    pub fn ready<const ARMS: usize, const BIASED: bool>(n: u64) -> Span {
        let (to, from) = channels::<_, _, ARMS>(|| bounded(1));
        ready!(ARMS, n, |arm, number| to[arm].send(number).expect("there is room"), choose::<ARMS, BIASED>(&from))
    }

    pub fn waiting<const ARMS: usize, const BIASED: bool>(
        n: u64,
    ) -> (impl FnOnce() -> Span + Send + 'static, impl FnOnce() + Send + 'static) {
        let (to, from) = channels::<_, _, ARMS>(|| bounded(1));
        let (answer, answers) = bounded(1);
        let ask = move || {
            ready!(
                ARMS,
                n,
                |arm, number| to[arm].send(number).expect("it chooses"),
                answers.recv().expect("it answers")
            )
        };
        let choose = move || (0..n).for_each(|_| answer.send(choose::<ARMS, BIASED>(&from)).expect("it takes it"));
        (ask, choose)
    }
}

mod on_tokio {
    use super::{Span, Stopwatch, channels, sum_below};
    use tokio::sync::mpsc::{Receiver, channel};

    macro_rules! choose {
        ($biased:expr, $from:ident: $($name:ident),+) => {{
            let mut all = $from.iter_mut();
            $(let $name = all.next().expect("as many as are named");)+
            if $biased {
                tokio::select! { biased; $($name = $name.recv() => $name,)+ }
            } else {
                tokio::select! { $($name = $name.recv() => $name,)+ }
            }
        }};
    }

    async fn choose<const ARMS: usize, const BIASED: bool>(from: &mut [Receiver<u64>; ARMS]) -> u64 {
        let received = match ARMS {
            2 => choose!(BIASED, from: a, b),
            8 => choose!(BIASED, from: a, b, c, d, e, f, g, h),
            _ => unreachable!("not one of the variants"),
        };
        received.expect("it is not closed")
    }

    pub async fn ready<const ARMS: usize, const BIASED: bool>(n: u64) -> Span {
        let (to, mut from) = channels::<_, _, ARMS>(|| channel(1));
        ready!(
            ARMS,
            n,
            |arm, number| to[arm].send(number).await.expect("there is room"),
            choose::<ARMS, BIASED>(&mut from).await
        )
    }

    pub fn waiting<const ARMS: usize, const BIASED: bool>(
        n: u64,
    ) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
        let (to, mut from) = channels::<_, _, ARMS>(|| channel(1));
        let (answer, mut answers) = channel(1);
        let ask = async move {
            ready!(
                ARMS,
                n,
                |arm, number| to[arm].send(number).await.expect("it chooses"),
                answers.recv().await.expect("it answers")
            )
        };
        let choose = async move {
            for _ in 0..n {
                answer.send(choose::<ARMS, BIASED>(&mut from).await).await.expect("it takes it");
            }
        };
        (ask, choose)
    }
}

mod on_smol {
    use super::{ENDING, Span, Stopwatch, channels, sum_below};
    use async_channel::{Receiver, bounded};
    use futures_util::FutureExt;
    use futures_util::stream::{SelectAll, StreamExt};
    use std::pin::pin;

    pub async fn ends(n: u64) -> Span {
        let rounds = n.div_ceil(ENDING);
        let watch = Stopwatch::start();
        for _ in 0..rounds {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..ENDING).map(|_| bounded::<u64>(1)).unzip();
            let mut merged: SelectAll<_> = receivers.into_iter().map(Box::pin).collect();
            assert!(merged.next().now_or_never().is_none(), "none has ended");
            drop(senders);
            assert_eq!(merged.next().await, None, "all have ended");
        }
        watch.stop(rounds * ENDING)
    }

    macro_rules! choose {
        ($from:ident: $($name:ident $index:tt),+) => {{
            $(let mut $name = pin!($from[$index].recv().fuse());)+
            futures_util::select! { $(received = $name => received,)+ }
        }};
    }

    async fn choose<const ARMS: usize>(from: &[Receiver<u64>; ARMS]) -> u64 {
        let received = match ARMS {
            2 => choose!(from: a 0, b 1),
            8 => choose!(from: a 0, b 1, c 2, d 3, e 4, f 5, g 6, h 7),
            _ => unreachable!("not one of the variants"),
        };
        received.expect("it is not closed")
    }

    pub async fn ready<const ARMS: usize>(n: u64) -> Span {
        let (to, from) = channels::<_, _, ARMS>(|| bounded(1));
        ready!(ARMS, n, |arm, number| to[arm].send(number).await.expect("there is room"), choose::<ARMS>(&from).await)
    }

    pub fn waiting<const ARMS: usize>(
        n: u64,
    ) -> (impl Future<Output = Span> + Send + 'static, impl Future<Output = ()> + Send + 'static) {
        let (to, from) = channels::<_, _, ARMS>(|| bounded(1));
        let (answer, answers) = bounded(1);
        let ask = async move {
            ready!(
                ARMS,
                n,
                |arm, number| to[arm].send(number).await.expect("it chooses"),
                answers.recv().await.expect("it answers")
            )
        };
        let choose = async move {
            for _ in 0..n {
                answer.send(choose::<ARMS>(&from).await).await.expect("it takes it");
            }
        };
        (ask, choose)
    }
}

/// An arm is ready, so a thread alone will do.
mod on_thread {
    use super::{Span, Stopwatch, channels, sum_below};
    use crossbeam_channel::{Receiver, bounded, select};
    use flume::Selector;

    macro_rules! choose {
        ($from:ident: $($index:tt),+) => {
            select! { $(recv($from[$index]) -> received => received,)+ }
        };
    }

    fn choose<const ARMS: usize>(from: &[Receiver<u64>; ARMS]) -> u64 {
        let received = match ARMS {
            2 => choose!(from: 0, 1),
            8 => choose!(from: 0, 1, 2, 3, 4, 5, 6, 7),
            _ => unreachable!("not one of the variants"),
        };
        received.expect("it is not closed")
    }

    pub fn crossbeam<const ARMS: usize>(n: u64) -> Span {
        let (to, from) = channels::<_, _, ARMS>(|| bounded(1));
        ready!(ARMS, n, |arm, number| to[arm].send(number).expect("there is room"), choose::<ARMS>(&from))
    }

    pub fn flume<const ARMS: usize>(n: u64) -> Span {
        let (to, from) = channels::<_, _, ARMS>(|| flume::bounded::<u64>(1));
        let choose = || {
            let all = from.iter().fold(Selector::new(), |all, from| all.recv(from, |received| received));
            all.wait().expect("it is not closed")
        };
        ready!(ARMS, n, |arm, number| to[arm].send(number).expect("there is room"), choose())
    }
}

/// Two that both would send or receive.
mod both {
    use super::{Span, Stopwatch};
    use segue::{channel, select};

    /// Chooses so many times; all have been met when it is done.
    fn side(n: u64, mut choose: impl FnMut(u64)) -> Span {
        let watch = Stopwatch::start();
        (0..n).for_each(&mut choose);
        watch.stop(n)
    }

    pub fn segue(n: u64) -> (impl FnOnce() -> Span + Send + 'static, impl FnOnce() + Send + 'static) {
        let (there, here) = channel::rendezvous::<u64>();
        let (back, out) = channel::rendezvous::<u64>();
        let one = move || {
            side(n, |i| {
                select! {
                    sent = there.send_source(i) => sent.expect("it is not closed"),
                    received = out.recv_source() => assert!(received.expect("it is not closed") < n),
                }
                .expect("nobody cancels");
            })
        };
        let other = move || {
            side(n, |i| {
                select! {
                    sent = back.send_source(i) => sent.expect("it is not closed"),
                    received = here.recv_source() => assert!(received.expect("it is not closed") < n),
                }
                .expect("nobody cancels");
            });
        };
        (one, other)
    }

    pub fn crossbeam(n: u64) -> (impl FnOnce() -> Span + Send, impl FnOnce() + Send) {
        let (there, here) = crossbeam_channel::bounded::<u64>(0);
        let (back, out) = crossbeam_channel::bounded::<u64>(0);
        let one = move || {
            side(n, |i| {
                crossbeam_channel::select! {
                    send(there, i) -> sent => sent.expect("it is not closed"),
                    recv(out) -> received => assert!(received.expect("it is not closed") < n),
                }
            })
        };
        let other = move || {
            side(n, |i| {
                crossbeam_channel::select! {
                    send(back, i) -> sent => sent.expect("it is not closed"),
                    recv(here) -> received => assert!(received.expect("it is not closed") < n),
                }
            });
        };
        (one, other)
    }
}
