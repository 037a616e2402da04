//! The choice between sources: the one that is chosen takes effect, the others do not.
#![cfg(not(loom))]

use crate::common;
use crate::mailbox;

use common::{Host, Jobs, counted, rounds, stagger};
use mailbox::{Mailbox, poll};
use segue_core::{BoxSource, Either, OneOf, Waitable, after, any_of, guard, scope};
use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

#[test]
fn of_those_that_are_ready_each_is_taken_as_often() {
    let boxes = [Mailbox::new(), Mailbox::new(), Mailbox::new()];
    let [a, b, c] = &boxes;
    let mut taken = [0; 3];
    let choose = || match a.receive_source().or(b.receive_source()).or(c.receive_source()).wait().unwrap() {
        Either::Left(Either::Left(n)) | Either::Left(Either::Right(n)) | Either::Right(n) => n,
    };
    (0..3).for_each(|n: usize| assert!(!boxes[n].send(n)));
    // Each is as likely; 150 are six times the standard deviation. Miri looks at the memory.
    let (draws, fair) = if cfg!(miri) { (30, 0..31) } else { (3000, 850..1150) };
    for _ in 0..draws {
        let n = choose();
        taken[n] += 1;
        boxes[n].send(n);
    }
    assert!(taken.iter().all(|times| fair.contains(times)), "{taken:?}");
    let host = Host::new(Jobs::Keep);
    let series = || host.run(7, |_| (0..20).map(|_| choose()).inspect(|n| assert!(!boxes[*n].send(*n))).collect());
    let first: Vec<_> = series();
    assert_eq!(first, series(), "a fiber draws what it has drawn in an equal run");
}

/// How often the first of two that are ready was taken, of 100: each is given its message back.
fn share_of_the_first(draws: usize, ready: [&Mailbox<usize>; 2], mut choose: impl FnMut() -> usize) -> usize {
    // Miri looks at the memory, and not at the shares.
    let draws = if cfg!(miri) { 10 } else { draws };
    (0..2).for_each(|n| ready[n].leave(n));
    let mut first = 0;
    for _ in 0..draws {
        let n = choose();
        first += usize::from(n == 0);
        ready[n].leave(n);
    }
    (0..2).for_each(|n| assert_eq!(ready[n].receive_source().attempt(), Some(n)));
    first * 100 / draws
}

#[test]
fn two_that_are_ready_have_the_same_chance_wherever_the_idle_ones_stand() {
    let all: [Mailbox<usize>; 80] = std::array::from_fn(|_| Mailbox::new());
    let fair = if cfg!(miri) { 0..=100 } else { 45..=55 };
    // Idle ones before the two, behind them, and between them.
    for [a, b] in [[10, 11], [0, 1], [3, 11]] {
        let ready = [&all[a], &all[b]];
        let m = |n: usize| all[n].receive_source();
        let listed = |arms: usize| move || any_of((0..arms).map(m).collect::<Vec<_>>());
        let shares = [
            share_of_the_first(100_000, ready, || any_of(std::array::from_fn::<_, 12, _>(m)).wait().unwrap().1),
            share_of_the_first(10_000, ready, || listed(12)().attempt().unwrap().1),
            // More than have a bit each.
            share_of_the_first(10_000, ready, || listed(80)().wait().unwrap().1),
            share_of_the_first(10_000, ready, || {
                let three = (m(9), m(a), m(b));
                match any_of(three).wait().unwrap() {
                    OneOf::A(n) | OneOf::B(n) | OneOf::C(n) => n,
                }
            }),
            // Nested: what comes last does not have half of all.
            share_of_the_first(10_000, ready, || {
                let nested = m(7).or(m(8)).or(m(9)).or(m(4)).or(m(a)).map(|_| ()).or(m(b));
                match nested.wait().unwrap() {
                    Either::Left(()) => 0,
                    Either::Right(n) => n,
                }
            }),
            // One that counts as one, since it has many arms, or an order.
            share_of_the_first(10_000, ready, || match listed(b)().or(m(b)).wait().unwrap() {
                Either::Left((_, n)) | Either::Right(n) => n,
            }),
            share_of_the_first(10_000, ready, || match m(7).or_else(m(a)).or(m(b)).wait().unwrap() {
                Either::Left(Either::Left(n) | Either::Right(n)) | Either::Right(n) => n,
            }),
        ];
        assert!(shares.iter().all(|share| fair.contains(share)), "{a} and {b}: {shares:?}");
    }
}

