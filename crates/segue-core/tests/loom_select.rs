//! Every interleaving of choices that meet at a rendezvous: both sides of an exchange commit, or
//! neither does; of two that retreat from each other one commits; nobody meets itself.
#![cfg(loom)]

mod models;
mod rendezvous;

use loom::thread;
use models::{Reached, check, model};
use rendezvous::Rendezvous;
use segue_core::Either;
use segue_core::scheduling::Family;
use std::sync::Arc;

fn channel() -> Arc<Rendezvous<u32>> {
    Arc::new(Rendezvous::new())
}

fn is_empty(channel: Arc<Rendezvous<u32>>) -> bool {
    !channel.has_waiters() && Arc::into_inner(channel).is_some_and(|channel| channel.left().is_empty())
}

/// Sends `value` through one, or receives from the other.
fn exchange(value: u32, to: &Rendezvous<u32>, from: &Rendezvous<u32>) -> Option<u32> {
    match to.send_source(value).or(from.receive_source()).wait().expect("nobody cancels") {
        Either::Left(()) => None,
        Either::Right(received) => Some(received),
    }
}

/// The same, the other way round.
fn exchange_back(value: u32, to: &Rendezvous<u32>, from: &Rendezvous<u32>) -> Option<u32> {
    match from.receive_source().or(to.send_source(value)).wait().expect("nobody cancels") {
        Either::Left(received) => Some(received),
        Either::Right(()) => None,
    }
}

type Exchange = fn(u32, &Rendezvous<u32>, &Rendezvous<u32>) -> Option<u32>;

/// Two threads, each of which would send where the other would receive.
fn meet(one: Exchange, other: Exchange, is_same: bool, outcomes: [&'static Reached; 2]) {
    model(3, move || {
        let first = channel();
        let second = if is_same { Arc::clone(&first) } else { channel() };
        let thread = thread::spawn({
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            move || other(2, &second, &first)
        });
        let mine = one(1, &first, &second);
        let theirs = thread.join().unwrap();
        assert!(matches!((mine, theirs), (None, Some(1)) | (Some(2), None)), "{mine:?} {theirs:?}");
        outcomes[usize::from(mine.is_some())].note();
        drop(second);
        assert!(is_empty(first));
    });
    check(&outcomes);
}

#[test]
fn of_two_crosswise_choices_both_commit_to_the_same() {
    static SENT: Reached = Reached::new("the one sent");
    static RECEIVED: Reached = Reached::new("the one received");
    meet(exchange, exchange, false, [&SENT, &RECEIVED]);
}

#[test]
fn of_two_choices_that_go_the_same_way_round_both_commit_to_the_same() {
    static SENT: Reached = Reached::new("the one sent");
    static RECEIVED: Reached = Reached::new("the one received");
    meet(exchange, exchange_back, false, [&SENT, &RECEIVED]);
}

#[test]
fn two_choices_of_both_ends_of_one_rendezvous_meet() {
    static SENT: Reached = Reached::new("the one sent");
    static RECEIVED: Reached = Reached::new("the one received");
    meet(exchange, exchange, true, [&SENT, &RECEIVED]);
}

#[test]
fn a_choice_of_both_ends_does_not_meet_itself() {
    static CANCELLED: Reached = Reached::new("it was cancelled");
    static RECEIVED: Reached = Reached::new("it received");
    static MISSED: Reached = Reached::new("the sender was cancelled too");
    model(3, || {
        let (channel, family) = (channel(), Arc::new(Family::detached()));
        let sender = thread::spawn({
            let (channel, family) = (Arc::clone(&channel), Arc::clone(&family));
            move || family.enter_context(|| channel.send_source(7).wait())
        });
        let canceller = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        let outcome = family.enter_context(|| channel.send_source(1).or(channel.receive_source()).wait());
        canceller.join().unwrap();
        let sent = sender.join().unwrap();
        match (&outcome, &sent) {
            (Ok(Either::Right(7)), Ok(())) => RECEIVED.note(),
            (Err(_), Err(_)) => MISSED.note(),
            other => panic!("{other:?}"),
        }
        CANCELLED.note_if(outcome.is_err());
        assert!(is_empty(channel));
    });
    check(&[&CANCELLED, &RECEIVED, &MISSED]);
}
