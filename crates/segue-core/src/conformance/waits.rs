//! Cases of suspending and resuming: each resume ends one wait, none is lost, and nothing else ends
//! one.
//!
//! Used by the suite.

use super::probe::{Mailbox, Probe, a_case, plain_thread, stagger, wait_bound};
use super::report::{Case, Need};
use crate::{Outcome, Trigger, scope, spawn, yield_now};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "resumed_before_it_suspends",
        clauses: &["1", "5"],
        about: "a resume by the fiber's own thread that comes before `suspend` is not lost",
        needs: &[],
        run: resumed_before_it_suspends,
    },
    Case {
        name: "resumed_while_suspended",
        clauses: &["1", "T2"],
        about: "a suspended fiber goes on when another one resumes it",
        needs: &[],
        run: resumed_while_suspended,
    },
    Case {
        name: "resumed_by_another_thread_before_it_suspends",
        clauses: &["1", "5", "9"],
        about: "a resume by another thread that comes before `suspend` is not lost",
        needs: &[Need::Others],
        run: resumed_by_another_thread_before_it_suspends,
    },
    Case {
        name: "signalled_before_the_wait",
        clauses: &["T6"],
        about: "a trigger that was signalled before its wait is not waited for",
        needs: &[],
        run: signalled_before_the_wait,
    },
    Case {
        name: "fibers_resume_each_other",
        clauses: &["1", "10"],
        about: "two fibers that resume each other in turns lose no turn",
        needs: &[],
        run: fibers_resume_each_other,
    },
    Case {
        name: "resumed_by_other_threads",
        clauses: &["1", "5", "9", "10"],
        about: "resumes from other threads, just before and just after the suspension, are not lost, and carry what was written before",
        needs: &[Need::Others],
        run: resumed_by_other_threads,
    },
    Case {
        name: "resumed_when_all_is_idle",
        clauses: &["1", "9"],
        about: "a resume from another thread wakes a scheduler that has nothing to do",
        needs: &[Need::Others],
        run: resumed_when_all_is_idle,
    },
    Case {
        name: "no_return_without_a_resume",
        clauses: &["1", "T7"],
        about: "a wait does not end before its resume was sent, not even if it was claimed",
        needs: &[],
        run: no_return_without_a_resume,
    },
    Case {
        name: "one_resume_ends_one_wait",
        clauses: &["1"],
        about: "a resume is used up by the wait that it ends, and does not end the next one too",
        needs: &[],
        run: one_resume_ends_one_wait,
    },
    Case {
        name: "one_of_many_signals_is_accepted",
        clauses: &["1", "T2"],
        about: "of several that signal at once one is told yes, and the waiter sees that one",
        needs: &[Need::Others],
        run: one_of_many_signals_is_accepted,
    },
    Case {
        name: "a_resume_runs_no_fiber",
        clauses: &["9"],
        about: "the fiber that is resumed does not run inside of the call that resumes it",
        needs: &[],
        run: a_resume_runs_no_fiber,
    },
];

fn resumed_while_suspended(probe: &Probe) {
    probe.run(|probe| {
        let triggers = Mailbox::new();
        for round in 0..probe.few() {
            scope(|s| {
                let waiter = s.spawn(|| wait_bound(|trigger| triggers.put(Arc::clone(trigger))));
                let trigger = triggers.get();
                probe.expect("T2", trigger.signal(round), || "nobody else signals, and it was told no".to_owned());
                probe.next("the end of a wait that another fiber has ended");
                probe.equal("1", "the outcome of the wait", waiter.join().ok(), Some(Outcome::Taken(round)));
                probe.expect("T2", !trigger.signal(0), || "two signals were told yes".to_owned());
            });
        }
    });
}

fn resumed_before_it_suspends(probe: &Probe) {
    probe.run(|probe| {
        for round in 0..probe.rounds() {
            probe.next("the end of a wait that was resumed before it has suspended");
            let outcome = wait_bound(|trigger| {
                trigger.signal(round);
            });
            if !probe.equal("5", "the outcome of a wait that was resumed early", outcome, Outcome::Taken(round)) {
                return;
            }
        }
    });
}