#[test]
fn threads_that_choose_once_each_do_not_all_choose_the_same() {
    let both = [Mailbox::new(), Mailbox::new()];
    let choose = || any_of(both.each_ref().map(Mailbox::receive_source)).wait().unwrap().1;
    let threads = || share_of_the_first(200, both.each_ref(), || thread::scope(|t| t.spawn(choose).join().unwrap()));
    assert!((20..=80).contains(&threads()));
}

#[test]
fn a_look_in_parts_finds_what_is_ready_wherever_it_is() {
    let all: [Mailbox<usize>; 24] = std::array::from_fn(|_| Mailbox::new());
    let m = |n: usize| all[n].receive_source();
    let off = |n: usize| Waitable::new((n != 3).then(|| m(n).into_source()));
    for round in 0..if cfg!(miri) { 1 } else { 20 } {
        for n in (0..24).filter(|n| *n != 3) {
            all[n].leave(n);
            let four = off(0).or(off(1)).or(off(2).or(off(3))).map(|_| ());
            let guarded = guard(|| m(4).or(m(5).or(m(6)).into_source()).into_source()).map(|_| ());
            let many = any_of((7..20).map(m).collect::<Vec<_>>()).map(|_| ());
            let biased = m(20).or_else(m(21)).map(|_| ()).boxed();
            let filtered = m(22).or(m(23)).filter_map(Some).map(|_| ());
            let mut all_of_them = any_of((four.or(guarded), many, biased.or(filtered)));
            assert!(all_of_them.attempt().is_some(), "{n} in round {round}");
            assert!(all_of_them.attempt().is_none());
        }
    }
}

#[test]
fn a_biased_choice_takes_the_left_one_if_both_are_ready() {
    let (left, right) = (Mailbox::new(), Mailbox::new());
    let either = || left.receive_source().or_else(right.receive_source());
    for _ in 0..10 {
        left.send(1);
        right.send("one");
        assert_eq!(either().wait(), Ok(Either::Left(1)));
        assert_eq!(either().wait(), Ok(Either::Right("one")));
    }
    assert_eq!(either().attempt(), None);
    assert!(left.into_messages().is_empty() && right.into_messages().is_empty());
}

#[test]
fn what_is_chosen_among_by_reference_is_still_there() {
    let (left, right) = (Mailbox::new(), Mailbox::<u8>::new());
    let mut message = right.receive_source();
    left.send(1);
    assert_eq!(left.receive_source().or(message.by_ref()).wait(), Ok(Either::Left(1)));
    let mut choice = Box::pin(left.receive_source().or(message.by_ref()).into_future());
    assert_eq!(poll(choice.as_mut(), Waker::noop()), Poll::Pending);
    drop(choice);
    assert!(!left.has_waiters() && !right.has_waiters());
    assert!(!right.send(2));
    assert_eq!(message.wait(), Ok(2));
}

#[test]
fn boxed_sources_of_several_kinds_in_one_list() {
    let (numbers, words) = (Mailbox::new(), Mailbox::new());
    let mut list: Vec<Waitable<BoxSource<'_, String>>> = vec![
        numbers.receive_source().map(|n: u32| n.to_string()).boxed(),
        words.receive_source().or(after(Duration::MAX)).map(|word: Either<&str, ()>| format!("{word:?}")).boxed(),
    ];
    let [first, second] = &mut list[..] else { unreachable!() };
    assert_eq!(first.attempt(), None);
    let mut either = Box::pin(first.by_ref().or(second.by_ref()).into_future());
    assert_eq!(poll(either.as_mut(), Waker::noop()), Poll::Pending);
    assert!(words.send("one"), "it waits");
    assert_eq!(poll(either.as_mut(), Waker::noop()), Poll::Ready(Either::Right("Left(\"one\")".to_owned())));
    drop(either);
    assert!(!numbers.has_waiters() && !words.has_waiters());
    thread::scope(|t| {
        // They go to other threads, also while they wait.
        let mut first = Box::pin(list.remove(0).into_future());
        assert_eq!(poll(first.as_mut(), Waker::noop()), Poll::Pending);
        assert!(numbers.send(7));
        let polled = t.spawn(move || poll(first.as_mut(), Waker::noop())).join().unwrap();
        assert_eq!(polled, Poll::Ready("7".to_owned()));
    });
    // One that was handed a message, and is dropped, gives it back.
    let mut second = Box::pin(list.remove(0).into_future());
    assert_eq!(poll(second.as_mut(), Waker::noop()), Poll::Pending);
    assert!(words.send("two"));
    drop((second, list));
    assert_eq!(words.into_messages(), ["two"]);
}

