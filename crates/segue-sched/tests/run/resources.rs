//! Schedulers that come and go leave neither threads nor descriptors; and resumes from other
//! threads meet their end.
//!
//! In a file of its own with tests that take turns, as they count what the whole process has.
#![cfg(all(target_os = "linux", not(miri)))]

#[path = "../common/mod.rs"]
mod common;

use common::{STAND_IN, scaled};
use segue_core::{Cancelled, WaitQueue, WaitsFor, spawn};
use segue_sched::{Polled, Runtime};
use std::fs::{read_dir, read_to_string};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

static TURN: Mutex<()> = Mutex::new(());

/// How many threads of this file's schedulers there are. They are in the list for an instant after
/// they were joined.
fn threads() -> usize {
    let of_ours =
        |task: &std::path::Path| read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("counted"));
    read_dir("/proc/self/task").unwrap().filter(|task| of_ours(&task.as_ref().unwrap().path())).count()
}

fn descriptors() -> usize {
    // The directory that is read is among them.
    read_dir("/proc/self/fd").unwrap().count()
}

#[track_caller]
fn leaves_nothing(rounds: usize, round: impl Fn(usize)) {
    let _turn = TURN.lock().unwrap();
    // What is made once: handlers, stacks of signals, what std keeps.
    round(0);
    let before = descriptors();
    (0..rounds).for_each(round);
    while threads() > 0 {
        thread::yield_now();
    }
    assert_eq!(descriptors(), before);
}

/// Every other one with a monitor, which never gets to a report.
fn builder(round: usize) -> Runtime {
    let builder = Runtime::new().workers(1 + round % 3).name("counted");
    if round.is_multiple_of(2) { builder.monitor(Duration::from_secs(1000)) } else { builder }
}

#[test]
fn a_thousand_runs_leave_no_threads_and_no_descriptors() {
    leaves_nothing(scaled(1000, 100), |round| {
        assert_eq!(builder(round).run(|| spawn(move || round).join().unwrap()).unwrap(), round);
    });
}

#[test]
fn a_thousand_pools_leave_no_threads_and_no_descriptors() {
    leaves_nothing(scaled(1000, 100), |round| {
        let pool = builder(round).pool().unwrap();
        if round % 4 != 0 {
            assert_eq!(pool.spawn(move || round).join().unwrap(), round);
        }
    });
}

#[test]
fn a_thousand_driven_schedulers_leave_no_threads_and_no_descriptors() {
    leaves_nothing(scaled(1000, 100), |round| {
        let mut driven = builder(round).workers(1).driven(|| ()).unwrap();
        let fiber = driven.spawn(move || round);
        if round % 4 != 0 {
            while driven.poll() == Polled::Again {}
            assert_eq!(fiber.join().unwrap(), round);
        }
    });
}

#[test]
fn a_scheduler_that_fails_to_start_leaves_nothing() {
    leaves_nothing(scaled(300, 30), |round| {
        let parks = AtomicUsize::new(0);
        let park = move || match parks.fetch_add(1, SeqCst) {
            0 => Ok(segue_core::scheduling::WaitPark::new()),
            _ => Err(std::io::Error::other("planted")),
        };
        let builder = builder(round).workers(3).park(park);
        assert!(if round % 4 < 2 { builder.run(|| ()).is_err() } else { builder.pool().is_err() });
    });
}

/// A bell for one fiber.
struct Bell(WaitQueue<bool>);

impl Bell {
    /// Waits until it was rung since the last wait.
    fn wait(&self) -> Result<(), Cancelled> {
        self.0.wait(WaitsFor::new("a ring"), |rung| *rung, |rung| *rung = false)
    }

    fn ring(&self) {
        let mut guard = self.0.lock();
        *guard.state() = true;
        guard.notify_all(0);
    }
}

/// Foreign threads ring until they are told to stop, which is after the pool has gone.
#[test]
fn resumes_from_foreign_threads_meet_the_end_of_their_scheduler() {
    let _turn = TURN.lock().unwrap();
    let wanted = if cfg!(debug_assertions) || STAND_IN { scaled(100_000, 5_000) } else { 1_000_000 };
    let resumed = Arc::new(AtomicUsize::new(0));
    let mut ended = 0;
    let mut rounds = 0;
    // They leave the workers little of a machine that has one processor.
    let begun = Instant::now();
    while resumed.load(SeqCst) < wanted && begun.elapsed() < Duration::from_secs(60) {
        rounds += 1;
        // Sooner or later in their lives.
        let enough = resumed.load(SeqCst) + rounds % 50 * 40;
        let bells: Arc<[Bell; 4]> = Arc::new([(); 4].map(|()| Bell(WaitQueue::new(false))));
        let pool = Runtime::new().workers(1 + rounds % 2).pool().unwrap();
        let fibers: Vec<_> = (0..bells.len())
            .map(|which| {
                let (bells, resumed) = (Arc::clone(&bells), Arc::clone(&resumed));
                pool.spawn(move || {
                    while bells[which].wait().is_ok() {
                        resumed.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        let stop = AtomicBool::new(false);
        thread::scope(|threads| {
            for from in 0..2 {
                let (bells, stop) = (&bells, &stop);
                threads.spawn(move || {
                    while !stop.load(SeqCst) {
                        bells.iter().skip(from).step_by(2).for_each(Bell::ring);
                    }
                });
            }
            while resumed.load(SeqCst) < enough {
                thread::yield_now();
            }
            drop(pool);
            stop.store(true, SeqCst);
        });
        // The pool's drop has waited for them.
        ended += fibers.into_iter().filter(|fiber| fiber.is_finished()).count();
    }
    assert_eq!(ended, rounds * 4);
}

#[test]
fn more_workers_than_there_can_be_are_an_error() {
    let _turn = TURN.lock().unwrap();
    for workers in [usize::MAX, usize::MAX / 1024, (1 << 16) + 1] {
        let asked = || Runtime::new().workers(workers);
        let errors = [asked().run(|| ()).unwrap_err(), asked().pool().map(drop).unwrap_err()];
        for error in errors {
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(&workers.to_string()), "{error}");
        }
    }
}
