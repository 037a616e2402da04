//! Spawn, join, scopes that borrow, panics, turns and sleep, on every scheduler.

use crate::common::{Counted, Meet, everywhere, everywhere_and_on_threads, on_real_schedulers, scaled};
use segue_core::{Builder, JoinError, JoinHandle, WaitQueue, WaitsFor, check, scope, sleep, spawn, yield_now};
use segue_sched::{Fifo, Handle, Runtime, Sim, worker_index};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn a_fiber_returns_its_value_to_whoever_joins_it() {
    everywhere_and_on_threads(|| {
        let fibers: Vec<_> = (0..100).map(|n| spawn(move || n * 2)).collect();
        let sum: i32 = fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum();
        assert_eq!(sum, 9900);
    });
}

#[test]
fn a_handle_can_be_dropped_before_and_after_the_end() {
    everywhere(|| {
        static DROPS: AtomicUsize = AtomicUsize::new(0);
        let before = DROPS.load(SeqCst);
        drop(spawn(|| Counted(&DROPS)));
        let fiber = spawn(|| Counted(&DROPS));
        while !fiber.is_finished() {
            yield_now().unwrap();
        }
        drop(fiber);
        while DROPS.load(SeqCst) < before + 2 {
            yield_now().unwrap();
        }
    });
}

#[test]
fn a_handle_is_joined_by_another_fiber_than_the_spawner() {
    everywhere_and_on_threads(|| {
        let inner = spawn(|| 20);
        let outer = spawn(move || inner.join().unwrap() + 1);
        assert_eq!(outer.join().unwrap(), 21);
    });
}

#[test]
fn a_scope_lends_and_takes_back() {
    everywhere_and_on_threads(|| {
        let mut counts = [0_u32; 16];
        let text = String::from("lent");
        scope(|s| {
            for (n, count) in counts.iter_mut().enumerate() {
                let text = &text;
                drop(s.spawn(move || {
                    let _ = yield_now();
                    *count = (text.len() + n) as u32;
                }));
            }
        });
        assert_eq!(counts.iter().sum::<u32>(), 16 * 4 + 120);
    });
}

#[test]
fn scopes_nest_and_their_fibers_spawn_into_them() {
    everywhere_and_on_threads(|| {
        let total = AtomicUsize::new(0);
        scope(|outer| {
            for _ in 0..4 {
                drop(outer.spawn(|| {
                    scope(|inner| {
                        for _ in 0..4 {
                            drop(inner.spawn(|| total.fetch_add(1, SeqCst)));
                        }
                    });
                    drop(outer.spawn(|| total.fetch_add(100, SeqCst)));
                }));
            }
        });
        assert_eq!(total.load(SeqCst), 416);
    });
}

#[test]
fn a_panic_goes_to_whoever_joins_with_its_payload() {
    everywhere_and_on_threads(|| {
        let fiber = spawn(|| panic_any(7_u8));
        let error = fiber.join().unwrap_err();
        assert!(matches!(error, JoinError::Panicked(_)));
        assert_eq!(*error.into_panic().unwrap().downcast::<u8>().unwrap(), 7);
    });
}

#[test]
fn a_childs_panic_cancels_its_siblings_and_leaves_the_scope_with_its_payload() {
    everywhere_and_on_threads(|| {
        let (ended, never) = (AtomicUsize::new(0), Meet::<()>::new());
        let result = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                for _ in 0..4 {
                    drop(s.spawn(|| {
                        let _counted = Counted(&ended);
                        assert!(never.wait().is_err());
                    }));
                }
                let bad = s.spawn(|| -> () { panic_any(String::from("first")) });
                // The handle tells the text; the scope keeps the payload.
                let _ = bad.join();
                assert!(never.wait().is_err(), "the body is cancelled with the rest");
            });
        }));
        assert_eq!(*result.unwrap_err().downcast::<String>().unwrap(), "first");
        // A sibling that had not started is dropped instead of run.
        assert!(ended.load(SeqCst) <= 4);
    });
}

