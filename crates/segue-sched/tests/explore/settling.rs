//! `settle`: the caller goes on when all other fibers of its simulation have ended or wait, and
//! time has not passed.

use crate::common::Meet;
use segue_core::{CancelToken, now, outside_work, scope, shield, sleep, spawn, timeout, yield_now};
use segue_sched::{Explore, Runtime, Sim, settle};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// On the simulator with several seeds, and under the explorer with preemption.
fn simulated(body: impl Fn()) {
    for seed in 0..20 {
        Sim::new(seed).run(&body).unwrap();
        Sim::new(seed).preemptive().run(&body).unwrap();
    }
    Explore::random(50).check(&body);
    Explore::plain().check(&body);
}

#[test]
fn what_is_ready_runs_until_it_waits_and_time_stands() {
    simulated(|| {
        let start = now();
        let (turns, gate, late) = (AtomicUsize::new(0), Meet::new(), AtomicUsize::new(0));
        scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..10 {
                        yield_now().unwrap();
                        turns.fetch_add(1, SeqCst);
                    }
                    drop(spawn(|| ()).join());
                });
            }
            s.spawn(|| late.fetch_add(gate.wait().unwrap(), SeqCst));
            s.spawn(|| {
                sleep(Duration::from_secs(5)).unwrap();
                late.fetch_add(10, SeqCst);
            });
            settle().unwrap();
            assert_eq!((turns.load(SeqCst), late.load(SeqCst)), (30, 0));
            gate.put(1);
            settle().unwrap();
            assert_eq!((late.load(SeqCst), now()), (1, start));
            // Time passes by sleeping; who was due then runs.
            sleep(Duration::from_secs(5)).unwrap();
            settle().unwrap();
            assert_eq!((late.load(SeqCst), now() - start), (11, Duration::from_secs(5)));
        });
    });
}

#[test]
fn several_go_on_when_all_others_wait() {
    simulated(|| {
        let order = Mutex::new(Vec::new());
        scope(|s| {
            for n in 0..3 {
                let order = &order;
                s.spawn(move || {
                    settle().unwrap();
                    order.lock().unwrap().push(n + 10);
                });
                s.spawn(move || {
                    yield_now().unwrap();
                    yield_now().unwrap();
                    order.lock().unwrap().push(n);
                });
            }
        });
        let mut order = order.into_inner().unwrap();
        order[..3].sort_unstable();
        order[3..].sort_unstable();
        assert_eq!(order, [0, 1, 2, 10, 11, 12]);
    });
}

#[test]
fn it_adds_no_schedules() {
    let orders = |settles: bool| {
        let explored = Explore::exhaustive(1000).preemptive(false).check(|| {
            let fibers: Vec<_> = (0..3).map(|_| spawn(|| ())).collect();
            if settles {
                settle().unwrap();
                assert!(fibers.iter().all(|fiber| fiber.is_finished()));
            }
            fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        });
        assert!(explored.complete);
        explored.schedules
    };
    // As many as there are orders of the three.
    assert_eq!(orders(true), 6);
    assert!(orders(false) >= 6);
}

#[test]
fn it_waits_for_work_outside() {
    for seed in 0..20 {
        let run = Sim::new(seed).run(|| {
            let (answer, outside) = (Arc::new(Meet::new()), outside_work());
            let resolve = Arc::clone(&answer);
            let waiter = spawn(move || answer.wait().unwrap());
            let thread = std::thread::spawn(move || {
                resolve.put(7);
                drop(outside);
            });
            settle().unwrap();
            assert!(waiter.is_finished());
            thread.join().unwrap();
            waiter.join().unwrap()
        });
        assert_eq!(run, Ok(7));
    }
}

#[test]
fn one_that_is_cancelled_is_told_so_at_once_or_goes_on() {
    simulated(|| {
        let token = CancelToken::new();
        token.cancel();
        let other = spawn(|| ());
        assert!(token.run(settle).is_err());
        shield(settle).unwrap();
        assert!(other.is_finished());
        // No time passes, so a time-out does not end it.
        assert!(timeout(Duration::from_secs(1), settle).is_ok());
    });
}

#[test]
fn elsewhere_it_is_refused() {
    let refused = |f: &dyn Fn()| {
        let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_err();
        assert!(payload.downcast::<String>().is_ok_and(|text| text.contains("for the fibers of a simulation")));
    };
    let settles = || drop(settle());
    refused(&settles);
    Runtime::new().workers(1).run(|| refused(&settles)).unwrap();
    // Not even a scheduler within one.
    Sim::new(1).run(|| Runtime::new().workers(1).run(|| refused(&settles)).unwrap()).unwrap();
    Sim::new(1).run(|| settle().unwrap()).unwrap();
}
