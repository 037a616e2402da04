//! Channels in choices: both ends in one, the same channel twice, partners that both select, and
//! what `select!` has.

use crate::meet;

use meet::{Task, block_on, everywhere, mixed, simulated};
use segue::channel::{self, Receiver, Sender};
use segue::source::{OneOf, any_of_biased};
use segue::{Closed, after, any_of, scope, select, timeout};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_choice_does_not_meet_itself() {
    everywhere(|| {
        let (sender, receiver) = channel::rendezvous();
        let mut sending = sender.send_source(1);
        let alone = timeout(MILLI, || any_of((sending.by_ref(), receiver.recv_source())).wait());
        assert!(alone.is_err(), "{alone:?}");
        assert_eq!(sending.into_value(), Some(1));
        // Two of them meet: one sends, and the other receives.
        let both = |n: usize| any_of((sender.send_source(n), receiver.recv_source())).wait().unwrap();
        let [one, other] = scope(|s| {
            let others = s.spawn(|| both(2));
            [both(1), others.join().unwrap()]
        });
        match (one, other) {
            (OneOf::A(Ok(())), OneOf::B(Ok(1))) | (OneOf::B(Ok(2)), OneOf::A(Ok(()))) => (),
            met => panic!("{met:?}"),
        }
        assert!(sender.try_send(3).is_err() && receiver.try_recv().is_err(), "nobody is left");
    });
}

#[test]
fn the_same_channel_twice_is_served_once() {
    everywhere(|| {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded(capacity);
            let twice = any_of([receiver.recv_source(), receiver.recv_source()]);
            let mut receives = Task::waiting(twice);
            sender.send(1).unwrap();
            assert!(matches!(receives.poll(), Some((_, Ok(1)))));
            (0..capacity).for_each(|_| sender.send(0).unwrap());
            let mut sends = Task::waiting(any_of([sender.send_source(2), sender.send_source(3)]));
            (0..capacity).for_each(|_| assert_eq!(receiver.recv(), Ok(0)));
            let first = receiver.recv();
            assert!(matches!((sends.poll(), first), (Some((0, Ok(()))), Ok(2)) | (Some((1, Ok(()))), Ok(3))));
            assert!(receiver.try_recv().is_err(), "the other one was not sent");
            // Told of the end once.
            let mut receives = Task::waiting(any_of([receiver.recv_source(), receiver.recv_source()]));
            sender.close();
            assert!(matches!(receives.poll(), Some((_, Err(Closed)))));
        }
    });
}

/// Room is reserved, so a sender waits though nothing is buffered. A receiver that selects, looks
/// without the lock first, and has to see it.
#[test]
fn a_choice_receives_from_a_sender_that_waits_beside_reserved_room() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let room = sender.reserve().unwrap();
        let mut waits = Task::waiting(sender.send_source(1));
        let received = receiver.recv_source().or(after(HOUR)).wait().unwrap();
        assert_eq!((received, waits.poll()), (segue::Either::Left(Ok(1)), Some(Ok(()))));
        // And two that select on either side meet.
        scope(|s| {
            s.spawn(|| sender.send_source(2).or(after(HOUR)).wait().unwrap());
            let received = receiver.recv_source().or(after(HOUR)).wait().unwrap();
            assert_eq!(received, segue::Either::Left(Ok(2)));
        });
        drop(room);
    });
}

/// A receiver that selects looks at a rendezvous without the lock first, and has to see each sender
/// that waits, also after a look in vain, and after a sender that has left.
#[test]
fn a_look_at_a_rendezvous_finds_each_sender_that_waits() {
    everywhere(|| {
        let (sender, receiver) = channel::rendezvous();
        let look = || select! { biased; received = receiver.recv_source() => Some(received), default => None };
        for n in 0..3 {
            assert_eq!(look(), None);
            drop(Task::waiting(sender.send_source(7)));
            assert_eq!(look(), None);
            let mut alone = Task::waiting(sender.send_source(n));
            assert_eq!((look(), alone.poll(), look()), (Some(Ok(n)), Some(Ok(())), None));
            // A sender that would receive as well does not meet itself; others meet that sender.
            let mut both = Task::waiting(any_of_biased((receiver.recv_source(), sender.send_source(9))));
            assert_eq!(look(), Some(Ok(9)));
            assert!(matches!(both.poll(), Some(OneOf::B(Ok(())))));
        }
    });
    // Nobody wakes a receiver that only looks.
    simulated(50, |_| {
        let (sender, receiver) = channel::rendezvous();
        scope(|s| {
            s.spawn(|| (0..3).for_each(|n| sender.send(n).unwrap()));
            for n in 0..3 {
                while receiver.try_recv() != Ok(n) {
                    segue::yield_now().unwrap();
                }
            }
        });
    });
}

#[test]
fn a_value_that_was_not_sent_is_in_the_source() {
    everywhere(|| {
        let (sender, receiver) = channel::rendezvous();
        let mut sending = sender.send_source(1);
        for _ in 0..3 {
            assert_eq!(any_of((sending.by_ref(), after(Duration::ZERO))).wait(), Ok(OneOf::B(())));
        }
        // It may be waited for again.
        scope(|s| {
            s.spawn(|| assert_eq!(receiver.recv(), Ok(1)));
            assert_eq!(sending.by_ref().wait(), Ok(Ok(())));
        });
        assert_eq!(sending.into_value(), None);
        let mut sending = sender.send_source(2);
        drop(Task::waiting(sending.by_ref()));
        // It is told of the end, and dropped before it has looked.
        let told = Task::waiting(sending.by_ref());
        receiver.close();
        assert_eq!(told.wakes(), 1);
        drop(told);
        assert_eq!(sending.into_value(), Some(2));
    });
}

