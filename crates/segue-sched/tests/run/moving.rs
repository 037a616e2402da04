//! A part of a fiber runs under another scheduler and comes back: on the same stack where both are
//! on one thread, else as a closure there.
#![cfg(not(miri))]

use crate::common::{Meet, STAND_IN, on_real_schedulers, pool, scaled};
use segue_core::{CancelToken, WaitsFor, check, in_fiber, registered, scope, spawn, yield_now};
use segue_sched::{Fifo, Handle, Runtime, Sim, join, move_to};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

/// About where the caller's stack is.
fn stack() -> usize {
    let here = 0_u8;
    std::hint::black_box(&raw const here).addr() >> 16
}

/// Runs `inside` as the first fiber of a scheduler that runs in a fiber of the caller's, and
/// `outside`, with a handle of that, in another fiber of the caller's.
fn nested(inside: impl FnOnce(&Meet<()>) + Send, outside: impl FnOnce(&Handle) + Send) {
    let (handle, over) = (Meet::new(), Meet::new());
    scope(|s| {
        s.spawn(|| {
            let inner = Runtime::new().workers(1).run_with(Fifo::default, || {
                handle.put(Handle::current().unwrap());
                inside(&over);
            });
            inner.unwrap();
        });
        outside(&handle.wait().unwrap());
        over.put(());
    });
}

#[test]
fn a_fiber_moves_to_a_pool_and_back() {
    on_real_schedulers(|| {
        let there = pool(1);
        let home = Handle::current().unwrap();
        let thread = thread::current().id();
        let borrowed = [1, 2, 3];
        let sum = move_to(&there.handle(), || {
            assert_ne!(thread::current().id(), thread);
            assert_eq!(Handle::current().unwrap(), there.handle());
            // And home again from there.
            let back = move_to(&home, || Handle::current().unwrap()).unwrap();
            assert_eq!(back, home);
            borrowed.iter().sum::<i32>()
        });
        assert_eq!(sum, Ok(6));
        assert_eq!(thread::current().id(), thread);
        assert_eq!(Handle::current().unwrap(), home);
    });
}

#[test]
fn a_thread_moves_to_a_pool() {
    let there = pool(2);
    assert!(Handle::current().is_none());
    assert!(move_to(&there.handle(), in_fiber).unwrap());
    assert!(!in_fiber());
}

#[test]
fn a_fiber_moves_on_its_stack_into_a_scheduler_inside_of_its_own() {
    Runtime::new()
        .workers(1)
        .run_with(Fifo::default, || {
            nested(
                |over| over.wait().unwrap(),
                |inner| {
                    let (home, place) = (Handle::current().unwrap(), stack());
                    for _ in 0..100 {
                        move_to(inner, || {
                            assert_eq!(&Handle::current().unwrap(), inner);
                            assert!(STAND_IN || stack() == place, "it runs on another stack");
                            yield_now().unwrap();
                            // What it spawns runs there, too.
                            let inherits = spawn(|| Handle::current().unwrap()).join().unwrap();
                            assert_eq!(&inherits, inner);
                        })
                        .unwrap();
                        assert_eq!(Handle::current().unwrap(), home);
                        yield_now().unwrap();
                    }
                },
            );
        })
        .unwrap();
}

#[test]
fn a_fiber_moves_on_its_stack_to_the_scheduler_around_its_own() {
    on_real_schedulers(|| {
        let outer = Handle::current().unwrap();
        let inner = Runtime::new().workers(1).run(|| {
            let (home, place, thread) = (Handle::current().unwrap(), stack(), thread::current().id());
            let visit = || {
                move_to(&outer, || {
                    assert_eq!(Handle::current().unwrap(), outer);
                    assert!(STAND_IN || (stack() == place && thread::current().id() == thread));
                    yield_now().unwrap();
                    // To and fro, two levels deep.
                    move_to(&home, || assert_eq!(Handle::current().unwrap(), home)).unwrap();
                    let (a, b) = join(|| 1, || 2);
                    a + b
                })
            };
            for _ in 0..100 {
                assert_eq!(visit(), Ok(3));
            }
            assert_eq!(Handle::current().unwrap(), home);
        });
        inner.unwrap();
    });
}

#[test]
fn a_panic_comes_home_with_the_fiber() {
    on_real_schedulers(|| {
        let outer = Handle::current().unwrap();
        let inner = Runtime::new().workers(1).run(|| {
            let home = Handle::current().unwrap();
            let result = catch_unwind(AssertUnwindSafe(|| move_to(&outer, || panic!("planted"))));
            assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "planted");
            assert_eq!(Handle::current().unwrap(), home);
            yield_now().unwrap();
        });
        inner.unwrap();
        let there = pool(1);
        let result = catch_unwind(AssertUnwindSafe(|| move_to(&there.handle(), || panic!("planted"))));
        assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "planted");
    });
}

