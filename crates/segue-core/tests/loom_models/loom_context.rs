//! Every interleaving of a cancellation with those who enter, wait in and leave its contexts: none
//! is missed, none touches what is gone.

use crate::models;

use loom::thread;
use models::{Reached, check, model};
use segue_core::scheduling::Family;
use segue_core::{CancelToken, Outcome, Trigger, WaitsFor, is_cancelled, scope, shield};
use std::sync::Arc;

fn waits() -> WaitsFor {
    WaitsFor::new("a model")
}

fn cancel(token: CancelToken) -> thread::JoinHandle<()> {
    thread::spawn(move || token.cancel())
}

/// If the interrupt were missed, this would sleep for ever, which the model checker reports as a
/// deadlock.
#[test]
fn a_cancellation_finds_whoever_is_about_to_suspend() {
    static BEFORE: Reached = Reached::new("cancelled before the wait");
    static DURING: Reached = Reached::new("cancelled during the wait");
    model(6, || {
        let family = Family::detached();
        let canceller = cancel(family.token());
        family.enter_context(|| {
            let early = is_cancelled();
            assert_eq!(Trigger::new().wait(waits()), Outcome::Cancelled);
            assert!(is_cancelled());
            BEFORE.note_if(early);
            DURING.note_if(!early);
        });
        canceller.join().unwrap();
    });
    check(&[&BEFORE, &DURING]);
}

#[test]
fn a_cancellation_finds_a_scope_that_is_being_opened_inside() {
    static BORN: Reached = Reached::new("the inner scope was born cancelled");
    static FOUND: Reached = Reached::new("the inner scope was found open");
    model(5, || {
        let family = Family::detached();
        let canceller = cancel(family.token());
        family.enter_context(|| {
            scope(|inner| {
                let born = inner.token().is_cancelled();
                assert_eq!(Trigger::new().wait(waits()), Outcome::Cancelled);
                BORN.note_if(born);
                FOUND.note_if(!born);
            });
        });
        canceller.join().unwrap();
    });
    check(&[&BORN, &FOUND]);
}

/// The context ends, and is freed, while it may still be walked.
#[test]
fn a_cancellation_against_scopes_that_end() {
    static CANCELLED: Reached = Reached::new("the wait was cancelled");
    static DONE: Reached = Reached::new("the wait was over first");
    model(4, || {
        let family = Family::detached();
        let trigger = Arc::new(Trigger::new());
        let canceller = cancel(family.token());
        let signaller = thread::spawn({
            let trigger = Arc::clone(&trigger);
            move || trigger.signal(0)
        });
        let outcome = family.enter_context(|| scope(|_| trigger.wait(waits())));
        CANCELLED.note_if(outcome == Outcome::Cancelled);
        DONE.note_if(outcome != Outcome::Cancelled);
        drop(family);
        assert_eq!(signaller.join().unwrap(), outcome != Outcome::Cancelled);
        canceller.join().unwrap();
    });
    check(&[&CANCELLED, &DONE]);
}

#[test]
fn two_cancellations_of_an_outer_and_an_inner_scope() {
    static OUTER: Reached = Reached::new("the outer one was cancelled when the inner wait ended");
    static INNER: Reached = Reached::new("the outer one was still open when the inner wait ended");
    model(3, || {
        let family = Family::detached();
        let canceller = cancel(family.token());
        family.enter_context(|| {
            scope(|inner| {
                let second = cancel(inner.token());
                assert_eq!(Trigger::new().wait(waits()), Outcome::Cancelled);
                let outer = family.token().is_cancelled();
                OUTER.note_if(outer);
                INNER.note_if(!outer);
                second.join().unwrap();
            });
            // The inner cancellation is over; the outer one stays or comes.
            assert_eq!(Trigger::new().wait(waits()), Outcome::Cancelled);
        });
        canceller.join().unwrap();
    });
    check(&[&OUTER, &INNER]);
}

#[test]
fn a_shield_holds_a_cancellation_off_until_its_end() {
    static HELD: Reached = Reached::new("cancelled, and the shielded wait was fulfilled");
    model(5, || {
        let family = Family::detached();
        let trigger = Arc::new(Trigger::new());
        let canceller = cancel(family.token());
        let signaller = thread::spawn({
            let trigger = Arc::clone(&trigger);
            move || assert!(trigger.signal(0))
        });
        family.enter_context(|| {
            assert_eq!(shield(|| trigger.wait(waits())), Outcome::Taken(0));
            HELD.note_if(is_cancelled());
            assert_eq!(Trigger::new().wait(waits()), Outcome::Cancelled);
        });
        canceller.join().unwrap();
        signaller.join().unwrap();
    });
    check(&[&HELD]);
}
