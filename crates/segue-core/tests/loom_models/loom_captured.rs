//! Every interleaving of a cancellation with a computation that is captured: its contexts leave the
//! tree that is cancelled, hang in nothing, and come back there or in another tree.
//!
//! What an effect or a generator does to the contexts is done by hand: the capture is the `leave`,
//! the resume is the drop of what that answers, and between the two the thread is what captured.
#![allow(unsafe_code)] // Contexts are taken out of the tree as the crate of effects does it.

use crate::models;

use loom::thread;
use models::{Reached, check, model};
use segue_core::chain::{self, Away, Frame, Path, Restore, Surrounding};
use segue_core::scheduling::Family;
use segue_core::{CancelToken, Outcome, Scope, Trigger, WaitsFor, scope};
use std::sync::Arc;

fn waits() -> WaitsFor {
    WaitsFor::new("a model")
}

fn cancel(token: CancelToken) -> thread::JoinHandle<()> {
    thread::spawn(move || token.cancel())
}

fn waits_in_vain() -> bool {
    Trigger::new().wait(waits()) == Outcome::Cancelled
}

/// The outermost context of a computation that something outside may capture.
#[derive(Clone, Copy)]
struct Body<'a>(Surrounding<'a>);

impl<'a> Body<'a> {
    /// Runs the body of a scope that can be captured.
    fn run<R>(body: impl FnOnce(Body<'_>, &Scope<'_, '_>) -> R) -> R {
        let generator = Frame::passive();
        // SAFETY: both are dropped at the end of this function, the generator after the other.
        let _restore = unsafe { Restore::new() };
        // SAFETY: it is in place until the top is set again.
        unsafe { chain::set_top(&raw const generator) };
        scope(|inner| {
            // SAFETY: the frames between stay until the body ends.
            let Path::Through(contexts) = (unsafe { chain::path(&raw const generator) }) else {
                unreachable!("the scope's context is between")
            };
            body(Body(contexts), inner)
        })
    }

    fn leave(self) -> Away<'a> {
        // SAFETY: the caller is inside of it, captures nothing else, and goes on by the drop, on
        // this thread.
        unsafe { self.0.leave() }
    }

    /// Goes on inside of `family`, up to where it is captured again.
    fn visit<R>(self, away: Away<'_>, family: &Family, f: impl FnOnce() -> R) -> (Away<'a>, R) {
        // SAFETY: what is inside of the family is no part of what was captured; and the frames
        // that are the top again at the end are in place.
        let _restore = unsafe { Restore::new() };
        // SAFETY: nothing is around.
        unsafe { chain::set_top(std::ptr::null()) };
        family.enter_context(|| {
            drop(away);
            let result = f();
            (self.leave(), result)
        })
    }
}

/// If the cancellation were missed between the two, the wait would last for ever.
#[test]
fn a_cancellation_finds_what_leaves_and_comes_back() {
    static BEFORE: Reached = Reached::new("cancelled before it left");
    static NOTED: Reached = Reached::new("cancelled while it was away, by one that had noted it before");
    static BACK: Reached = Reached::new("cancelled while it was away, and told when it came back");
    static AFTER: Reached = Reached::new("cancelled after it came back");
    model(4, || {
        let family = Family::detached();
        let canceller = cancel(family.token());
        family.enter_context(|| {
            Body::run(|body, inner| {
                let token = inner.token();
                let before = token.is_cancelled();
                let away = body.leave();
                let noted = token.is_cancelled();
                let outside = family.token().is_cancelled();
                drop(away);
                let back = token.is_cancelled();
                assert!(back || !outside, "it came back into what was cancelled, and was not told");
                assert!(waits_in_vain() && token.is_cancelled());
                BEFORE.note_if(before);
                NOTED.note_if(!before && noted);
                BACK.note_if(!noted && back);
                AFTER.note_if(!back);
            });
        });
        canceller.join().unwrap();
    });
    check(&[&BEFORE, &NOTED, &BACK, &AFTER]);
}

