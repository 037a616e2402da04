//! orx-parallel's iterators on Segue's workers, and closures that wait.

use crate::common;

use ::orx_parallel::*;
use common::{fifo, stealing};
use segue::sync::{Barrier, promise};
use segue_bridge::orx_parallel::Workers;
use segue_core::{check, scope, shield, sleep, spawn, timeout, yield_now};
use segue_sched::{Runtime, Sim};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::current;
use std::time::Duration;

const N: usize = 2_000;

fn on(workers: Workers<'_>) -> impl ParRunner {
    Runner::adaptive_with_pool(workers)
}

/// Calls `body` on fibers of one worker and of two, in a simulation, on a plain thread, and in a
/// task of a pool that is not the caller's.
fn everywhere(body: impl Fn(Workers<'_>) + Send + Sync) {
    fifo().run(|| body(Workers::here())).unwrap();
    stealing().run(|| body(Workers::here())).unwrap();
    Sim::new(7).run(|| body(Workers::here())).unwrap();
    body(Workers::here());
    body(Workers::of(stealing()));
    fifo().run(|| body(Workers::of(stealing()).at_once(5))).unwrap();
}

#[test]
fn computations_are_those_of_one_thread() {
    everywhere(|workers| {
        let numbers: Vec<usize> = (0..N).collect();
        let squares: Vec<usize> = numbers.par().runner(on(workers)).map(|n| n * n).collect();
        assert!(squares.iter().enumerate().all(|(n, square)| *square == n * n));
        assert_eq!(numbers.par().runner(on(workers)).filter(|n| **n % 3 == 0).count(), N.div_ceil(3));
        assert_eq!(numbers.par().runner(on(workers)).map(|n| n + 1).sum(), N * (N + 1) / 2);
        assert_eq!(numbers.par().runner(on(workers)).find(|n| **n > N / 2), Some(&(N / 2 + 1)));
        let none: Vec<usize> = Vec::new();
        assert_eq!(none.par().runner(on(workers)).map(|n| n + 1).reduce(|a, b| a + b), None);
        let texts: Vec<String> = numbers.into_par().runner(on(workers)).map(|n| n.to_string()).collect();
        assert_eq!(texts[N - 1], (N - 1).to_string());
    });
}

#[test]
fn a_computation_in_a_closure_of_another_one_ends() {
    everywhere(|workers| {
        let inner = |n: usize| (0..n).into_par().runner(on(workers)).map(|n| n + 1).sum();
        let sum = (0..30).into_par().runner(on(workers)).map(inner).sum();
        assert_eq!(sum, (0..30).map(|n| n * (n + 1) / 2).sum::<usize>());
    });
}

#[test]
fn closures_suspend_their_fibers_and_block_no_worker() {
    // One worker: a closure that blocked it would wait for ever.
    fifo()
        .run(|| {
            let (resolver, promised) = promise();
            scope(|s| {
                s.spawn(|| {
                    (0..10).for_each(|_| yield_now().unwrap());
                    resolver.fill(6).unwrap();
                });
                let sum = (0..7).into_par().runner(on(Workers::here())).map(|_| *promised.wait().unwrap()).sum();
                assert_eq!(sum, 42_u32);
            });
        })
        .unwrap();
}

#[test]
fn so_many_closures_wait_at_once_as_there_are_tasks() {
    fifo()
        .run(|| {
            // Eight that wait for each other, on one worker.
            let (all, workers) = (Barrier::new(8), Workers::here().at_once(8));
            let leaders =
                (0..8).into_par().runner(on(workers)).chunk_size(1).filter(|_| all.wait().unwrap().is_leader());
            assert_eq!(leaders.count(), 1);
        })
        .unwrap();
    assert_eq!(Workers::of(stealing()).max_num_threads().get(), 2);
    assert_eq!(Workers::of(stealing()).at_once(5).max_num_threads().get(), 5);
    assert_eq!(Workers::of(fifo()).at_once(5).at_once(0).max_num_threads().get(), 1);
    assert_eq!(stealing().run(|| Workers::here().max_num_threads().get()), Ok(2));
}

#[test]
fn tasks_of_ones_own_borrow_and_wait_for_each_other() {
    everywhere(|workers| {
        let (there, back) = (segue::channel::bounded(1), segue::channel::bounded(1));
        let mut sum = 0;
        workers.run_all(tasks![
            || sum = back.1.recv().unwrap() + 1,
            || back.0.send(there.1.recv().unwrap() + 1).unwrap(),
            || there.0.send(40).unwrap(),
        ]);
        assert_eq!(sum, 42);
    });
}

#[test]
fn a_computation_runs_on_the_workers_that_it_is_handed() {
    let pool = Runtime::new().workers(2).name("mine").pool().unwrap();
    let names = Mutex::new(HashSet::new());
    let note = |_| {
        names.lock().unwrap().insert(current().name().unwrap_or_default().to_owned());
    };
    pool.run(|| (0..N).into_par().runner(on(Workers::here())).for_each(note)).unwrap();
    pool.run(|| (0..N).into_par().runner(on(Workers::of(&pool))).for_each(note)).unwrap();
    let names = names.into_inner().unwrap();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("mine-")), "{names:?}");
}

