//! Barriers: all go on together, one leads, and whoever leaves was not counted.

use crate::meet;

use meet::{block_on, everywhere, poll_once, pool, simulated, task};
use segue::sync::Barrier;
use segue::{CancelToken, Either, scope, shield, timeout, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn all_go_on_together_and_one_leads() {
    everywhere(|| {
        let (barrier, arrived, leaders) = (Barrier::new(5), AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    for round in 1..=10 {
                        arrived.fetch_add(1, SeqCst);
                        let passed = barrier.wait().unwrap();
                        assert!(arrived.load(SeqCst) >= 5 * round, "it went on before all had arrived");
                        leaders.fetch_add(usize::from(passed.is_leader()), SeqCst);
                        let _ = barrier.wait();
                        assert!(arrived.load(SeqCst) <= 5 * (round + 1));
                    }
                });
            }
        });
        assert_eq!(leaders.into_inner(), 10);
    });
}

#[test]
fn at_a_barrier_for_none_or_one_nobody_waits() {
    for parties in [0, 1] {
        let barrier = Barrier::new(parties);
        assert!(barrier.wait().unwrap().is_leader() && block_on(barrier.wait_source()).is_leader());
    }
}

#[test]
fn whoever_leaves_has_not_arrived() {
    everywhere(|| {
        let barrier = Barrier::new(2);
        let left = timeout(Duration::from_millis(1), || barrier.wait());
        assert!(left.is_err_and(|cancelled| cancelled.timed_out()));
        let mut dropped = task(barrier.wait_source());
        assert!(poll_once(&mut dropped).is_none());
        drop(dropped);
        let mut first = task(barrier.wait_source());
        assert!(poll_once(&mut first).is_none(), "it is alone");
        let mut second = task(barrier.wait_source());
        assert!(poll_once(&mut second).expect("it is the last").is_leader());
        assert!(!poll_once(&mut first).expect("all are there").is_leader());
    });
}

#[test]
fn a_task_that_is_dropped_after_the_barrier_has_opened_has_arrived() {
    let barrier = Barrier::new(3);
    let mut tasks = [(); 2].map(|()| task(barrier.wait_source()));
    assert!(tasks.iter_mut().all(|task| poll_once(task).is_none()));
    assert!(barrier.wait().unwrap().is_leader());
    let [first, mut second] = tasks;
    drop(first);
    assert!(poll_once(&mut second).is_some());
    let mut next = task(barrier.wait_source());
    assert!(poll_once(&mut next).is_none());
}

#[test]
fn a_waiter_whose_other_arm_was_taken_is_not_counted() {
    // Its node is still in the queue when the last one arrives, and the claim is refused.
    let (barrier, other) = (Barrier::new(3), Barrier::new(2));
    let mut both = task(barrier.wait_source().or(other.wait_source()));
    let mut first = task(barrier.wait_source());
    assert!(poll_once(&mut both).is_none() && poll_once(&mut first).is_none());
    assert!(other.wait().unwrap().is_leader());
    let mut last = task(barrier.wait_source());
    assert!(poll_once(&mut last).is_none(), "one of the three has taken the other arm");
    assert!(poll_once(&mut first).is_none(), "it was told, and waits again");
    assert!(matches!(poll_once(&mut both), Some(Either::Right(_))));
    assert!(barrier.wait().unwrap().is_leader());
    assert!(poll_once(&mut first).is_some() && poll_once(&mut last).is_some());
}