#[test]
fn a_panic_of_the_body_cancels_the_children_and_goes_on() {
    everywhere_and_on_threads(|| {
        let (drops, never) = (AtomicUsize::new(0), Meet::<()>::new());
        let result = catch_unwind(AssertUnwindSafe(|| {
            scope(|s| {
                for _ in 0..4 {
                    let counted = Counted(&drops);
                    let never = &never;
                    drop(s.spawn(move || {
                        let _counted = counted;
                        assert!(never.wait().is_err());
                    }));
                }
                panic_any(1.5_f32);
            })
        }));
        assert_eq!(*result.unwrap_err().downcast::<f32>().unwrap(), 1.5);
        assert_eq!(drops.load(SeqCst), 4, "what a closure holds is dropped, run or not");
    });
}

#[test]
fn a_panic_of_a_child_wins_over_a_later_one_of_the_body() {
    everywhere_and_on_threads(|| {
        let result = catch_unwind(|| {
            scope(|s| {
                let _ = s.spawn(|| panic_any("child")).join();
                panic_any("body");
            })
        });
        let text = result.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(*text, "child; then the body panicked: body");
    });
}

#[test]
fn a_panic_of_the_first_fiber_leaves_the_run_after_all_has_ended() {
    for seed in 0..20 {
        let drops = &*Box::leak(Box::new(AtomicUsize::new(0)));
        let counted = Counted(drops);
        let run = catch_unwind(AssertUnwindSafe(|| Sim::new(seed).run(|| detach_and_panic(counted))));
        assert_eq!(*run.unwrap_err().downcast::<&str>().unwrap(), "root");
        assert_eq!(drops.load(SeqCst), 1);
    }
    for workers in [1, 2] {
        let drops = &*Box::leak(Box::new(AtomicUsize::new(0)));
        let counted = Counted(drops);
        let run = catch_unwind(AssertUnwindSafe(|| Runtime::new().workers(workers).run(|| detach_and_panic(counted))));
        assert_eq!(*run.unwrap_err().downcast::<&str>().unwrap(), "root");
        assert_eq!(drops.load(SeqCst), 1);
        let pool = crate::common::pool(workers);
        let run = catch_unwind(AssertUnwindSafe(|| pool.run(|| panic_any("root"))));
        assert_eq!(*run.unwrap_err().downcast::<&str>().unwrap(), "root");
        assert_eq!(pool.run(|| 1), Ok(1), "the pool goes on");
    }
}

fn detach_and_panic(counted: Counted<'static>) {
    drop(spawn(move || {
        let _counted = counted;
        assert!(Meet::<()>::new().wait().is_err());
    }));
    panic_any("root");
}

#[test]
fn a_result_whose_drop_panics_hurts_only_whoever_drops_it_or_the_scope() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic_any("bomb");
            }
        }
    }
    everywhere_and_on_threads(|| {
        let fiber = spawn(|| Bomb);
        while !fiber.is_finished() {
            let _ = yield_now();
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(fiber))).is_err());
        // Detached: it goes off on the fiber itself, which has nobody to tell, unless that has
        // ended already.
        for _ in 0..10 {
            let fiber = spawn(|| Bomb);
            let _ = catch_unwind(AssertUnwindSafe(|| drop(fiber)));
            let (mut dropped_here, mut inside) = (false, false);
            let raised = catch_unwind(AssertUnwindSafe(|| {
                scope(|s| {
                    let fiber = s.spawn(|| Bomb);
                    dropped_here = catch_unwind(AssertUnwindSafe(|| drop(fiber))).is_err();
                    inside = true;
                });
            }));
            assert!(inside && dropped_here != raised.is_err(), "it goes off once, and somebody is told");
        }
        assert_eq!(spawn(|| 3).join().unwrap(), 3);
    });
}

#[test]
fn a_drop_that_waits_while_its_fiber_panics_is_refused_and_switches_no_stacks() {
    struct WaitsInDrop<'a>(&'a Meet<()>, &'a AtomicUsize);
    impl Drop for WaitsInDrop<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            assert!(self.0.wait().is_err());
            assert!(sleep(Duration::from_secs(1)).is_err());
            assert!(yield_now().is_err());
            // A scope still works: its fibers run in place.
            scope(|s| drop(s.spawn(|| self.1.fetch_add(1, SeqCst))));
        }
    }
    everywhere(|| {
        let (meet, ran, innocent) = (Meet::new(), AtomicUsize::new(0), Mutex::new(0));
        scope(|s| {
            let bystander = s.spawn(|| {
                for _ in 0..50 {
                    // A stack switched during the unwind would be seen here: std counts panics by
                    // thread.
                    assert!(!std::thread::panicking());
                    *innocent.lock().unwrap() += 1;
                    let _ = yield_now();
                }
            });
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let _waits = WaitsInDrop(&meet, &ran);
                panic_any("planted");
            }));
            assert!(caught.is_err());
            bystander.join().unwrap();
        });
        assert_eq!((ran.load(SeqCst), innocent.lock().is_ok()), (1, true));
    });
}

