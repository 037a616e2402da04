//! Cases of cancellations that race: with resumes, with claims, with the end of a fiber.
//!
//! Used by the suite.

use super::probe::{Mailbox, Probe, plain_thread, stagger, wait_bound};
use super::report::{Case, Need};
use crate::{CancelToken, Outcome, Trigger, check, scope, shield, sleep, yield_now};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a_cancellation_races_a_resume",
        clauses: &["1", "11", "13", "T2"],
        about: "when a wait is cancelled and signalled at once, the waiter sees what the signaller was told",
        needs: &[],
        run: a_cancellation_races_a_resume,
    },
    Case {
        name: "threads_race_to_cancel_and_to_resume",
        clauses: &["1", "11", "12", "13", "T2"],
        about: "the same, when two plain threads race",
        needs: &[Need::Others],
        run: threads_race_to_cancel_and_to_resume,
    },
    Case {
        name: "a_claim_wins_over_a_later_cancellation",
        clauses: &["13", "T8"],
        about: "a wait that was claimed is not cancelled any more, though its resume is sent late",
        needs: &[],
        run: a_claim_wins_over_a_later_cancellation,
    },
    Case {
        name: "a_cancellation_meets_the_end",
        clauses: &["4", "12"],
        about: "interrupts that arrive while their fibers end harm nobody",
        needs: &[Need::Others],
        run: a_cancellation_meets_the_end,
    },
];

/// Counts how races came out, and says what disagrees.
#[derive(Default)]
struct Tally {
    taken: AtomicUsize,
    cancelled: AtomicUsize,
}

impl Tally {
    fn count(&self, probe: &Probe, told: bool, outcome: Option<Outcome>) {
        match outcome {
            Some(Outcome::Taken(1)) => self.taken.fetch_add(1, Ordering::Relaxed),
            _ => self.cancelled.fetch_add(1, Ordering::Relaxed),
        };
        let due = if told { Outcome::Taken(1) } else { Outcome::Cancelled };
        probe.equal("T2", &format!("the outcome, where the signal was told {told}"), outcome, Some(due));
    }

    fn check(&self, probe: &Probe) {
        let (taken, cancelled) = (self.taken.load(Ordering::Relaxed), self.cancelled.load(Ordering::Relaxed));
        probe.expect("13", taken > 0 && cancelled > 0, || {
            format!("a race came out one way only: {taken} taken, {cancelled} cancelled")
        });
    }
}

fn a_cancellation_races_a_resume(probe: &Probe) {
    probe.run(|probe| {
        let tally = Tally::default();
        for round in 0..(probe.rounds() / 4).max(8) {
            let triggers = Mailbox::new();
            scope(|s| {
                let (token, waiter) = (s.token(), s.spawn(|| wait_bound(|t| triggers.put(Arc::clone(t)))));
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
    });
}

fn threads_race_to_cancel_and_to_resume(probe: &Probe) {
    type Round = (CancelToken, Arc<Trigger>, Arc<Mailbox<bool>>);
    let (cancels, to_cancel) = mpsc::channel::<Round>();
    let (signals, to_signal) = mpsc::channel::<Round>();
    let canceller = plain_thread(move || {
        for (round, (token, trigger, _)) in to_cancel.iter().enumerate() {
            if round % 8 == 0 {
                // Now and then for sure the second.
                while trigger.outcome().is_none() {
                    std::thread::yield_now();
                }
            }
            stagger(round);
            token.cancel();
        }
    });
    let signaller = plain_thread(move || {
        for (round, (_, trigger, answers)) in to_signal.iter().enumerate() {
            if round % 8 == 1 {
                while trigger.outcome().is_none() {
                    std::thread::yield_now();
                }
            }
            stagger(round / 5);
            answers.put(trigger.signal(1));
        }
    });
    probe.run(move |probe| {
        let tally = Tally::default();
        for _ in 0..probe.rounds().max(16) {
            let answers = Mailbox::shared();
            let outcome = scope(|s| {
                wait_bound(|trigger| {
                    let round = (s.token(), Arc::clone(trigger), Arc::clone(&answers));
                    let _ = cancels.send(round.clone());
                    let _ = signals.send(round);
                })
            });
            probe.next("the answer of a signal that raced a cancellation");
            tally.count(probe, answers.get(), Some(outcome));
        }
        tally.check(probe);
    });
    for thread in [canceller, signaller] {
        probe.expect("9", thread.join().is_ok(), || "a thread that raced panicked".to_owned());
    }
}

fn a_claim_wins_over_a_later_cancellation(probe: &Probe) {
    probe.run(|probe| {
        for _ in 0..probe.few() {
            let triggers = Mailbox::new();
            scope(|s| {
                let waiter = s.spawn(|| {
                    let outcome = wait_bound(|trigger| triggers.put(Arc::clone(trigger)));
                    (outcome, check().is_err())
                });
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
    });
}

fn a_cancellation_meets_the_end(probe: &Probe) {
    let (sender, receiver) = mpsc::channel::<(CancelToken, Arc<Trigger>)>();
    let thread = plain_thread(move || {
        for (round, (token, trigger)) in receiver.iter().enumerate() {
            trigger.signal(0);
            stagger(round);
            token.cancel();
        }
    });
    probe.run(move |probe| {
        for round in 0..probe.rounds() / 2 {
            scope(|s| {
                let token = s.token();
                let sender = &sender;
                // It is a member of the scope's context by this wait, and ends just then.
                let fiber = s.spawn(move || {
                    let outcome = wait_bound(|trigger| {
                        let _ = sender.send((token, Arc::clone(trigger)));
                    });
                    stagger(round / 3);
                    outcome
                });
                probe.next("the end of a fiber that is cancelled while it ends");
                let outcome = shield(|| fiber.join()).ok();
                probe.equal("1", "the outcome of its wait", outcome, Some(Outcome::Taken(0)));
            });
        }
    });
    probe.expect("9", thread.join().is_ok(), || "a thread that cancelled a scope panicked".to_owned());
}
