//! Timers fire in the order of their deadlines, never before them, and leave nothing behind when
//! they are withdrawn.
#![cfg(not(loom))]
#![allow(unsafe_code)] // The tests of many timers drive the source by hand.

mod common;

use common::{Host, Jobs};
use segue_core::scheduling::Timers;
use segue_core::{Alarm, Source, Trigger, after, at, sleep};
use std::thread;
use std::time::{Duration, Instant};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Starts fibers that sleep, one after the other, and gives them to `then` when all are suspended.
fn with_sleepers(host: &Host, sleeps: &[Duration], then: impl FnOnce()) {
    thread::scope(|t| {
        for (id, &duration) in sleeps.iter().enumerate() {
            t.spawn(move || host.run(id as u64, |_| sleep(duration).unwrap()));
            host.until_suspended(id + 1);
        }
        then();
    });
}

#[test]
fn the_earlier_deadline_comes_first() {
    let host = Host::new(Jobs::Keep);
    with_sleepers(&host, &[3, 1, 4, 2, 5].map(|n| n * MILLISECOND), || {
        host.timers().advance(5 * MILLISECOND);
        assert_eq!(host.timers().fire(), 5);
    });
    assert_eq!(host.resumed(), [1, 3, 0, 2, 4]);
}

#[test]
fn equal_deadlines_come_in_the_order_of_their_registration() {
    let host = Host::new(Jobs::Keep);
    with_sleepers(&host, &[2, 1, 2, 1, 2].map(|n| n * MILLISECOND), || {
        host.timers().advance(2 * MILLISECOND);
        assert_eq!(host.timers().fire(), 5);
    });
    assert_eq!(host.resumed(), [1, 3, 0, 2, 4]);
}

#[test]
fn nothing_fires_before_its_time() {
    let host = Host::new(Jobs::Keep);
    with_sleepers(&host, &[MILLISECOND, 2 * MILLISECOND], || {
        let timers = host.timers();
        assert_eq!((timers.fire(), timers.until_next()), (0, Some(MILLISECOND)));
        timers.advance(MILLISECOND - Duration::from_nanos(1));
        assert_eq!((timers.fire(), timers.until_next()), (0, Some(Duration::from_nanos(1))));
        assert_eq!(host.suspended(), 2);
        timers.advance(Duration::from_nanos(1));
        assert_eq!((timers.fire(), timers.until_next()), (1, Some(MILLISECOND)));
        host.until_suspended(1);
        timers.advance(MILLISECOND);
        assert_eq!(timers.until_next(), Some(Duration::ZERO), "due, and not fired yet");
        assert_eq!((timers.fire(), timers.until_next()), (1, None));
    });
    assert!(host.timers().is_empty());
}

#[test]
fn many_that_are_due_at_once_all_fire() {
    let host = Host::new(Jobs::Keep);
    let triggers: Vec<_> = (0..200).map(|_| Trigger::new()).collect();
    host.run(0, |_| {
        for (number, trigger) in triggers.iter().enumerate() {
            let mut timer = after((number as u32 / 7 + 1) * MILLISECOND).into_source();
            let mut slot = Alarm::default();
            // SAFETY: the triggers outlive the firing of all timers; the slot holds a key alone.
            let registered = unsafe {
                timer.prepare(&mut slot);
                timer.register(&mut slot, trigger, number)
            };
            assert!(registered.is_ok());
        }
    });
    // One of them left its wait, and has not withdrawn yet.
    assert!(triggers[40].cancel());
    host.timers().advance(Duration::from_secs(1));
    assert_eq!(host.timers().fire(), 199, "how many took it");
    assert!(host.timers().is_empty());
    for (number, trigger) in triggers.iter().enumerate() {
        assert!(!trigger.signal(0), "{number} has an outcome");
    }
}

