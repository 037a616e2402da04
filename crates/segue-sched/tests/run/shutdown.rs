//! Schedulers that start and stop thousands of times, with work coming in meanwhile: nothing is
//! lost, no thread and no descriptor is left.
//!
//! The tests count the threads of the process, so they take turns.
#![cfg(not(miri))]

#[path = "../common/mod.rs"]
mod common;

use common::{Counted, Meet, descriptors, pool, scaled, threads};
use segue_core::{JoinError, finishing_source, sleep, spawn, yield_now};
use segue_sched::{Fifo, Runtime, Shutdown, move_to};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

static TURN: Mutex<()> = Mutex::new(());

/// What the process had before, to be compared with what it has afterwards.
struct Before {
    threads: usize,
    descriptors: usize,
    leaked: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Before {
    fn now() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // The harness's threads come and go; ours must not add up over thousands of rounds.
        Self { threads: threads(), descriptors: descriptors(), leaked: segue_fiber::leaked_stacks(), _turn: turn }
    }

    fn assert_same(&self) {
        assert!(threads() <= self.threads + 4, "threads: {} before, {} now", self.threads, threads());
        assert!(descriptors() <= self.descriptors + 2, "{} before, {} now", self.descriptors, descriptors());
        assert_eq!(segue_fiber::leaked_stacks(), self.leaked);
    }
}

#[test]
fn pools_start_and_stop() {
    let before = Before::now();
    for round in 0..scaled(2000, 50) {
        let pool = pool(1 + round % 2);
        if round % 3 == 0 {
            assert_eq!(pool.run(|| round), Ok(round));
        }
    }
    before.assert_same();
}

#[test]
fn runs_start_and_stop() {
    let before = Before::now();
    for round in 0..scaled(2000, 50) {
        let run = Runtime::new().workers(1 + round % 2).run_with(Fifo::default, || {
            drop(spawn(|| Meet::<()>::new().wait()));
            spawn(move || round).join().unwrap()
        });
        assert_eq!(run.unwrap(), round);
    }
    before.assert_same();
}

#[test]
fn runs_and_pools_with_a_grace_start_and_stop() {
    // Its timers are there from the first on.
    drop(Runtime::new().workers(1).shutdown(Shutdown::new().grace(Duration::MAX)).pool());
    let before = Before::now();
    for round in 0..scaled(1000, 30) {
        let shutdown = Shutdown::new().grace(Duration::from_micros(round as u64 % 7 * 20)).deadline(Duration::MAX);
        let builder = Runtime::new().workers(1 + round % 2).shutdown(shutdown);
        let fibers = || [spawn(|| finishing_source().wait()), spawn(|| sleep(Duration::MAX)), spawn(|| Ok(()))];
        let all = if round % 3 == 0 {
            let pool = builder.pool().unwrap();
            pool.spawn(fibers).join().unwrap()
        } else {
            builder.run(fibers).unwrap()
        };
        all.into_iter().for_each(|fiber| assert!(fiber.is_finished()));
    }
    before.assert_same();
}

#[test]
fn a_pool_is_dropped_with_fibers_in_every_state() {
    let before = Before::now();
    let (drops, made) = (&*Box::leak(Box::new(AtomicUsize::new(0))), AtomicUsize::new(0));
    for round in 0..scaled(1000, 30) {
        let pool = pool(1 + round % 2);
        for n in 0..8 {
            let counted = Counted(drops);
            made.fetch_add(1, SeqCst);
            drop(pool.spawn(move || {
                let _counted = counted;
                let _ = match n % 4 {
                    0 => Meet::<()>::new().wait().map(drop),
                    1 => sleep(Duration::from_secs(1000)),
                    2 => (0..3).try_for_each(|_| yield_now()),
                    _ => spawn(|| sleep(Duration::MAX)).join().map(drop).map_err(|_| segue_core::check().unwrap_err()),
                };
            }));
        }
    }
    assert_eq!(drops.load(SeqCst), made.into_inner(), "every closure was run or dropped");
    before.assert_same();
}

