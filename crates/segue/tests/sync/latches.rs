//! Latches and wait groups under every scheduler and between them: zero before, during and after
//! the wait; counts that are used again.

use crate::meet;

use meet::{Task, block_on, everywhere, mixed, pool, simulated};
use segue::sync::{Latch, WaitGroup};
use segue::testing::Sim;
use segue::{Builder, CancelToken, Either, after, scope, shield, sleep, spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

fn pauses(n: u64) {
    (0..n).try_for_each(|_| yield_now()).unwrap();
}

/// The message of the panic of `f`.
fn panic_of(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).unwrap_err();
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap()
}

#[test]
fn a_latch_opens_at_zero_for_all_and_stays_open() {
    everywhere(|| {
        let (latch, counted) = (Latch::new(3), AtomicUsize::new(0));
        assert!(!latch.try_wait());
        scope(|s| {
            for n in 0..6 {
                let (latch, counted) = (&latch, &counted);
                drop(s.spawn(move || {
                    if n % 2 == 0 {
                        latch.wait().unwrap()
                    } else {
                        block_on(latch.wait_source())
                    }
                    assert_eq!(counted.load(Relaxed), 3, "what was done before is seen");
                }));
            }
            for n in 1..=2 {
                let (latch, counted) = (&latch, &counted);
                drop(s.spawn(move || {
                    pauses(2);
                    counted.fetch_add(n, Relaxed);
                    latch.count_down(n);
                }));
            }
        });
        assert!(latch.try_wait() && latch.wait().is_ok() && latch.count() == 0);
        assert!(Latch::new(0).try_wait());
    });
}

#[test]
fn a_latch_is_not_counted_below_zero() {
    let latch = Latch::new(2);
    assert!(panic_of(|| latch.count_down(3)).contains("below zero"));
    assert_eq!(format!("{latch:?}"), "Latch { count: 2 }");
    latch.count_down(0);
    latch.count_down(2);
    latch.count_down(0);
    assert!(panic_of(|| latch.count_down(1)).contains("below zero"));
    assert!(latch.try_wait());
}

#[test]
fn a_wait_group_is_not_counted_below_zero_nor_over_the_top() {
    let group = WaitGroup::new();
    assert!(panic_of(|| group.done()).contains("below zero"));
    group.add(usize::MAX);
    assert!(panic_of(|| group.add(1)).contains("usize::MAX"));
    assert_eq!(format!("{group:?}"), format!("WaitGroup {{ count: {} }}", usize::MAX));
    // One whose `done` somebody else has called is not a second panic.
    let group = WaitGroup::new();
    let hold = group.hold();
    group.done();
    drop(hold);
    assert_eq!(group.count(), 0);
}

#[test]
fn a_wait_group_is_used_again() {
    everywhere(|| {
        let group = WaitGroup::default();
        assert!(group.try_wait() && group.wait().is_ok(), "nothing is under way");
        for round in 1..=3 {
            let done = AtomicUsize::new(0);
            scope(|s| {
                for _ in 0..round {
                    let (hold, done) = (group.hold(), &done);
                    drop(s.spawn(move || {
                        pauses(2);
                        done.fetch_add(1, Relaxed);
                        drop(hold);
                    }));
                }
                assert!(group.count() <= round);
                if round == 2 {
                    block_on(group.wait_source())
                } else {
                    group.wait().unwrap()
                }
                assert_eq!(done.load(Relaxed), round);
            });
        }
    });
}

#[test]
fn a_hold_is_let_go_by_a_panic_and_by_a_fiber_that_never_starts() {
    everywhere(|| {
        let group = Arc::new(WaitGroup::new());
        let panicked = spawn({
            let group = Arc::clone(&group);
            move || {
                let _hold = group.hold();
                std::panic::panic_any("planted");
            }
        });
        assert!(panicked.join().is_err());
        group.wait().unwrap();
        scope(|s| {
            let hold = group.hold();
            s.cancel();
            drop(s.spawn(move || drop(hold)));
            shield(|| group.wait()).unwrap();
        });
    });
}

#[test]
fn who_waits_at_zero_is_released_also_if_the_count_goes_up_before_it_runs() {
    // Polled by hand: the waiter cannot run in between.
    let group = WaitGroup::new();
    group.add(1);
    let mut former = Task::waiting(group.wait_source());
    group.done();
    group.add(1);
    let mut later = Task::waiting(group.wait_source());
    assert_eq!((former.wakes(), later.wakes()), (1, 0));
    assert_eq!((former.poll(), later.poll()), (Some(()), None));
    group.done();
    assert_eq!(later.poll(), Some(()));
}