#[test]
fn a_detached_fiber_of_a_drop_while_its_fiber_panics_runs_after_that() {
    /// Spawns another in its place, as the workers of a pool do that must not become fewer.
    struct Sentinel<'a> {
        meet: Arc<Meet<u32>>,
        successor: &'a Mutex<Option<JoinHandle<u32>>>,
    }
    impl Drop for Sentinel<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            let meet = Arc::clone(&self.meet);
            // In place, it would wait for ever.
            let successor = spawn(move || {
                assert!(!std::thread::panicking());
                meet.wait().unwrap()
            });
            assert!(!successor.is_finished());
            *self.successor.lock().unwrap() = Some(successor);
        }
    }
    everywhere(|| {
        let (meet, successor) = (Arc::new(Meet::new()), Mutex::new(None));
        let panicked = scope(|s| {
            let panics = || {
                let _sentinel = Sentinel { meet: Arc::clone(&meet), successor: &successor };
                panic_any("planted");
            };
            s.spawn(move || catch_unwind(AssertUnwindSafe(panics))).join()
        });
        assert!(panicked.unwrap().is_err());
        let successor = successor.into_inner().unwrap().unwrap();
        meet.put(7);
        assert_eq!(successor.join().unwrap(), 7);
    });
}

#[test]
fn a_wait_in_a_drop_that_is_answered_just_then_switches_no_stacks() {
    // The answer comes between registering and suspending: it is the waiter's, and still no stack
    // may be switched.
    struct WaitsInDrop<'a>(&'a WaitQueue<(), u32>, &'a AtomicUsize);
    impl Drop for WaitsInDrop<'_> {
        fn drop(&mut self) {
            for _ in 0..scaled(300_000, 3000) {
                let answered = self.0.wait(WaitsFor::new("an answer"), |()| false, |()| 0);
                self.1.fetch_add(usize::from(answered.is_ok()), SeqCst);
            }
        }
    }
    let (queue, stop) = (WaitQueue::new(()), AtomicBool::new(false));
    let (taken, switched) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(SeqCst) {
                let _ = queue.lock().hand_over(0, 1);
            }
        });
        let bystander = || {
            while !stop.load(SeqCst) {
                if std::thread::panicking() {
                    // It could not give up its turn any more.
                    switched.fetch_add(1, SeqCst);
                    return;
                }
                yield_now().unwrap();
            }
        };
        let run = Runtime::new().workers(1).run_with(Fifo::default, || {
            scope(|s| {
                drop(s.spawn(bystander));
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    let _waits = WaitsInDrop(&queue, &taken);
                    panic_any("planted");
                }));
                assert!(caught.is_err());
                stop.store(true, SeqCst);
            });
        });
        stop.store(true, SeqCst);
        run.unwrap();
    });
    let (taken, switched) = (taken.into_inner(), switched.into_inner());
    assert_eq!(switched, 0, "another fiber ran during the unwind; {taken} waits were answered");
}

