//! Cases of cancellations that race: with resumes, with claims, with the end of a fiber.
//!
//! Used by the suite.

use crate::probe::{Mailbox, Need, Other, Probe, stagger, wait_bound, wait_posted};
use crate::report::Case;
use segue_core::{CancelToken, Outcome, Trigger, check, scope, shield, sleep, yield_now};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case::new("a_cancellation_races_a_resume", a_cancellation_races_a_resume).checks(
        &["1", "11", "13", "T2"],
        "when a wait is cancelled and signalled at once, the waiter sees what the signaller was told",
    ),
    Case::new("threads_race_to_cancel_and_to_resume", threads_race_to_cancel_and_to_resume)
        .checks(&["1", "11", "12", "13", "T2"], "the same, when two plain threads race")
        .needs(&[Need::Others]),
    Case::new("a_claim_wins_over_a_later_cancellation", a_claim_wins_over_a_later_cancellation)
        .checks(&["13", "T8"], "a wait that was claimed is not cancelled any more, though its resume is sent late"),
    Case::new("a_cancellation_meets_the_end", a_cancellation_meets_the_end)
        .checks(&["4", "12"], "interrupts that arrive while their fibers end harm nobody")
        .needs(&[Need::Others]),
];

/// Counts how races came out, and says what disagrees.
#[derive(Default)]
struct Tally {
    taken: usize,
    cancelled: usize,
}

impl Tally {
    fn count(&mut self, probe: &Probe, told: bool, outcome: Option<Outcome>) {
        match outcome {
            Some(Outcome::Taken(1)) => self.taken += 1,
            _ => self.cancelled += 1,
        }
        let due = if told { Outcome::Taken(1) } else { Outcome::Cancelled };
        probe.equal("T2", &format!("the outcome, where the signal was told {told}"), outcome, Some(due));
    }

    fn check(&self, probe: &Probe) {
        let Self { taken, cancelled } = *self;
        probe.expect("13", taken > 0 && cancelled > 0, || {
            format!("a race came out one way only: {taken} taken, {cancelled} cancelled")
        });
    }
}

fn a_cancellation_races_a_resume(probe: &Probe) {
    let mut tally = Tally::default();
    for round in 0..(probe.rounds() / 4).max(8) {
        let triggers = Mailbox::new();
        scope(|s| {
            let (token, waiter) = (s.token(), s.spawn(|| wait_posted(&triggers)));
            let trigger = triggers.get();
            probe.next("the end of a wait that is signalled and cancelled at once");
            let told = shield(|| {
                // Two fibers outside of the scope: their order is the scheduler's, and in the
                // other rounds fixed.
                scope(|racers| match round % 4 {
                    0 => {
                        let told = trigger.signal(1);
                        token.cancel();
                        Some(told)
                    }
                    1 => {
                        token.cancel();
                        // It is its thread that leaves the wait; wait for that.
                        while trigger.outcome().is_none() {
                            let _ = sleep(Duration::from_micros(10));
                        }
                        Some(trigger.signal(1))
                    }
                    odd => {
                        let cancel = || {
                            racers.spawn(|| token.cancel());
                        };
                        if odd == 2 {
                            cancel();
                        }
                        let signal = racers.spawn(|| trigger.signal(1));
                        if odd == 3 {
                            cancel();
                        }
                        signal.join().ok()
                    }
                })
            });
            let outcome = shield(|| waiter.join()).ok();
            tally.count(probe, told == Some(true), outcome);
        });
    }
    tally.check(probe);
}

fn threads_race_to_cancel_and_to_resume(probe: &Probe) {
    type Round = (CancelToken, Arc<Trigger>, Arc<Mailbox<bool>>);
    /// Each of the two is now and then for sure the second.
    fn stands_back(round: usize, nth: usize, trigger: &Trigger) {
        while round % 8 == nth && trigger.outcome().is_none() {
            thread::yield_now();
        }
    }
    let canceller = Other::start(|round, (token, trigger, _): Round| {
        stands_back(round, 0, &trigger);
        stagger(round);
        token.cancel();
    });
    let signaller = Other::start(|round, (_, trigger, answers): Round| {
        stands_back(round, 1, &trigger);
        stagger(round / 5);
        answers.put(trigger.signal(1));
    });
    let mut tally = Tally::default();
    for _ in 0..probe.rounds().max(16) {
        let answers = Mailbox::shared();
        let outcome = scope(|s| {
            wait_bound(|trigger| {
                let round = (s.token(), Arc::clone(trigger), Arc::clone(&answers));
                canceller.send(round.clone());
                signaller.send(round);
            })
        });
        probe.next("the answer of a signal that raced a cancellation");
        tally.count(probe, answers.get(), Some(outcome));
    }
    tally.check(probe);
    canceller.end(probe);
    signaller.end(probe);
}

fn a_claim_wins_over_a_later_cancellation(probe: &Probe) {
    for _ in 0..probe.few() {
        let triggers = Mailbox::new();
        scope(|s| {
            let waiter = s.spawn(|| (wait_posted(&triggers), check().is_err()));
            let wakeup = triggers.get().claim(1).expect("nobody else claims");
            s.cancel();
            let _ = shield(yield_now);
            let early = waiter.is_finished();
            probe.expect("1", !early, || "a claimed wait has ended before its resume was sent".to_owned());
            wakeup.wake();
            probe.next("the end of a wait that was claimed and then cancelled");
            let due = Some((Outcome::Taken(1), true));
            let seen = shield(|| waiter.join()).ok();
            probe.equal("T8", "the outcome of the wait, and whether it was cancelled after it", seen, due);
        });
    }
}

fn a_cancellation_meets_the_end(probe: &Probe) {
    let other = Other::start(|round, (token, trigger): (CancelToken, Arc<Trigger>)| {
        trigger.signal(0);
        stagger(round);
        token.cancel();
    });
    for round in 0..probe.rounds() / 2 {
        scope(|s| {
            let (token, other) = (s.token(), &other);
            // It is a member of the scope's context by this wait, and ends just then.
            let fiber = s.spawn(move || {
                let outcome = wait_bound(|trigger| other.send((token, Arc::clone(trigger))));
                stagger(round / 3);
                outcome
            });
            probe.next("the end of a fiber that is cancelled while it ends");
            let outcome = shield(|| fiber.join()).ok();
            probe.equal("1", "the outcome of its wait", outcome, Some(Outcome::Taken(0)));
        });
    }
    other.end(probe);
}
