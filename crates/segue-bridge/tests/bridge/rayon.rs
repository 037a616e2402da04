//! rayon's jobs that wait, and fibers that wait for rayon's jobs.

use crate::common;

use common::{Counted, fifo, rayon_pool, stealing};
use rayon::prelude::*;
use segue::sync::promise;
use segue_bridge::rayon::{run, run_on, wait_yielding};
use segue_core::{CancelToken, JoinError, check, scope, sleep, spawn, timeout, yield_now};
use segue_sched::Sim;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn one_worker() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap()
}

#[test]
fn a_job_that_waits_parks_its_worker() {
    let (resolver, promised) = promise();
    fifo().spawn(move || {
        let _ = yield_now();
        resolver.fill(20).unwrap();
    });
    let sum = rayon_pool().install(|| {
        let (left, right) = rayon::join(|| *promised.wait().unwrap(), || 22);
        sleep(Duration::from_millis(1)).unwrap();
        left + right
    });
    assert_eq!(sum, 42);
    // And fibers wait for jobs at structures, in a scope of rayon's.
    let (resolver, promised) = promise();
    let waiter = fifo().spawn(move || promised.take());
    rayon_pool().scope(|s| s.spawn(move |_| resolver.fill(1).unwrap()));
    assert_eq!(waiter.join().unwrap(), Ok(1));
}

#[test]
fn a_fiber_waits_for_a_job_and_the_others_of_its_worker_go_on() {
    let pool = one_worker();
    let released = Arc::new(AtomicBool::new(false));
    let release = Arc::clone(&released);
    let sum = fifo().run(|| {
        let other = spawn(move || release.store(true, SeqCst));
        let sum = run_on(&pool, move || {
            // Ends only if the worker of the waiting fiber runs the other one.
            while !released.load(SeqCst) {
                std::thread::yield_now();
            }
            (1..=8).sum::<u32>()
        });
        other.join().unwrap();
        sum.unwrap()
    });
    assert_eq!(sum, Ok(36));
}

#[test]
fn in_a_simulation_a_job_is_work_outside_for_which_the_clock_stands() {
    let pool = one_worker();
    for seed in 0..20 {
        let run = Sim::new(seed).run(|| {
            let (release, released) = std::sync::mpsc::channel::<()>();
            scope(|s| {
                // Without the work outside the clock would jump to the hour, or there would be a
                // deadlock.
                let late = s.spawn(|| timeout(Duration::from_secs(3600), check));
                let sum = s.spawn(|| {
                    run_on(&pool, move || {
                        released.recv().unwrap();
                        (1..=8).into_par_iter().sum::<u32>()
                    })
                });
                s.spawn(move || release.send(()).unwrap());
                late.join().unwrap().unwrap();
                let sum = sum.join().unwrap();
                (sum.unwrap(), run(|| 1).unwrap())
            })
        });
        assert_eq!(run, Ok((36, 1)));
    }
}

#[test]
fn run_from_everywhere() {
    let compute = || run(|| (1..=1000_u64).into_par_iter().sum::<u64>()).unwrap();
    assert_eq!(compute(), 500_500);
    assert_eq!(fifo().run(compute), Ok(500_500));
    assert_eq!(stealing().run(compute), Ok(500_500));
    // On a worker of rayon's it runs in place, also if there is but one.
    let pool = Arc::new(one_worker());
    let inner = Arc::clone(&pool);
    assert_eq!(run_on(&pool, move || run_on(&inner, || 1).unwrap() + run(|| 2).unwrap()).unwrap(), 3);
}

#[test]
fn a_panic_of_a_job_is_an_error() {
    for in_place in [false, true] {
        let panicking = || run(|| -> u32 { std::panic::resume_unwind(Box::new("planted")) });
        let error = if in_place { rayon_pool().install(panicking) } else { fifo().run(panicking).unwrap() };
        assert_eq!(error.unwrap_err().into_panic().unwrap().downcast_ref(), Some(&"planted"));
    }
}

#[test]
fn a_cancelled_wait_leaves_the_job_to_itself() {
    let pool = Arc::new(one_worker());
    let drops = Arc::new(AtomicUsize::new(0));
    let (gate, opens) = promise::<()>();
    let (started, has_started) = promise();
    let token = CancelToken::new();
    let waiter = fifo().spawn({
        let (pool, token, held) = (Arc::clone(&pool), token.clone(), Counted(Arc::clone(&drops)));
        move || {
            token.run(|| {
                run_on(&pool, move || {
                    started.fill(()).unwrap();
                    opens.wait().unwrap();
                    held
                })
            })
        }
    });
    has_started.wait().unwrap();
    token.cancel();
    assert!(matches!(waiter.join().unwrap(), Err(JoinError::WaitCancelled(..))));
    assert_eq!(drops.load(SeqCst), 0);
    gate.fill(()).unwrap();
    run_on(&pool, || ()).unwrap();
    assert_eq!(drops.load(SeqCst), 1);
    // A cancelled caller starts nothing.
    assert!(token.run(|| run(|| panic!("it is cancelled"))).is_err());
}

