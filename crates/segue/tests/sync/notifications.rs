//! Notifications under every scheduler and between them: one permit, told once, passed on by those
//! who have gone.

use crate::meet;

use meet::{Task, block_on, everywhere, mixed};
use segue::sync::Notify;
use segue::testing::Sim;
use segue::{Builder, CancelToken, Either, after, scope, yield_now};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

fn pauses(n: u64) {
    (0..n).try_for_each(|_| yield_now()).unwrap();
}

#[test]
fn notifications_that_nobody_waits_for_leave_one_permit() {
    everywhere(|| {
        let notify = Notify::new();
        assert!(!notify.try_wait());
        (0..3).for_each(|_| notify.notify_one());
        assert_eq!(format!("{notify:?}"), "Notify { permit: true }");
        assert_eq!(notify.wait(), Ok(()));
        assert!(!notify.try_wait());
        notify.notify_one();
        block_on(notify.wait_source());
        notify.notify_all();
        assert!(!notify.try_wait(), "telling all leaves none");
    });
}

#[test]
fn one_is_told_at_a_time_in_the_order_of_arrival() {
    let notify = Notify::new();
    let mut tasks: Vec<_> = (0..3).map(|_| Task::waiting(notify.wait_source())).collect();
    for n in 0..3 {
        notify.notify_one();
        assert_eq!(tasks.iter().map(Task::wakes).sum::<usize>(), n + 1);
        assert_eq!(tasks[n].poll(), Some(()));
    }
    assert!(!notify.try_wait());
}

#[test]
fn all_who_wait_are_told() {
    everywhere(|| {
        let (notify, told) = (Notify::new(), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..8 {
                let (notify, told) = (&notify, &told);
                drop(s.spawn(move || {
                    if n % 2 == 0 {
                        notify.wait().unwrap()
                    } else {
                        block_on(notify.wait_source())
                    }
                    told.fetch_add(1, SeqCst);
                }));
            }
            // Who comes after one call is told by another.
            while told.load(SeqCst) < 8 {
                notify.notify_all();
                let _ = yield_now();
            }
        });
        assert!(!notify.try_wait());
    });
}

#[test]
fn telling_all_counts_for_waits_that_are_made_and_have_not_begun() {
    let notify = Notify::new();
    let before = notify.wait_source();
    notify.notify_one();
    notify.notify_all();
    let mut after = notify.wait_source();
    assert_eq!(before.wait(), Ok(()));
    // It has left the permit to the other one.
    assert_eq!((after.attempt(), after.attempt()), (Some(()), None));
}

#[test]
fn a_look_before_the_wait_misses_nothing() {
    for seed in 0..200 {
        let run = Sim::new(seed).run(|| {
            let (ready, notify) = (AtomicBool::new(false), Notify::new());
            scope(|s| {
                for n in 0..3 {
                    let (ready, notify) = (&ready, &notify);
                    drop(s.spawn(move || {
                        loop {
                            let changed = notify.wait_source();
                            if ready.load(SeqCst) {
                                break;
                            }
                            pauses(2);
                            if n == 0 { block_on(changed) } else { changed.wait().unwrap() }
                        }
                    }));
                }
                pauses(seed % 6);
                ready.store(true, SeqCst);
                notify.notify_all();
            });
        });
        run.unwrap_or_else(|deadlock| panic!("{deadlock}"));
    }
}

#[test]
fn conservation_a_dropped_future_passes_its_notification_on() {
    for dropped in 0..=3 {
        let notify = Notify::new();
        let mut tasks: Vec<_> = (0..3).map(|_| Task::waiting(notify.wait_source())).collect();
        notify.notify_one();
        drop(tasks.drain(..dropped));
        assert_eq!(tasks.iter().map(Task::wakes).sum::<usize>(), usize::from(dropped < 3), "told once");
        match tasks.first_mut() {
            Some(first) => assert_eq!((first.poll(), notify.try_wait()), (Some(()), false)),
            None => assert!(notify.try_wait(), "nobody is left: it is the permit"),
        }
    }
    // One that was told with all the others has nothing to pass on.
    let notify = Notify::new();
    let tasks = [Task::waiting(notify.wait_source()), Task::waiting(notify.wait_source())];
    notify.notify_all();
    let later = Task::waiting(notify.wait_source());
    drop(tasks);
    assert_eq!((later.wakes(), notify.try_wait()), (0, false));
}

