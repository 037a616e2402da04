//! Merged receivers: on every scheduler, in fibers, threads and tasks, and of every structure that
//! they are for.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{block_on, everywhere, pool, simulated};
use segue::channel::{self, broadcast, watch};
use segue::core::Source;
use segue::source::{Merge, merge};
use segue::{CancelToken, Closed, Either, Waitable, after, interval, scope, sleep, spawn_task, yield_now};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

/// Senders to `channels` channels, each of so many messages, and one merge of the receivers, whose
/// wait is `next`.
fn all_arrive_in_order(
    channels: usize,
    messages: u32,
    capacity: usize,
    mut next: impl FnMut(&mut Merge<segue::core::BoxSource<'_, Result<u32, Closed>>>) -> (usize, Result<u32, Closed>),
) {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..channels)
        .map(|_| channel::bounded(capacity))
        .map(|(sender, receiver)| (sender, receiver.into_exclusive().unwrap()))
        .unzip();
    scope(|s| {
        for sender in senders {
            s.spawn(move || (0..messages).try_for_each(|n| sender.send(n)));
        }
        let mut expected = vec![0; channels];
        let mut merged = merge(receivers.iter_mut().map(|receiver| receiver.recv_source().boxed().into_source()));
        while !merged.is_empty() {
            match next(&mut merged) {
                (index, Ok(n)) => {
                    assert_eq!(n, expected[index], "in the order of its channel");
                    expected[index] += 1;
                }
                (index, Err(Closed)) => {
                    assert_eq!(expected[index], messages, "what was buffered comes before the end");
                    assert!(merged.remove(index).is_some());
                }
            }
        }
    });
}

#[test]
fn all_arrive_on_every_scheduler() {
    everywhere(|| {
        for capacity in [0, 1, 4] {
            all_arrive_in_order(4, 30, capacity, |merged| merged.next().unwrap());
            all_arrive_in_order(3, 30, capacity, |merged| block_on(merged.next_source()));
            // Futures that are dropped, and waits that lose.
            all_arrive_in_order(3, 20, capacity, |merged| {
                let lost = after(MILLI).or_else(after(Duration::ZERO)).or(merged.next_source());
                match lost.wait().unwrap() {
                    Either::Right(next) => next,
                    Either::Left(_) => merged.next().unwrap(),
                }
            });
        }
    });
}

#[test]
fn a_task_merges_what_fibers_and_threads_send() {
    let pool = pool(2);
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel::bounded::<u64>(2)).unzip();
    std::thread::scope(|threads| {
        for (n, sender) in senders.into_iter().enumerate() {
            let send = move || (1..=1_000).try_for_each(|n| sender.send(n));
            let pool = &pool;
            threads.spawn(move || if n % 2 == 0 { send().unwrap() } else { pool.run(send).unwrap().unwrap() });
        }
        let sum = pool.run(|| {
            spawn_task(async move {
                let mut merged = merge(receivers.iter().map(|receiver| receiver.recv_source()));
                let mut sum = 0;
                while !merged.is_empty() {
                    match merged.next_source().await {
                        (_, Ok(n)) => sum += n,
                        (index, Err(Closed)) => _ = merged.remove(index),
                    }
                }
                sum
            })
            .join()
        });
        assert_eq!(sum.unwrap().unwrap(), 4 * 500_500);
    });
}

#[test]
fn what_an_arm_has_goes_to_others_when_the_merge_goes() {
    simulated(300, |_| {
        let (sender, receiver) = channel::bounded::<u64>(3);
        let got = AtomicU64::new(0);
        scope(|s| {
            for _ in 0..2 {
                let (receiver, got) = (receiver.clone(), &got);
                s.spawn(move || {
                    loop {
                        let mut merged = merge([receiver.recv_source(), receiver.recv_source()]);
                        for _ in 0..3 {
                            match merged.next_source().or_else(after(MILLI)).wait().unwrap() {
                                Either::Left((_, Ok(n))) => _ = got.fetch_add(n, SeqCst),
                                Either::Left((_, Err(Closed))) => return,
                                Either::Right(()) => break,
                            }
                        }
                    }
                });
            }
            for n in 1..=20 {
                sender.send(n).unwrap();
                if n % 7 == 0 { sleep(MILLI * 2).unwrap() } else { yield_now().unwrap() }
            }
            drop((sender, receiver));
        });
        assert_eq!(got.load(SeqCst), 210, "lost or doubled");
    });
}

#[test]
fn a_cancelled_wait_leaves_what_its_arms_have() {
    simulated(200, |_| {
        let (sender, receiver) = channel::unbounded::<u32>();
        let token = CancelToken::new();
        let mut merged = merge([receiver.recv_source(), receiver.recv_source()]);
        scope(|s| {
            s.spawn(|| (0..6).for_each(|n| sender.send(n).unwrap()));
            s.spawn(|| token.cancel());
            let mut got = Vec::new();
            while let Ok((_, n)) = token.run(|| merged.next()) {
                got.push(n.unwrap());
            }
            while got.len() < 6 {
                got.push(merged.next().unwrap().1.unwrap());
            }
            got.sort_unstable();
            assert_eq!(got, [0, 1, 2, 3, 4, 5]);
        });
        assert!(receiver.is_empty());
    });
}

/// Sources of different structures that yield again and again.
fn boxed<'a>(source: Waitable<impl Source<Output: std::fmt::Debug> + Send + 'a>) -> segue::core::BoxSource<'a, String> {
    source.map(|output| format!("{output:?}")).boxed().into_source()
}

#[test]
fn broadcasts_watched_values_and_ticks_are_waited_for_again_and_again() {
    simulated(20, |_| {
        let (messages, mut listener) = broadcast::channel(4);
        let (watched, mut watcher) = watch::channel(0);
        let mut ticks = interval(MILLI * 10);
        let mut merged =
            merge([boxed(listener.recv_source()), boxed(watcher.changed_source()), boxed(ticks.tick_source())]);
        assert_eq!(merged.try_next(), None);
        for round in 0..3 {
            messages.send(round).unwrap();
            watched.set(round);
            let mut both = [merged.next().unwrap(), merged.next().unwrap()];
            both.sort();
            assert_eq!(both, [(0, format!("Ok({round})")), (1, "Ok(())".to_string())]);
            assert_eq!(merged.next().unwrap(), (2, "1".to_string()));
        }
        assert_eq!(merged.try_next(), None);
    });
}