#[test]
fn an_unwanted_result_that_panics_in_its_drop_leaves_the_pool_as_it_was() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("planted"));
        }
    }
    let pool = Arc::new(one_worker());
    let (gate, opens) = promise::<()>();
    let (started, has_started) = promise();
    let token = CancelToken::new();
    let (inner, waits) = (Arc::clone(&pool), token.clone());
    let waiter = fifo().spawn(move || {
        waits.run(|| {
            run_on(&inner, move || {
                started.fill(()).unwrap();
                opens.wait().unwrap();
                Loud
            })
            .map(std::mem::forget)
        })
    });
    has_started.wait().unwrap();
    token.cancel();
    assert!(matches!(waiter.join().unwrap(), Err(JoinError::WaitCancelled(..))));
    gate.fill(()).unwrap();
    assert_eq!(run_on(&pool, || 1).unwrap(), 1);
}

#[test]
fn a_job_that_yields_runs_the_job_that_it_waits_for() {
    let pool = one_worker();
    for _ in 0..100 {
        let answer = pool.install(|| {
            let (resolver, promised) = promise();
            let (second, also) = promise();
            rayon::spawn(move || {
                let more = wait_yielding(also.wait_source()).unwrap().copied().unwrap();
                resolver.fill(more + 1).unwrap();
            });
            rayon::spawn(move || second.fill(1).unwrap());
            wait_yielding(promised.wait_source()).unwrap().copied()
        });
        assert_eq!(answer, Ok(2));
    }
}

#[test]
fn a_job_that_yields_is_woken_by_fibers_and_finds_jobs_that_come_later() {
    let pool = Arc::new(one_worker());
    let injecting = Arc::clone(&pool);
    let answer = pool.install(|| {
        let (resolver, promised) = promise();
        fifo().spawn(move || {
            // By then the waiting worker sleeps, mostly: nothing says when. Right in any case.
            sleep(Duration::from_millis(3)).unwrap();
            // Only the worker that waits can run it.
            injecting.spawn(move || resolver.fill(1).unwrap());
        });
        let later = wait_yielding(promised.wait_source()).unwrap().copied().unwrap();
        let (resolver, promised) = promise();
        fifo().spawn(move || {
            sleep(Duration::from_millis(3)).unwrap();
            resolver.fill(2).unwrap();
        });
        later + wait_yielding(promised.wait_source()).unwrap().copied().unwrap()
    });
    assert_eq!(answer, 3);
    // Elsewhere it is a plain wait.
    assert_eq!(wait_yielding(async { 1 }), Ok(1));
    assert_eq!(fifo().run(|| wait_yielding(async { 1 })), Ok(Ok(1)));
}

#[test]
fn a_job_that_yields_is_cancelled() {
    let token = CancelToken::new();
    let waits = token.clone();
    let (started, has_started) = promise();
    let (ended, has_ended) = promise();
    rayon_pool().spawn(move || {
        ended
            .fill(waits.run(|| {
                started.fill(()).unwrap();
                wait_yielding(pending::<()>()).is_err()
            }))
            .unwrap();
    });
    has_started.wait().unwrap();
    token.cancel();
    assert_eq!(has_ended.take(), Ok(true));
    assert!(token.run(|| rayon_pool().install(|| wait_yielding(async {}))).is_ok(), "contexts do not follow to rayon");
}

#[test]
fn many_fibers_wait_for_many_jobs_that_wait_for_many_fibers() {
    for pool in [fifo(), stealing()] {
        let total = pool.run(|| {
            let total = AtomicUsize::new(0);
            scope(|s| {
                for n in 0..100 {
                    let total = &total;
                    s.spawn(move || {
                        let doubled = run_on(rayon_pool(), move || {
                            let (resolver, promised) = promise();
                            stealing().spawn(move || resolver.fill(2 * n));
                            wait_yielding(promised.wait_source()).unwrap().copied().unwrap()
                        });
                        total.fetch_add(doubled.unwrap(), SeqCst);
                    });
                }
            });
            total.into_inner()
        });
        assert_eq!(total, Ok(9900));
    }
}

#[test]
fn a_job_that_runs_on_top_of_one_that_is_cancelled_is_not() {
    let pool = one_worker();
    let (resolver, promised) = promise::<()>();
    let (told, tells) = std::sync::mpsc::channel();
    let end = told.clone();
    let token = segue::CancelToken::new();
    let stranger = token.clone();
    pool.spawn(move || {
        let ended = token.run(|| {
            // It lies in this worker's own queue, and is run while this one waits.
            rayon::spawn(move || {
                stranger.cancel();
                told.send(segue::check().is_ok()).unwrap();
            });
            wait_yielding(promised.wait_source())
        });
        end.send(ended.is_err()).unwrap();
    });
    assert!(tells.recv().unwrap(), "it saw the cancellation of another");
    assert!(tells.recv().unwrap(), "the one that was cancelled was not");
    drop(resolver);
}
