//! Loops whose closures wait: others go on.

use crate::common::{Meet, Turns, everywhere, scaled};
use segue_core::{CancelToken, scope, sleep, yield_now};
use segue_sched::Sim;
use segue_sched::par::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn closures_that_wait_suspend_their_fibers_alone() {
    everywhere(|| {
        // A fiber beside the loop lets its elements go on, one by one.
        let (turns, done) = (Turns::new(), AtomicUsize::new(0));
        let n = scaled(200, 20);
        scope(|s| {
            s.spawn(|| {
                for _ in 0..n {
                    turns.put();
                    yield_now().unwrap();
                }
            });
            (0..n).into_par_iter().for_each(|_| {
                turns.take().unwrap();
                done.fetch_add(1, SeqCst);
            });
        });
        assert_eq!(done.load(SeqCst), n);
    });
}

#[test]
fn elements_sleep_side_by_side() {
    // In simulated time: one after the other they would take a hundred hours.
    for seed in 0..scaled(20, 2) as u64 {
        let hour = Duration::from_secs(3600);
        Sim::new(seed)
            .run(|| {
                let began = segue_core::now();
                let slept = (0..100).into_par_iter().filter(|_| sleep(hour).is_ok()).count();
                assert_eq!(slept, 100);
                assert_eq!(segue_core::now() - began, hour);
            })
            .unwrap();
    }
}

#[test]
fn what_is_collected_is_in_order_though_closures_wait() {
    everywhere(|| {
        let n = scaled(300, 30);
        let numbers: Vec<usize> = (0..n)
            .into_par_iter()
            .map(|n| {
                if n % 3 == 0 {
                    yield_now().unwrap();
                }
                n
            })
            .collect();
        assert_eq!(numbers, (0..n).collect::<Vec<_>>());
    });
}

#[test]
fn an_element_may_wait_for_a_fiber_that_runs_a_loop() {
    everywhere(|| {
        let meet = Meet::new();
        scope(|s| {
            s.spawn(|| meet.put((0..10_u32).into_par_iter().sum::<u32>()));
            let got: Vec<u32> = (0..4).into_par_iter().map(|_| meet.wait().unwrap()).collect();
            assert_eq!(got, [45; 4]);
        });
    });
}

#[test]
fn a_cancellation_ends_the_waits_of_all_pieces() {
    everywhere(|| {
        let (token, waiting) = (CancelToken::new(), AtomicUsize::new(0));
        let n = scaled(50, 10);
        scope(|s| {
            s.spawn(|| {
                while waiting.load(SeqCst) < n {
                    yield_now().unwrap();
                }
                token.cancel();
            });
            let never = Meet::<()>::new();
            let cancelled = token.run(|| {
                (0..n)
                    .into_par_iter()
                    .filter(|_| {
                        waiting.fetch_add(1, SeqCst);
                        never.wait().is_err()
                    })
                    .count()
            });
            assert_eq!(cancelled, n);
        });
    });
}