/// What others reach stays, in the future that was forgotten; the source is free to end.
#[test]
fn a_forgotten_wait_by_reference_harms_nobody() {
    for drop_first in [true, false] {
        let (go_on, blocked) = std::sync::mpsc::channel::<()>();
        let (ended, end) = std::sync::mpsc::channel::<()>();
        let mut joining = segue_core::spawn(move || (blocked.recv(), ended).0).join_source();
        let mut forgotten = Box::pin(joining.by_ref().into_future());
        assert!(poll(forgotten.as_mut(), Waker::noop()).is_pending());
        std::mem::forget(forgotten);
        if drop_first {
            drop(joining);
            drop(go_on);
        } else {
            drop(go_on);
            drop(joining);
        }
        assert!(end.recv().is_err(), "the fiber has ended");
    }
}

/// The one that was forgotten still stands where it stood, and the next one has other arms besides.
#[test]
fn what_was_forgotten_in_a_wait_by_reference_can_be_waited_for_again() {
    for ends_first in [true, false] {
        let words = Mailbox::new();
        let (go_on, blocked) = std::sync::mpsc::channel::<()>();
        let mut joining = segue_core::spawn(move || blocked.recv().is_err()).join_source();
        for _ in 0..2 {
            let mut forgotten = Box::pin(joining.by_ref().into_future());
            assert!(poll(forgotten.as_mut(), Waker::noop()).is_pending());
            std::mem::forget(forgotten);
        }
        let mut choice = Box::pin(words.receive_source().or(joining.by_ref()).into_future());
        assert!(poll(choice.as_mut(), Waker::noop()).is_pending(), "it waits for both");
        if ends_first {
            drop(go_on);
            let ended = segue_core::wait_future(choice).unwrap();
            assert!(matches!(ended, Either::Right(Ok(true))));
        } else {
            assert!(words.send("word"));
            assert!(matches!(poll(choice.as_mut(), Waker::noop()), Poll::Ready(Either::Left("word"))));
            drop((choice, go_on));
            assert!(joining.by_ref().wait().unwrap().unwrap());
        }
        assert!(!words.has_waiters());
    }
}

#[test]
fn the_arm_that_comes_first_is_chosen_and_the_other_is_left() {
    let host = Host::new(Jobs::Keep);
    for chosen in 0..3 {
        let boxes = [Mailbox::new(), Mailbox::new(), Mailbox::new()];
        thread::scope(|t| {
            let [a, b, c] = &boxes;
            let (host, choice) = (&host, || a.receive_source().or(b.receive_source()).or(c.receive_source()).wait());
            let waiter = t.spawn(move || host.run(chosen, |_| choice()));
            host.until_suspended(1);
            assert!(boxes.iter().all(Mailbox::has_waiters));
            assert!(boxes[chosen as usize].send(7));
            let expected = match chosen {
                0 => Either::Left(Either::Left(7)),
                1 => Either::Left(Either::Right(7)),
                _ => Either::Right(7),
            };
            assert_eq!(waiter.join().unwrap(), Ok(expected));
        });
        assert!(!boxes.iter().any(Mailbox::has_waiters));
        assert!(boxes.into_iter().all(|mailbox| mailbox.into_messages().is_empty()));
    }
}

#[test]
fn an_arm_that_was_told_attempts_before_the_others() {
    let (left, right) = (Mailbox::new(), Mailbox::new());
    let mut choice = Box::pin(left.receive_source().or(right.receive_source()).into_future());
    let mut other = Box::pin(right.receive_source().into_future());
    assert_eq!(poll(choice.as_mut(), Waker::noop()), Poll::Pending);
    assert_eq!(poll(other.as_mut(), Waker::noop()), Poll::Pending);
    // The choice is told of the one message on the right, and then finds one on the left as well.
    right.leave(1);
    left.send(7);
    assert_eq!(poll(choice.as_mut(), Waker::noop()), Poll::Ready(Either::Right(1)), "the other one waits in vain");
    drop((choice, other));
    assert_eq!(left.into_messages(), [7]);
    assert!(right.into_messages().is_empty());
}

