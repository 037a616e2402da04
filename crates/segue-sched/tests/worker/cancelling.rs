//! Cancellation on every scheduler: it reaches fibers that wait, that have not started, that are on
//! other workers; it sticks; a shield holds it off; nothing is left over.

use crate::common::{Counted, Meet, everywhere, everywhere_and_on_threads, on_real_schedulers, pool, scaled};
use segue_core::{CancelToken, JoinError, check, is_cancelled, scope, shield, sleep, spawn, yield_now};
use segue_sched::{Fifo, Runtime, Sim};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[test]
fn cancelling_a_scope_ends_the_waits_of_its_fibers() {
    everywhere_and_on_threads(|| {
        let (never, waits) = (Meet::<()>::new(), AtomicUsize::new(0));
        scope(|s| {
            for _ in 0..8 {
                drop(s.spawn(|| {
                    waits.fetch_add(1, SeqCst);
                    assert!(never.wait().is_err());
                    assert!(sleep(Duration::from_secs(1000)).is_err(), "it sticks");
                }));
            }
            while waits.load(SeqCst) < 8 {
                yield_now().unwrap();
            }
            s.cancel();
        });
        check().unwrap();
    });
}

#[test]
fn a_token_cancels_from_another_thread() {
    on_real_schedulers(|| {
        let (send, receive) = mpsc::channel::<CancelToken>();
        std::thread::scope(|threads| {
            threads.spawn(move || receive.recv().unwrap().cancel());
            scope(|s| {
                for _ in 0..8 {
                    drop(s.spawn(|| assert!(Meet::<()>::new().wait().is_err())));
                }
                send.send(s.token()).unwrap();
                assert!(Meet::<()>::new().wait().is_err());
            });
        });
    });
}

#[test]
fn a_token_that_outlives_its_scope_has_no_effect() {
    everywhere_and_on_threads(|| {
        let token = scope(|s| s.token());
        token.cancel();
        assert!(token.is_cancelled());
        check().unwrap();
        yield_now().unwrap();
    });
}

#[test]
fn a_fiber_that_was_cancelled_before_it_ran_never_runs() {
    everywhere_and_on_threads(|| {
        let drops = AtomicUsize::new(0);
        scope(|s| {
            s.cancel();
            let counted = Counted(&drops);
            let fiber = s.spawn(move || {
                let _counted = counted;
                unreachable!("it was cancelled before it ran");
            });
            let end = shield(|| fiber.join());
            assert!(matches!(end, Err(JoinError::NeverRan(_))));
        });
        assert_eq!(drops.load(SeqCst), 1, "what it holds is dropped");
    });
}

#[test]
fn cancellation_sticks_to_every_wait_and_a_shield_holds_it_off() {
    everywhere_and_on_threads(|| {
        let ready = Meet::new();
        ready.put(5);
        scope(|s| {
            s.cancel();
            assert!(is_cancelled() && check().is_err() && yield_now().is_err());
            assert!(sleep(Duration::ZERO).is_err(), "also where there would be no wait");
            assert!(ready.wait().is_err());
            shield(|| {
                assert!(!is_cancelled());
                assert_eq!(ready.wait(), Ok(5));
                yield_now().unwrap();
                sleep(Duration::from_millis(1)).unwrap();
                // What is spawned into a scope in the shield is shielded with it.
                scope(|inner| assert_eq!(inner.spawn(|| ready.wait()).join().unwrap(), Ok(5)));
            });
            assert!(check().is_err(), "it shows again");
        });
    });
}

#[test]
fn a_fiber_in_a_shield_is_not_woken_and_sees_it_afterwards() {
    everywhere_and_on_threads(|| {
        let (gate, inside) = (Meet::new(), AtomicBool::new(false));
        scope(|s| {
            let fiber = s.spawn(|| {
                let got = shield(|| {
                    inside.store(true, SeqCst);
                    gate.wait()
                });
                (got, check().is_err())
            });
            while !inside.load(SeqCst) {
                yield_now().unwrap();
            }
            s.cancel();
            shield(|| {
                for _ in 0..10 {
                    yield_now().unwrap();
                }
                assert!(!fiber.is_finished());
                gate.put(9);
                assert_eq!(fiber.join().unwrap(), (Ok(9), true));
            });
        });
    });
}

