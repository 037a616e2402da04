//! Long computations with checkpoints: who waits for the worker gets it, within a number of
//! checkpoints where somebody is seen to wait, and else within a slice of time.

use crate::common::{Meet, STAND_IN, everywhere, pool};
use segue_core::{check, scope, sleep, spawn, yield_now};
use segue_sched::{Fifo, Runtime, Sim, checkpoint, join};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Computes until `flag` is set, by somebody who needs the worker. Without the checkpoints this
/// would never end.
fn until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        checkpoint().unwrap();
    }
}

#[test]
fn a_ready_fiber_gets_its_turn() {
    let body = || {
        let done = Arc::new(AtomicBool::new(false));
        let other = spawn({
            let done = Arc::clone(&done);
            move || done.store(true, SeqCst)
        });
        until(&done);
        other.join().unwrap();
    };
    Runtime::new().workers(1).run(body).unwrap();
    Runtime::new().workers(1).run_with(Fifo::default, body).unwrap();
}

#[test]
fn a_timer_fires_meanwhile() {
    Runtime::new()
        .workers(1)
        .run(|| {
            let done = AtomicBool::new(false);
            scope(|s| {
                s.spawn(|| {
                    sleep(Duration::from_millis(1)).unwrap();
                    done.store(true, SeqCst);
                });
                until(&done);
            });
        })
        .unwrap();
}

/// An idle worker wishes for work once, before it sleeps. Checkpoints that have nothing to give
/// leave the wish to the fork that comes after them: here its first half waits for its second, and
/// does not suspend, so that another worker has to run it.
#[test]
fn checkpoints_with_nothing_to_give_take_no_wish_from_a_fork() {
    let pool = pool(2);
    for _ in 0..20 {
        pool.run(|| {
            // The other worker has gone to sleep meanwhile, as a rule.
            (0..200_000).for_each(|_| checkpoint().unwrap());
            let done = AtomicBool::new(false);
            join(
                || {
                    while !done.load(SeqCst) {
                        std::thread::yield_now();
                    }
                },
                || done.store(true, SeqCst),
            );
        })
        .unwrap();
    }
}

#[test]
fn mail_from_a_thread_is_read_at_the_next_checkpoint() {
    for run in 0..20 {
        let (meet, done) = (Arc::new(Meet::new()), Arc::new(AtomicBool::new(false)));
        let computing = Arc::new(AtomicBool::new(false));
        let thread = {
            let (meet, computing) = (Arc::clone(&meet), Arc::clone(&computing));
            std::thread::spawn(move || {
                while !computing.load(SeqCst) {
                    std::hint::spin_loop();
                }
                meet.put(run);
                computing.store(false, SeqCst);
            })
        };
        Runtime::new()
            .workers(1)
            .run_with(Fifo::default, || {
                let reader = spawn({
                    let (meet, done) = (Arc::clone(&meet), Arc::clone(&done));
                    move || {
                        let got = meet.wait().unwrap();
                        done.store(true, SeqCst);
                        got
                    }
                });
                yield_now().unwrap();
                computing.store(true, SeqCst);
                while computing.load(SeqCst) {
                    std::hint::spin_loop();
                }
                // The mail is there by now.
                checkpoint().unwrap();
                assert!(done.load(SeqCst), "the reader has not run");
                assert_eq!(reader.join().unwrap(), run);
            })
            .unwrap();
        thread.join().unwrap();
    }
}

#[test]
fn a_closure_from_outside_runs_meanwhile() {
    let pool = Arc::new(pool(1));
    let done = Arc::new(AtomicBool::new(false));
    let computing = pool.spawn({
        let done = Arc::clone(&done);
        move || until(&done)
    });
    pool.call(|| done.store(true, SeqCst));
    computing.join().unwrap();
}

#[test]
fn an_idle_worker_gets_a_fork_that_was_noted_before() {
    for _ in 0..20 {
        Runtime::new()
            .workers(2)
            .run(|| {
                let done = AtomicBool::new(false);
                join(|| until(&done), || done.store(true, SeqCst));
            })
            .unwrap();
    }
}

#[test]
fn a_cancelled_computation_ends() {
    everywhere(|| {
        let begun = AtomicBool::new(false);
        scope(|s| {
            let computing = s.spawn(|| {
                begun.store(true, SeqCst);
                while checkpoint().is_ok() {
                    // On the simulator no time passes, and nobody comes in between.
                    yield_now().ok();
                }
                check().is_err()
            });
            while !begun.load(SeqCst) {
                yield_now().unwrap();
            }
            s.cancel();
            assert!(segue_core::shield(|| computing.join()).unwrap());
        });
    });
}

#[test]
fn elsewhere_it_only_looks_for_cancellation() {
    checkpoint().unwrap();
    let token = segue_core::CancelToken::new();
    token.cancel();
    assert!(token.run(checkpoint).is_err());
    let hosted = segue_sched::hosted(|| (0..10_000).all(|_| checkpoint().is_ok()));
    assert!(segue_core::wait_future(hosted).unwrap().unwrap());
}

#[test]
fn a_panicking_fiber_does_not_give_up_its_turn() {
    struct Checks(Arc<AtomicBool>);
    impl Drop for Checks {
        fn drop(&mut self) {
            let until = std::time::Instant::now() + Duration::from_millis(5);
            while std::time::Instant::now() < until {
                checkpoint().unwrap();
            }
            assert!(!self.0.load(SeqCst));
        }
    }
    Runtime::new()
        .workers(1)
        .run(|| {
            let ran = Arc::new(AtomicBool::new(false));
            let panics = spawn({
                let ran = Arc::clone(&ran);
                move || {
                    let _checks = Checks(ran);
                    std::panic::panic_any(1_u8);
                }
            });
            let other = spawn({
                let ran = Arc::clone(&ran);
                move || {
                    // The first to run is the newest, on workers that steal: this one lets the
                    // other one come first.
                    yield_now().unwrap();
                    yield_now().unwrap();
                    ran.store(true, SeqCst);
                }
            });
            assert!(panics.join().is_err());
            other.join().unwrap();
        })
        .unwrap();
}

#[test]
fn schedules_of_the_simulator_stay_the_same() {
    let trace = |seed| {
        let order = std::sync::Mutex::new(Vec::new());
        let sim = Sim::new(seed).run(|| {
            scope(|s| {
                for n in 0..4_usize {
                    let order = &order;
                    s.spawn(move || {
                        for _ in 0..if STAND_IN { 100 } else { 5000 } {
                            checkpoint().unwrap();
                        }
                        yield_now().unwrap();
                        order.lock().unwrap().push(n);
                    });
                }
            });
        });
        sim.unwrap();
        order.into_inner().unwrap()
    };
    assert_eq!(trace(3), trace(3));
}