#[test]
fn conservation_of_rounds_in_every_schedule() {
    // Two rounds that overlap as they like: a wait is over exactly if the count was zero since it
    // began.
    let (mut released_early, mut saw_second) = (0, 0);
    for seed in 0..300 {
        let early = Sim::new(seed)
            .run(|| {
                let (group, zeros) = (WaitGroup::new(), AtomicUsize::new(0));
                scope(|s| {
                    group.add(1);
                    let waiter = s.spawn(|| {
                        group.wait().unwrap();
                        zeros.load(SeqCst)
                    });
                    let token = CancelToken::new();
                    let cancelled = s.spawn({
                        let (token, group) = (token.clone(), &group);
                        move || token.run(|| group.wait())
                    });
                    pauses(seed % 4);
                    zeros.fetch_add(1, SeqCst);
                    if seed % 2 == 0 {
                        token.cancel();
                    }
                    group.done();
                    group.add(1);
                    pauses(seed % 5);
                    zeros.fetch_add(1, SeqCst);
                    group.done();
                    let _ = cancelled.join().unwrap();
                    waiter.join().unwrap()
                })
            })
            .unwrap_or_else(|deadlock| panic!("{deadlock}"));
        match early {
            1 => released_early += 1,
            _ => saw_second += 1,
        }
    }
    println!("{released_early} {saw_second}");
    assert!(released_early > 0 && saw_second > 0);
}

#[test]
fn a_cancelled_wait_leaves_the_count_as_it_was() {
    everywhere(|| {
        let (latch, token) = (Latch::new(1), CancelToken::new());
        scope(|s| {
            let waiter = s.spawn(|| token.run(|| latch.wait()));
            let other = s.spawn(|| latch.wait());
            pauses(2);
            token.cancel();
            assert!(waiter.join().unwrap().is_err());
            assert!(token.run(|| latch.wait()).is_err(), "cancellation sticks");
            drop(Task::waiting(latch.wait_source()));
            assert_eq!(latch.count(), 1);
            latch.count_down(1);
            assert_eq!(other.join().unwrap(), Ok(()));
        });
    });
}

#[test]
fn a_latch_is_chosen_among_others() {
    everywhere(|| {
        let latch = Latch::new(1);
        let first = latch.wait_source().or(after(Duration::from_millis(1))).wait();
        assert_eq!(first, Ok(Either::Right(())));
        latch.count_down(1);
        let first = after(Duration::MAX).or(latch.wait_source()).wait();
        assert_eq!(first, Ok(Either::Right(())));
    });
}

#[test]
fn the_last_one_on_virtual_time_releases() {
    simulated(20, |_| {
        let (group, start) = (WaitGroup::new(), segue::now());
        scope(|s| {
            for hours in 1..=24 {
                let hold = group.hold();
                drop(s.spawn(move || {
                    sleep(Duration::from_secs(3600 * hours)).unwrap();
                    drop(hold);
                }));
            }
            group.wait().unwrap();
        });
        assert_eq!(segue::now().duration_since(start), Duration::from_secs(86_400));
    });
}

#[test]
fn conservation_on_threads_fibers_and_dropped_tasks() {
    for _ in 0..300 {
        let (latch, group, sum, dropped) = (Latch::new(6), WaitGroup::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        mixed(6, |n| {
            let hold = group.hold();
            sum.fetch_add(1, Relaxed);
            let mut task = Task::new(latch.wait_source());
            if task.poll().is_none() {
                dropped.fetch_add(1, Relaxed);
            }
            latch.count_down(1);
            drop(task);
            if n % 2 == 0 {
                latch.wait().unwrap()
            } else {
                block_on(latch.wait_source())
            }
            assert_eq!(sum.load(Relaxed), 6);
            drop(hold);
            group.wait().unwrap();
        });
        assert_eq!((group.count(), latch.count()), (0, 0));
        assert!(dropped.into_inner() > 0);
    }
}

#[test]
fn plain_threads_alone_see_what_was_done_before() {
    // Small, so that Miri can look for missing orderings.
    let latch = Latch::new(3);
    let written = [const { AtomicUsize::new(0) }; 3];
    std::thread::scope(|s| {
        for n in 0..3 {
            let (latch, written) = (&latch, &written);
            s.spawn(move || {
                written[n].store(n, Relaxed);
                latch.count_down(1);
                if n == 0 {
                    latch.wait().unwrap()
                } else {
                    block_on(latch.wait_source())
                }
                assert_eq!(written.iter().map(|written| written.load(Relaxed)).sum::<usize>(), 3);
            });
        }
    });
}

#[test]
fn a_pool_waits_for_another_pool() {
    let (a, b) = (pool(1), pool(2));
    for _ in 0..300 {
        let group = Arc::new(WaitGroup::new());
        group.add(4);
        let waiter = a.spawn({
            let group = Arc::clone(&group);
            move || group.wait()
        });
        for _ in 0..4 {
            let group = Arc::clone(&group);
            drop(b.spawn(move || group.done()));
        }
        assert_eq!(waiter.join().unwrap(), Ok(()));
    }
}

#[test]
fn planted_a_forgotten_done_is_a_deadlock_that_is_named() {
    let run = Sim::new(1).run(|| {
        let (group, latch) = (WaitGroup::new(), Latch::new(1));
        std::mem::forget(group.hold());
        scope(|s| {
            drop(Builder::new().name("group").within(s).spawn(|| group.wait()));
            drop(Builder::new().name("latch").within(s).spawn(|| latch.wait()));
        });
    });
    let text = run.unwrap_err().to_string();
    assert!(text.contains("fiber `group` waits for a wait group at "), "{text}");
    assert!(text.contains("fiber `latch` waits for a latch at ") && text.contains("latches.rs:"), "{text}");
}
