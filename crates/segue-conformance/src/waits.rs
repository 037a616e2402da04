//! Cases of suspending and resuming: each resume ends one wait, none is lost, and nothing else ends
//! one.
//!
//! Used by the suite.

use crate::probe::{Mailbox, Need, Other, Probe, a_case, stagger, wait_bound, wait_posted};
use crate::report::Case;
use segue_core::plain_thread_local;
use segue_core::{Outcome, Trigger, scope, spawn, yield_now};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case::new("resumed_before_it_suspends", resumed_before_it_suspends)
        .checks(&["1", "5"], "a resume by the fiber's own thread that comes before `suspend` is not lost"),
    Case::new("resumed_while_suspended", resumed_while_suspended)
        .checks(&["1", "T2"], "a suspended fiber goes on when another one resumes it"),
    Case::new("resumed_by_another_thread_before_it_suspends", resumed_by_another_thread_before_it_suspends)
        .checks(&["1", "5", "9"], "a resume by another thread that comes before `suspend` is not lost")
        .needs(&[Need::Others]),
    Case::new("signalled_before_the_wait", signalled_before_the_wait)
        .checks(&["T6"], "a trigger that was signalled before its wait is not waited for"),
    Case::new("fibers_resume_each_other", fibers_resume_each_other)
        .checks(&["1", "10"], "two fibers that resume each other in turns lose no turn"),
    Case::new("resumed_by_other_threads", resumed_by_other_threads)
        .checks(
            &["1", "5", "9", "10"],
            "resumes from other threads, just before and just after the suspension, are not lost, and \
             carry what was written before",
        )
        .needs(&[Need::Others]),
    Case::new("resumed_when_all_is_idle", resumed_when_all_is_idle)
        .checks(&["1", "9"], "a resume from another thread wakes a scheduler that has nothing to do")
        .needs(&[Need::Others]),
    Case::new("no_return_without_a_resume", no_return_without_a_resume)
        .checks(&["1", "T7"], "a wait does not end before its resume was sent, not even if it was claimed"),
    Case::new("one_resume_ends_one_wait", one_resume_ends_one_wait)
        .checks(&["1"], "a resume is used up by the wait that it ends, and does not end the next one too"),
    Case::new("one_of_many_signals_is_accepted", one_of_many_signals_is_accepted)
        .checks(&["1", "T2"], "of several that signal at once one is told yes, and the waiter sees that one")
        .needs(&[Need::Others]),
    Case::new("a_resume_runs_no_fiber", a_resume_runs_no_fiber)
        .checks(&["9"], "the fiber that is resumed does not run inside of the call that resumes it"),
];

fn resumed_while_suspended(probe: &Probe) {
    let triggers = Mailbox::new();
    for round in 0..probe.few() {
        scope(|s| {
            let waiter = s.spawn(|| wait_posted(&triggers));
            let trigger = triggers.get();
            probe.expect("T2", trigger.signal(round), || "nobody else signals, and it was told no".to_owned());
            probe.next("the end of a wait that another fiber has ended");
            probe.equal("1", "the outcome of the wait", waiter.join().ok(), Some(Outcome::Taken(round)));
            probe.expect("T2", !trigger.signal(0), || "two signals were told yes".to_owned());
        });
    }
}

fn resumed_before_it_suspends(probe: &Probe) {
    for round in 0..probe.rounds() {
        probe.next("the end of a wait that was resumed before it has suspended");
        let outcome = wait_bound(|trigger| {
            trigger.signal(round);
        });
        if !probe.equal("5", "the outcome of a wait that was resumed early", outcome, Outcome::Taken(round)) {
            return;
        }
    }
}

fn resumed_by_another_thread_before_it_suspends(probe: &Probe) {
    for round in 0..probe.few() {
        probe.next("the end of a wait that another thread resumed before it has suspended");
        let outcome = wait_bound(|trigger| {
            thread::scope(|t| {
                t.spawn(|| trigger.signal(round));
            });
        });
        probe.equal("5", "the outcome of a wait that was resumed early", outcome, Outcome::Taken(round));
    }
}

fn signalled_before_the_wait(probe: &Probe) {
    let trigger = Trigger::new();
    probe.expect("T2", trigger.signal(5), || "the first signal was told no".to_owned());
    for _ in 0..2 {
        probe.equal("T6", "the outcome of the wait", trigger.wait(a_case()), Outcome::Taken(5));
    }
}

fn fibers_resume_each_other(probe: &Probe) {
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
}

