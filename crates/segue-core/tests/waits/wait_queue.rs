//! The one queue of waiters: who is handed what, who is woken, and what happens to waiters that
//! leave.
#![cfg(not(loom))]
#![allow(unsafe_code)] // The tests of many registrations drive the source by hand.

use crate::common;

use common::{Host, Jobs, counted, rounds, stagger, until};
use segue_core::{Cancelled, Ended, Node, Source, Trigger, WaitQueue, WaitsFor, scope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

fn waits() -> WaitsFor {
    WaitsFor::new("a test")
}

/// Waits for what is handed over; the state itself yields nothing.
fn receive<T>(queue: &WaitQueue<(), T>) -> Result<T, Cancelled> {
    queue.wait(waits(), |()| false, |()| unreachable!("the state is never ready"))
}

fn hand_over<T>(queue: &WaitQueue<(), T>, value: T) -> Option<T> {
    queue.lock().hand_over(0, value).err()
}

#[test]
fn values_go_to_the_waiters_in_the_order_of_their_arrival() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<(), u64>::new(()));
    thread::scope(|t| {
        let waiters: Vec<_> = (0..5)
            .map(|id| {
                let (host, queue) = (&host, &queue);
                let waiter = t.spawn(move || host.run(id, |_| receive(queue)));
                host.until_suspended(id as usize + 1);
                waiter
            })
            .collect();
        for value in 10..15 {
            assert_eq!(hand_over(&queue, value), None);
        }
        let received: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap().unwrap()).collect();
        assert_eq!(received, [10, 11, 12, 13, 14]);
    });
    assert_eq!(host.resumed(), [0, 1, 2, 3, 4]);
    assert_eq!(hand_over(&queue, 15), Some(15), "nobody waits");
}

#[test]
fn a_value_skips_the_cancelled_and_goes_to_the_next() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<(), u64>::new(()));
    let (tokens, cancel) = mpsc::channel();
    thread::scope(|t| {
        let waiters: Vec<_> = (0..3)
            .map(|id| {
                let (host, queue, tokens) = (&host, &queue, tokens.clone());
                let waiter = t.spawn(move || {
                    host.run(id, |token| {
                        tokens.send(token).unwrap();
                        receive(queue)
                    })
                });
                host.until_suspended(id as usize + 1);
                waiter
            })
            .collect();
        // Under the lock the first two have decided to leave, and cannot leave yet.
        let mut guard = queue.lock();
        let tokens: Vec<_> = cancel.try_iter().collect();
        tokens[..2].iter().for_each(|token| token.cancel());
        host.until_suspended(1);
        assert!(!guard.is_empty(0));
        guard.hand_over(0, 7).expect("the third is still there");
        drop(guard);
        let received: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap().ok()).collect();
        assert_eq!(received, [None, None, Some(7)]);
    });
    assert!(queue.lock().is_empty(0));
}

#[test]
fn a_value_that_nobody_takes_comes_back() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<(), _>::new(()));
    let (drops, make) = counted();
    let (tokens, cancel) = mpsc::channel();
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |token| {
                tokens.send(token).unwrap();
                receive(&queue).is_err()
            })
        });
        host.until_suspended(1);
        let mut guard = queue.lock();
        cancel.recv().unwrap().cancel();
        host.until_suspended(0);
        let value = guard.hand_over(0, make()).expect_err("the only waiter was cancelled");
        assert!(guard.is_empty(0), "a waiter that was skipped is out");
        assert!(guard.hand_over(0, make()).is_err());
        drop(guard);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        drop(value);
        assert!(waiter.join().unwrap());
    });
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

#[test]
fn all_who_wait_are_told_and_nobody_else() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<usize, usize>::new(0));
    let arrive = |generation: usize| queue.wait(waits(), move |now| *now > generation, |now| *now);
    thread::scope(|t| {
        let first: Vec<_> = (0..4)
            .map(|id| {
                let host = &host;
                let waiter = t.spawn(move || host.run(id, |_| arrive(0)));
                host.until_suspended(id as usize + 1);
                waiter
            })
            .collect();
        let mut guard = queue.lock();
        *guard.state() = 1;
        assert!(guard.notify_one(0));
        assert_eq!(host.suspended(), 4, "claimed, and not resumed yet");
        guard.notify_all(0);
        // One that comes after it finds the state ready; one that wants more waits on.
        assert_eq!(arrive(0), Ok(1));
        let late = t.spawn(|| host.run(9, |_| arrive(1)));
        first.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), Ok(1)));
        host.until_suspended(1);
        assert_eq!(host.resumed(), [0, 1, 2, 3]);
        let mut guard = queue.lock();
        *guard.state() = 2;
        guard.notify_all(0);
        assert_eq!(late.join().unwrap(), Ok(2));
    });
    queue.lock().notify_all(0);
    assert_eq!(host.resumed(), [0, 1, 2, 3, 9]);
}

