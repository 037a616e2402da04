//! Every interleaving of hand-over, notification, registration and cancellation at the wait queue:
//! nothing is lost, nobody sleeps on.

use crate::models;

use loom::thread;
use models::queue::{Queue, canceller, queue, receive, waiter};
use models::{Reached, check, model};
use segue_core::scheduling::Family;
use segue_core::{WaitQueue, WaitsFor};
use std::sync::Arc;

/// To a waiter, or into the state: as a channel does it.
fn send(queue: &Queue, value: u32) -> bool {
    let mut guard = queue.lock();
    match guard.hand_over(0, value) {
        Ok(()) => true,
        Err(value) => {
            guard.state().push(value);
            false
        }
    }
}

#[test]
fn a_hand_over_and_a_cancellation_lose_nothing() {
    static RECEIVED: Reached = Reached::new("received");
    static HANDED: Reached = Reached::new("handed over");
    static KEPT: Reached = Reached::new("kept, since the waiter had gone");
    model(4, || {
        let (queue, family) = queue();
        let sender = thread::spawn({
            let queue = Arc::clone(&queue);
            move || send(&queue, 7)
        });
        let canceller = canceller(&family);
        let received = family.enter_context(|| receive(&queue));
        let handed = sender.join().unwrap();
        canceller.join().unwrap();
        let kept = queue.lock().state().len();
        assert_eq!(usize::from(received.is_ok()) + kept, 1, "lost or doubled");
        assert!(!handed || received == Ok(7), "what was handed over was not received");
        assert!(queue.lock().is_empty(0));
        RECEIVED.note_if(received.is_ok());
        HANDED.note_if(handed);
        KEPT.note_if(kept == 1);
    });
    check(&[&RECEIVED, &HANDED, &KEPT]);
}

#[test]
fn a_value_that_a_cancelled_waiter_missed_reaches_the_other() {
    static FIRST: Reached = Reached::new("the first got it");
    static SECOND: Reached = Reached::new("the second got it");
    static CANCELLED: Reached = Reached::new("the first was cancelled");
    model(3, || {
        let (queue, family) = queue();
        let first = waiter(&family, &queue, receive);
        let second = thread::spawn({
            let queue = Arc::clone(&queue);
            move || receive(&queue).expect("nobody cancels it")
        });
        send(&queue, 1);
        family.token().cancel();
        // Two values for two waiters, of which one may have gone: the second never waits in vain.
        send(&queue, 2);
        let first = first.join().unwrap();
        let second = second.join().unwrap();
        let mut all = queue.lock().state().clone();
        all.push(second);
        CANCELLED.note_if(first.is_err());
        all.extend(&first);
        all.sort_unstable();
        assert_eq!(all, [1, 2], "lost or doubled");
        FIRST.note_if(first == Ok(1));
        SECOND.note_if(second == 1);
    });
    check(&[&FIRST, &SECOND, &CANCELLED]);
}

#[test]
fn a_notification_reaches_whoever_registers_before_it() {
    static AT_ONCE: Reached = Reached::new("found open at once");
    static TOLD: Reached = Reached::new("was told");
    model(5, || {
        let gate: Arc<WaitQueue<bool>> = Arc::new(WaitQueue::new(false));
        let waiter = thread::spawn({
            let gate = Arc::clone(&gate);
            move || gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ()).expect("nobody cancels")
        });
        let mut guard = gate.lock();
        *guard.state() = true;
        if guard.is_empty(0) {
            AT_ONCE.note();
        } else {
            TOLD.note();
        }
        guard.notify_all(0);
        waiter.join().unwrap();
        assert!(gate.lock().is_empty(0));
    });
    check(&[&AT_ONCE, &TOLD]);
}

#[test]
fn a_notification_and_a_cancellation_of_one_of_two_waiters() {
    static OPEN: Reached = Reached::new("the cancelled one saw the gate open");
    static CANCELLED: Reached = Reached::new("the cancelled one was cancelled");
    model(3, || {
        let (gate, family) = (Arc::new(WaitQueue::<bool>::new(false)), Arc::new(Family::detached()));
        let pass = |gate: &WaitQueue<bool>| gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ());
        let first = waiter(&family, &gate, move |gate| pass(gate).is_ok());
        let canceller = canceller(&family);
        let opener = thread::spawn({
            let gate = Arc::clone(&gate);
            move || {
                let mut guard = gate.lock();
                *guard.state() = true;
                guard.notify_all(0);
            }
        });
        pass(&gate).expect("nobody cancels it");
        canceller.join().unwrap();
        opener.join().unwrap();
        let open = first.join().unwrap();
        OPEN.note_if(open);
        CANCELLED.note_if(!open);
        assert!(gate.lock().is_empty(0));
    });
    check(&[&OPEN, &CANCELLED]);
}

/// A promise in the manner of `sync::promise`: filled once, read by reference by any number, broken
/// if its resolver is dropped.
#[test]
fn a_promise_is_seen_by_all_who_wait() {
    static FILLED: Reached = Reached::new("both saw it filled");
    static WAITED: Reached = Reached::new("somebody waited");
    model(3, || {
        let promise: Arc<WaitQueue<Option<u32>, u32>> = Arc::new(WaitQueue::new(None));
        let read = |promise: &WaitQueue<Option<u32>, u32>| {
            promise.wait(WaitsFor::new("a promise"), Option::is_some, |value| value.unwrap()).expect("nobody cancels")
        };
        let readers = [(); 2].map(|()| {
            let promise = Arc::clone(&promise);
            thread::spawn(move || read(&promise))
        });
        let mut guard = promise.lock();
        WAITED.note_if(!guard.is_empty(0));
        *guard.state() = Some(42);
        guard.notify_all(0);
        drop(promise);
        assert_eq!(readers.map(|reader| reader.join().unwrap()), [42, 42]);
        FILLED.note();
    });
    check(&[&FILLED, &WAITED]);
}
