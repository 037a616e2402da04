//! Cases of cancellation: which fibers it wakes, which it does not, and what a wait sees that races
//! with it.
//!
//! Used by the suite.

use crate::probe::{Gate, Mailbox, Need, Other, Probe, a_case, wait_posted};
use crate::report::Case;
use segue_core::{CancelToken, JoinError, Outcome, Trigger, check, is_cancelled, scope, shield, sleep, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case::new("a_cancellation_wakes_the_suspended", a_cancellation_wakes_the_suspended).checks(
        &["13", "T2", "T8"],
        "a suspended fiber whose scope is cancelled goes on with `Cancelled`, and its trigger takes no signal any more",
    ),
    Case::new("a_cancellation_by_another_thread", a_cancellation_by_another_thread)
        .checks(&["9", "12", "13"], "a plain thread cancels a scope whose fibers are all suspended, and they all end")
        .needs(&[Need::Others]),
    Case::new("a_cancellation_reaches_nested_scopes", a_cancellation_reaches_nested_scopes).checks(
        &["13", "C1", "C2"],
        "what waits in a scope inside of the cancelled one is woken, and what is opened in it later is born cancelled",
    ),
    Case::new("a_stranger_ends_a_wait", a_stranger_ends_a_wait)
        .checks(&["1", "T3"], "a cancel of the trigger of a suspended fiber resumes it, once"),
    Case::new("cancellation_is_sticky", cancellation_is_sticky).checks(
        &["13", "C1"],
        "a cancelled fiber is not stopped while it runs, and each of its waits fails from then on",
    ),
    Case::new("a_shield_holds_it_off", a_shield_holds_it_off).checks(
        &["1", "13"],
        "an interrupt does not end a wait under a shield; the resume does, and the next wait outside fails",
    ),
    Case::new("cancelled_before_it_starts", cancelled_before_it_starts).checks(
        &["J4", "J7"],
        "a fiber whose scope was cancelled before it started never runs: its closure is dropped, its handle told",
    ),
];

fn a_cancellation_wakes_the_suspended(probe: &Probe) {
    for fibers in [1, probe.fibers()] {
        let triggers = Mailbox::new();
        scope(|s| {
            let waiters: Vec<_> = (0..fibers).map(|_| s.spawn(|| wait_posted(&triggers))).collect();
            let triggers: Vec<_> = (0..fibers).map(|_| triggers.get()).collect();
            s.cancel();
            probe.next("the end of a wait that was cancelled");
            let mut left = true;
            for waiter in waiters {
                let outcome = shield(|| waiter.join()).ok();
                let due = Some(Outcome::Cancelled);
                left &= probe.equal("13", "the outcome of a wait that was cancelled", outcome, due);
            }
            // One that did not see it may have gone, and a signal would lead astray.
            let taken = if left { triggers.iter().filter(|trigger| trigger.signal(0)).count() } else { 0 };
            probe.equal("T2", "signals that were accepted after the cancellation", taken, 0);
        });
    }
}

fn a_cancellation_by_another_thread(probe: &Probe) {
    let other = Other::start(|round, token: CancelToken| {
        thread::sleep(Duration::from_micros(round as u64 % 20 * 10));
        token.cancel();
    });
    for _ in 0..probe.few() {
        scope(|s| {
            let waiters = [(); 4].map(|()| s.spawn(|| Gate::new().pass()));
            other.send(s.token());
            probe.next("the end of a wait that another thread cancelled");
            for waiter in waiters {
                // Cancelled before it started, or at its wait.
                let passed = shield(|| waiter.join());
                probe.expect("13", !matches!(passed, Ok(true)), || "the wait was not cancelled".to_owned());
            }
        });
    }
    other.end(probe);
}

fn a_cancellation_reaches_nested_scopes(probe: &Probe) {
    let (waiting, gate) = (Mailbox::new(), Gate::new());
    scope(|outer| {
        let fiber = outer.spawn(|| {
            let inside = scope(|inner| {
                let deep = inner.spawn(|| scope(|_| gate.arrive(&waiting, ())));
                let here = gate.arrive(&waiting, ());
                (here, shield(|| deep.join()).ok())
            });
            let born = scope(|late| late.token().is_cancelled() && late.spawn(|| ()).join().is_err());
            (inside, born)
        });
        (0..2).for_each(|_| waiting.get());
        outer.cancel();
        probe.next("the end of waits in nested scopes");
        let due = Some(((false, Some(false)), true));
        probe.equal("C1", "what the nested waits and scopes saw", shield(|| fiber.join()).ok(), due);
    });
}