fn resumed_by_another_thread_before_it_suspends(probe: &Probe) {
    probe.run(|probe| {
        for round in 0..probe.few() {
            probe.next("the end of a wait that another thread resumed before it has suspended");
            let outcome = wait_bound(|trigger| {
                thread::scope(|t| {
                    t.spawn(|| trigger.signal(round));
                });
            });
            probe.equal("5", "the outcome of a wait that was resumed early", outcome, Outcome::Taken(round));
        }
    });
}

fn signalled_before_the_wait(probe: &Probe) {
    probe.run(|probe| {
        let trigger = Trigger::new();
        probe.expect("T2", trigger.signal(5), || "the first signal was told no".to_owned());
        for _ in 0..2 {
            probe.equal("T6", "the outcome of the wait", trigger.wait(a_case()), Outcome::Taken(5));
        }
    });
}

fn fibers_resume_each_other(probe: &Probe) {
    probe.run(|probe| {
        let (there, back) = (Mailbox::new(), Mailbox::new());
        let rounds = probe.rounds();
        scope(|s| {
            s.spawn(|| (0..rounds).for_each(|_| back.put(there.get() + 1)));
            for round in 0..rounds {
                there.put(round);
                probe.next("the answer of another fiber");
                if !probe.equal("10", "the other fiber's answer", back.get(), round + 1) {
                    return;
                }
            }
        });
    });
}

fn resumed_by_other_threads(probe: &Probe) {
    const PAIRS: usize = 3;
    let rounds = probe.rounds();
    let (mut senders, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let (sender, receiver) = mpsc::channel::<(Arc<Trigger>, Arc<AtomicUsize>)>();
        senders.push(sender);
        threads.push(plain_thread(move || {
            for (round, (trigger, word)) in receiver.iter().enumerate() {
                stagger(round);
                // Relaxed: that it is seen is the resume's doing.
                word.store(round + 1, Ordering::Relaxed);
                trigger.signal(round % 5);
            }
        }));
    }
    probe.run(move |probe| {
        scope(|s| {
            for sender in senders {
                s.spawn(move || {
                    for round in 0..rounds {
                        let word = Arc::new(AtomicUsize::new(0));
                        probe.next("a resume by another thread");
                        let outcome = wait_bound(|trigger| {
                            // The thread is there as long as this end of the channel.
                            let _ = sender.send((Arc::clone(trigger), Arc::clone(&word)));
                            stagger(round / 7);
                        });
                        probe.equal("1", "the outcome of the wait", outcome, Outcome::Taken(round % 5));
                        let seen = word.load(Ordering::Relaxed);
                        if !probe.equal("10", "what was written before the resume", seen, round + 1) {
                            return;
                        }
                    }
                });
            }
        });
    });
    for thread in threads {
        probe.expect("9", thread.join().is_ok(), || "a thread that resumed a fiber panicked".to_owned());
    }
}

fn resumed_when_all_is_idle(probe: &Probe) {
    let (sender, receiver) = mpsc::channel::<Arc<Trigger>>();
    let thread = plain_thread(move || {
        for (round, trigger) in receiver.iter().enumerate() {
            // Long enough, mostly, for a worker to go to sleep, and sometimes just as long as it
            // takes.
            thread::sleep(Duration::from_micros(round as u64 % 20 * 10));
            trigger.signal(0);
        }
    });
    probe.run(move |probe| {
        for _ in 0..probe.few() {
            probe.next("a resume by another thread, of the only fiber");
            let outcome = wait_bound(|trigger| {
                let _ = sender.send(Arc::clone(trigger));
            });
            probe.equal("1", "the outcome of the wait", outcome, Outcome::Taken(0));
        }
    });
    probe.expect("9", thread.join().is_ok(), || "a thread that resumed a fiber panicked".to_owned());
}

fn no_return_without_a_resume(probe: &Probe) {
    probe.run(|probe| {
        let turns = || (0..50).for_each(|_| yield_now().expect("nobody has cancelled this"));
        for _ in 0..probe.few().min(20) {
            let (triggers, returned) = (Mailbox::shared(), Arc::new(AtomicBool::new(false)));
            let (to, flag, watch) = (Arc::clone(&triggers), Arc::clone(&returned), probe.clone());
            let waiter = spawn(move || {
                watch.watched(|| {
                    let outcome = wait_bound(|trigger| to.put(Arc::clone(trigger)));
                    flag.store(true, Ordering::Release);
                    outcome
                })
            });
            let trigger = triggers.get();
            turns();
            let early = returned.load(Ordering::Acquire) || waiter.is_finished();
            if !probe.expect("1", !early, || "`suspend` returned before anybody had resumed the fiber".to_owned()) {
                return;
            }
            let wakeup = trigger.claim(2).expect("nobody else claims");
            turns();
            let early = returned.load(Ordering::Acquire) || waiter.is_finished();
            probe.expect("1", !early, || "`suspend` returned at the claim, before the resume was sent".to_owned());
            wakeup.wake();
            probe.next("the end of a wait whose resume was sent late");
            probe.equal("1", "the outcome of the wait", waiter.join().ok().flatten(), Some(Outcome::Taken(2)));
        }
    });
}

