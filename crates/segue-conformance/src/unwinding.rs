//! Cases of waits during a panic: a fiber must not be switched away from while its thread counts as
//! panicking.
//!
//! Used by the suite.

use crate::probe::{Mailbox, Need, Probe, a_case, other};
use crate::report::Case;
use segue_core::{Cancelled, Outcome, Trigger, scope, sleep, spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case::new("a_wait_during_a_panic_is_refused", a_wait_during_a_panic_is_refused)
        .checks(
            &["8"],
            "a fiber that panics is not suspended: its waits end as if they were cancelled, and the scheduler goes on",
        )
        .needs(&[Need::Fibers]),
    Case::new("a_thread_waits_during_a_panic", a_thread_waits_during_a_panic)
        .checks(&["8"], "a plain thread that panics can wait, since it takes nobody else with it")
        .needs(&[Need::Threads]),
    Case::new("a_scope_during_a_panic", a_scope_during_a_panic)
        .checks(&["8", "J1"], "a scope that is opened during a panic runs its jobs, once each"),
    Case::new("a_panic_does_not_show_in_others", a_panic_does_not_show_in_others).checks(
        &["8", "J3"],
        "no other fiber counts as panicking while one unwinds and has been spawning and resuming others",
    ),
];

/// Calls its closure when it is dropped.
struct Finally<F: FnMut()>(F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Calls `f` while the caller is panicking.
fn while_panicking(f: impl FnMut()) {
    let raised = catch_unwind(AssertUnwindSafe(|| {
        let _finally = Finally(f);
        resume_unwind(Box::new("planted"));
    }));
    assert!(raised.is_err(), "it was raised above");
}

fn a_wait_during_a_panic_is_refused(probe: &Probe) {
    let refused = || {
        let trigger = Trigger::new();
        probe.next("the refusal of a wait during a panic");
        while_panicking(|| {
            probe.equal("8", "whether it is panicking", thread::panicking(), true);
            probe.equal("8", "the outcome of a wait", trigger.wait(a_case()), Outcome::Cancelled);
            probe.expect("8", !trigger.signal(0), || "a refused wait took a signal".to_owned());
            let hour = Duration::from_secs(3600);
            probe.expect("8", sleep(hour).is_err(), || "a sleep was not refused".to_owned());
            probe.expect("8", yield_now().is_err(), || "a yield was not refused".to_owned());
        });
        probe.equal("8", "whether it can wait again afterwards", sleep(Duration::from_micros(10)), Ok(()));
    };
    refused();
    scope(|s| {
        for _ in 0..8 {
            s.spawn(refused);
        }
    });
}

fn a_thread_waits_during_a_panic(probe: &Probe) {
    let (trigger, answers) = (Arc::new(Trigger::new()), Mailbox::shared());
    let (signaller, to) = (Arc::clone(&trigger), Arc::clone(&answers));
    let thread = other(move || to.put(signaller.signal(3)));
    while_panicking(|| {
        probe.equal("8", "the outcome of a wait", trigger.wait(a_case()), Outcome::Taken(3));
        probe.equal("8", "a sleep", sleep(Duration::from_micros(10)), Ok(()));
    });
    probe.equal("T2", "what the signaller was told", answers.get(), true);
    thread.end(probe);
}

fn a_scope_during_a_panic(probe: &Probe) {
    let runs = AtomicUsize::new(0);
    while_panicking(|| {
        scope(|s| {
            for _ in 0..5 {
                s.spawn(|| runs.fetch_add(1, Ordering::SeqCst));
            }
        });
    });
    probe.equal("J1", "how many jobs of the scope have run", runs.load(Ordering::SeqCst), 5);
}

fn a_panic_does_not_show_in_others(probe: &Probe) {
    for _ in 0..probe.few().min(50) {
        let (watch, trigger) = (probe.clone(), Arc::new(Trigger::new()));
        let awaited = Arc::clone(&trigger);
        let look = move || {
            watch.equal("8", "whether a fiber counts as panicking by another's panic", thread::panicking(), false);
        };
        let beside = look.clone();
        let waiter = spawn(move || {
            let outcome = awaited.wait(a_case());
            beside();
            outcome
        });
        let _: Result<(), Cancelled> = yield_now();
        while_panicking(|| {
            trigger.signal(0);
            // The fiber runs later; those of a scope in place, since nobody could wait for them.
            drop(spawn(|| ()));
            scope(|s| drop(s.spawn(|| ())));
        });
        probe.equal("1", "the outcome of a wait", waiter.join().ok(), Some(Outcome::Taken(0)));
        look();
    }
}
