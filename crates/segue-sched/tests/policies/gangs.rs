//! Gangs: their members run at the same time, on different workers, or not at all; whatever they
//! wait for, however they end.
#![cfg(not(miri))]

use crate::common::gangs::{GangTooLarge, Gangs};
use crate::common::{Counted, Meet, STAND_IN, scaled};
use segue_core::{CancelToken, scope, spawn, yield_now};
use segue_sched::{Fifo, Runtime};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

fn run<T>(workers: usize, gangs: &Gangs, f: impl FnOnce() -> T) -> T {
    Runtime::new().workers(workers).run_with(|| gangs.policy(), f).unwrap()
}

#[test]
fn members_that_block_for_each_other_at_each_step_get_through() {
    // Several gangs and other fibers at once: if two workers let different gangs go, each would
    // wait for the other.
    for workers in [1, 2, 3] {
        let gangs = Gangs::new();
        let steps = AtomicUsize::new(0);
        run(workers, &gangs, || {
            scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| (0..scaled(200, 20)).for_each(|_| yield_now().unwrap()));
                }
                for _ in 0..8 {
                    let (barrier, steps) = (Arc::new(Barrier::new(workers)), &steps);
                    let member = |_| {
                        let barrier = Arc::clone(&barrier);
                        move || {
                            for _ in 0..scaled(50, 5) {
                                // This blocks the thread.
                                if barrier.wait().is_leader() {
                                    steps.fetch_add(1, SeqCst);
                                }
                                yield_now().unwrap();
                            }
                        }
                    };
                    gangs
                        .gang((0..workers).map(member))
                        .unwrap()
                        .into_iter()
                        .for_each(|member| drop(member.spawn_within(s)));
                }
            });
        });
        assert_eq!(steps.into_inner(), 8 * scaled(50, 5));
    }
}

#[test]
fn members_are_on_different_workers_which_they_are_not_elsewhere() {
    if STAND_IN {
        return;
    }
    let gangs = Gangs::new();
    let places = run(3, &gangs, || {
        let parts = gangs.gang((0..3).map(|_| || thread::current().id())).unwrap();
        let handles: Vec<_> = parts.into_iter().map(|part| part.name("member").spawn()).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect::<std::collections::HashSet<_>>()
    });
    assert_eq!(places.len(), 3);
    // The planted case: without gangs they are on one.
    let places = Runtime::new().workers(3).run_with(Fifo::default, || {
        let handles: Vec<_> = (0..3).map(|_| spawn(|| thread::current().id())).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect::<std::collections::HashSet<_>>()
    });
    assert_eq!(places.unwrap().len(), 1);
}

#[test]
fn none_starts_before_all_are_there() {
    let gangs = Gangs::new();
    run(2, &gangs, || {
        for round in 0..scaled(200, 20) {
            let spawned = &AtomicUsize::new(0);
            scope(|s| {
                let mut parts = gangs.gang((0..2).map(|_| || assert_eq!(spawned.load(SeqCst), 2))).unwrap();
                let last = parts.pop().unwrap();
                parts.into_iter().for_each(|part| drop(part.spawn_within(s)));
                spawned.store(1, SeqCst);
                // The first has every chance to run, and may not.
                (0..round % 5).for_each(|_| yield_now().unwrap());
                if round % 10 == 0 {
                    // Another gang passes it, on both workers.
                    let others = gangs.gang((0..2).map(|_| || ())).unwrap();
                    let others: Vec<_> = others.into_iter().map(|part| part.spawn_within(s)).collect();
                    others.into_iter().for_each(|part| part.join().unwrap());
                }
                spawned.store(2, SeqCst);
                last.spawn_within(s);
            });
        }
    });
}

