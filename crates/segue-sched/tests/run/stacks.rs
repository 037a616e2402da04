//! What happens when there are fewer stacks than fibers: spawns stall, and run when a fiber has
//! ended. Fibers with a stack of their own size; what an overflow says.

#[path = "../common/mod.rs"]
mod common;

use common::{Meet, in_child, scaled};
use segue_core::{scope, sleep, spawn, yield_now};
use segue_sched::par::prelude::*;
use segue_sched::{Fifo, Runtime, Sim, StackConfig, join};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn few(slots: usize) -> StackConfig {
    StackConfig::new().max_slots(slots)
}

/// Calls it with few stacks, simulated and not, on one worker and on several.
fn with_few(body: fn()) {
    for slots in [2, 3, 8] {
        for seed in 0..10 {
            Sim::new(seed).stacks(few(slots)).run(body).unwrap();
        }
        for workers in [1, 2, 4] {
            Runtime::new().workers(workers).stacks(few(slots)).run(body).unwrap();
            Runtime::new().workers(workers).stacks(few(slots)).run_with(Fifo::default, body).unwrap();
        }
    }
}

#[test]
fn a_loop_whose_waiting_closures_outnumber_the_stacks_comes_to_its_end() {
    with_few(|| {
        let n = scaled(100, 20) as u64;
        let waits = |n: u64| {
            // Some wait twice, so that children come back to parents in all states.
            (0..=n % 2).for_each(|_| yield_now().unwrap());
            sleep(Duration::from_micros(n % 3)).unwrap();
            n
        };
        assert_eq!((0..n).into_par_iter().map(waits).sum::<u64>(), n * (n - 1) / 2);
    });
}

#[test]
fn joins_whose_waiting_halves_outnumber_the_stacks_come_to_their_end() {
    fn leaves(depth: u32) -> u32 {
        if depth == 0 {
            sleep(Duration::from_micros(1)).unwrap();
            return 1;
        }
        let (a, b) = join(|| leaves(depth - 1), || leaves(depth - 1));
        yield_now().unwrap();
        a + b
    }
    with_few(|| assert_eq!(leaves(5), 32));
}

#[test]
fn a_half_that_no_stack_was_left_for_panics_where_its_parent_waits() {
    with_few(|| {
        let half = |panics: bool| {
            sleep(Duration::from_micros(1)).unwrap();
            assert!(!panics, "expected");
        };
        // Fibers beside it have the other stacks.
        let panicked = catch_unwind(|| {
            scope(|s| {
                for _ in 0..8 {
                    drop(s.spawn(|| yield_now().unwrap()));
                }
                join(|| half(false), || join(|| half(false), || half(true)));
            })
        });
        let said = panicked.unwrap_err();
        assert!(said.downcast_ref::<&str>().is_some_and(|said| said.contains("expected")));
    });
}

#[test]
fn spawns_beyond_the_limit_stall_and_run_later() {
    let body = || {
        let done = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..scaled(100, 30) {
                drop(s.spawn(|| {
                    yield_now().unwrap();
                    done.fetch_add(1, SeqCst);
                }));
            }
        });
        assert_eq!(done.into_inner(), scaled(100, 30));
    };
    for slots in [2, 3, 8] {
        for seed in 0..10 {
            Sim::new(seed).stacks(few(slots)).run(body).unwrap();
        }
        Runtime::new().workers(1).stacks(few(slots)).run(body).unwrap();
        Runtime::new().workers(1).stacks(few(slots)).run_with(Fifo::default, body).unwrap();
        Runtime::new().workers(1).stacks(few(slots)).pool().unwrap().run(body).unwrap();
    }
}

#[test]
fn stacks_come_back() {
    let pool = Runtime::new().workers(1).stacks(few(2)).pool().unwrap();
    for n in 0..scaled(1000, 50) {
        assert_eq!(pool.run(|| spawn(move || n).join().unwrap()), Ok(n));
    }
}

#[test]
fn stalled_spawns_are_cancelled_with_their_scope() {
    for seed in 0..10 {
        let ran = AtomicUsize::new(0);
        Sim::new(seed)
            .stacks(few(3))
            .run(|| {
                scope(|s| {
                    for _ in 0..10 {
                        drop(s.spawn(|| {
                            ran.fetch_add(1, SeqCst);
                            let _ = Meet::<()>::new().wait();
                        }));
                    }
                    for _ in 0..100 {
                        yield_now().unwrap();
                    }
                    s.cancel();
                });
            })
            .unwrap();
        assert_eq!(ran.into_inner(), 2, "the others never started");
    }
}