#[test]
fn conservation_whoever_is_cancelled_at_whichever_step() {
    let (passed, left) = (AtomicUsize::new(0), AtomicUsize::new(0));
    simulated(400, |seed| {
        // Six come and some leave; the last ones come until all who stayed are through.
        let (barrier, went_on, leaders) = (Barrier::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
        scope(|s| {
            for n in 0..6 {
                let (barrier, went_on, leaders, passed, left) = (&barrier, &went_on, &leaders, &passed, &left);
                let token = CancelToken::new();
                let canceller = token.clone();
                s.spawn(move || {
                    token.run(|| match barrier.wait() {
                        Ok(result) => {
                            went_on.fetch_add(1, SeqCst);
                            leaders.fetch_add(usize::from(result.is_leader()), SeqCst);
                            passed.fetch_add(1, SeqCst);
                        }
                        Err(_) => drop(left.fetch_add(1, SeqCst)),
                    });
                });
                s.spawn(move || {
                    for _ in 0..(seed * 7 + n * 3) % 13 {
                        let _ = yield_now();
                    }
                    canceller.cancel();
                });
            }
        });
        assert_eq!(went_on.into_inner(), 3 * leaders.into_inner(), "as many went on as had arrived");
        let mut fresh = [(); 3].map(|()| task(barrier.wait_source()));
        let leads: Vec<_> = fresh.iter_mut().map(|task| poll_once(task).is_some()).collect();
        assert_eq!(leads, [false, false, true]);
    });
    assert!(passed.into_inner() > 100 && left.into_inner() > 100);
}

#[test]
fn conservation_on_threads_with_cancelled_fibers_and_dropped_tasks() {
    let (barrier, done, dropped) = (Barrier::new(3), AtomicUsize::new(0), AtomicUsize::new(0));
    let counts: [AtomicUsize; 5] = Default::default();
    let pass = |n: usize, leader: bool| {
        counts[n].fetch_add(1, SeqCst);
        counts[4].fetch_add(usize::from(leader), SeqCst);
    };
    let over = CancelToken::new();
    std::thread::scope(|t| {
        let (barrier, counts, pass, done, dropped, over) = (&barrier, &counts, &pass, &done, &dropped, &over);
        t.spawn(move || {
            pool(2)
                .run(|| {
                    let seen = |n: usize| counts[n].load(SeqCst) > 0;
                    for round in (0..).take_while(|round| *round < 1500 || !seen(0) || !seen(1)) {
                        scope(|s| {
                            let token = CancelToken::new();
                            let canceller = token.clone();
                            let waits = s.spawn(move || {
                                token.run(|| match barrier.wait() {
                                    Ok(result) => pass(0, result.is_leader()),
                                    Err(_) => drop(counts[1].fetch_add(1, SeqCst)),
                                });
                            });
                            if round % 2 == 0 {
                                let _ = yield_now();
                            }
                            canceller.cancel();
                            shield(|| waits.join()).unwrap();
                        });
                    }
                })
                .unwrap();
            done.fetch_add(1, SeqCst);
        });
        for _ in 0..3 {
            t.spawn(move || {
                over.run(|| {
                    while let Ok(result) = barrier.wait() {
                        pass(2, result.is_leader());
                    }
                });
            });
        }
        t.spawn(move || {
            let seen = || counts[3].load(SeqCst) > 0;
            for round in (0..).take_while(|round| *round < 3000 || !seen()) {
                dropped.fetch_add(1, SeqCst);
                let mut waits = task(barrier.wait_source());
                for _ in 0..round % 4 {
                    // One that passes and is dropped unseen would be missing in the count, so it is
                    // looked at last.
                    if let Some(result) = poll_once(&mut waits) {
                        pass(3, result.is_leader());
                        break;
                    }
                    std::thread::yield_now();
                }
            }
            done.fetch_add(1, SeqCst);
            while done.load(SeqCst) < 2 {
                std::thread::yield_now();
            }
            over.cancel();
        });
    });
    let counts = counts.map(AtomicUsize::into_inner);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let dropped = dropped.into_inner();
    // Three for each leader, of whom some may have been dropped after they had passed.
    let passed = counts[0] + counts[2] + counts[3];
    assert!(passed <= 3 * counts[4] + dropped && 3 * counts[4] <= passed + dropped, "{counts:?}");
}
