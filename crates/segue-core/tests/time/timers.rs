//! Timers fire in the order of their deadlines, never before them, and leave nothing behind when
//! they are withdrawn.
#![allow(unsafe_code)] // The tests of many timers drive the source by hand.

use crate::common;

use common::{Host, Jobs};
use segue_core::drivers::{LazyTimer, Limit, TimeLimited};
use segue_core::scheduling::Timers;
use segue_core::{Alarm, Deadline, Source, Trigger, after, at, sleep};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
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

/// Notes its number, and does something, when it is woken.
struct Comes<F>(u64, Arc<Mutex<Vec<u64>>>, F);

impl<F: Fn() + Send + Sync> Wake for Comes<F> {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
        (self.2)();
    }
}

type Waiting = Pin<Box<dyn Future<Output = ()>>>;

/// A task that waits until then.
fn waiting(
    until: Instant,
    number: u64,
    log: &Arc<Mutex<Vec<u64>>>,
    then: impl Fn() + Send + Sync + 'static,
) -> Waiting {
    let waker = Waker::from(Arc::new(Comes(number, log.clone(), then)));
    let mut future: Waiting = Box::pin(at(Some(until)).into_future());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    future
}

#[test]
fn many_equal_deadlines_come_in_order_among_others() {
    let count = if cfg!(miri) { 50 } else { 100 };
    let host = Host::new(Jobs::Keep);
    host.run(0, |_| {
        let (log, begin) = (Arc::default(), host.timers().now());
        // Four deadlines, two of them a nanosecond apart.
        let times = [5_000_000, 1, 5_000_001, 1 << 40].map(Duration::from_nanos);
        let mut all: Vec<_> =
            (0..count).map(|number| waiting(begin + times[number as usize % 4], number, &log, || ())).collect();
        // The first of its kind, one in the middle, and the last leave.
        for gone in [all.len() - 4, 48, 0] {
            drop(all.remove(gone));
        }
        assert_eq!(host.timers().until_next(), Some(times[1]));
        host.timers().advance(Duration::from_secs(1 << 40));
        assert_eq!(host.timers().fire(), all.len());
        let mut expected: Vec<_> = (0..count).filter(|number| ![0, 48, count - 4].contains(number)).collect();
        expected.sort_by_key(|number| times[*number as usize % 4]);
        assert_eq!(*log.lock().unwrap(), expected);
    });
}

#[test]
fn a_clock_may_jump_by_centuries() {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    let host = Host::new(Jobs::Keep);
    host.run(0, |_| {
        let (log, timers) = (Arc::default(), host.timers());
        for round in 0..20 {
            let now = timers.now();
            // The last of a round is pending in the next ones.
            let ahead = [200 * YEAR, MILLISECOND, 290 * YEAR, 2 * MILLISECOND];
            let all: Vec<_> = ahead
                .iter()
                .zip(round * 4..)
                .map(|(ahead, number)| waiting(now + *ahead, number, &log, || ()))
                .collect();
            timers.advance(MILLISECOND);
            assert_eq!(timers.fire(), 1);
            timers.advance(100 * YEAR);
            assert_eq!((timers.fire(), timers.until_next()), (1, Some(100 * YEAR - MILLISECOND)));
            timers.advance(1000 * YEAR);
            assert_eq!(timers.until_next(), Some(Duration::ZERO));
            // In the order of time, also if one registers in between, who was out of reach.
            let late = waiting(timers.now() + MILLISECOND, 1000 + round, &log, || ());
            assert_eq!((timers.fire(), timers.until_next()), (2, Some(MILLISECOND)));
            assert_eq!(std::mem::take(&mut *log.lock().unwrap()), [1, 3, 0, 2].map(|number| round * 4 + number));
            drop((all, late));
            assert!(timers.is_empty());
        }
        // So far ahead that there is no entry; it is ready all the same once the time has come.
        let mut never = at(timers.now().checked_add(600 * YEAR));
        assert_eq!(never.attempt(), None);
        let task = waiting(timers.now() + 600 * YEAR, 0, &log, || ());
        assert!(timers.is_empty());
        timers.advance(600 * YEAR);
        assert_eq!((timers.fire(), never.attempt()), (0, Some(())));
        drop(task);
    });
}