fn a_stranger_ends_a_wait(probe: &Probe) {
    let triggers = Mailbox::new();
    for _ in 0..probe.few() {
        scope(|s| {
            let waiter = s.spawn(|| {
                let outcome = wait_posted(&triggers);
                // Nobody has cancelled the fiber itself.
                (outcome, sleep(Duration::from_micros(1)))
            });
            let trigger = triggers.get();
            probe.expect("T3", trigger.cancel(), || "nobody else ends it, and it was told no".to_owned());
            probe.expect("T2", !trigger.signal(0), || "a signal was accepted after the cancellation".to_owned());
            probe.next("the end of a wait whose trigger was cancelled");
            let due = Some((Outcome::Cancelled, Ok(())));
            probe.equal("T3", "the outcome of the wait, and of the next", waiter.join().ok(), due);
        });
    }
}

fn cancellation_is_sticky(probe: &Probe) {
    scope(|s| {
        s.cancel();
        for _ in 0..3 {
            probe.expect("C1", is_cancelled(), || "the cancellation has gone away".to_owned());
            probe.expect("C1", check().is_err(), || "`check` has passed".to_owned());
            let outcome = Trigger::new().wait(a_case());
            probe.equal("13", "the outcome of a wait after the cancellation", outcome, Outcome::Cancelled);
            probe.expect("13", sleep(Duration::MAX).is_err(), || "a sleep was not cancelled".to_owned());
            probe.expect("14", yield_now().is_err(), || "a cancelled fiber yields".to_owned());
        }
    });
    probe.equal("C1", "whether the caller of the scope can go on", sleep(Duration::from_micros(10)), Ok(()));
    // The same for one that is interrupted while it runs.
    let (running, go) = (Mailbox::new(), AtomicBool::new(false));
    scope(|s| {
        let fiber = s.spawn(|| {
            running.put(());
            while !go.load(Ordering::Acquire) {
                let _ = shield(|| sleep(Duration::from_micros(10)));
            }
            (is_cancelled(), sleep(Duration::MAX).is_err(), shield(yield_now).is_ok())
        });
        running.get();
        s.cancel();
        go.store(true, Ordering::Release);
        probe.next("the end of a fiber that was cancelled while it ran");
        let seen = shield(|| fiber.join()).ok();
        probe.equal("13", "cancelled, unable to wait, able under a shield", seen, Some((true, true, true)));
    });
}

fn a_shield_holds_it_off(probe: &Probe) {
    for _ in 0..probe.few() {
        let triggers = Mailbox::new();
        scope(|s| {
            let waiter = s.spawn(|| {
                let begun = sleep(Duration::from_micros(1)).is_ok();
                let outcome = shield(|| wait_posted(&triggers));
                (begun, outcome, sleep(Duration::MAX).is_err())
            });
            let trigger = triggers.get();
            s.cancel();
            let _ = shield(|| sleep(Duration::from_micros(10)));
            probe.expect("13", trigger.signal(2), || "an interrupt has ended a wait under a shield".to_owned());
            probe.next("the end of a wait under a shield");
            let seen = shield(|| waiter.join()).ok();
            let due = Some((true, Outcome::Taken(2), true));
            probe.equal("13", "before, under and after the shield", seen, due);
        });
    }
}

fn cancelled_before_it_starts(probe: &Probe) {
    let (runs, drops) = (AtomicUsize::new(0), Arc::new(()));
    scope(|s| {
        s.cancel();
        for _ in 0..20 {
            let (runs, captured) = (&runs, Arc::clone(&drops));
            let handle = s.spawn(move || {
                drop(captured);
                runs.fetch_add(1, Ordering::SeqCst)
            });
            probe.next("the end of a fiber that was cancelled before it started");
            let end = shield(|| handle.join());
            let told = matches!(end, Err(JoinError::NeverRan(_)));
            probe.expect("J7", told, || format!("the handle yields {end:?}, not that it was cancelled"));
        }
    });
    probe.equal("J7", "closures that were run all the same", runs.into_inner(), 0);
    probe.equal("J4", "owners left of what the closures owned", Arc::strong_count(&drops), 1);
}