#[test]
fn two_workers_share_what_there_is() {
    let end = in_child("two_workers_share_what_there_is", || {
        for round in 0..20 {
            let slots = 2 + round % 12;
            let done = AtomicUsize::new(0);
            let pool = Runtime::new().workers(2).stacks(few(slots)).pool().unwrap();
            pool.run(|| {
                scope(|s| {
                    for _ in 0..50 {
                        drop(s.spawn(|| {
                            yield_now().unwrap();
                            done.fetch_add(1, SeqCst)
                        }));
                    }
                });
            })
            .unwrap();
            assert_eq!(done.into_inner(), 50);
        }
    });
    end.assert_passed();
}

#[test]
fn a_simulation_that_waits_for_a_stack_that_never_comes_is_a_deadlock() {
    let end = in_child("a_simulation_that_waits_for_a_stack_that_never_comes_is_a_deadlock", || {
        let run = Sim::new(1).stacks(few(2)).run(|| spawn(|| spawn(|| ()).join().is_ok()).join().is_ok());
        assert!(run.is_err(), "the two stacks belong to fibers that wait for a third");
    });
    end.assert_passed();
}

#[test]
fn closures_do_not_wait_at_a_worker_without_stacks_while_another_has_some() {
    let end = in_child("closures_do_not_wait_at_a_worker_without_stacks_while_another_has_some", || {
        for _ in 0..50 {
            let done = AtomicUsize::new(0);
            // One worker's pool takes all slots at once, and keeps them warm.
            let run = Runtime::new().workers(2).stacks(few(8)).run(|| {
                scope(|s| {
                    for _ in 0..200 {
                        drop(s.spawn(|| {
                            (0..5000).for_each(|_| std::hint::spin_loop());
                            done.fetch_add(1, SeqCst)
                        }));
                    }
                });
            });
            run.unwrap();
            assert_eq!(done.into_inner(), 200);
        }
    });
    end.assert_passed();
}

// On the stand-in host a stack is a thread's, of std's size.
#[cfg(not(any(miri, feature = "threads")))]
mod sizes {
    use super::common::in_child;
    use segue_core::{Builder, scope, spawn};
    use segue_sched::{Runtime, Sim, hosted_as};
    use std::hint::black_box;

    const DEPTH: usize = 20_000;
    const BYTES: usize = 30 << 20;

    #[inline(never)]
    fn descend(depth: usize) -> usize {
        let frame = black_box([depth; 20]);
        if depth == 0 { 0 } else { descend(depth - 1) + frame[depth % 20] / depth }
    }

    #[test]
    fn one_fiber_may_have_a_larger_stack_than_the_others() {
        let deep = || Builder::new().name("deep").stack_size(BYTES);
        let body = || {
            // More than a worker keeps, one after the other and at once.
            for _ in 0..3 {
                scope(|s| {
                    let fibers: Vec<_> = (0..20).map(|_| deep().within(s).spawn(|| descend(DEPTH))).collect();
                    fibers.into_iter().for_each(|fiber| assert_eq!(fiber.join().unwrap(), DEPTH));
                });
                assert_eq!(spawn(|| descend(10)).join().unwrap(), 10);
            }
        };
        Sim::new(1).run(body).unwrap();
        Runtime::new().workers(2).run(body).unwrap();
        let pool = Runtime::new().workers(1).pool().unwrap();
        assert_eq!(deep().on(&pool).spawn(|| descend(DEPTH)).join().unwrap(), DEPTH);
        // On a plain thread without a runtime a fiber is a thread.
        assert_eq!(deep().spawn(|| descend(DEPTH)).join().unwrap(), DEPTH);
        let hosted = hosted_as(deep(), || (descend(DEPTH), segue_core::with_current(|fiber| fiber.to_string())));
        assert_eq!(segue_core::wait_future(hosted).unwrap().unwrap(), (DEPTH, "fiber `deep`".to_owned()));
    }

    #[test]
    fn an_overflow_of_a_hosted_fiber_names_it() {
        #[expect(unconditional_recursion)] // That is the fault.
        #[inline(never)]
        fn recurse(depth: usize) -> usize {
            let frame = black_box([depth; 20]);
            recurse(depth + 1) + frame[depth % 20]
        }
        let end = in_child("sizes::an_overflow_of_a_hosted_fiber_names_it", || {
            let _ = segue_core::wait_future(segue_sched::hosted(|| recurse(0)));
        });
        end.assert_aborted("fiber 'hosted' (0) overflowed its stack");
        end.assert_aborted("To enlarge it: Builder::stack_size for this fiber");
        end.assert_aborted("recurse\n");
    }
}