#[test]
fn what_a_waker_registers_withdraws_and_fires_is_seen() {
    let host = Host::new(Jobs::Keep);
    host.run(0, |_| {
        let (log, timers) = (Arc::default(), host.timers());
        let begin = timers.now();
        // The first one that comes drops another that is due with it, and one that is not due;
        // registers a limit that is over by then; and fires.
        let others = Arc::new(Mutex::new(Vec::new()));
        let limited = Arc::new(Limited { timer: LazyTimer::new(), log: Arc::clone(&log) });
        // Limits are counted from the first one that was ever set.
        drop(Limit::set_among(timers, &limited, 0, begin + 9 * MILLISECOND));
        let first = waiting(begin + MILLISECOND, 0, &log, {
            let (others, limited, timers) = (Arc::clone(&others), Arc::clone(&limited), timers.clone());
            move || {
                others.lock().unwrap().clear();
                std::mem::forget(Limit::set_among(&timers, &limited, 0, begin + MILLISECOND));
                assert_eq!(timers.fire(), 1);
            }
        });
        let second = waiting(begin + MILLISECOND, 1, &log, || ());
        others.lock().unwrap().extend([1, 2].map(|n| Withdraws::new(begin + n * MILLISECOND)));
        timers.advance(MILLISECOND);
        assert_eq!(timers.fire(), 3);
        assert_eq!(*log.lock().unwrap(), [0, 100, 1]);
        drop((first, second, limited));
        assert!(timers.is_empty());
    });
}

struct Limited {
    timer: LazyTimer,
    log: Arc<Mutex<Vec<u64>>>,
}

impl TimeLimited for Limited {
    fn timer(&self, _number: usize) -> &LazyTimer {
        &self.timer
    }

    fn expire(&self, number: usize) {
        self.log.lock().unwrap().push(100 + number as u64);
    }
}

/// A wait that leaves when it is dropped, by any thread.
struct Withdraws(Box<(Deadline, Alarm, Trigger)>);

impl Withdraws {
    fn new(until: Instant) -> Self {
        let mut all = Box::new((at(Some(until)).into_source(), Alarm::default(), Trigger::new()));
        let (source, slot, trigger) = &mut *all;
        // SAFETY: it stays in its box until it is withdrawn.
        unsafe {
            source.prepare(slot);
            assert!(source.register(slot, trigger, 0).is_ok());
        }
        Self(all)
    }
}

impl Drop for Withdraws {
    fn drop(&mut self) {
        let (source, slot, trigger) = &mut *self.0;
        if trigger.outcome().is_none() {
            // SAFETY: it was not taken, by the thread that fires.
            unsafe { source.withdraw(slot) };
        }
    }
}

#[test]
fn threads_withdraw_while_another_one_fires() {
    let (rounds, each) = if cfg!(miri) { (5, 20) } else { (200, 100) };
    let host = Host::new(Jobs::Keep);
    for round in 0..rounds {
        let all: Vec<_> = host.run(round, |_| {
            let now = host.timers().now();
            let later = |n: u64| now + (n * 7919 % each + 1) as u32 * MILLISECOND;
            [0, each].map(|first| (first..first + each).map(|n| Withdraws::new(later(n))).collect::<Vec<_>>()).into()
        });
        host.timers().advance(each as u32 / 2 * MILLISECOND);
        thread::scope(|t| {
            let leaving: Vec<_> = all
                .into_iter()
                .map(|waits| {
                    t.spawn(move || {
                        let cancelled = waits.into_iter().map(|mut wait| {
                            let (source, slot, trigger) = &mut *wait.0;
                            let is_mine = trigger.cancel();
                            if is_mine {
                                // SAFETY: it was not taken.
                                unsafe { source.withdraw(slot) };
                            }
                            is_mine
                        });
                        cancelled.filter(|is_mine| *is_mine).count()
                    })
                })
                .collect();
            let fired = host.timers().fire();
            let gone: usize = leaving.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!(fired + gone, 2 * each as usize);
            assert!(gone >= each as usize - 2, "half of them were not due");
        });
        assert!(host.timers().is_empty());
    }
}
