//! Mistakes that were planted, in copies of the protocols: the model checker must find each of
//! them.
#![allow(unsafe_code)] // Cells that the model checker watches.

use crate::models;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use models::model;
use segue_core::scheduling::Family;
use segue_core::{Outcome, Trigger, WaitsFor};
use std::collections::VecDeque;
use std::sync::Arc;

fn waits() -> WaitsFor {
    WaitsFor::new("a model")
}

type Waiter = Arc<(Mutex<Option<u32>>, Trigger)>;

/// A queue with a hand-over that takes the first waiter for one that will look.
#[derive(Default)]
struct Careless(Mutex<VecDeque<Waiter>>);

impl Careless {
    fn hand_over(&self, value: u32, looks_at_the_answer: bool) -> Result<(), u32> {
        let mut queue = self.0.lock().unwrap();
        while let Some(waiter) = queue.pop_front() {
            *waiter.0.lock().unwrap() = Some(value);
            let wakeup = waiter.1.claim(0);
            if wakeup.is_ok() || !looks_at_the_answer {
                drop(queue);
                return Ok(());
            }
        }
        Err(value)
    }
}

fn hand_over_against_cancel(looks_at_the_answer: bool) {
    model(5, move || {
        let (queue, family) = (Arc::new(Careless::default()), Arc::new(Family::detached()));
        let waiter: Waiter = Arc::new((Mutex::new(None), Trigger::new()));
        queue.0.lock().unwrap().push_back(Arc::clone(&waiter));
        let giver = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.hand_over(7, looks_at_the_answer)
        });
        let canceller = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        let outcome = family.enter_context(|| waiter.1.wait(waits()));
        let given = giver.join().unwrap();
        canceller.join().unwrap();
        let received = usize::from(outcome != Outcome::Cancelled);
        assert_eq!(received + usize::from(given.is_err()), 1, "lost or doubled");
    });
}

#[test]
#[should_panic(expected = "lost or doubled")]
fn a_hand_over_that_does_not_look_at_the_answer_loses_the_value() {
    hand_over_against_cancel(false);
}

#[test]
fn the_same_hand_over_that_looks_at_it_does_not() {
    hand_over_against_cancel(true);
}

/// A promise whose waiter joins the list in a second step, after the look.
fn promise(looks_again: bool) {
    model(5, move || {
        let (full, list) = (Arc::new(Mutex::new(false)), Arc::new(Mutex::new(Vec::<Arc<Trigger>>::new())));
        let filler = thread::spawn({
            let (full, list) = (Arc::clone(&full), Arc::clone(&list));
            move || {
                *full.lock().unwrap() = true;
                let waiters = std::mem::take(&mut *list.lock().unwrap());
                waiters.iter().for_each(|waiter| drop(waiter.claim(0)));
            }
        });
        let is_full = || *full.lock().unwrap();
        if !is_full() {
            let trigger = Arc::new(Trigger::new());
            list.lock().unwrap().push(Arc::clone(&trigger));
            if !(looks_again && is_full()) {
                assert_eq!(trigger.wait(waits()), Outcome::Taken(0));
            }
        }
        filler.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_look_before_the_registration_loses_a_wake_up() {
    promise(false);
}

#[test]
fn a_look_after_the_registration_does_not() {
    promise(true);
}

/// A waiter that looks whether it was cancelled, and becomes known to the canceller, in this order
/// or the other.
fn membership(joins_first: bool) {
    model(5, move || {
        let (cancelled, members) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let canceller = thread::spawn({
            let (cancelled, members) = (Arc::clone(&cancelled), Arc::clone(&members));
            move || {
                cancelled.store(true, Ordering::Release);
                members.lock().unwrap().drain(..).for_each(|member: thread::Thread| member.unpark());
            }
        });
        let join = || members.lock().unwrap().push(thread::current());
        if joins_first {
            join();
        }
        let open = !cancelled.load(Ordering::Acquire);
        if !joins_first {
            join();
        }
        if open {
            thread::park();
        }
        // Not joined, which an unpark that nobody has waited for would disturb: the model ends when
        // both have ended.
        drop(canceller);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_look_before_joining_the_context_misses_the_cancellation() {
    membership(false);
}

#[test]
fn a_look_after_joining_the_context_does_not() {
    membership(true);
}

/// A claim in the manner of `Trigger`'s, and a waiter that reads what came with it.
fn claim(success: Ordering) {
    model(5, move || {
        let shared = Arc::new((UnsafeCell::new(0), AtomicUsize::new(0)));
        let giver = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                // SAFETY: loom checks it.
                shared.0.with_mut(|value| unsafe { *value = 7 });
                shared.1.compare_exchange(0, 3, success, Ordering::Relaxed).unwrap();
            }
        });
        if shared.1.load(Ordering::Acquire) == 3 {
            // SAFETY: loom checks it.
            assert_eq!(shared.0.with(|value| unsafe { *value }), 7);
        }
        giver.join().unwrap();
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_claim_that_does_not_release_hands_over_what_is_not_there() {
    claim(Ordering::Relaxed);
}

#[test]
fn a_claim_that_releases_hands_over() {
    claim(Ordering::AcqRel);
}

/// A family whose members leave in two steps, a load and a store.
fn family(in_one_step: bool) {
    model(5, move || {
        let family = Arc::new((AtomicUsize::new(3), Trigger::new()));
        let leave = move |family: &(AtomicUsize, Trigger)| {
            let before = if in_one_step {
                family.0.fetch_sub(1, Ordering::AcqRel)
            } else {
                let before = family.0.load(Ordering::Acquire);
                family.0.store(before - 1, Ordering::Release);
                before
            };
            before == 1
        };
        let members = [(); 2].map(|()| {
            let family = Arc::clone(&family);
            thread::spawn(move || {
                if leave(&family) {
                    family.1.signal(0);
                }
            })
        });
        if !leave(&family) {
            family.1.wait_shielded(waits());
        }
        members.into_iter().for_each(|member| member.join().unwrap());
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn members_that_leave_in_two_steps_strand_the_owner() {
    family(false);
}

#[test]
fn members_that_leave_in_one_step_do_not() {
    family(true);
}

/// Two choices of both ends of a rendezvous, each of which has joined the senders and then finds
/// the other among these: so it withdraws, to leave and act.
fn retreats(under_the_lock: bool) {
    model(5, move || {
        let senders = Arc::new(Mutex::new(Vec::<Arc<Trigger>>::new()));
        let retreats = move |senders: &Mutex<Vec<Arc<Trigger>>>| {
            let own = Arc::new(Trigger::new());
            senders.lock().unwrap().push(Arc::clone(&own));
            let list = senders.lock().unwrap();
            let mut others = list.iter().filter(|sender| !Arc::ptr_eq(sender, &own));
            let is_found = others.any(|sender| sender.outcome().is_none());
            let _list = under_the_lock.then_some(list);
            is_found && own.cancel()
        };
        let other = thread::spawn({
            let senders = Arc::clone(&senders);
            move || retreats(&senders)
        });
        let mine = retreats(&senders);
        assert!(!(other.join().unwrap() && mine), "each retreated from the other");
    });
}

#[test]
#[should_panic(expected = "each retreated from the other")]
fn two_that_retreat_after_the_lock_retreat_from_each_other() {
    retreats(false);
}

#[test]
fn two_that_retreat_under_it_do_not() {
    retreats(true);
}