#[test]
fn a_waiter_that_was_told_in_vain_waits_on() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<usize, usize>::new(0));
    thread::scope(|t| {
        let waiter = t.spawn(|| host.run(0, |_| queue.wait(waits(), |now| *now == 3, |now| *now)));
        for value in 1..=3 {
            until(|| !queue.lock().is_empty(0));
            let mut guard = queue.lock();
            *guard.state() = value;
            guard.notify_all(0);
        }
        assert_eq!(waiter.join().unwrap(), Ok(3));
    });
}

#[test]
fn a_waiter_leaves_from_the_middle() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<(), u64>::new(()));
    let (tokens, cancel) = mpsc::channel();
    thread::scope(|t| {
        let mut waiters: Vec<_> = (0..3)
            .map(|id| {
                let (host, queue, tokens) = (&host, &queue, tokens.clone());
                let waiter = t.spawn(move || {
                    host.run(id, |token| {
                        tokens.send(token).unwrap();
                        receive(queue)
                    })
                });
                host.until_suspended(id as usize + 1);
                waiter
            })
            .collect();
        cancel.iter().nth(1).unwrap().cancel();
        assert!(waiters.remove(1).join().unwrap().is_err());
        assert_eq!(hand_over(&queue, 1), None);
        assert_eq!(hand_over(&queue, 2), None);
        assert_eq!(hand_over(&queue, 3), Some(3));
        let received: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap().unwrap()).collect();
        assert_eq!(received, [1, 2]);
    });
}

/// To leave is to take a node out of a list with links in both directions; there is no loop, so it
/// takes constant time. That the links are right wherever a node stands is what this shows.
#[test]
fn waiters_leave_from_anywhere() {
    let count = if cfg!(miri) { 100 } else { 200_000 };
    let queue: WaitQueue<(), u8> = WaitQueue::new(());
    let mut source = queue.source(waits(), |()| false, |()| 0);
    let triggers: Vec<_> = (0..count).map(|_| Trigger::new()).collect();
    let mut slots: Vec<_> = (0..count).map(|_| Box::new(Node::default())).collect();
    for (slot, trigger) in slots.iter_mut().zip(&triggers) {
        // SAFETY: slots and triggers stay until the queue was left, below.
        assert!(unsafe { source.register(slot, trigger, 0) }.is_ok());
    }
    let middle = count / 2;
    for step in 0..count {
        // From the middle outwards, so that both ends are as far as can be.
        let at = if step % 2 == 0 { middle + step / 2 } else { middle - 1 - step / 2 };
        assert!(triggers[at].cancel());
        // SAFETY: it is registered, and its trigger was not taken.
        unsafe { source.withdraw(&mut slots[at]) };
        assert_eq!(queue.lock().is_empty(0), step + 1 == count);
    }
}

#[test]
fn every_value_is_received_once_or_given_back() {
    let (mut received, mut returned, mut cancelled) = (0, 0, 0);
    for round in 0..rounds(20_000) {
        let queue: WaitQueue<(), common::Counted> = WaitQueue::new(());
        let (drops, make) = counted();
        let took = AtomicUsize::new(0);
        let back = thread::scope(|t| {
            let offer = t.spawn(|| {
                stagger(round);
                hand_over(&queue, make()).map(drop).is_some()
            });
            scope(|s| {
                let token = s.token();
                t.spawn(move || {
                    stagger(round / 5);
                    token.cancel();
                });
                took.fetch_add(usize::from(receive(&queue).is_ok()), Ordering::SeqCst);
            });
            offer.join().unwrap()
        });
        let took = took.into_inner();
        assert_eq!(took + usize::from(back), 1, "lost or doubled in round {round}");
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        assert!(queue.lock().is_empty(0));
        received += took;
        returned += usize::from(back);
        cancelled += 1 - took;
        if received > 20 && returned > 20 {
            return;
        }
    }
    assert!(received > 0 && returned > 0, "received {received}, returned {returned}, cancelled {cancelled}");
}

