//! Every interleaving of choices that meet at a rendezvous: both sides of an exchange commit, or
//! neither does; of two that retreat from each other one commits; nobody meets itself.
//!
//! What `source.rs` says of retreats is a claim about runs without an end, which a model does not
//! have. So two models look at one round of such a run: both waiters have retreated before, and
//! have looked in vain. If both retreated again, they would stand where they began, and the round
//! could be repeated for ever. So one retreats again, finds the other and acts. A choice is planted
//! that registers as it was written; a retreat after the lock is in `loom_planted.rs`.
#![allow(unsafe_code)] // Sources that pass every step on.

use crate::models;
use crate::rendezvous;

use loom::thread;
use models::{Reached, check, model};
use rendezvous::Rendezvous;
use segue_core::scheduling::Family;
use segue_core::{Either, OneOf, Retreat, Source, Trigger, Waitable, WaitsFor, any_of};
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

/// Figure 3 of papers/004: a race within a race, and another race over the same two channels. It
/// has a lock for each race there, and orders them; here the nested choice has one trigger.
#[test]
fn a_nested_choice_and_a_flat_one_both_commit_to_the_same() {
    static SENT: Reached = Reached::new("the nested one sent");
    static RECEIVED: Reached = Reached::new("the nested one received");
    model(2, || {
        let (first, second, third) = (channel(), channel(), channel());
        let thread = thread::spawn({
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            move || any_of((second.send_source(2), first.receive_source())).wait().expect("nobody cancels")
        });
        let nested = any_of((first.send_source(1), second.receive_source()));
        let mine = any_of((third.receive_source(), nested)).wait().expect("nobody cancels");
        match (mine, thread.join().unwrap()) {
            (OneOf::B(OneOf::A(())), OneOf::B(1)) => SENT.note(),
            (OneOf::B(OneOf::B(2)), OneOf::A(())) => RECEIVED.note(),
            other => panic!("{other:?}"),
        }
        assert!([first, second, third].into_iter().all(is_empty));
    });
    check(&[&SENT, &RECEIVED]);
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

/// A choice whose waiter has retreated once, and then has looked in vain.
struct HasRetreated<S> {
    choice: S,
    looks: usize,
    /// Whether its arms are registered in the order of the addresses, or else as they are written.
    in_order: bool,
    /// How often it has retreated again.
    retreats: usize,
}

impl<S: Source> HasRetreated<S> {
    fn new(choice: Waitable<S>, in_order: bool) -> Self {
        let choice = choice.into_source();
        Self { choice, looks: 0, in_order, retreats: 0 }
    }

    /// Waits for the choice, and answers how often its waiter has retreated again.
    fn wait(mut self) -> usize {
        Waitable::new(&mut self).wait().expect("nobody cancels");
        self.retreats
    }
}

// SAFETY: the choice keeps the contract, and every step is passed on to it; but for the first
// registration, which registers nothing.
unsafe impl<S: Source> Source for HasRetreated<S> {
    type Output = S::Output;
    type Slot = S::Slot;

    fn waits_for(&self) -> WaitsFor {
        self.choice.waits_for()
    }

    fn arms(&self) -> usize {
        self.choice.arms()
    }

    fn address(&self, least: usize) -> Option<usize> {
        if self.in_order { self.choice.address(least) } else { Some(0).filter(|_| least == 0) }
    }

    fn attempt(&mut self) -> Option<S::Output> {
        // One look comes before the first registration, and one after the first retreat.
        self.looks += 1;
        if self.looks > 2 { self.choice.attempt() } else { None }
    }

    unsafe fn prepare(&mut self, slot: &mut S::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.choice.prepare(slot) }
    }

    unsafe fn register(&mut self, slot: &mut S::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        if self.looks == 1 {
            return Err(trigger.retreat());
        }
        // SAFETY: as the caller promises.
        let registered = unsafe { self.choice.register(slot, trigger, arm) };
        self.retreats += usize::from(registered.is_err());
        registered
    }

    unsafe fn register_at(
        &mut self,
        address: usize,
        slot: &mut S::Slot,
        trigger: &Trigger,
        arm: usize,
    ) -> Result<(), Retreat> {
        if !self.in_order {
            // SAFETY: as the caller promises.
            return unsafe { self.register(slot, trigger, arm) };
        }
        // SAFETY: as the caller promises.
        let registered = unsafe { self.choice.register_at(address, slot, trigger, arm) };
        self.retreats += usize::from(registered.is_err());
        registered
    }

    unsafe fn withdraw(&mut self, slot: &mut S::Slot) {
        // SAFETY: as the caller promises.
        unsafe { self.choice.withdraw(slot) }
    }

    unsafe fn commit(&mut self, slot: &mut S::Slot, arm: usize) -> Option<S::Output> {
        // SAFETY: as the caller promises.
        unsafe { self.choice.commit(slot, arm) }
    }

    unsafe fn give_back(&mut self, slot: &mut S::Slot, arm: usize) {
        // SAFETY: as the caller promises.
        unsafe { self.choice.give_back(slot, arm) }
    }
}

/// Sends `value` through one, or receives from the other; answers how often it has retreated again.
fn once_more(value: u32, to: &Rendezvous<u32>, from: &Rendezvous<u32>, in_order: bool) -> usize {
    HasRetreated::new(to.send_source(value).or(from.receive_source()), in_order).wait()
}

/// Two threads, each of which would send where the other would receive, and which have retreated
/// from each other.
fn meet_once_more(in_order: bool, is_same: bool, outcomes: [&'static Reached; 2]) {
    model(5, move || {
        let first = channel();
        let second = if is_same { Arc::clone(&first) } else { channel() };
        let thread = thread::spawn({
            let (first, second) = (Arc::clone(&first), Arc::clone(&second));
            move || once_more(2, &second, &first, in_order)
        });
        let mine = once_more(1, &first, &second, in_order);
        match (mine, thread.join().unwrap()) {
            (1, 0) => outcomes[0].note(),
            (0, 1) => outcomes[1].note(),
            retreats => panic!("not one of them has retreated again, but {retreats:?}"),
        }
        drop(second);
        assert!(is_empty(first));
    });
    check(&outcomes);
}

/// Else they might do so for ever.
#[test]
fn of_two_crosswise_choices_one_retreats_again_and_acts() {
    static ONE: Reached = Reached::new("the one retreated");
    static OTHER: Reached = Reached::new("the other retreated");
    meet_once_more(true, false, [&ONE, &OTHER]);
}

/// It withdraws under the lock under which it sees the other, and is not seen any more.
#[test]
fn of_two_choices_of_both_ends_one_retreats_again_and_acts() {
    static ONE: Reached = Reached::new("the one retreated");
    static OTHER: Reached = Reached::new("the other retreated");
    meet_once_more(true, true, [&ONE, &OTHER]);
}

#[test]
#[should_panic(expected = "not one of them has retreated again, but (1, 1)")]
fn planted_crosswise_choices_that_register_in_no_order_both_retreat_again() {
    static ONE: Reached = Reached::new("the one retreated");
    static OTHER: Reached = Reached::new("the other retreated");
    meet_once_more(false, false, [&ONE, &OTHER]);
}