#[test]
fn cancellation_reaches_the_scopes_below() {
    everywhere_and_on_threads(|| {
        fn nest(depth: usize, waiting: &AtomicUsize) {
            if depth == 0 {
                waiting.fetch_add(1, SeqCst);
                assert!(Meet::<()>::new().wait().is_err());
            } else {
                scope(|s| drop(s.spawn(move || nest(depth - 1, waiting))));
            }
        }
        let waiting = AtomicUsize::new(0);
        scope(|s| {
            drop((s.spawn(|| nest(5, &waiting)), s.spawn(|| nest(3, &waiting))));
            while waiting.load(SeqCst) < 2 {
                yield_now().unwrap();
            }
            s.cancel();
        });
    });
}

#[test]
fn a_run_cancels_and_joins_what_is_left() {
    let body = |drops: &'static AtomicUsize| {
        for _ in 0..10 {
            let counted = Counted(drops);
            drop(spawn(move || {
                let _counted = counted;
                // A detached fiber spawns another one on its way out.
                assert!(Meet::<()>::new().wait().is_err());
                let counted = Counted(drops);
                drop(spawn(move || drop(counted)));
            }));
        }
        let _ = yield_now();
    };
    for seed in 0..20 {
        let drops = &*Box::leak(Box::new(AtomicUsize::new(0)));
        Sim::new(seed).run(|| body(drops)).unwrap();
        assert!((10..=20).contains(&drops.load(SeqCst)));
    }
    for workers in [1, 2] {
        let drops = &*Box::leak(Box::new(AtomicUsize::new(0)));
        Runtime::new().workers(workers).run(|| body(drops)).unwrap();
        Runtime::new().workers(workers).run_with(Fifo::default, || body(drops)).unwrap();
        let pool = pool(workers);
        pool.run(|| body(drops)).unwrap();
        drop(pool);
        assert!((30..=60).contains(&drops.load(SeqCst)));
    }
}

#[test]
fn a_join_that_is_cancelled_detaches_and_the_result_is_dropped() {
    everywhere(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        struct Owned(Arc<AtomicUsize>);
        impl Drop for Owned {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let gate = Arc::new(Meet::new());
        let (result, held) = (Owned(Arc::clone(&drops)), Arc::clone(&gate));
        let fiber = spawn(move || {
            held.wait().unwrap();
            result
        });
        scope(|s| {
            drop(s.spawn(move || assert!(matches!(fiber.join(), Err(JoinError::WaitCancelled(..))))));
            yield_now().unwrap();
            s.cancel();
        });
        gate.put(());
        while drops.load(SeqCst) == 0 {
            yield_now().unwrap();
        }
    });
}

#[test]
fn cancel_against_resume_over_and_over() {
    let rounds = scaled(2000, 30);
    on_real_schedulers(|| {
        let mut got = 0;
        for round in 0..rounds {
            let meet = Meet::new();
            got += scope(|s| {
                let fiber = s.spawn(|| meet.wait());
                let putter = s.spawn(|| meet.put(round));
                if round % 2 == 0 {
                    let _ = yield_now();
                }
                s.cancel();
                let end = shield(|| (fiber.join(), putter.join()));
                usize::from(matches!(end.0, Ok(Ok(_))))
            });
        }
        // Both outcomes are fine; neither hangs.
        println!("{got} of {rounds} came first");
    });
}

#[test]
fn cancelled_sleepers_leave_no_timers() {
    everywhere(|| {
        scope(|s| {
            for _ in 0..scaled(1000, 20) {
                drop(s.spawn(|| sleep(Duration::from_secs(3600))));
            }
            yield_now().unwrap();
            s.cancel();
        });
        assert!(segue_core::with_current(|fiber| fiber.scheduler().timers().is_empty()));
    });
}