#[test]
fn closures_that_panic_leave_the_queue_as_it_was() {
    let queue: WaitQueue<bool, u8> = WaitQueue::new(true);
    let ready = |_: &bool| -> bool { panic!("in `ready`") };
    assert!(catch_unwind(AssertUnwindSafe(|| queue.wait(waits(), ready, |_| 0))).is_err());
    let take = |_: &mut bool| -> u8 { panic!("in `take`") };
    assert!(catch_unwind(AssertUnwindSafe(|| queue.wait(waits(), |_| true, take))).is_err());
    let past = Some(segue_core::now());
    assert!(catch_unwind(AssertUnwindSafe(|| queue.wait_until(past, waits(), ready, |_| 0))).is_err());
    assert!(queue.lock().is_empty(0));
    assert_eq!(queue.wait(waits(), |ready| *ready, |_| 7), Ok(7));
}

#[test]
fn a_closure_that_panics_after_the_waiter_was_told_leaves_the_queue_too() {
    let host = Host::new(Jobs::Keep);
    let queue: WaitQueue<u8, u8> = WaitQueue::new(0);
    thread::scope(|t| {
        let panicked = t.spawn(|| {
            let ready = |state: &u8| if *state == 1 { panic!("in `ready`") } else { false };
            catch_unwind(AssertUnwindSafe(|| host.run(0, |_| queue.wait(waits(), ready, |_| 0)))).is_err()
        });
        let other = t.spawn(|| host.run(1, |_| queue.wait(waits(), |state| *state == 1, |_| 1)));
        host.until_suspended(2);
        let mut guard = queue.lock();
        *guard.state() = 1;
        guard.notify_all(0);
        assert!(panicked.join().unwrap());
        assert_eq!(other.join().unwrap(), Ok(1));
    });
    assert!(queue.lock().is_empty(0));
}

#[test]
fn wakeups_that_are_dropped_wake() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<bool>::new(false));
    thread::scope(|t| {
        let waiters = [0, 1].map(|id| {
            let (host, queue) = (&host, &queue);
            t.spawn(move || host.run(id, |_| queue.wait(waits(), |open| *open, |_| ())))
        });
        host.until_suspended(2);
        let mut guard = queue.lock();
        *guard.state() = true;
        assert!(guard.notify_one(0) && guard.notify_one(0));
        assert!(
            catch_unwind(AssertUnwindSafe(move || -> () {
                let _guard = guard;
                panic!("in between")
            }))
            .is_err()
        );
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap().unwrap());
    });
}

#[test]
fn a_thread_and_a_fiber_meet_at_one_queue() {
    let (host, queue) = (Host::new(Jobs::Keep), WaitQueue::<(), u8>::new(()));
    thread::scope(|t| {
        let fiber = t.spawn(|| host.run(0, |_| receive(&queue)));
        host.until_suspended(1);
        let offered = t.spawn(|| hand_over(&queue, 1));
        assert_eq!(fiber.join().unwrap(), Ok(1));
        assert_eq!(offered.join().unwrap(), None);
        let bare = t.spawn(|| receive(&queue));
        until(|| !queue.lock().is_empty(0));
        assert_eq!(host.run(1, |_| hand_over(&queue, 2)), None);
        assert_eq!(bare.join().unwrap(), Ok(2));
    });
}

#[test]
fn a_cancelled_caller_takes_nothing_even_if_it_is_there() {
    let queue: WaitQueue<bool, u8> = WaitQueue::new(true);
    scope(|s| {
        s.cancel();
        assert!(queue.wait(waits(), |ready| *ready, |_| 1).is_err());
        let past = Some(std::time::Instant::now());
        assert!(matches!(queue.wait_until(past, waits(), |ready| *ready, |_| 1), Err(Ended::Cancelled(_))));
        assert_eq!(segue_core::shield(|| queue.wait(waits(), |ready| *ready, |_| 1)), Ok(1));
    });
}