#[test]
fn members_may_wait_for_each_other_as_fibers_do() {
    let gangs = Gangs::new();
    run(2, &gangs, || {
        for _ in 0..scaled(200, 20) {
            let there: Vec<_> = (0..10).map(|_| Meet::new()).collect();
            let back: Vec<_> = (0..10).map(|_| Meet::new()).collect();
            let (there, back) = (&there, &back);
            scope(|s| {
                let part = |n| {
                    move || {
                        for (a, b) in there.iter().zip(back) {
                            if n == 0 {
                                a.put(1);
                                b.wait().unwrap();
                            } else {
                                a.wait().unwrap();
                                b.put(2);
                            }
                        }
                    }
                };
                gangs.gang((0..2).map(part)).unwrap().into_iter().for_each(|part| drop(part.spawn_within(s)));
            });
        }
    });
}

#[test]
fn a_member_that_ends_early_or_waits_for_others_does_not_hold_up_the_rest() {
    let gangs = Gangs::new();
    run(3, &gangs, || {
        let outside = &Meet::new();
        let steps = &AtomicUsize::new(0);
        let barrier = &Barrier::new(2);
        scope(|s| {
            let part = |n| {
                move || match n {
                    // This one ends at its second turn,
                    0 => yield_now().unwrap(),
                    // and the others go on together, until the last of them has somebody outside of
                    // the gang go on.
                    _ => (0..20).for_each(|_| {
                        barrier.wait();
                        steps.fetch_add(1, SeqCst);
                        yield_now().unwrap();
                    }),
                }
            };
            gangs.gang((0..3).map(part)).unwrap().into_iter().for_each(|part| drop(part.spawn_within(s)));
            // Of these one waits, for as long as the other runs.
            let part = |n| {
                move || match n {
                    0 => outside.wait().unwrap(),
                    _ => {
                        (0..20).for_each(|_| yield_now().unwrap());
                        outside.put(());
                    }
                }
            };
            gangs.gang((0..2).map(part)).unwrap().into_iter().for_each(|part| drop(part.spawn_within(s)));
        });
        assert_eq!(steps.load(SeqCst), 40);
    });
}

#[test]
fn a_member_that_panics_is_over() {
    let gangs = Gangs::new();
    run(2, &gangs, || {
        let part = |n| move || (0..10).for_each(|_| yield_now().map(|()| assert!(n != 0, "planted")).unwrap());
        let parts = gangs.gang((0..2).map(part)).unwrap();
        let handles: Vec<_> = parts.into_iter().map(|part| part.spawn()).collect();
        let ends = handles.into_iter().map(|handle| handle.join().is_ok());
        assert_eq!(ends.collect::<Vec<_>>(), [false, true]);
    });
}

#[test]
fn a_member_that_is_never_spawned_is_not_waited_for() {
    let gangs = Gangs::new();
    run(2, &gangs, || {
        let mut parts = gangs.gang((0..2).map(|n| move || n)).unwrap();
        let second = parts.pop().unwrap();
        let first = parts.pop().unwrap().spawn();
        (0..10).for_each(|_| yield_now().unwrap());
        assert!(!first.is_finished(), "the second may come yet");
        drop(second);
        assert_eq!(first.join().unwrap(), 0);
    });
}

#[test]
fn a_gang_without_members_is_none() {
    let gangs = Gangs::new();
    run(1, &gangs, || assert!(gangs.gang(Vec::<fn()>::new()).unwrap().is_empty()));
}

#[test]
fn a_gang_with_more_members_than_workers_is_an_error() {
    let gangs = Gangs::new();
    let early = gangs.gang([|| ()]).map(drop);
    assert_eq!(early, Err(GangTooLarge { members: 1, workers: 0 }));
    let error = run(2, &gangs, || gangs.gang((0..3).map(|n| move || n)).map(drop)).unwrap_err();
    assert_eq!(error, GangTooLarge { members: 3, workers: 2 });
    assert!(error.to_string().contains("start more"));
}