#[test]
fn many_threads_use_a_pool_until_it_is_dropped() {
    let before = Before::now();
    let (ran, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let rounds = scaled(500, 20);
    for round in 0..rounds {
        let pool = Arc::new(pool(1 + round % 2));
        let users: Vec<_> = (0..4)
            .map(|n| {
                let (pool, ran, told) = (Arc::clone(&pool), Arc::clone(&ran), Arc::clone(&told));
                std::thread::spawn(move || {
                    for _ in 0..10 {
                        if n % 2 == 0 {
                            assert_eq!(pool.run(|| 1), Ok(1));
                            ran.fetch_add(1, SeqCst);
                        } else {
                            let ran = Arc::clone(&ran);
                            let fiber = pool.spawn(move || ran.fetch_add(1, SeqCst));
                            told.fetch_add(usize::from(matches!(fiber.join(), Err(JoinError::NeverRan(_)))), SeqCst);
                        }
                    }
                    // The last one to leave drops the pool.
                })
            })
            .collect();
        drop(pool);
        users.into_iter().for_each(|user| user.join().unwrap());
    }
    assert_eq!(ran.load(SeqCst) + told.load(SeqCst), rounds * 40);
    before.assert_same();
}

#[test]
fn late_resumes_and_cancels_meet_a_pool_that_ends() {
    let before = Before::now();
    for round in 0..scaled(1000, 30) {
        let pool = pool(1 + round % 2);
        let meet = Arc::new(Meet::new());
        let token = segue_core::scope(|s| s.token());
        let fibers: Vec<_> = (0..4)
            .map(|_| {
                let meet = Arc::clone(&meet);
                pool.spawn(move || meet.wait())
            })
            .collect();
        let (late, cancel) = (Arc::clone(&meet), pool.family().token());
        let resumer = std::thread::spawn(move || late.put(1));
        let canceller = std::thread::spawn(move || {
            cancel.cancel();
            token.cancel();
        });
        drop(pool);
        for fiber in fibers {
            assert!(matches!(fiber.join(), Ok(_) | Err(JoinError::NeverRan(_))));
        }
        resumer.join().unwrap();
        canceller.join().unwrap();
    }
    before.assert_same();
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    let before = Before::now();
    for round in 0..scaled(300, 30) {
        let made = AtomicUsize::new(0);
        let fail = round % 3;
        let park = move || {
            if made.fetch_add(1, SeqCst) == fail {
                return Err(std::io::Error::other("planted: no park"));
            }
            Ok(segue_core::scheduling::WaitPark::new())
        };
        let builder = Runtime::new().workers(3).park(park);
        let error = if round % 2 == 0 {
            builder.pool().map(drop).unwrap_err()
        } else {
            builder.run(|| unreachable!("it did not start")).unwrap_err()
        };
        assert_eq!(error.to_string(), "planted: no park");
    }
    before.assert_same();
}

/// A fiber computes until a closure that it has spawned ran, which only the other worker can start,
/// and that is told to end at any moment.
#[test]
fn an_idle_worker_starts_what_a_busy_one_offers_before_it_ends() {
    let before = Before::now();
    for round in 0..scaled(200, 10) {
        let pool = Runtime::new().workers(2).pool().unwrap();
        let handle = pool.handle();
        let (tell, told) = mpsc::channel();
        let mover = thread::spawn(move || {
            move_to(&handle, || {
                let ran = Arc::new(AtomicBool::new(false));
                let child_ran = Arc::clone(&ran);
                drop(spawn(move || child_ran.store(true, SeqCst)));
                tell.send(()).unwrap();
                while !ran.load(SeqCst) {
                    std::hint::spin_loop();
                }
            })
        });
        told.recv().unwrap();
        for _ in 0..round % 50 * 20 {
            std::hint::spin_loop();
        }
        drop(pool);
        mover.join().unwrap().unwrap();
    }
    before.assert_same();
}
