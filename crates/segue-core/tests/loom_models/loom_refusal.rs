//! Every interleaving of a cancellation, a claim after it and the waiter's own look: what `cancel`
//! has marked before it returned is served no more.

use crate::models;

use loom::thread;
use models::queue::{Queue, canceller, queue, receive, waiter};
use models::{Reached, check, model};
use segue_core::scheduling::Family;
use segue_core::{Builder, Cancelled, JoinError, Outcome, Trigger, WaitsFor, scope, shield};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Answers whether somebody who waited took it. It is not kept, so nobody finds it later.
fn hand_over(queue: &Queue, value: u32) -> bool {
    queue.lock().hand_over(0, value).is_ok()
}

#[test]
fn a_waiter_refuses_what_comes_after_its_cancellation() {
    static WAITED: Reached = Reached::new("the waiter stood in the queue");
    model(5, || {
        let (queue, family) = queue();
        let waiter = waiter(&family, &queue, receive);
        family.token().cancel();
        WAITED.note_if(!queue.lock().is_empty(0));
        assert!(!hand_over(&queue, 7), "it was cancelled before");
        assert_eq!(waiter.join().unwrap(), Err(Cancelled::new()));
        assert!(queue.lock().is_empty(0));
    });
    check(&[&WAITED]);
}

#[test]
fn whoever_cancels_again_finds_all_marked_when_it_returns() {
    static WAITED: Reached = Reached::new("the waiter stood in the queue");
    model(3, || {
        let (queue, family) = queue();
        // Two scopes further in.
        let waiter = waiter(&family, &queue, |queue| scope(|_| scope(|_| receive(queue))));
        let canceller = canceller(&family);
        family.token().cancel();
        WAITED.note_if(!queue.lock().is_empty(0));
        assert!(!hand_over(&queue, 7), "it was cancelled before");
        assert_eq!(waiter.join().unwrap(), Err(Cancelled::new()));
        canceller.join().unwrap();
    });
    check(&[&WAITED]);
}

#[test]
fn of_two_claims_of_a_cancelled_waiter_none_is_accepted_and_it_goes_on_once() {
    static REFUSED: Reached = Reached::new("it waited when it was claimed");
    model(3, || {
        let (family, trigger) = (Arc::new(Family::detached()), Arc::new(Trigger::new()));
        let waiter = waiter(&family, &trigger, |trigger| trigger.wait(WaitsFor::new("a model")));
        family.token().cancel();
        let claims = [(); 2].map(|()| {
            let trigger = Arc::clone(&trigger);
            thread::spawn(move || trigger.claim(0).map_err(|refused| drop(refused)).map(drop).is_ok())
        });
        let taken = claims.map(|claim| claim.join().unwrap());
        let outcome = waiter.join().unwrap();
        // A claim that comes before the wait is not of a waiter, and is found by it.
        assert_eq!(outcome == Outcome::Taken(0), taken[0] || taken[1]);
        assert!(!(taken[0] && taken[1]));
        REFUSED.note_if(outcome == Outcome::Cancelled);
    });
    check(&[&REFUSED]);
}

#[test]
fn a_shielded_waiter_is_served_after_a_cancellation() {
    static SERVED: Reached = Reached::new("served");
    model(3, || {
        let (queue, family) = queue();
        let waiter = waiter(&family, &queue, |queue| shield(|| receive(queue)));
        family.token().cancel();
        let mut guard = queue.lock();
        SERVED.note_if(!guard.is_empty(0));
        if let Err(value) = guard.hand_over(0, 7) {
            assert!(guard.is_empty(0), "it was there and refused");
            guard.state().push(value);
        }
        drop(guard);
        assert_eq!(waiter.join().unwrap(), Ok(7));
    });
    check(&[&SERVED]);
}

#[test]
fn a_cancelled_waiter_is_dismissed_once() {
    static DISMISSED: Reached = Reached::new("dismissed");
    static GONE: Reached = Reached::new("it had gone by itself");
    model(5, || {
        let (queue, family) = queue();
        let waiter = waiter(&family, &queue, receive);
        family.token().cancel();
        let mut guard = queue.lock();
        let dismissed = guard.dismiss_cancelled(0);
        assert!(guard.is_empty(0));
        drop(guard);
        DISMISSED.note_if(dismissed);
        GONE.note_if(!dismissed);
        assert_eq!(waiter.join().unwrap(), Err(Cancelled::new()));
    });
    check(&[&DISMISSED, &GONE]);
}

/// The task's end, its joiner and the cancellation of the joiner: whoever uses the task last frees
/// it.
#[test]
fn a_cancelled_joiner_against_the_end_of_the_task() {
    static JOINED: Reached = Reached::new("joined");
    static CANCELLED: Reached = Reached::new("cancelled");
    struct Value(Arc<AtomicUsize>);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    model(4, || {
        let (family, joiners) = (Arc::new(Family::detached()), Arc::new(Family::detached()));
        let drops = Arc::new(AtomicUsize::new(0));
        let value = Value(Arc::clone(&drops));
        // SAFETY: it is completed below; the closure borrows nothing.
        #[allow(unsafe_code)]
        let (job, handle) = unsafe { family.job(Builder::new(), move || value) };
        let joiner = thread::spawn({
            let joiners = Arc::clone(&joiners);
            move || joiners.enter_context(|| handle.join().map(drop))
        });
        let runner = thread::spawn(move || job.run());
        joiners.token().cancel();
        let joined = joiner.join().unwrap();
        // SAFETY: the owner's one call.
        #[allow(unsafe_code)]
        unsafe {
            family.complete()
        };
        runner.join().unwrap();
        JOINED.note_if(joined.is_ok());
        if let Err(JoinError::WaitCancelled(_, handle)) = joined {
            CANCELLED.note();
            // It has kept its result.
            assert!(handle.is_finished());
            drop(handle.join().expect("it has ended"));
        }
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
    check(&[&JOINED, &CANCELLED]);
}

/// What a driver does with an op that the kernel has: the completion comes once, whatever else
/// happens, and the waiter goes on after it and not before.
#[test]
fn an_op_in_flight_against_an_interrupt() {
    static CUT: Reached = Reached::new("the wait was cancelled first");
    static SERVED: Reached = Reached::new("the completion came first");
    model(3, || {
        let (family, done) = (Arc::new(Family::detached()), Arc::new(Trigger::new()));
        let result = Arc::new(AtomicUsize::new(0));
        let completer = {
            let (done, result) = (Arc::clone(&done), Arc::clone(&result));
            thread::spawn(move || {
                result.store(12, Ordering::Relaxed);
                // The last touch. If it is refused, the waiter is on its way to its second wait.
                done.signal(0);
            })
        };
        let seen = Arc::clone(&result);
        let waiter = waiter(&family, &done, move |done| {
            let first = done.wait_once_more(WaitsFor::new("a model of a flight"));
            if first.is_err() {
                // Here the driver asks for a cancel.
                done.wait_shielded(WaitsFor::new("a model of its end"));
            }
            assert_eq!(seen.load(Ordering::Relaxed), 12, "it went on before the completion");
            first.is_err()
        });
        let canceller = canceller(&family);
        let was_cut = waiter.join().unwrap();
        CUT.note_if(was_cut);
        SERVED.note_if(!was_cut);
        canceller.join().unwrap();
        completer.join().unwrap();
    });
    check(&[&CUT, &SERVED]);
}