#[test]
fn children_of_members_are_not_members() {
    let gangs = Gangs::new();
    run(2, &gangs, || {
        let parts = gangs.gang((0..2).map(|n| {
            move || {
                let children: Vec<_> = (0..10).map(|k| spawn(move || yield_now().map(|()| k).unwrap())).collect();
                children.into_iter().map(|child| child.join().unwrap()).sum::<i32>() + n
            }
        }));
        let handles: Vec<_> = parts.unwrap().into_iter().map(|part| part.spawn()).collect();
        assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>(), 91);
    });
}

#[test]
fn a_cancelled_gang_ends_whether_it_has_started_or_not() {
    let gangs = Gangs::new();
    run(2, &gangs, || {
        for cancel_first in [true, false] {
            let token = CancelToken::new();
            if cancel_first {
                token.cancel();
            }
            let meet = &Meet::<()>::new();
            let (started, cancelled) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
            token.run(|| {
                scope(|s| {
                    let part = |_| {
                        move || {
                            started.fetch_add(1, SeqCst);
                            cancelled.fetch_add(usize::from(meet.wait().is_err()), SeqCst);
                        }
                    };
                    gangs.gang((0..2).map(part)).unwrap().into_iter().for_each(|part| drop(part.spawn_within(s)));
                    while !cancel_first && started.load(SeqCst) < 2 {
                        yield_now().unwrap();
                    }
                    token.cancel();
                });
            });
            // A closure that is cancelled before it starts is dropped.
            assert_eq!(cancelled.load(SeqCst), if cancel_first { 0 } else { 2 });
        }
    });
}

#[test]
fn a_scheduler_ends_with_gangs_in_every_state() {
    static LIVE: AtomicUsize = AtomicUsize::new(0);
    struct Noted(&'static AtomicUsize);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    for round in 0..scaled(200, 20) {
        let gangs = Gangs::new();
        let made = gangs.clone();
        let pool = Runtime::new().workers(2).pool_with(move || made.policy()).unwrap();
        pool.run(|| {
            for n in 0..5 {
                let parts = gangs.gang((0..2).map(|k| {
                    LIVE.fetch_add(1, SeqCst);
                    let noted = Noted(&LIVE);
                    move || {
                        let _noted = noted;
                        let never = Meet::<()>::new();
                        while k == 1 && n % 2 == 0 && yield_now().is_ok() {}
                        assert!(never.wait().is_err());
                    }
                }));
                parts.unwrap().into_iter().for_each(|part| drop(part.spawn()));
            }
            (0..round % 7).for_each(|_| yield_now().unwrap());
        })
        .unwrap();
        drop(pool);
        assert_eq!(LIVE.load(SeqCst), 0, "what the members had is dropped");
    }
}

#[test]
fn idle_workers_take_what_belongs_to_no_gang() {
    let gangs = Gangs::new();
    let taken = AtomicBool::new(false);
    run(2, &gangs, || {
        scope(|s| {
            // This worker runs none of them meanwhile: each spawn is a chance for the other to get
            // one.
            while !taken.load(SeqCst) {
                s.spawn(|| taken.store(true, SeqCst));
                thread::yield_now();
            }
        });
    });
}

#[test]
fn one_table_for_two_schedulers_is_refused() {
    let end = crate::common::in_child("one_table_for_two_schedulers_is_refused", || {
        let gangs = Gangs::new();
        run(1, &gangs, || run(1, &gangs, || ()));
    });
    assert!(end.stderr.contains("is for one scheduler"), "{end:#?}");
}

#[test]
fn closures_of_a_gang_are_dropped_once() {
    let (dropped, ran) = (AtomicUsize::new(0), Mutex::new(0));
    let gangs = Gangs::new();
    run(2, &gangs, || {
        scope(|s| {
            let (dropped, ran) = (&dropped, &ran);
            let part = |_| {
                let counted = Counted(dropped);
                move || {
                    let _counted = counted;
                    *ran.lock().unwrap() += 1;
                }
            };
            let mut parts = gangs.gang((0..2).map(part)).unwrap();
            parts.pop().unwrap().spawn_within(s);
        });
    });
    assert_eq!((dropped.into_inner(), ran.into_inner().unwrap()), (2, 1));
}