#[test]
fn a_million_withdrawn_timers_leave_nothing() {
    let (held, rounds) = if cfg!(miri) { (50, 2) } else { (100_000, 10) };
    let host = Host::new(Jobs::Keep);
    host.run(0, |_| {
        let triggers: Vec<_> = (0..held).map(|_| Trigger::new()).collect();
        for _ in 0..rounds {
            let mut timers: Vec<_> =
                (1..=held).map(|n| after(((n * 7919) % held + 1) as u32 * MILLISECOND).into_source()).collect();
            let mut slots: Vec<_> = timers.iter().map(|_| Alarm::default()).collect();
            for ((timer, slot), trigger) in timers.iter_mut().zip(&mut slots).zip(&triggers) {
                // SAFETY: withdrawn below.
                let registered = unsafe {
                    timer.prepare(slot);
                    timer.register(slot, trigger, 0)
                };
                assert!(registered.is_ok());
            }
            assert!(!host.timers().is_empty());
            for (timer, slot) in timers.iter_mut().zip(&mut slots) {
                // SAFETY: registered above, and nobody has fired.
                unsafe { timer.withdraw(slot) };
            }
            assert!(host.timers().is_empty());
            assert_eq!(host.timers().until_next(), None);
        }
    });
    host.timers().advance(Duration::from_secs(1_000_000));
    assert_eq!(host.timers().fire(), 0);
}

#[test]
fn durations_beyond_the_clock_never_end_and_leave_no_timer() {
    let host = Host::new(Jobs::Keep);
    thread::scope(|t| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let sleeper = t.spawn(|| {
            host.run(0, move |token| {
                sender.send(token).unwrap();
                sleep(Duration::MAX)
            })
        });
        host.until_suspended(1);
        assert!(host.timers().is_empty());
        receiver.recv().unwrap().cancel();
        assert!(sleeper.join().unwrap().is_err());
    });
    assert_eq!(after(Duration::MAX).attempt(), None);
    assert_eq!(at(None).attempt(), None);
}

#[test]
fn what_is_past_or_now_is_ready_at_once() {
    let host = Host::new(Jobs::Keep);
    host.run(0, |_| {
        sleep(Duration::ZERO).unwrap();
        let start = segue_core::now();
        let mut past = at(start.checked_sub(MILLISECOND));
        let mut now = at(Some(start));
        assert_eq!((past.attempt(), now.attempt()), (Some(()), Some(())));
        let mut later = at(Some(start + MILLISECOND));
        assert_eq!(later.attempt(), None);
        host.timers().advance(MILLISECOND);
        assert_eq!(later.attempt(), Some(()));
    });
    assert!(host.resumed().is_empty(), "nobody was suspended");
    sleep(Duration::ZERO).unwrap();
}

#[test]
fn a_simulated_clock_stands_until_it_is_moved_and_a_real_one_is_not_moved() {
    let simulated = Timers::simulated();
    let start = simulated.now();
    assert_eq!(simulated.now(), start);
    simulated.advance(MILLISECOND);
    simulated.advance(2 * MILLISECOND);
    assert_eq!(simulated.now(), start + 3 * MILLISECOND);

    let real = Timers::real();
    let before = Instant::now();
    real.advance(Duration::from_secs(1_000_000));
    assert!(real.now() < before + Duration::from_secs(500_000));
    assert_eq!(real.until_next(), None);
}

#[test]
fn timers_that_are_fired_from_several_threads_fire_once() {
    let host = Host::new(Jobs::Keep);
    let count = 8;
    let fired = std::sync::atomic::AtomicUsize::new(0);
    with_sleepers(&host, &vec![MILLISECOND; count], || {
        host.timers().advance(MILLISECOND);
        thread::scope(|t| {
            for _ in 0..4 {
                t.spawn(|| fired.fetch_add(host.timers().fire(), std::sync::atomic::Ordering::SeqCst));
            }
        });
    });
    assert_eq!(fired.into_inner(), count);
    let mut resumed = host.resumed();
    resumed.sort_unstable();
    assert_eq!(resumed, (0..count as u64).collect::<Vec<_>>());
}
