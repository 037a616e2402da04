//! Every interleaving of a wait, its signals and its cancellation: both sides are told the same,
//! and nobody sleeps for ever.
#![allow(unsafe_code)] // Cells that the model checker watches.

use crate::models;

use loom::cell::UnsafeCell;
use loom::thread;
use models::{Reached, check, model};
use segue_core::scheduling::Family;
use segue_core::{Outcome, Trigger, WaitsFor};
use std::sync::Arc;

fn waits() -> WaitsFor {
    WaitsFor::new("a model")
}

#[test]
fn signal_and_wait_and_cancel() {
    static TAKEN: Reached = Reached::new("taken");
    static CANCELLED: Reached = Reached::new("cancelled");
    static LATE: Reached = Reached::new("cancelled, and the signal refused");
    model(4, || {
        let (trigger, family) = (Arc::new(Trigger::new()), Arc::new(Family::detached()));
        let signal = thread::spawn({
            let trigger = Arc::clone(&trigger);
            move || trigger.signal(3)
        });
        let cancel = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        let outcome = family.enter_context(|| trigger.wait(waits()));
        let accepted = signal.join().unwrap();
        cancel.join().unwrap();
        match outcome {
            Outcome::Taken(arm) => {
                assert!(accepted && arm == 3);
                TAKEN.note();
            }
            Outcome::Cancelled => {
                assert!(!accepted);
                CANCELLED.note();
            }
        }
        LATE.note_if(!accepted);
        assert_eq!(trigger.outcome(), Some(outcome));
    });
    check(&[&TAKEN, &CANCELLED, &LATE]);
}

#[test]
fn two_signallers_and_one_wait() {
    static FIRST: Reached = Reached::new("the first was accepted");
    static SECOND: Reached = Reached::new("the second was accepted");
    model(5, || {
        let trigger = Arc::new(Trigger::new());
        let signallers = [1, 2].map(|arm| {
            let trigger = Arc::clone(&trigger);
            thread::spawn(move || trigger.signal(arm))
        });
        let outcome = trigger.wait(waits());
        let accepted = signallers.map(|signaller| signaller.join().unwrap());
        match outcome {
            Outcome::Taken(1) => {
                assert_eq!(accepted, [true, false]);
                FIRST.note();
            }
            Outcome::Taken(2) => {
                assert_eq!(accepted, [false, true]);
                SECOND.note();
            }
            other => panic!("nobody could end it so: {other:?}"),
        }
    });
    check(&[&FIRST, &SECOND]);
}

/// What the signaller wrote before the claim is the waiter's as soon as it sees the claim, and the
/// waiter may then take its frame down.
#[test]
fn claim_then_wake_and_a_waiter_that_leaves_at_once() {
    static BEFORE: Reached = Reached::new("claimed before the wait");
    static DURING: Reached = Reached::new("claimed during the wait");
    model(5, || {
        let frame = Arc::new((UnsafeCell::new(0), Trigger::new()));
        let signaller = thread::spawn({
            let frame = Arc::clone(&frame);
            move || {
                // SAFETY: the waiter looks after the claim.
                frame.0.with_mut(|value| unsafe { *value = 7 });
                let wakeup = frame.1.claim(0).expect("nobody else claims");
                drop(frame);
                wakeup.wake();
            }
        });
        if frame.1.outcome().is_some() {
            BEFORE.note();
        } else {
            DURING.note();
        }
        assert_eq!(frame.1.wait(waits()), Outcome::Taken(0));
        // SAFETY: the signaller is done with it; loom checks that it is.
        frame.0.with_mut(|value| unsafe { *value += 1 });
        drop(frame);
        signaller.join().unwrap();
    });
    check(&[&BEFORE, &DURING]);
}

/// A wakeup that another thread carries, while the waiter is being cancelled: the claim has
/// decided.
#[test]
fn a_claim_against_a_cancellation_whose_interrupt_comes_between_claim_and_wake() {
    static TAKEN: Reached = Reached::new("taken, though cancelled meanwhile");
    static REFUSED: Reached = Reached::new("the claim was refused");
    model(4, || {
        let (trigger, family) = (Arc::new(Trigger::new()), Arc::new(Family::detached()));
        let other = thread::spawn({
            let (trigger, token) = (Arc::clone(&trigger), family.token());
            move || {
                let wakeup = trigger.claim(0);
                token.cancel();
                wakeup.map(drop).map_err(drop).is_ok()
            }
        });
        let second = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        let outcome = family.enter_context(|| trigger.wait(waits()));
        let claimed = other.join().unwrap();
        second.join().unwrap();
        assert_eq!(claimed, outcome == Outcome::Taken(0));
        TAKEN.note_if(claimed);
        REFUSED.note_if(!claimed);
    });
    check(&[&TAKEN, &REFUSED]);
}
