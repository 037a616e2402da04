//! Choices that meet at a rendezvous, where both sides wait: with others, and not with themselves.
#![cfg(not(loom))]

use crate::common;
use crate::mailbox;
use crate::rendezvous;

use common::{Host, Jobs, rounds, stagger};
use mailbox::{Calls, poll};
use rendezvous::Rendezvous;
use segue_core::{Either, Retreat, Source, Trigger, Waitable, WaitsFor};
use std::future::IntoFuture;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;

#[test]
fn a_choice_of_both_ends_waits_for_somebody_else_and_sees_its_cancellation() {
    let (host, channel) = (Host::new(Jobs::Keep), Rendezvous::new());
    let (tokens, token) = mpsc::channel();
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |token| {
                tokens.send(token).unwrap();
                channel.send_source(1).or(channel.receive_source()).wait()
            })
        });
        // That it is suspended says that it does not go round and round.
        host.until_suspended(1);
        token.recv().unwrap().cancel();
        assert!(waiter.join().unwrap().is_err());
        let waiter = t.spawn(|| host.run(1, |_| channel.send_source(1).or(channel.receive_source()).wait()));
        host.until_suspended(1);
        assert_eq!(channel.send_source(2).wait(), Ok(()));
        assert_eq!(waiter.join().unwrap(), Ok(Either::Right(2)));
        let waiter = t.spawn(|| host.run(2, |_| channel.receive_source().or(channel.send_source(3)).wait()));
        host.until_suspended(1);
        assert_eq!(channel.receive_source().wait(), Ok(3));
        assert_eq!(waiter.join().unwrap(), Ok(Either::Right(())));
    });
    assert!(channel.left().is_empty());
}

#[test]
fn two_tasks_that_choose_both_ends_meet_each_other_alone() {
    let channel = Rendezvous::new();
    let (calls, waker) = Calls::new();
    let both = |value| Box::pin(channel.send_source(value).or(channel.receive_source()).into_future());
    let (mut first, mut other) = (both(1), both(2));
    assert_eq!(poll(first.as_mut(), &waker), Poll::Pending);
    assert_eq!(poll(first.as_mut(), &waker), Poll::Pending);
    assert_eq!(calls.count(), 0, "it has met itself");
    let Poll::Ready(second) = poll(other.as_mut(), &waker) else { panic!("the first one waits") };
    assert_eq!(calls.count(), 1);
    let Poll::Ready(outcome) = poll(first.as_mut(), &waker) else { panic!("the second one has served it") };
    assert!(
        matches!((outcome, second), (Either::Left(()), Either::Right(1)) | (Either::Right(2), Either::Left(()))),
        "{outcome:?} {second:?}"
    );
    drop((first, other));
    assert!(channel.left().is_empty());
}

#[test]
fn crosswise_choices_of_three_arms_always_meet() {
    let (mut sent, mut received) = (0, 0);
    for round in 0..rounds(20_000) {
        let (a, b, c) = (Rendezvous::new(), Rendezvous::new(), Rendezvous::<u8>::new());
        let (one, other) = thread::scope(|t| {
            let other = t.spawn(|| {
                stagger(round);
                b.send_source(2).or(c.receive_source()).or(a.receive_source()).wait().unwrap()
            });
            stagger(round / 5);
            let one = a.send_source(1).or(b.receive_source()).or(c.receive_source()).wait().unwrap();
            (one, other.join().unwrap())
        });
        match (one, other) {
            (Either::Left(Either::Left(())), Either::Right(1)) => sent += 1,
            (Either::Left(Either::Right(2)), Either::Left(Either::Left(()))) => received += 1,
            other => panic!("{other:?}"),
        }
        assert!([a, b, c].into_iter().all(|channel| channel.left().is_empty()));
        if sent > 20 && received > 20 {
            return;
        }
    }
    assert!(sent > 0 && received > 0, "{sent} {received}");
}

/// Finds its value there only when it is registered.
struct LateThere {
    looks: usize,
    retreats: usize,
    prepared: usize,
}

// SAFETY: it registers nothing.
#[allow(unsafe_code)]
unsafe impl Source for LateThere {
    type Output = usize;
    type Slot = ();

    fn waits_for(&self) -> WaitsFor {
        WaitsFor::new("a test")
    }

    fn address(&self, least: usize) -> Option<usize> {
        Some(7).filter(|address| *address >= least)
    }

    fn attempt(&mut self) -> Option<usize> {
        self.looks += 1;
        (self.retreats == 0).then_some(self.prepared)
    }

    unsafe fn prepare(&mut self, (): &mut ()) {
        self.prepared += 1;
    }

    unsafe fn register(&mut self, (): &mut (), trigger: &Trigger, _arm: usize) -> Result<(), Retreat> {
        self.retreats -= 1;
        Err(trigger.retreat())
    }

    unsafe fn withdraw(&mut self, (): &mut ()) {}

    unsafe fn commit(&mut self, (): &mut (), _arm: usize) -> Option<usize> {
        None
    }

    unsafe fn give_back(&mut self, (): &mut (), _arm: usize) {}
}

#[test]
fn a_look_prepares_nothing_and_each_retreat_prepares_once() {
    let channel = Rendezvous::<u8>::new();
    for (retreats, prepared) in [(0, 0), (1, 1), (5, 5)] {
        let mut late = LateThere { looks: 0, retreats, prepared: 0 };
        assert_eq!(channel.receive_source().or(&mut late).wait(), Ok(Either::Right(prepared)));
        assert_eq!(late.looks, retreats + 1);
    }
    assert!(channel.left().is_empty());
}

#[test]
fn retreats_without_end_give_way_and_end_with_a_cancellation() {
    let host = Host::new(Jobs::Keep);
    let mut late = LateThere { looks: 0, retreats: usize::MAX, prepared: 0 };
    let (tokens, token) = mpsc::channel();
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |token| {
                tokens.send(token).unwrap();
                Waitable::new(&mut late).wait()
            })
        });
        token.recv().unwrap().cancel();
        assert!(waiter.join().unwrap().is_err());
    });
    // A task has itself woken, and others run before it is polled again.
    let (calls, waker) = Calls::new();
    let mut future = Box::pin(Waitable::new(&mut late).into_future());
    assert_eq!(poll(future.as_mut(), &waker), Poll::Pending);
    assert_eq!(calls.count(), 1);
}
