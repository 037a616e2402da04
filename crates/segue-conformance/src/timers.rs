//! Cases of time: sleeps of every length, deadlines in their order, and the timers that a fiber
//! keeps.
//!
//! Used by the suite. Of real time they say "at least" and nothing else.

use crate::probe::{Mailbox, Need, Probe, lock};
use crate::report::Case;
use segue_core::{Ended, at, now, scope, shield, sleep, with_current, yield_now};
use std::ptr;
use std::sync::Mutex;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// What the other cases need.
pub(crate) const FIRST: &[Case] = &[Case::new("a_sleep_lasts_as_long_as_it_says", a_sleep_lasts_as_long_as_it_says)
    .checks(&["17", "18"], "a sleep ends, and not before its time by the scheduler's own clock")];

pub(crate) const CASES: &[Case] = &[
    Case::new("what_is_due_does_not_wait", what_is_due_does_not_wait)
        .checks(&["R3"], "a sleep of no length and a deadline in the past are over at once"),
    Case::new("a_sleep_for_ever_is_cancelled", a_sleep_for_ever_is_cancelled)
        .checks(&["13"], "a sleep of `Duration::MAX` does not end by itself, and ends when it is cancelled"),
    Case::new("many_sleep_at_once", many_sleep_at_once)
        .checks(&["18"], "of many sleepers with different deadlines all wake, none before its time"),
    Case::new("sleepers_wake_in_order", sleepers_wake_in_order)
        .checks(&["18"], "on a simulated clock, sleepers wake in the order of their deadlines, at them")
        .needs(&[Need::Simulated]),
    Case::new("a_fiber_keeps_its_timers", a_fiber_keeps_its_timers)
        .checks(&["17"], "a fiber is always given the same timers"),
    Case::new("a_wait_gives_up_at_its_deadline", a_wait_gives_up_at_its_deadline)
        .checks(&["18"], "a wait with a deadline takes what comes before it, and gives up not before it"),
];

fn a_sleep_lasts_as_long_as_it_says(probe: &Probe) {
    for round in 1..=10 {
        probe.next("the end of a sleep");
        sleep_for(round * MS / 5, probe);
    }
}

fn sleep_for(length: Duration, probe: &Probe) {
    let before = now();
    probe.expect("18", sleep(length).is_ok(), || "a sleep failed, and nobody had cancelled it".to_owned());
    let slept = now().saturating_duration_since(before);
    probe.expect("18", slept >= length, || format!("a sleep of {length:?} lasted {slept:?}"));
}

fn what_is_due_does_not_wait(probe: &Probe) {
    for _ in 0..probe.few() {
        probe.next("the end of a sleep of no length");
        probe.equal("R3", "a sleep of no length", sleep(Duration::ZERO), Ok(()));
        let past = now().checked_sub(Duration::from_secs(1));
        if past.is_some() {
            probe.equal("R3", "a wait for the past", at(past).wait(), Ok(()));
        }
    }
}

fn a_sleep_for_ever_is_cancelled(probe: &Probe) {
    for length in [Duration::MAX, Duration::from_secs(u64::from(u32::MAX))] {
        let asleep = Mailbox::new();
        scope(|s| {
            let sleeper = s.spawn(|| {
                asleep.put(());
                sleep(length)
            });
            asleep.get();
            for _ in 0..5 {
                let _ = yield_now();
            }
            // A simulated clock would go on to a deadline that it can show if it slept here.
            probe.expect("18", !sleeper.is_finished(), || format!("a sleep of {length:?} has ended by itself"));
            s.cancel();
            probe.next("the end of a sleep that was cancelled");
            let slept = shield(|| sleeper.join());
            probe.expect("13", slept.is_ok_and(|slept| slept.is_err()), || "the sleep was not cancelled".to_owned());
        });
    }
}

fn many_sleep_at_once(probe: &Probe) {
    probe.next("the end of every sleep");
    scope(|s| {
        for index in 0..probe.fibers() as u32 {
            s.spawn(move || sleep_for(index * 7919 % 40 * MS / 4, probe));
        }
    });
}

fn sleepers_wake_in_order(probe: &Probe) {
    let (woken, begin) = (Mutex::new(Vec::new()), now());
    scope(|s| {
        for hours in (1..=24).rev() {
            let woken = &woken;
            s.spawn(move || {
                let _ = sleep(Duration::from_secs(hours * 3600));
                lock(woken).push((hours, now().saturating_duration_since(begin).as_secs() / 3600));
            });
        }
    });
    let due: Vec<_> = (1..=24).map(|hours| (hours, hours)).collect();
    probe.equal("18", "who woke, and when", lock(&woken).clone(), due);
}

fn a_fiber_keeps_its_timers(probe: &Probe) {
    let look = || {
        let timers = || with_current(|fiber| ptr::from_ref(fiber.scheduler().timers()).addr());
        let first = timers();
        for _ in 0..3 {
            let _ = yield_now();
            probe.equal("17", "the address of a fiber's timers", timers(), first);
            let _ = sleep(MS / 10);
            probe.equal("17", "the address of a fiber's timers after a wait", timers(), first);
        }
    };
    look();
    scope(|s| {
        for _ in 0..8 {
            s.spawn(look);
        }
    });
}

fn a_wait_gives_up_at_its_deadline(probe: &Probe) {
    for _ in 0..10 {
        let begin = now();
        probe.next("the deadline of a wait for what never comes");
        let ended = at(None).wait_until(begin.checked_add(MS));
        probe.equal("18", "a wait for what never comes", ended, Err(Ended::TimedOut));
        let waited = now().saturating_duration_since(begin);
        probe.expect("18", waited >= MS, || format!("a deadline after {MS:?} was met after {waited:?}"));
        let far = now().checked_add(Duration::from_secs(1_000_000));
        probe.next("the end of a wait with a deadline in the future");
        let ended = at(now().checked_add(MS)).wait_until(far);
        probe.equal("18", "a wait that ends before its deadline", ended, Ok(()));
    }
}