#[test]
fn a_scheduler_that_has_ended_is_an_error_that_says_so() {
    on_real_schedulers(|| {
        let ended = Runtime::new().workers(2).run(|| Handle::current().unwrap()).unwrap();
        let dropped = Arc::new(());
        let captured = Arc::clone(&dropped);
        let refused = move_to(&ended, move || drop(captured)).unwrap_err();
        assert!(refused.reason().unwrap().to_string().contains("has ended"), "{refused:?}");
        assert_eq!(Arc::strong_count(&dropped), 1);
    });
}

#[test]
fn a_cancelled_fiber_does_not_move_and_one_that_has_moved_is_cancelled_there() {
    on_real_schedulers(|| {
        let there = pool(1);
        let token = CancelToken::new();
        token.cancel();
        assert!(token.run(|| move_to(&there.handle(), || panic!("it was cancelled"))).is_err());

        let outer = Handle::current().unwrap();
        let inner = Runtime::new().workers(1).run(|| {
            for target in [&outer, &there.handle()] {
                let (token, waits) = (CancelToken::new(), Meet::<()>::new());
                let canceller = {
                    let token = token.clone();
                    thread::spawn(move || token.cancel())
                };
                let result = token.run(|| move_to(target, || (waits.wait().is_err(), check().is_err())));
                // It may have been cancelled before it went.
                assert!(result.is_err() || result == Ok((true, true)));
                canceller.join().unwrap();
                assert!(check().is_ok());
            }
        });
        inner.unwrap();
    });
}

#[test]
fn a_worker_waits_for_its_fibers_that_are_away() {
    on_real_schedulers(|| {
        let outer = Handle::current().unwrap();
        let (went, over) = (Arc::new(Meet::new()), Arc::new(AtomicBool::new(false)));
        let inner = Runtime::new().workers(1).run(|| {
            let (told, over, outer) = (Arc::clone(&went), Arc::clone(&over), outer.clone());
            // Detached: the run cancels it when it has gone, and waits for it.
            spawn(move || {
                let away = move_to(&outer, || {
                    told.put(());
                    while check().is_ok() {
                        let _ = yield_now();
                    }
                });
                away.unwrap();
                over.store(true, SeqCst);
            });
            went.wait().unwrap();
        });
        inner.unwrap();
        assert!(over.load(SeqCst), "the run ended before its fiber");
    });
}

#[test]
fn fibers_that_move_are_woken_and_cancelled_by_strangers() {
    let (moved, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    on_real_schedulers(|| {
        let outer = Handle::current().unwrap();
        let inner = Runtime::new().workers(1).run(|| {
            let home = Handle::current().unwrap();
            scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        for round in 0..scaled(200, 20) {
                            let token = CancelToken::new();
                            let meet = Arc::new(Meet::new());
                            let stranger = {
                                let (token, meet) = (token.clone(), Arc::clone(&meet));
                                move || if round % 2 == 0 { meet.put(()) } else { token.cancel() }
                            };
                            let stranger = thread::spawn(stranger);
                            let result = token.run(|| {
                                let there = move_to(&outer, || meet.wait())?;
                                let _ = yield_now();
                                there.and_then(|()| move_to(&outer, || move_to(&home, check))?)?
                            });
                            stranger.join().unwrap();
                            let counter = if result.is_ok() { &moved } else { &cancelled };
                            counter.fetch_add(1, SeqCst);
                            assert_eq!(result.is_ok(), round % 2 == 0);
                        }
                    });
                }
            });
        });
        inner.unwrap();
    });
    assert!(moved.load(SeqCst) > 0 && moved.load(SeqCst) == cancelled.load(SeqCst));
}

#[test]
fn a_simulation_waits_for_its_fibers_that_are_elsewhere() {
    let there = pool(1);
    let handle = there.handle();
    for seed in 0..20 {
        // A closed world: without the work outside this were a deadlock.
        let run = Sim::new(seed).run(|| {
            let first = spawn({
                let handle = handle.clone();
                move || move_to(&handle, || thread::current().id()).unwrap()
            });
            assert_ne!(first.join().unwrap(), thread::current().id());
            there.run(|| 1).unwrap()
        });
        assert_eq!(run, Ok(1));
    }
    // The simulation inside of a fiber, of whose scheduler another visits.
    Runtime::new()
        .workers(1)
        .run(|| {
            let outer = Handle::current().unwrap();
            let run = Sim::new(1).run(|| move_to(&outer, || yield_now().is_ok()).unwrap());
            assert_eq!(run, Ok(true));
        })
        .unwrap();
}