#[test]
fn select_has_arms_a_default_a_deadline_and_an_order() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let (other, others) = channel::rendezvous::<u8>();
        let look = || {
            select! {
                value = receiver.recv_source() => value.ok(),
                sent = other.send_source(9) => panic!("{sent:?}"),
                default => None,
            }
        };
        assert_eq!(look(), None);
        sender.send(1).unwrap();
        assert_eq!(look(), Some(1));
        let late = select! {
            value = receiver.recv_source() => value.ok(),
            value = others.recv_source() => value.ok(),
            deadline(Instant::now() + MILLI) => Some(0),
        };
        assert_eq!(late, Ok(Some(0)));
        // What is there is taken also after the deadline.
        sender.send(2).unwrap();
        let there = select! {
            value = receiver.recv_source() => value.ok(),
            deadline(Instant::now()) => None,
        };
        assert_eq!(there, Ok(Some(2)));
        // The first of those that are ready, each time.
        let (events, news) = channel::unbounded();
        for n in 0..20 {
            events.send(n).unwrap();
            sender.send(n).unwrap();
            let first = select! {
                biased;
                value = receiver.recv_source() => value,
                _ = news.recv_source() => unreachable!("the other was ready"),
            };
            assert_eq!(first, Ok(Ok(n)));
        }
        let awaited = block_on(Box::pin(async {
            select! {
                await;
                value = news.recv_source() => value.ok(),
                () = after(HOUR) => None,
            }
        }));
        assert_eq!(awaited, Some(0));
        // An end that has come is chosen.
        drop(sender);
        assert_eq!(any_of_biased((receiver.recv_source(), after(HOUR))).wait(), Ok(OneOf::A(Err(Closed))));
    });
}

#[test]
fn an_exclusive_receiver_in_a_choice_keeps_what_it_has_taken() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(3);
        let (_other, others) = channel::rendezvous::<u8>();
        let mut exclusive = receiver.into_exclusive().unwrap();
        (0..3).for_each(|n| sender.send(n).unwrap());
        for n in 0..6 {
            let chosen = select! {
                value = exclusive.recv_source() => value.ok(),
                _ = others.recv_source() => None,
            };
            assert_eq!(chosen, Ok(Some(n)));
            sender.send(n + 3).unwrap();
        }
        assert_eq!(exclusive.len(), 3);
        assert!(exclusive.into_iter().take(3).eq(6..9));
        // It waits as one arm, and what it was handed comes back.
        let (sender, receiver) = channel::bounded(3);
        let mut exclusive = receiver.into_exclusive().unwrap();
        let waits = Task::waiting(exclusive.recv_source().or(others.recv_source()));
        (0..2).for_each(|n| sender.send(n).unwrap());
        drop(waits);
        assert_eq!([(); 2].map(|()| exclusive.try_recv()), [Ok(0), Ok(1)]);
    });
}

#[test]
fn of_arms_that_are_ready_none_starves() {
    everywhere(|| {
        let (sender, receiver) = channel::unbounded();
        let (other, others) = channel::unbounded();
        let mut chosen = [0; 2];
        for n in 0..200 {
            sender.send(n).unwrap();
            other.send(n).unwrap();
            let (index, value) = any_of([receiver.recv_source(), others.recv_source()]).wait().unwrap();
            value.unwrap();
            chosen[index] += 1;
        }
        assert!(chosen.iter().all(|count| *count > 20), "{chosen:?}");
    });
}

/// All that come select between two sends and two receives; each that sends meets one that
/// receives, until they are told to end.
fn crosswise(ends: &[(Sender<usize>, Receiver<usize>); 2], next: &AtomicUsize, seen: &Mutex<BTreeSet<usize>>) -> usize {
    let [(a, from_a), (b, from_b)] = ends;
    let mut sent = 0;
    for round in 0.. {
        let value = next.fetch_add(1, SeqCst);
        let (first, second) = if round % 2 == 0 { (a, b) } else { (b, a) };
        let chosen = select! {
            ok = first.send_source(value) => ok.map(|()| None),
            got = from_b.recv_source() => got.map(Some),
            got = from_a.recv_source() => got.map(Some),
            ok = second.send_source(value) => ok.map(|()| None),
        };
        match chosen.unwrap() {
            Ok(None) => sent += 1,
            Ok(Some(got)) => assert!(seen.lock().unwrap().insert(got), "{got} came twice"),
            Err(Closed) => break,
        }
        if seen.lock().unwrap().len() >= 60 {
            let _ = (a.close(), b.close());
        }
    }
    sent
}

fn all_meet(run: impl FnOnce(&(dyn Fn(usize) + Sync))) {
    let (ends, next, seen) = ([channel::rendezvous(), channel::rendezvous()], AtomicUsize::new(0), Mutex::default());
    let sent = AtomicUsize::new(0);
    run(&|_| _ = sent.fetch_add(crosswise(&ends, &next, &seen), SeqCst));
    assert_eq!(seen.into_inner().unwrap().len(), sent.into_inner());
}

#[test]
fn crosswise_choices_meet_under_many_schedules() {
    simulated(200, |_| {
        all_meet(|body| {
            scope(|s| (0..4).for_each(|n| drop(s.spawn(move || body(n)))));
        });
    });
}

#[test]
fn crosswise_choices_meet_on_workers_and_threads() {
    for _ in 0..20 {
        all_meet(|body| mixed(6, body));
    }
}
