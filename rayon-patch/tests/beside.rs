//! Rayon, unmodified, beside fibers on the same workers; and a published crate that uses it.

use rayon::prelude::*;
use segue::sync::promise;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::current;
use std::time::Duration;

#[test]
fn closures_of_par_iter_suspend_their_fibers_and_block_no_worker() {
    segue::runtime()
        .workers(1)
        .run(|| {
            // One worker: a closure that blocked it would wait for ever.
            let (resolver, promised) = promise();
            let done = AtomicBool::new(false);
            segue::scope(|s| {
                s.spawn(|| {
                    (0..10).for_each(|_| segue::yield_now().unwrap());
                    resolver.fill(6).unwrap();
                });
                let sum: i32 = (0..7).into_par_iter().map(|_| *promised.wait().unwrap()).sum();
                assert_eq!(sum, 42);
                done.store(true, SeqCst);
            });
            assert!(done.load(SeqCst));
        })
        .unwrap();
}

#[test]
fn loops_run_on_the_workers_of_the_calling_fiber() {
    let pool = segue::runtime().workers(2).name("mine").pool().unwrap();
    let names = Mutex::new(HashSet::new());
    pool.run(|| {
        assert_eq!(rayon::current_num_threads(), 2);
        assert!(rayon::current_thread_index().is_some_and(|index| index < 2));
        (0..100_000).into_par_iter().for_each(|_| {
            names.lock().unwrap().insert(current().name().unwrap().to_owned());
        });
    })
    .unwrap();
    let names = names.into_inner().unwrap();
    assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("mine-")), "{names:?}");
}

#[test]
fn a_plain_thread_has_the_default_runtime() {
    let names: HashSet<String> = (0..1000).into_par_iter().map(|_| current().name().unwrap().to_owned()).collect();
    assert!(names.iter().all(|name| name.starts_with("segue-default-")), "{names:?}");
    assert_eq!(rayon::current_thread_index(), None);
}

#[test]
fn a_cancelled_caller_is_seen_by_closures_on_all_workers() {
    segue::runtime()
        .workers(2)
        .run(|| {
            let waits = AtomicUsize::new(0);
            let late = segue::timeout(Duration::from_millis(20), || {
                (0..20)
                    .into_par_iter()
                    .map(|_| {
                        waits.fetch_add(1, SeqCst);
                        segue::sleep(Duration::from_secs(3600))
                    })
                    .collect::<Result<Vec<()>, _>>()
                    .map(drop)
            });
            assert!(late.unwrap_err().timed_out());
            assert!(waits.load(SeqCst) > 0);
        })
        .unwrap();
}

#[test]
fn a_published_crate_sorts_and_maps_beside_fibers() {
    segue::runtime()
        .workers(2)
        .run(|| {
            let ticks = AtomicUsize::new(0);
            segue::scope(|s| {
                let ticking = s.spawn(|| while segue::yield_now().is_ok() && ticks.fetch_add(1, SeqCst) < 100 {});
                let mut array = ndarray::Array2::from_shape_fn((300, 300), |(row, column)| (row * column) as f64);
                array.par_mapv_inplace(f64::sqrt);
                assert!((array[[4, 9]] - 6.0).abs() < 1e-9);
                ticking.join().unwrap();
            });
            assert!(ticks.load(SeqCst) >= 100);
        })
        .unwrap();
}