fn one_resume_ends_one_wait(probe: &Probe) {
    const WAITS: usize = 50;
    probe.run(|probe| {
        let (triggers, returns) = (Mailbox::shared(), Arc::new(AtomicUsize::new(0)));
        let (to, counter, watch) = (Arc::clone(&triggers), Arc::clone(&returns), probe.clone());
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let waiter = spawn(move || {
            for _ in 0..WAITS {
                let outcome = watch.watched(|| wait_bound(|trigger| to.put(Some(Arc::clone(trigger)))));
                if outcome.is_none() {
                    to.put(None);
                    // A resume for the wait that has failed may be under way: this fiber has to
                    // stay.
                    while !until.load(Ordering::Acquire) {
                        let _ = yield_now();
                    }
                    return;
                }
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        for round in 0..WAITS {
            probe.next("the next wait of a fiber that was resumed");
            let Some(trigger) = triggers.get() else { break };
            let before = returns.load(Ordering::SeqCst);
            probe.equal("1", "how many waits have ended when so many resumes were sent", before, round);
            for _ in 0..3 {
                yield_now().expect("nobody has cancelled this");
            }
            trigger.signal(0);
        }
        over.store(true, Ordering::Release);
        probe.expect("1", waiter.join().is_ok(), || "the fiber that waited did not end well".to_owned());
        probe.equal("1", "the waits that have ended", returns.load(Ordering::SeqCst), WAITS);
    });
}

fn one_of_many_signals_is_accepted(probe: &Probe) {
    const THREADS: usize = 3;
    type Round = (Arc<Trigger>, Arc<Mailbox<Option<usize>>>);
    let (mut senders, mut threads) = (Vec::<mpsc::Sender<Round>>::new(), Vec::new());
    for arm in 0..THREADS {
        let (sender, receiver) = mpsc::channel::<Round>();
        senders.push(sender);
        threads.push(plain_thread(move || {
            for (round, (trigger, answers)) in receiver.iter().enumerate() {
                stagger(round + arm);
                answers.put(trigger.signal(arm).then_some(arm));
            }
        }));
    }
    probe.run(move |probe| {
        for _ in 0..probe.rounds() / 4 {
            let answers = Mailbox::shared();
            probe.next("a resume by one of several threads");
            let outcome = wait_bound(|trigger| {
                for sender in &senders {
                    let _ = sender.send((Arc::clone(trigger), Arc::clone(&answers)));
                }
            });
            let accepted: Vec<usize> = (0..THREADS).filter_map(|_| answers.get()).collect();
            let agrees = accepted.len() == 1 && outcome == Outcome::Taken(accepted[0]);
            if !probe.expect("T2", agrees, || format!("{accepted:?} were told yes, the waiter saw {outcome:?}")) {
                return;
            }
        }
    });
    for thread in threads {
        probe.expect("9", thread.join().is_ok(), || "a thread that resumed a fiber panicked".to_owned());
    }
}

fn a_resume_runs_no_fiber(probe: &Probe) {
    thread_local!(static RESUMES: Cell<bool> = const { Cell::new(false) });
    probe.run(|probe| {
        let triggers = Mailbox::new();
        for _ in 0..probe.few() {
            scope(|s| {
                let waiter = s.spawn(|| {
                    let outcome = wait_bound(|trigger| triggers.put(Arc::clone(trigger)));
                    (outcome, RESUMES.get())
                });
                let trigger = triggers.get();
                RESUMES.set(true);
                trigger.signal(0);
                RESUMES.set(false);
                let inside = waiter.join().is_ok_and(|(_, inside)| inside);
                probe.expect("9", !inside, || "the resumed fiber ran inside of the call of `wake`".to_owned());
            });
        }
    });
}