#[test]
fn a_choice_with_a_point_in_time() {
    let host = Host::new(Jobs::Keep);
    let mailbox = Mailbox::<u8>::new();
    let second = Duration::from_secs(1);
    thread::scope(|t| {
        let waiter = t.spawn(|| host.run(0, |_| mailbox.receive_source().or(after(second)).wait()));
        host.until_suspended(1);
        host.timers().advance(second);
        assert_eq!(host.timers().fire(), 1);
        assert_eq!(waiter.join().unwrap(), Ok(Either::Right(())));
        assert!(!mailbox.has_waiters());
        let waiter = t.spawn(|| host.run(1, |_| mailbox.receive_source().or(after(second)).wait()));
        host.until_suspended(1);
        assert!(mailbox.send(3));
        assert_eq!(waiter.join().unwrap(), Ok(Either::Left(3)));
    });
    assert!(host.timers().is_empty());
}

#[test]
fn a_cancelled_choice_leaves_every_queue() {
    let (left, right) = (Mailbox::<u8>::new(), Mailbox::<u8>::new());
    let host = Host::new(Jobs::Keep);
    let (tokens, token) = std::sync::mpsc::channel();
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |token| {
                tokens.send(token).unwrap();
                left.receive_source().or(right.receive_source()).wait()
            })
        });
        host.until_suspended(1);
        token.recv().unwrap().cancel();
        assert!(waiter.join().unwrap().is_err());
    });
    assert!(left.into_messages().is_empty() && right.into_messages().is_empty());
}

#[test]
fn conservation_of_messages_in_choices_that_are_served_on_both_sides_at_once() {
    let (mut lefts, mut rights, mut cancelled) = (0, 0, 0);
    for round in 0..rounds(30_000) {
        let (left, right) = (Mailbox::new(), Mailbox::new());
        let (drops, make) = counted();
        let outcome = thread::scope(|t| {
            t.spawn(|| {
                stagger(round);
                left.send(make())
            });
            t.spawn(|| {
                stagger(round / 5);
                right.send(make())
            });
            scope(|s| {
                let token = s.token();
                if round % 3 == 0 {
                    t.spawn(move || {
                        stagger(round / 25);
                        token.cancel();
                    });
                }
                let outcome = left.receive_source().or(right.receive_source()).wait();
                match &outcome {
                    Ok(Either::Left(_)) => lefts += 1,
                    Ok(Either::Right(_)) => rights += 1,
                    Err(_) => cancelled += 1,
                }
                outcome.is_ok()
            })
        });
        let left = left.into_messages().len() + right.into_messages().len();
        assert_eq!(left + usize::from(outcome), 2, "lost or doubled in round {round}");
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        if lefts > 20 && rights > 20 && cancelled > 20 {
            return;
        }
    }
    assert!(lefts > 0 && rights > 0 && cancelled > 0, "{lefts} {rights} {cancelled}");
}

#[test]
fn conservation_of_messages_when_an_awaited_choice_is_dropped() {
    let (mut given_back, mut kept) = (0, 0);
    for round in 0..rounds(20_000) {
        let (left, right) = (Mailbox::new(), Mailbox::new());
        let handed = thread::scope(|t| {
            let mut future = Box::pin(left.receive_source().or(right.receive_source()).into_future());
            assert_eq!(poll(future.as_mut(), Waker::noop()), Poll::Pending);
            let sender = t.spawn(|| {
                stagger(round);
                if round % 2 == 0 { left.send(round) } else { right.send(round) }
            });
            stagger(round / 5);
            drop(future);
            sender.join().unwrap()
        });
        if handed {
            given_back += 1
        } else {
            kept += 1
        }
        let (left, right) = (left.into_messages(), right.into_messages());
        assert_eq!([left, right].concat(), [round], "lost or doubled");
        if given_back > 20 && kept > 20 {
            return;
        }
    }
    assert!(given_back > 0 && kept > 0, "{given_back} {kept}");
}
