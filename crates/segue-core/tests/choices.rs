//! The choice between sources: the one that is chosen takes effect, the others do not.
#![cfg(not(loom))]

mod common;
mod mailbox;

use common::{Host, Jobs, counted, rounds, stagger};
use mailbox::{Mailbox, poll};
use segue_core::{Either, after, scope};
use std::future::IntoFuture;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

#[test]
fn of_two_that_are_ready_the_left_one_is_taken() {
    let (left, right) = (Mailbox::new(), Mailbox::new());
    left.send(1);
    right.send("one");
    let either = || left.receive_source().or(right.receive_source());
    assert_eq!(either().wait(), Ok(Either::Left(1)));
    assert_eq!(either().wait(), Ok(Either::Right("one")));
    assert_eq!(either().attempt(), None);
    assert!(left.into_messages().is_empty() && right.into_messages().is_empty());
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