#[test]
fn conservation_cancelled_waits_take_none_in_every_schedule() {
    let mut seen = HashMap::new();
    for seed in 0..600 {
        let run = Sim::new(seed).run(|| {
            let (notify, token) = (Notify::new(), CancelToken::new());
            scope(|s| {
                let quitters: Vec<_> = (0..2).map(|_| s.spawn(|| token.run(|| notify.wait()))).collect();
                let stayers: Vec<_> = (0..2)
                    .map(|n| {
                        let notify = &notify;
                        s.spawn(move || if n == 0 { notify.wait().unwrap() } else { block_on(notify.wait_source()) })
                    })
                    .collect();
                pauses(seed % 8);
                // Each step may be taken before, between or after the others' steps.
                let canceller = s.spawn(|| token.cancel());
                notify.notify_one();
                canceller.join().unwrap();
                let mut told = 0;
                for quitter in quitters {
                    told += u32::from(quitter.join().unwrap().is_ok());
                }
                assert!(told <= 1);
                // What the quitters did not take is with a stayer, or is the permit: as many more
                // as were taken suffice.
                if told == 1 {
                    notify.notify_one();
                }
                while stayers.iter().all(|stayer| !stayer.is_finished()) {
                    pauses(1);
                }
                notify.notify_one();
                for stayer in stayers {
                    stayer.join().unwrap();
                }
                assert!(!notify.try_wait(), "none was doubled");
                told
            })
        });
        *seen.entry(run.unwrap_or_else(|deadlock| panic!("{deadlock}"))).or_insert(0) += 1;
    }
    println!("{seen:?}");
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn conservation_on_threads_with_cancelled_and_dropped_waits() {
    // A token goes round: whoever is told has it, and tells the next. Quitters come and go.
    let (mut dropped, mut cancelled) = (0, 0);
    for round in 0..100 {
        let (notify, turns, inside) = (Notify::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let (drops, cancels) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let hold = || {
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "there is one token");
            turns.fetch_add(1, SeqCst);
            inside.fetch_sub(1, SeqCst);
            notify.notify_one();
        };
        notify.notify_one();
        mixed(9, |n| {
            for step in 0..10 {
                match n / 3 {
                    0 => notify.wait().map(|()| hold()).unwrap(),
                    1 => {
                        let mut task = Task::new(notify.wait_source());
                        match task.poll() {
                            Some(()) => hold(),
                            None => {
                                let _ = yield_now();
                                drop(task);
                                drops.fetch_add(1, SeqCst);
                            }
                        }
                    }
                    _ => {
                        let token = CancelToken::new();
                        let waited = scope(|s| {
                            if (round + step) % 2 == 0 {
                                drop(s.spawn(|| token.cancel()));
                            } else {
                                token.cancel();
                            }
                            token.run(|| notify.wait())
                        });
                        match waited {
                            Ok(()) => hold(),
                            Err(_) => drop(cancels.fetch_add(1, SeqCst)),
                        }
                    }
                }
            }
        });
        assert!(notify.try_wait() && !notify.try_wait(), "the token is there, once");
        let (drops, cancels) = (drops.into_inner(), cancels.into_inner());
        assert_eq!(turns.into_inner(), 90 - drops - cancels);
        dropped += drops;
        cancelled += cancels;
    }
    println!("{dropped} dropped, {cancelled} cancelled");
    assert!(dropped > 0 && cancelled > 0);
}

#[test]
fn plain_threads_alone_see_what_was_done_before() {
    // Small, so that Miri can look for missing orderings: the permit and a notification each carry
    // what was done before.
    let (notify, done) = (Notify::new(), AtomicUsize::new(0));
    notify.notify_one();
    std::thread::scope(|s| {
        for n in 0..4 {
            let (notify, done) = (&notify, &done);
            s.spawn(move || {
                if n % 2 == 0 {
                    notify.wait().unwrap()
                } else {
                    block_on(notify.wait_source())
                }
                // Not atomic as a whole: one at a time, or the sum is wrong.
                done.store(done.load(Relaxed) + 1, Relaxed);
                drop(Task::new(notify.wait_source()));
                notify.notify_one();
            });
        }
    });
    assert_eq!((done.into_inner(), notify.try_wait()), (4, true));
}

#[test]
fn a_notification_is_chosen_among_others_and_stays_if_it_is_not() {
    everywhere(|| {
        let (notify, other) = (Notify::new(), Notify::new());
        notify.notify_one();
        other.notify_one();
        assert_eq!(notify.wait_source().or_else(other.wait_source()).wait(), Ok(Either::Left(())));
        assert_eq!(notify.wait_source().or_else(other.wait_source()).wait(), Ok(Either::Right(())));
        let none = notify.wait_source().or(other.wait_source()).or(after(Duration::from_millis(1))).wait();
        assert_eq!(none, Ok(Either::Right(())));
        assert!(!notify.try_wait() && !other.try_wait());
    });
}

#[test]
fn conservation_a_dropped_choice_passes_its_notification_on() {
    let (notify, other) = (Notify::new(), Notify::new());
    let choice = Task::waiting(notify.wait_source().or(other.wait_source()));
    let next = Task::waiting(other.wait_source());
    other.notify_one();
    assert_eq!((choice.wakes(), next.wakes()), (1, 0));
    notify.notify_one();
    drop(choice);
    assert_eq!((next.wakes(), notify.try_wait(), other.try_wait()), (1, true, false));
}

#[test]
fn planted_a_notification_that_is_kept_is_a_deadlock_that_is_named() {
    let run = Sim::new(1).run(|| {
        let notify = Notify::new();
        scope(|s| {
            let kept = Task::waiting(notify.wait_source());
            drop(Builder::new().name("waiter").within(s).spawn(|| notify.wait()));
            pauses(3);
            notify.notify_one();
            std::mem::forget(kept);
        });
    });
    let text = run.unwrap_err().to_string();
    assert!(
        text.contains("fiber `waiter` waits for a notification at ") && text.contains("notifications.rs:"),
        "{text}"
    );
}