#[test]
fn a_cancelled_caller_loses_no_element_and_shows_at_the_waits() {
    everywhere(|workers| {
        // Cancelled before it begins: no fiber of it ever starts.
        let (called, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let collected: Vec<usize> = timeout(Duration::ZERO, || {
            let _ = check();
            (0..N)
                .into_par()
                .runner(on(workers))
                .map(|n| {
                    called.fetch_add(1, SeqCst);
                    cancelled.fetch_add(usize::from(check().is_err()), SeqCst);
                    n
                })
                .collect()
        });
        assert!(collected.into_iter().eq(0..N));
        assert_eq!((called.into_inner(), cancelled.into_inner()), (N, N));
    });
}

#[test]
fn a_caller_that_is_cancelled_while_closures_wait_ends_them_all() {
    everywhere(|workers| {
        let (waited, mut limit) = (AtomicUsize::new(0), Duration::from_millis(5));
        // Again, if the limit was over before any of them began.
        while waited.load(SeqCst) == 0 {
            assert!(limit < Duration::from_secs(5), "no closure is ever begun");
            let late = timeout(limit, || {
                (0..20)
                    .into_par()
                    .runner(on(workers))
                    .chunk_size(1)
                    .map(|_| {
                        waited.fetch_add(1, SeqCst);
                        sleep(Duration::from_secs(3600))
                    })
                    .into_fallible()
                    .collect::<Vec<()>>()
            });
            assert!(late.unwrap_err().timed_out());
            limit *= 2;
        }
    });
}

#[test]
fn a_panic_comes_out_with_its_payload_when_all_tasks_have_ended() {
    everywhere(|workers| {
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let task = |panics: bool| {
            begun.fetch_add(1, SeqCst);
            shield(yield_now).unwrap();
            ended.fetch_add(1, SeqCst);
            if panics {
                panic_any(17_u8);
            }
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            workers.run_all(tasks![|| task(false), || task(true), || task(false), || task(false)]);
        }));
        assert_eq!(*panicked.unwrap_err().downcast::<u8>().unwrap(), 17);
        assert_eq!((begun.into_inner(), ended.into_inner()), (4, 4));
        // Of an iterator; and the workers go on.
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            (0..N).into_par().runner(on(workers)).map(|n| if n == N / 2 { panic_any("halfway") } else { n }).sum()
        }));
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "halfway");
        assert_eq!((0..N).into_par().runner(on(workers)).count(), N);
    });
}

#[test]
fn a_body_that_panics_waits_for_its_tasks() {
    // What is called in the body of a scope lives as long as the pool.
    static WORKERS: Workers<'static> = Workers::here();
    let check = || {
        let alive = Arc::new(());
        let panicked = catch_unwind(|| {
            WORKERS.scope(|s| {
                for _ in 0..3 {
                    let alive = Arc::clone(&alive);
                    s.run(move || {
                        let _ = yield_now();
                        drop(alive);
                    });
                }
                panic_any("in the body");
            });
        });
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "in the body");
        assert_eq!(Arc::strong_count(&alive), 1);
    };
    fifo().run(check).unwrap();
    stealing().run(check).unwrap();
    check();
}

/// Counts how often it is dropped.
struct Tracked<'d>(usize, &'d [AtomicUsize]);

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.1[self.0].fetch_add(1, SeqCst);
    }
}

#[test]
fn elements_that_are_moved_are_dropped_once_and_never_twice() {
    everywhere(|workers| {
        for panics in [false, true] {
            let drops: Vec<_> = (0..N).map(|_| AtomicUsize::new(0)).collect();
            let elements: Vec<_> = (0..N).map(|n| Tracked(n, &drops)).collect();
            let kept = catch_unwind(AssertUnwindSafe(|| {
                let stops = |n| {
                    if panics && n == N / 3 {
                        panic_any("a third")
                    }
                };
                let kept = elements.into_par().runner(on(workers)).inspect(move |it| stops(it.0));
                kept.collect::<Vec<_>>().len()
            }));
            assert_eq!(kept.ok(), (!panics).then_some(N));
            // Where a closure panics, orx-parallel may leak what it has collected.
            let least = usize::from(!panics);
            assert!(drops.iter().all(|drops| (least..=1).contains(&drops.load(SeqCst))));
        }
    });
}

#[test]
fn tasks_run_beside_fibers_of_the_same_worker() {
    fifo()
        .run(|| {
            let ticks = Arc::new(AtomicUsize::new(0));
            let ticking = Arc::clone(&ticks);
            let other = spawn(move || while yield_now().is_ok() && ticking.fetch_add(1, SeqCst) < 100 {});
            (0..20).into_par().runner(on(Workers::here())).chunk_size(1).for_each(|_| {
                (0..10).for_each(|_| yield_now().unwrap());
            });
            assert!(ticks.load(SeqCst) >= 100);
            other.join().unwrap();
        })
        .unwrap();
}
