//! What safe code may do that nobody should: values whose drops panic, panics that panic again, and
//! scopes that hold only by care.
#![cfg(not(loom))]

use crate::common;

use common::{Host, Jobs};
use segue_core::{JoinError, Outcome, Trigger, WaitQueue, WaitsFor, scope, shield};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A payload whose drop panics, once.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        if !thread::panicking() {
            resume_unwind(Box::new("the drop of a payload"));
        }
    }
}

fn fail() {
    resume_unwind(Box::new(Payload));
}

/// Runs `f` on a thread of its own, and fails instead of hanging if it never ends.
fn ends(f: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel::<()>();
    thread::spawn(move || {
        // Dropped when the thread ends, whichever way.
        let _sender = sender;
        let ended = catch_unwind(AssertUnwindSafe(f));
        if let Err(payload) = ended {
            std::mem::forget(payload);
        }
    });
    let waited = receiver.recv_timeout(Duration::from_secs(if cfg!(miri) { 600 } else { 10 }));
    assert_eq!(waited, Err(mpsc::RecvTimeoutError::Disconnected), "it never ended");
}

#[test]
fn two_children_whose_payloads_panic_when_they_are_dropped() {
    ends(|| {
        let gate = WaitQueue::<bool>::new(false);
        scope(|s| {
            let wait_and_fail = || {
                shield(|| gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ())).unwrap();
                fail();
            };
            let (started, count) = mpsc::channel();
            let children = [started.clone(), started].map(|started| {
                s.spawn(move || {
                    started.send(()).unwrap();
                    wait_and_fail();
                })
            });
            (0..2).for_each(|_| count.recv().unwrap());
            let mut guard = gate.lock();
            *guard.state() = true;
            guard.notify_all(0);
            shield(|| children.map(|child| std::mem::forget(child.join())));
        });
    });
}

#[test]
fn a_closure_whose_drop_panics_with_such_a_payload_before_its_first_run() {
    struct Captured;
    impl Drop for Captured {
        fn drop(&mut self) {
            if !thread::panicking() {
                fail();
            }
        }
    }
    ends(|| {
        scope(|s| {
            s.cancel();
            let captured = Captured;
            let child = s.spawn(move || drop(captured));
            std::mem::forget(shield(|| child.join()));
        });
    });
}

#[test]
fn a_result_whose_drop_panics_with_such_a_payload() {
    struct Returned;
    impl Drop for Returned {
        fn drop(&mut self) {
            if !thread::panicking() {
                fail();
            }
        }
    }
    ends(|| {
        let gate = WaitQueue::<bool>::new(false);
        scope(|s| {
            drop(s.spawn(|| {
                shield(|| gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ())).unwrap();
                Returned
            }));
            let mut guard = gate.lock();
            *guard.state() = true;
            guard.notify_all(0);
        });
    });
}

#[test]
fn a_joined_payload_is_the_joiner_s_to_drop() {
    let error = segue_core::spawn(fail).join().unwrap_err();
    let Some(payload) = error.into_panic() else { panic!("it panicked") };
    assert!(payload.is::<Payload>());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(payload))).is_err());
}

/// A second waiter is a mistake that is told to the second, also if that one is cancelled.
#[test]
fn a_cancelled_second_waiter_does_not_strand_the_first() {
    ends(|| {
        let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
        thread::scope(|t| {
            let first = t.spawn(|| host.run(0, |_| trigger.wait(WaitsFor::new("a signal"))));
            host.until_suspended(1);
            let second = scope(|s| {
                s.cancel();
                catch_unwind(AssertUnwindSafe(|| trigger.wait(WaitsFor::new("a signal"))))
            });
            trigger.signal(0);
            assert_eq!(first.join().unwrap(), Outcome::Taken(0));
            assert!(second.is_err());
        });
    });
}

#[test]
fn a_shielded_second_waiter_is_inside_of_its_contexts_again_after_the_panic() {
    let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
    thread::scope(|t| {
        let first = t.spawn(|| host.run(0, |_| trigger.wait(WaitsFor::new("a signal"))));
        host.until_suspended(1);
        let cancelled = host.run(1, |token| {
            let refused = catch_unwind(AssertUnwindSafe(|| trigger.wait_shielded(WaitsFor::new("a signal"))));
            assert!(refused.is_err());
            token.cancel();
            segue_core::is_cancelled()
        });
        trigger.signal(0);
        assert_eq!(first.join().unwrap(), Outcome::Taken(0));
        assert!(cancelled, "its cancellation does not show any more");
    });
}

#[test]
fn somebody_else_s_cancel_does_not_strand_the_waiter() {
    ends(|| {
        let (host, trigger) = (Host::new(Jobs::Keep), Trigger::new());
        thread::scope(|t| {
            let waiter = t.spawn(|| host.run(0, |_| trigger.wait(WaitsFor::new("a signal"))));
            host.until_suspended(1);
            let expected = if trigger.cancel() { Outcome::Cancelled } else { Outcome::Taken(0) };
            trigger.signal(0);
            assert_eq!(waiter.join().unwrap(), expected);
        });
    });
}

#[test]
fn leaked_guards_and_handles_reach_nothing_that_is_gone() {
    let queue: WaitQueue<(), String> = WaitQueue::new(());
    std::mem::forget(queue.lock().hand_over(0, String::from("back")));
    queue.lock().notify_all(0);
    scope(|s| {
        let text = String::from("local");
        let length = text.len();
        std::mem::forget(s.spawn(move || text));
        std::mem::forget(s.token());
        assert_eq!(length, 5);
    });
    let handle = scope(|s| s.spawn(|| String::from("escapes")));
    assert!(matches!(handle.join(), Ok(text) if text == "escapes"));
    let never = scope(|s| {
        s.cancel();
        s.spawn(|| ())
    });
    assert!(matches!(never.join(), Err(JoinError::NeverRan(_))));
}
