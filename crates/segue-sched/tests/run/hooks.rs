//! Hooks on the workers' threads, and workers that are bound to processors.

#[path = "../common/mod.rs"]
mod common;

use common::{Meet, in_child};
use segue_core::spawn;
use segue_sched::Runtime;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

#[derive(Default)]
struct Seen {
    started: Mutex<Vec<(usize, ThreadId)>>,
    stopped: Mutex<Vec<(usize, ThreadId)>>,
    parked: AtomicUsize,
    unparked: AtomicUsize,
}

fn seen_by<K>(seen: &Arc<Seen>, builder: Runtime<K>) -> Runtime<K> {
    let [start, stop, park, unpark] = [(); 4].map(|()| Arc::clone(seen));
    builder
        .on_thread_start(move |worker| start.started.lock().unwrap().push((worker, thread::current().id())))
        .on_thread_stop(move |worker| stop.stopped.lock().unwrap().push((worker, thread::current().id())))
        .on_park(move |_| _ = park.parked.fetch_add(1, SeqCst))
        .on_unpark(move |_| _ = unpark.unparked.fetch_add(1, SeqCst))
}

fn assert_balanced(seen: &Seen, workers: usize) {
    let sorted = |list: &Mutex<Vec<(usize, ThreadId)>>| {
        let mut list = list.lock().unwrap().clone();
        list.sort_by_key(|(worker, _)| *worker);
        list
    };
    let started = sorted(&seen.started);
    assert_eq!(started, sorted(&seen.stopped));
    assert!(started.iter().map(|(worker, _)| *worker).eq(0..workers));
    assert_eq!(started.iter().map(|(_, thread)| thread).collect::<HashSet<_>>().len(), workers);
    assert_eq!(seen.parked.load(SeqCst), seen.unparked.load(SeqCst));
}

#[test]
fn each_worker_of_a_run_starts_parks_unparks_and_stops() {
    let seen = Arc::new(Seen::default());
    let work = || {
        let gate = Arc::new(Meet::new());
        let opener = Arc::clone(&gate);
        let parked = Arc::clone(&seen);
        // Opens when both workers sleep: this fiber's and the other.
        let outside = thread::spawn(move || {
            while parked.parked.load(SeqCst) < parked.unparked.load(SeqCst) + 2 {
                thread::yield_now();
            }
            opener.put(7);
        });
        assert_eq!(gate.wait(), Ok(7));
        outside.join().unwrap();
    };
    seen_by(&seen, Runtime::new().workers(2)).run(work).unwrap();
    assert_balanced(&seen, 2);
    assert!(seen.started.lock().unwrap().contains(&(0, thread::current().id())), "the caller is worker 0");
    assert!(seen.parked.load(SeqCst) >= 2);
}

#[test]
fn each_worker_of_a_pool_starts_and_stops() {
    let seen = Arc::new(Seen::default());
    let pool = seen_by(&seen, Runtime::new().workers(3)).pool().unwrap();
    assert_eq!(seen.started.lock().unwrap().len(), 3);
    pool.run(|| ()).unwrap();
    drop(pool);
    assert_balanced(&seen, 3);
}

#[test]
fn a_run_whose_closure_panics_stops_its_workers_all_the_same() {
    let seen = Arc::new(Seen::default());
    let run = seen_by(&seen, Runtime::new().workers(2));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.run(|| panic!("planted"))));
    assert!(caught.is_err());
    assert_balanced(&seen, 2);
}

/// A worker that has said that it sleeps is woken by its own hook.
#[test]
fn what_a_hook_makes_ready_is_not_slept_over() {
    for _ in 0..100 {
        let gate = Arc::new(Meet::new());
        let opener = Arc::clone(&gate);
        let builder = Runtime::new().workers(1).on_park(move |_| opener.put(7));
        assert_eq!(builder.run(|| spawn(move || gate.wait()).join().unwrap()).unwrap(), Ok(7));
    }
}

#[test]
fn a_hook_that_panics_ends_the_process_and_says_so() {
    let end = in_child("a_hook_that_panics_ends_the_process_and_says_so", || {
        let _ = Runtime::new().workers(1).on_thread_stop(|_| panic!("planted")).run(|| ());
    });
    end.assert_aborted("a hook of a scheduler panicked");
}

#[cfg(all(target_os = "linux", not(miri)))]
mod binding {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    fn allowed() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
    }

    #[test]
    fn each_worker_has_a_processor_of_its_own_and_the_caller_is_let_go() {
        let before = allowed();
        let own = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&own);
        let builder = Runtime::new().workers(before.len()).pin();
        let builder = builder.on_thread_start(move |worker| told.lock().unwrap().push((worker, allowed())));
        builder.run(|| assert_eq!(allowed(), before[..1])).unwrap();
        assert_eq!(allowed(), before);
        let mut own = own.lock().unwrap().clone();
        own.sort();
        let expected: Vec<_> = before.iter().map(|&processor| vec![processor]).enumerate().collect();
        assert_eq!(own, expected);
    }

    #[test]
    fn more_workers_than_processors_are_an_error() {
        let builder = || Runtime::new().workers(allowed().len() + 1).pin();
        for error in [builder().run(|| ()).unwrap_err(), builder().pool().unwrap_err()] {
            assert!(error.to_string().contains("ask for fewer workers"), "{error}");
        }
        let error = Runtime::new().pin().driven(|| ()).unwrap_err();
        assert!(error.to_string().contains("the caller's to bind"), "{error}");
    }

    #[test]
    fn there_are_no_more_workers_by_default_than_processors_that_the_caller_may_use() {
        let first = allowed()[0];
        // On a thread of its own, which is not let go.
        let workers = thread::spawn(move || {
            let mut one = CpuSet::new();
            one.set(first);
            sched_setaffinity(None, &one).unwrap();
            Runtime::new().pool().unwrap().workers()
        });
        assert_eq!(workers.join().unwrap(), 1);
    }
}
