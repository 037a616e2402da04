//! One wait meets one signal, before it, during it or after it, and both sides are told the same.
#![cfg(not(loom))]

use crate::common;

use common::{Host, Jobs, rounds, stagger};
use segue_core::{MAX_ARM, Outcome, Trigger, WaitsFor, scope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

fn waits() -> WaitsFor {
    WaitsFor::new("a test")
}

#[test]
fn signalled_before_the_wait() {
    let trigger = Trigger::new();
    assert_eq!(trigger.outcome(), None);
    assert!(trigger.signal(5));
    assert_eq!(trigger.wait(waits()), Outcome::Taken(5));
    assert_eq!(trigger.wait(waits()), Outcome::Taken(5), "the outcome stays");
}

#[test]
fn signalled_during_the_wait() {
    let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
    thread::scope(|t| {
        let waiter = t.spawn(|| host.run(1, |_| trigger.wait(waits())));
        host.until_suspended(1);
        assert!(trigger.signal(3));
        assert_eq!(waiter.join().unwrap(), Outcome::Taken(3));
    });
    assert_eq!(host.resumed(), [1]);
}

#[test]
fn signalled_after_the_wait_was_cancelled() {
    let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
    let outcome = host.run(1, |token| {
        token.cancel();
        trigger.wait(waits())
    });
    assert_eq!(outcome, Outcome::Cancelled);
    assert!(!trigger.signal(0));
    assert!(!trigger.cancel());
    assert!(host.resumed().is_empty());
}

#[test]
fn one_signaller_of_many_is_accepted() {
    for round in 0..rounds(300) {
        let (trigger, accepted) = (Trigger::new(), AtomicUsize::new(usize::MAX));
        let outcome = thread::scope(|t| {
            for arm in 0..4 {
                let (trigger, accepted) = (&trigger, &accepted);
                t.spawn(move || {
                    stagger(round + arm);
                    if trigger.signal(arm) {
                        assert_eq!(accepted.swap(arm, Ordering::SeqCst), usize::MAX, "two were told yes");
                    }
                });
            }
            trigger.wait(waits())
        });
        assert_eq!(outcome, Outcome::Taken(accepted.into_inner()));
    }
}

#[test]
fn signal_and_cancellation_agree_who_came_first() {
    let (mut taken, mut cancelled) = (0, 0);
    for round in 0..rounds(20_000) {
        let trigger = Trigger::new();
        thread::scope(|t| {
            let (signal, outcome) = scope(|s| {
                let (token, trigger) = (s.token(), &trigger);
                t.spawn(move || {
                    stagger(round);
                    token.cancel();
                });
                let signal = t.spawn(move || {
                    stagger(round / 5);
                    trigger.signal(0)
                });
                (signal, trigger.wait(waits()))
            });
            match outcome {
                Outcome::Taken(_) => taken += 1,
                Outcome::Cancelled => cancelled += 1,
            }
            assert_eq!(signal.join().unwrap(), outcome == Outcome::Taken(0));
        });
        if taken > 20 && cancelled > 20 {
            return;
        }
    }
    assert!(taken > 0 && cancelled > 0, "taken {taken} times, cancelled {cancelled} times");
}

#[test]
fn a_signal_that_came_first_wins_over_a_cancellation() {
    let trigger = Trigger::new();
    scope(|s| {
        assert!(trigger.signal(1));
        s.cancel();
        assert_eq!(trigger.wait(waits()), Outcome::Taken(1));
    });
}

#[test]
fn a_claimed_waiter_stays_until_its_wakeup_is_dropped() {
    let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
    thread::scope(|t| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let trigger = &trigger;
        let host = &host;
        let waiter = t.spawn(move || {
            host.run(1, |token| {
                sender.send(token).unwrap();
                trigger.wait(waits())
            })
        });
        let token = receiver.recv().unwrap();
        host.until_suspended(1);
        let wakeup = trigger.claim(4).expect("nobody else claims");
        assert_eq!(trigger.outcome(), Some(Outcome::Taken(4)));
        assert!(!trigger.signal(0), "it is decided");
        token.cancel();
        assert_eq!(host.suspended(), 1, "and a cancellation comes too late");
        assert!(host.resumed().is_empty());
        t.spawn(move || wakeup.wake());
        assert_eq!(waiter.join().unwrap(), Outcome::Taken(4));
    });
}

#[test]
fn a_shielded_wait_outlasts_a_cancellation() {
    let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
    thread::scope(|t| {
        t.spawn(|| {
            host.run(1, |token| {
                token.cancel();
                trigger.wait_shielded(waits());
                assert_eq!(trigger.outcome(), Some(Outcome::Taken(0)));
                assert!(segue_core::is_cancelled(), "the cancellation shows again");
            });
        });
        host.until_suspended(1);
        assert!(trigger.signal(0));
    });
}

#[test]
fn the_largest_arm_fits_and_a_larger_one_is_refused() {
    let trigger = Trigger::new();
    assert!(catch_unwind(AssertUnwindSafe(|| trigger.signal(MAX_ARM + 1))).is_err());
    assert!(trigger.signal(MAX_ARM));
    assert_eq!(trigger.wait(waits()), Outcome::Taken(MAX_ARM));
}

#[test]
fn a_second_waiter_is_told_and_the_first_is_not_disturbed() {
    let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
    thread::scope(|t| {
        let waiter = t.spawn(|| host.run(1, |_| trigger.wait(waits())));
        host.until_suspended(1);
        assert!(catch_unwind(AssertUnwindSafe(|| trigger.wait(waits()))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| trigger.wait_shielded(waits()))).is_err());
        assert!(trigger.signal(0));
        assert_eq!(waiter.join().unwrap(), Outcome::Taken(0));
    });
}

#[test]
fn the_answer_carries_what_was_written_before_it() {
    for round in 0..rounds(2_000) {
        let trigger = Trigger::new();
        let written = AtomicUsize::new(0);
        thread::scope(|t| {
            t.spawn(|| {
                stagger(round);
                written.store(round + 1, Ordering::Relaxed);
                trigger.signal(0);
            });
            stagger(round / 3);
            assert_eq!(trigger.wait(waits()), Outcome::Taken(0));
            assert_eq!(written.load(Ordering::Relaxed), round + 1);
        });
    }
}