/// What has left is cancelled with its old surroundings no more, unless they were just about to.
#[test]
fn a_cancellation_of_the_old_surroundings_against_what_goes_on_in_others() {
    static CANCELLED: Reached = Reached::new("the wait elsewhere was cancelled");
    static DONE: Reached = Reached::new("the wait elsewhere was fulfilled");
    static LATE: Reached = Reached::new("fulfilled there, and cancelled when it came back");
    model(3, || {
        let (old, new) = (Family::detached(), Family::detached());
        let trigger = Arc::new(Trigger::new());
        let canceller = cancel(old.token());
        let signaller = thread::spawn({
            let trigger = Arc::clone(&trigger);
            move || trigger.signal(0)
        });
        let taken = old.enter_context(|| {
            Body::run(|body, inner| {
                let token = inner.token();
                let away = body.leave();
                let (away, outcome) = body.visit(away, &new, || trigger.wait(waits()));
                let taken = outcome != Outcome::Cancelled;
                let cancelled = token.is_cancelled();
                assert!(taken || cancelled, "nobody cancels the new surroundings");
                drop(away);
                assert!(waits_in_vain());
                CANCELLED.note_if(!taken);
                DONE.note_if(taken);
                LATE.note_if(taken && !cancelled);
                taken
            })
        });
        assert!(!new.token().is_cancelled());
        assert_eq!(signaller.join().unwrap(), taken);
        canceller.join().unwrap();
    });
    check(&[&CANCELLED, &DONE, &LATE]);
}

#[test]
fn a_cancellation_of_the_new_surroundings_finds_what_comes() {
    static BORN: Reached = Reached::new("it came into what was cancelled");
    static FOUND: Reached = Reached::new("it was found there");
    static KEPT: Reached = Reached::new("what it left is open");
    model(4, || {
        let (old, new) = (Family::detached(), Family::detached());
        let canceller = cancel(new.token());
        old.enter_context(|| {
            Body::run(|body, inner| {
                let token = inner.token();
                let away = body.leave();
                let (away, early) = body.visit(away, &new, || {
                    let early = token.is_cancelled();
                    assert!(waits_in_vain());
                    early
                });
                drop(away);
                assert!(token.is_cancelled());
                BORN.note_if(early);
                FOUND.note_if(!early);
                KEPT.note_if(!old.token().is_cancelled());
            });
        });
        canceller.join().unwrap();
    });
    check(&[&BORN, &FOUND, &KEPT]);
}

/// It needs no tree for that.
#[test]
fn a_cancellation_of_what_is_captured_finds_it_wherever_it_is() {
    static BEFORE: Reached = Reached::new("cancelled before it left");
    static AWAY: Reached = Reached::new("cancelled while it was away");
    static AFTER: Reached = Reached::new("cancelled when it was back");
    model(4, || {
        let (old, new) = (Family::detached(), Family::detached());
        old.enter_context(|| {
            Body::run(|body, inner| {
                let token = inner.token();
                let canceller = cancel(inner.token());
                thread::yield_now();
                let before = token.is_cancelled();
                let away = body.leave();
                let meanwhile = token.is_cancelled();
                let (away, early) = body.visit(away, &new, || {
                    let early = token.is_cancelled();
                    assert!(waits_in_vain());
                    early
                });
                drop(away);
                assert!(waits_in_vain());
                BEFORE.note_if(before);
                AWAY.note_if(!before && meanwhile);
                AFTER.note_if(!early);
                canceller.join().unwrap();
            });
        });
        assert!(!old.token().is_cancelled() && !new.token().is_cancelled());
    });
    check(&[&BEFORE, &AWAY, &AFTER]);
}

/// Old and new surroundings are cancelled at once, while it moves from the one to the other.
#[test]
fn two_cancellations_against_what_moves() {
    static NEW: Reached = Reached::new("the new surroundings were cancelled when it went on");
    static OLD: Reached = Reached::new("only the old ones were");
    model(3, || {
        let (old, new) = (Family::detached(), Family::detached());
        let cancellers = [cancel(old.token()), cancel(new.token())];
        old.enter_context(|| {
            Body::run(|body, inner| {
                let away = body.leave();
                let (away, ()) = body.visit(away, &new, || {
                    let told = inner.token().is_cancelled();
                    let there = new.token().is_cancelled();
                    assert!(waits_in_vain());
                    NEW.note_if(told && there);
                    OLD.note_if(told && !there);
                });
                drop(away);
                assert!(waits_in_vain());
            });
        });
        cancellers.into_iter().for_each(|canceller| canceller.join().unwrap());
    });
    check(&[&NEW, &OLD]);
}