#[test]
fn a_scheduler_whose_first_fiber_has_ended_lets_the_one_around_it_run_for_its_visitors() {
    Runtime::new()
        .workers(1)
        .run_with(Fifo::default, || {
            let (there, put) = (Meet::new(), Meet::new());
            nested(
                // It ends while there is a visitor, who needs the scheduler around.
                |_| there.wait().unwrap(),
                |inner| {
                    scope(|s| {
                        let visitor = s.spawn(|| {
                            move_to(inner, || {
                                there.put(());
                                put.wait().unwrap();
                            })
                        });
                        s.spawn(|| {
                            there.wait().unwrap();
                            for _ in 0..100 {
                                yield_now().unwrap();
                            }
                            put.put(());
                        });
                        drop(visitor);
                    });
                },
            );
        })
        .unwrap();
}

#[test]
fn a_fiber_that_begins_to_wait_neither_moves_nor_yields() {
    // With a thread for each fiber the scheduler inside is found on no thread: the move starts a
    // closure there, and whoever must not suspend would wait for it for ever.
    if STAND_IN {
        return;
    }
    Runtime::new()
        .workers(1)
        .run_with(Fifo::default, || {
            nested(
                |over| over.wait().unwrap(),
                |inner| {
                    // As in a waker that is called in the middle of a registration.
                    let refused = |to: &Handle| registered(WaitsFor::new("a test"), || move_to(to, || ()));
                    assert!(refused(inner).unwrap_err().reason().is_some());
                    let yielded = registered(WaitsFor::new("a test"), yield_now);
                    assert!(yielded.is_err());
                },
            );
        })
        .unwrap();
}

#[test]
fn what_a_thread_spawns_by_handle_belongs_to_that_scheduler() {
    for workers in [1, 2] {
        let ended = Arc::new(AtomicUsize::new(0));
        let here = Runtime::new().workers(workers).run(|| {
            let here = Handle::current().unwrap();
            let thread = std::thread::spawn({
                let (here, ended) = (here.clone(), Arc::clone(&ended));
                move || {
                    let same = here.spawn({
                        let here = here.clone();
                        move || Handle::current() == Some(here)
                    });
                    let named = segue_core::Builder::new()
                        .name("anna")
                        .on(&here)
                        .spawn(|| segue_core::with_current(|fiber| fiber.name().map(str::to_owned)));
                    // This one waits until the scheduler, which ends meanwhile, cancels it.
                    let began = Arc::new(Meet::new());
                    drop(here.spawn({
                        let began = Arc::clone(&began);
                        move || {
                            began.put(());
                            assert!(Meet::<()>::new().wait().is_err());
                            ended.fetch_add(1, SeqCst);
                        }
                    }));
                    began.wait().unwrap();
                    (same.join().unwrap(), named.join().unwrap())
                }
            });
            let joined = segue_core::blocking(|| thread.join().unwrap()).unwrap();
            assert_eq!(joined, (true, Some("anna".to_owned())));
            here
        });
        assert_eq!(ended.load(SeqCst), 1);
        // What is spawned there now never starts.
        let refused = here.unwrap().spawn(|| unreachable!());
        assert!(refused.join().unwrap_err().into_panic().is_none());
    }
}

#[test]
fn a_handle_spawns_while_the_scheduler_ends() {
    /// Says that its closure is gone.
    struct Drops(Arc<AtomicUsize>);
    impl Drop for Drops {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    for _ in 0..scaled(300, 10) {
        let (started, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut threads = None;
        let run = Runtime::new().workers(2).run(|| {
            let here = Handle::current().unwrap();
            let (started, dropped) = (Arc::clone(&started), Arc::clone(&dropped));
            threads = Some(std::thread::spawn(move || {
                let mut handles = Vec::new();
                for _ in 0..20 {
                    let (started, drops) = (Arc::clone(&started), Drops(Arc::clone(&dropped)));
                    handles.push(here.spawn(move || {
                        let _drops = drops;
                        started.fetch_add(1, SeqCst);
                    }));
                }
                handles.into_iter().filter_map(|handle| handle.join().ok()).count()
            }));
            yield_now().unwrap();
        });
        run.unwrap();
        // Each was run, or dropped and its handle told.
        let joined = threads.unwrap().join().unwrap();
        assert_eq!((joined, 20), (started.load(SeqCst), dropped.load(SeqCst)));
    }
}

#[test]
fn a_run_ends_also_while_the_scheduler_to_which_its_fiber_went_to_spawn_is_never_idle() {
    let far = pool(1);
    let over = Arc::new(AtomicBool::new(false));
    let busy = far.spawn({
        let over = Arc::clone(&over);
        move || {
            let begun = std::time::Instant::now();
            while !over.load(SeqCst) && begun.elapsed().as_secs() < 5 {
                yield_now().unwrap();
            }
            over.load(SeqCst)
        }
    });
    let there = || spawn(|| ()).join().unwrap();
    Runtime::new().workers(1).run(|| move_to(&far.handle(), there)).unwrap().unwrap();
    over.store(true, SeqCst);
    assert!(busy.join().unwrap(), "the run has waited for the other scheduler to idle");
}