#[test]
fn fibers_that_yield_take_turns() {
    // First in, first out: in strict rotation.
    let order = Mutex::new(Vec::new());
    Runtime::new()
        .workers(1)
        .run_with(Fifo::default, || {
            scope(|s| {
                for n in 0..3 {
                    let order = &order;
                    drop(s.spawn(move || {
                        for _ in 0..4 {
                            order.lock().unwrap().push(n);
                            yield_now().unwrap();
                        }
                    }));
                }
            });
        })
        .unwrap();
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2].repeat(4));
    // Everywhere: nobody is starved by two who yield for ever, neither a new fiber nor a timer.
    everywhere(|| {
        scope(|s| {
            let chatter = || while yield_now().is_ok() {};
            drop((s.spawn(chatter), s.spawn(chatter)));
            yield_now().unwrap();
            s.spawn(|| yield_now().unwrap()).join().unwrap();
            s.cancel();
        });
    });
    on_real_schedulers(|| {
        scope(|s| {
            let chatter = || while yield_now().is_ok() {};
            drop((s.spawn(chatter), s.spawn(chatter)));
            sleep(Duration::from_millis(1)).unwrap();
            s.cancel();
        });
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    let run = |unit: Duration| {
        let order = Mutex::new(Vec::new());
        scope(|s| {
            for n in [5_u32, 1, 3, 2, 4] {
                let order = &order;
                drop(s.spawn(move || {
                    let before = segue_core::now();
                    sleep(unit * n).unwrap();
                    assert!(segue_core::now() >= before + unit * n);
                    order.lock().unwrap().push(n);
                }));
            }
        });
        order.into_inner().unwrap()
    };
    for seed in 0..20 {
        let (started, day) = (Instant::now(), Duration::from_secs(86_400));
        assert_eq!(Sim::new(seed).run(|| run(day)).unwrap(), [1, 2, 3, 4, 5]);
        assert!(started.elapsed() < Duration::from_secs(60), "five days pass at once");
    }
    // One worker: with more, two that are both due are not ordered.
    Runtime::new().workers(1).run(|| assert_eq!(run(Duration::from_millis(10)), [1, 2, 3, 4, 5])).unwrap();
    crate::common::pool(1).run(|| assert_eq!(run(Duration::from_millis(10)), [1, 2, 3, 4, 5])).unwrap();
}

#[test]
fn sleeps_of_no_and_of_endless_time() {
    everywhere(|| {
        sleep(Duration::ZERO).unwrap();
        scope(|s| {
            let endless = s.spawn(|| sleep(Duration::MAX));
            yield_now().unwrap();
            s.cancel();
            segue_core::shield(|| assert!(!matches!(endless.join(), Ok(Ok(())))));
        });
        check().unwrap();
    });
}

#[test]
fn a_chain_of_fibers_that_each_spawn_the_next() {
    fn chain(left: usize) -> usize {
        if left == 0 { 0 } else { spawn(move || chain(left - 1)).join().unwrap() + 1 }
    }
    let deep = scaled(10_000, 100);
    for seed in 0..2 {
        assert_eq!(Sim::new(seed).run(|| chain(deep)).unwrap(), deep);
    }
    on_real_schedulers(|| assert_eq!(chain(deep), deep));
}

#[test]
fn very_many_spawns_and_joins() {
    let many = scaled(if cfg!(debug_assertions) { 100_000 } else { 1_000_000 }, 500);
    on_real_schedulers(|| {
        let mut sum = 0;
        for n in 0..many / 100 {
            let fibers: Vec<_> = (0..100).map(|m| spawn(move || n * 100 + m)).collect();
            sum += fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<usize>();
        }
        let many = many / 100 * 100;
        assert_eq!(sum, many * (many - 1) / 2);
    });
}

#[test]
fn names_reach_the_fiber() {
    everywhere(|| {
        let fiber = Builder::new().name("named").spawn(|| segue_core::with_current(|me| me.name().map(str::to_owned)));
        assert_eq!(fiber.join().unwrap().as_deref(), Some("named"));
    });
}

#[test]
fn a_fiber_asks_on_which_worker_of_how_many_it_runs() {
    let pool = Runtime::new().workers(3).pool().unwrap();
    for worker in 0..3 {
        let asks = || {
            let before = (worker_index(), Handle::current().map(|own| own.workers()));
            yield_now().unwrap();
            (before, worker_index())
        };
        let (before, after) = pool.handle().spawn_at(worker, asks).join().unwrap();
        assert_eq!((before, after), ((Some(worker), Some(3)), Some(worker)), "a fiber stays on its worker");
    }
    let one = Runtime::new().workers(1).run(|| (worker_index(), Handle::current().map(|own| own.workers())));
    assert_eq!(one.unwrap(), (Some(0), Some(1)));
    assert!(worker_index().is_none() && Handle::current().is_none(), "a plain thread is no worker");
}
