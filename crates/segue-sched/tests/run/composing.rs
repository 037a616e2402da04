//! Several schedulers in one program: fibers of different ones and threads meet, a pool is called
//! from fibers of another, a scheduler runs inside a fiber of another.

use crate::common::{Meet, everywhere, on_real_schedulers, pool, scaled};
use segue_core::{check, scope, shield, sleep, spawn, yield_now};
use segue_sched::{Fifo, Runtime, Sim, join};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn fibers_of_two_pools_and_a_thread_wait_for_each_other() {
    for workers in [1, 2] {
        let (a, b) = (pool(workers), pool(workers));
        for round in 0..scaled(200, 20) {
            let meets: Arc<[Meet<usize>; 3]> = Arc::new([Meet::new(), Meet::new(), Meet::new()]);
            let m = Arc::clone(&meets);
            let first = a.spawn(move || m[0].wait().unwrap() + 1);
            let m = Arc::clone(&meets);
            let second = b.spawn(move || {
                m[0].put(m[1].wait().unwrap() + 1);
                m[2].wait().unwrap()
            });
            let m = Arc::clone(&meets);
            let thread = std::thread::spawn(move || {
                m[1].put(round);
                let got = m[0].wait().unwrap();
                m[2].put(got);
            });
            assert_eq!(first.join().unwrap(), round + 2);
            assert_eq!(second.join().unwrap(), round + 1);
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_handle_is_joined_under_another_scheduler() {
    let (a, b) = (pool(1), pool(1));
    let meet = Arc::new(Meet::new());
    let inner = a.spawn({
        let meet = Arc::clone(&meet);
        move || meet.wait().unwrap()
    });
    let joined = b.run(move || {
        let joins = spawn(move || inner.join().unwrap());
        // On its one worker it waits by then.
        yield_now().unwrap();
        meet.put(7);
        joins.join().unwrap()
    });
    assert_eq!(joined, Ok(7));
    let inner = a.spawn(|| -> () { panic_any(8_u8) });
    let payload = b.run(move || inner.join().unwrap_err().into_panic().unwrap());
    assert_eq!(*payload.unwrap().downcast::<u8>().unwrap(), 8);
}

#[test]
fn calling_a_pool_suspends_only_the_calling_fiber() {
    let other = pool(1);
    on_real_schedulers(|| {
        let (gate, turns) = (Meet::new(), AtomicUsize::new(0));
        scope(|s| {
            let caller = s.spawn(|| other.run(|| gate.wait().unwrap()));
            // On one worker, this goes on only if the caller is suspended and not its thread.
            for _ in 0..20 {
                turns.fetch_add(1, SeqCst);
                yield_now().unwrap();
            }
            gate.put(4);
            assert_eq!(caller.join().unwrap(), Ok(4));
        });
        assert_eq!(turns.load(SeqCst), 20);
    });
}

#[test]
fn pools_that_call_each_other_in_circles() {
    let (a, b) = (pool(1), pool(1));
    let deep = |n: u32| {
        fn call(n: u32, here: &segue_sched::Pool, there: &segue_sched::Pool) -> u32 {
            if n == 0 { 0 } else { there.run(|| call(n - 1, there, here)).unwrap() + 1 }
        }
        call(n, &a, &b)
    };
    assert_eq!(deep(scaled(200, 20) as u32), scaled(200, 20) as u32);
}

#[test]
fn a_pool_that_is_at_work_is_dropped_in_a_simulation() {
    for seed in 0..scaled(20, 3) as u64 {
        let ended = Sim::new(seed).run(|| {
            let pool = Runtime::new().workers(1).pool().unwrap();
            let (started, starts) = std::sync::mpsc::channel();
            drop(pool.spawn(move || {
                started.send(()).unwrap();
                while segue_core::check().is_ok() {
                    std::hint::spin_loop();
                }
                // The simulation has nothing else to run meanwhile.
                (0..1_000_000).for_each(|_| std::hint::spin_loop());
            }));
            starts.recv().unwrap();
            drop(pool);
        });
        assert!(ended.is_ok(), "{ended:?}");
    }
}

#[test]
fn a_pool_called_by_its_own_fiber_runs_in_place() {
    let pool = pool(1);
    assert_eq!(pool.run(|| pool.run(|| pool.call(|| 6))), Ok(Ok(6)));
}

#[test]
fn a_pool_is_called_with_borrowed_data_in_the_callers_context() {
    let other = pool(1);
    on_real_schedulers(|| {
        let mut numbers = vec![1, 2, 3];
        other.run(|| numbers.push(4)).unwrap();
        assert_eq!(numbers.len(), 4);
        // The call is in the caller's scope: its cancellation reaches what waits over there.
        let inside = AtomicBool::new(false);
        scope(|s| {
            let caller = s.spawn(|| {
                other.run(|| {
                    inside.store(true, SeqCst);
                    let cancelled = Meet::<()>::new().wait().is_err();
                    numbers.push(5);
                    cancelled
                })
            });
            while !inside.load(SeqCst) {
                yield_now().unwrap();
            }
            s.cancel();
            assert_eq!(shield(|| caller.join()).unwrap(), Ok(true));
            // Cancelled before it started: nothing is run.
            assert!(other.run(|| unreachable!()).is_err());
            assert!(other.call(check).is_err(), "this one is run, and sees it");
        });
        assert_eq!(numbers.len(), 5);
    });
}

#[test]
fn a_panic_in_a_pool_comes_out_at_the_call() {
    let other = pool(2);
    on_real_schedulers(|| {
        let caught = catch_unwind(AssertUnwindSafe(|| other.run(|| scope(|s| drop(s.spawn(|| panic_any(3_i8)))))));
        assert_eq!(*caught.unwrap_err().downcast::<i8>().unwrap(), 3);
    });
}

#[test]
fn a_run_inside_a_fiber() {
    let inner = |workers| {
        let sum = Runtime::new().workers(workers).run(|| {
            let fibers: Vec<_> = (0..10).map(|n| spawn(move || n)).collect();
            let (a, b) = join(|| yield_now().is_ok(), || 1);
            assert!(a && b == 1);
            fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
        });
        assert_eq!(sum.unwrap(), 45);
        assert_eq!(Sim::new(3).run(|| sleep(Duration::from_secs(1000)).is_ok()), Ok(true));
    };
    everywhere(|| inner(1));
    // Not on the simulator: to wait for the second worker's thread counts as a deadlock there.
    on_real_schedulers(|| inner(2));
}

#[test]
fn a_scheduler_that_idles_inside_a_fiber_suspends_that_fiber() {
    on_real_schedulers(|| {
        let (gate, back) = (Meet::new(), Meet::new());
        scope(|s| {
            let inner = s.spawn(|| {
                let run = Runtime::new().workers(1).run_with(Fifo::default, || {
                    let got = gate.wait().unwrap();
                    back.put(got + 1);
                    sleep(Duration::from_millis(1)).unwrap();
                    got
                });
                run.unwrap()
            });
            // On one worker, the inner scheduler must have let go of the thread for this to run.
            yield_now().unwrap();
            gate.put(1);
            assert_eq!(back.wait(), Ok(2));
            assert_eq!(inner.join().unwrap(), 1);
        });
    });
}

#[test]
fn inner_schedulers_take_turns_on_one_thread() {
    on_real_schedulers(|| {
        let rounds = scaled(100, 10);
        let balls: Vec<(Meet<usize>, Meet<usize>)> = (0..rounds).map(|_| (Meet::new(), Meet::new())).collect();
        scope(|s| {
            let inner = |side: bool| {
                let balls = &balls;
                move || {
                    let run = Runtime::new().workers(1).run(|| {
                        for (n, (ping, pong)) in balls.iter().enumerate() {
                            let (mine, theirs) = if side { (ping, pong) } else { (pong, ping) };
                            // A join in the middle: each worker has notes of its own.
                            let (_, got) = join(|| mine.put(n), || theirs.wait());
                            assert_eq!(got, Ok(n));
                        }
                    });
                    run.unwrap();
                }
            };
            drop((s.spawn(inner(true)), s.spawn(inner(false))));
        });
    });
}

#[test]
fn cancelling_an_outer_scope_ends_an_inner_run() {
    on_real_schedulers(|| {
        let inside = AtomicBool::new(false);
        scope(|s| {
            let inner = s.spawn(|| {
                let run = Runtime::new().workers(2).run(|| {
                    drop(spawn(|| assert!(Meet::<()>::new().wait().is_err())));
                    inside.store(true, SeqCst);
                    Meet::<()>::new().wait().is_err()
                });
                run.unwrap()
            });
            while !inside.load(SeqCst) {
                yield_now().unwrap();
            }
            s.cancel();
            assert!(shield(|| inner.join()).unwrap());
        });
    });
}

#[test]
fn timers_of_an_inner_run_go_on_while_it_is_suspended() {
    on_real_schedulers(|| {
        let naps: Vec<_> = (0..4)
            .map(|n| {
                spawn(move || {
                    let run = Runtime::new().workers(1).run(|| {
                        let naps: Vec<_> = (0..4).map(|_| spawn(move || sleep(Duration::from_millis(n)))).collect();
                        naps.into_iter().all(|nap| nap.join().unwrap().is_ok())
                    });
                    run.unwrap()
                })
            })
            .collect();
        assert!(naps.into_iter().all(|nap| nap.join().unwrap()));
    });
}

#[test]
fn joins_around_an_inner_run_are_given_away_while_it_idles() {
    on_real_schedulers(|| {
        let gate = Meet::new();
        // The inner scheduler waits for what the outer join's second half does.
        let (a, ()) = join(|| Runtime::new().workers(1).run(|| gate.wait()).unwrap(), || gate.put(11));
        assert_eq!(a, Ok(11));
    });
}
