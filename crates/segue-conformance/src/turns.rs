//! Cases of turns: giving up one's own, and a scheduler that runs inside of a fiber of its own
//! kind.
//!
//! Used by the suite.

use crate::probe::{Mailbox, Need, Probe};
use crate::report::Case;
use segue_core::scheduling::current;
use segue_core::{scope, sleep, yield_now};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) const CASES: &[Case] = &[
    Case::new("a_yield_comes_back", a_yield_comes_back)
        .checks(&["14"], "a fiber that gives up its turn gets another, each time, alone and among others"),
    Case::new("a_yield_lets_others_run", a_yield_lets_others_run)
        .checks(&["14"], "a fiber that waits for others by yielding sees them run")
        .needs(&[Need::Fairness]),
    Case::new("timers_are_fired_beside_a_fiber_that_yields", timers_are_fired_beside_a_fiber_that_yields)
        .checks(&["18"], "a fiber that yields all the time does not keep sleepers from waking")
        .needs(&[Need::Fairness, Need::Others]),
    Case::new("runs_inside_of_runs", runs_inside_of_runs)
        .checks(
            &["1", "3"],
            "a run inside of a fiber waits as the fiber does, and its fibers and the outer ones resume each other",
        )
        .needs(&[Need::Nesting]),
];

fn a_yield_comes_back(probe: &Probe) {
    let rounds = probe.rounds();
    let turns = AtomicUsize::new(0);
    let spin = |probe: &Probe| {
        for _ in 0..rounds {
            probe.expect("14", yield_now().is_ok(), || "a yield failed, and nobody had cancelled it".to_owned());
            turns.fetch_add(1, Ordering::Relaxed);
        }
    };
    probe.next("the return of a yield");
    spin(probe);
    scope(|s| {
        for _ in 0..3 {
            s.spawn(|| spin(probe));
        }
    });
    probe.equal("14", "turns taken", turns.load(Ordering::Relaxed), 4 * rounds);
}

fn a_yield_lets_others_run(probe: &Probe) {
    // Each waits for its turn by yielding.
    let (turn, fibers) = (AtomicUsize::new(0), 4);
    let laps = probe.few();
    probe.next("another fiber's turn, by yielding");
    scope(|s| {
        for index in 0..fibers {
            let turn = &turn;
            s.spawn(move || {
                for lap in 0..laps {
                    while turn.load(Ordering::Acquire) != lap * fibers + index {
                        let _ = yield_now();
                    }
                    turn.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
    });
    probe.equal("14", "turns taken", turn.load(Ordering::Acquire), laps * fibers);
}

fn timers_are_fired_beside_a_fiber_that_yields(probe: &Probe) {
    let woken = AtomicBool::new(false);
    probe.next("the end of a sleep, beside a fiber that yields");
    scope(|s| {
        s.spawn(|| {
            let _ = sleep(Duration::from_millis(5));
            woken.store(true, Ordering::Release);
        });
        while !woken.load(Ordering::Acquire) {
            let _ = yield_now();
        }
    });
}

fn runs_inside_of_runs(probe: &Probe) {
    fn nest(probe: &Probe, depth: usize, outer: Arc<Mailbox<usize>>) {
        let mine = current();
        let inner = Mailbox::shared();
        scope(|s| {
            // Beside the inner run, in this one: it goes on only if the run suspends this fiber and
            // not the thread.
            let answers = Mailbox::shared();
            let (asked, to) = (Arc::clone(&inner), Arc::clone(&answers));
            let beside = s.spawn(move || to.put(asked.get() + 1));
            let asks = Arc::clone(&inner);
            probe.run(move |probe| {
                asks.put(depth);
                probe.next("the answer of a fiber outside of the run");
                probe.equal("1", "the answer of a fiber outside of the run", answers.get(), depth + 1);
                if depth > 0 {
                    nest(probe, depth - 1, Mailbox::shared());
                }
                let _ = sleep(Duration::from_micros(100));
            });
            probe.expect("1", beside.join().is_ok(), || "the fiber beside the inner run did not end well".to_owned());
        });
        probe.expect("3", ptr::eq(mine, current()), || "another fiber is current after an inner run".to_owned());
        outer.put(depth);
    }
    let done = Mailbox::shared();
    nest(probe, 3, Arc::clone(&done));
    probe.equal("1", "the depth of what has ended last", done.get(), 3);
}