fn resumed_by_other_threads(probe: &Probe) {
    let others = [(); 3].map(|()| {
        Other::start(|round, (trigger, word): (Arc<Trigger>, Arc<AtomicUsize>)| {
            stagger(round);
            // Relaxed: that it is seen is the resume's doing.
            word.store(round + 1, Ordering::Relaxed);
            trigger.signal(round % 5);
        })
    });
    scope(|s| {
        for other in &others {
            s.spawn(move || {
                for round in 0..probe.rounds() {
                    let word = Arc::new(AtomicUsize::new(0));
                    probe.next("a resume by another thread");
                    let outcome = wait_bound(|trigger| {
                        other.send((Arc::clone(trigger), Arc::clone(&word)));
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
    others.into_iter().for_each(|other| other.end(probe));
}

fn resumed_when_all_is_idle(probe: &Probe) {
    let other = Other::start(|round, trigger: Arc<Trigger>| {
        // Long enough, mostly, for a worker to go to sleep, and sometimes just as long as it takes.
        thread::sleep(Duration::from_micros(round as u64 % 20 * 10));
        trigger.signal(0);
    });
    for _ in 0..probe.few() {
        probe.next("a resume by another thread, of the only fiber");
        let outcome = wait_bound(|trigger| other.send(Arc::clone(trigger)));
        probe.equal("1", "the outcome of the wait", outcome, Outcome::Taken(0));
    }
    other.end(probe);
}

fn no_return_without_a_resume(probe: &Probe) {
    for _ in 0..probe.few().min(20) {
        let (triggers, returned) = (Mailbox::shared(), Arc::new(AtomicBool::new(false)));
        let (to, flag, watch) = (Arc::clone(&triggers), Arc::clone(&returned), probe.clone());
        let waiter = spawn(move || {
            watch.watched(|| {
                let outcome = wait_posted(&to);
                flag.store(true, Ordering::Release);
                outcome
            })
        });
        let trigger = triggers.get();
        let is_suspended = |before: &str| {
            (0..50).for_each(|_| yield_now().expect("nobody has cancelled this"));
            let early = returned.load(Ordering::Acquire) || waiter.is_finished();
            probe.expect("1", !early, || format!("`suspend` returned before {before}"))
        };
        if !is_suspended("anybody had resumed the fiber") {
            return;
        }
        let wakeup = trigger.claim(2).expect("nobody else claims");
        is_suspended("the resume was sent, at the claim");
        wakeup.wake();
        probe.next("the end of a wait whose resume was sent late");
        probe.equal("1", "the outcome of the wait", waiter.join().ok().flatten(), Some(Outcome::Taken(2)));
    }
}

fn one_resume_ends_one_wait(probe: &Probe) {
    const WAITS: usize = 50;
    let (triggers, returns) = (Mailbox::shared(), Arc::new(AtomicUsize::new(0)));
    let (to, counter, watch) = (Arc::clone(&triggers), Arc::clone(&returns), probe.clone());
    let over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&over);
    let waiter = spawn(move || {
        for _ in 0..WAITS {
            let outcome = watch.watched(|| wait_bound(|trigger| to.put(Some(Arc::clone(trigger)))));
            if outcome.is_none() {
                to.put(None);
                // A resume for the wait that has failed may be under way: this fiber has to stay.
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
}

fn one_of_many_signals_is_accepted(probe: &Probe) {
    let others = [0, 1, 2].map(|arm| {
        Other::start(move |round, (trigger, answers): (Arc<Trigger>, Arc<Mailbox<Option<usize>>>)| {
            stagger(round + arm);
            answers.put(trigger.signal(arm).then_some(arm));
        })
    });
    for _ in 0..probe.rounds() / 4 {
        let answers = Mailbox::shared();
        probe.next("a resume by one of several threads");
        let outcome = wait_bound(|trigger| {
            others.iter().for_each(|other| other.send((Arc::clone(trigger), Arc::clone(&answers))));
        });
        let accepted: Vec<usize> = others.iter().filter_map(|_| answers.get()).collect();
        let agrees = accepted.len() == 1 && outcome == Outcome::Taken(accepted[0]);
        if !probe.expect("T2", agrees, || format!("{accepted:?} were told yes, the waiter saw {outcome:?}")) {
            break;
        }
    }
    others.into_iter().for_each(|other| other.end(probe));
}

fn a_resume_runs_no_fiber(probe: &Probe) {
    plain_thread_local!(
        static RESUMES: Cell<bool> = Cell::new(false);
    );
    let triggers = Mailbox::new();
    for _ in 0..probe.few() {
        scope(|s| {
            let waiter = s.spawn(|| (wait_posted(&triggers), RESUMES.get()));
            let trigger = triggers.get();
            RESUMES.set(true);
            trigger.signal(0);
            RESUMES.set(false);
            let inside = waiter.join().is_ok_and(|(_, inside)| inside);
            probe.expect("9", !inside, || "the resumed fiber ran inside of the call of `wake`".to_owned());
        });
    }
}
