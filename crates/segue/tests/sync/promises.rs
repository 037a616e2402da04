//! Promises under every scheduler and between them: fibers of different pools, plain threads, and a
//! deadlock that names its promises.

use crate::meet;

use meet::{Task, block_on, everywhere, pool};
use segue::sched::StackConfig;
use segue::sync::{Promise, Resolver, Semaphore, promise};
use segue::testing::Sim;
use segue::{
    Builder, CancelToken, Closed, Either, WaitError, after, check, scope, shield, sleep, spawn, timeout, yield_now,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn a_promise_is_filled_before_during_and_after_the_wait() {
    everywhere(|| {
        let (resolver, promised) = promise();
        assert!(promised.try_get().is_none());
        resolver.fill(1).unwrap();
        assert_eq!((promised.wait(), promised.wait(), promised.try_get()), (Ok(&1), Ok(&1), Some(Ok(&1))));
        let (resolver, promised) = promise();
        let fiber = spawn(move || promised.take());
        resolver.fill(String::from("moved")).unwrap();
        assert_eq!(fiber.join().unwrap().as_deref(), Ok("moved"));
    });
}

#[test]
fn all_who_wait_are_told() {
    everywhere(|| {
        let (resolver, promised) = promise();
        scope(|s| {
            let waiters: Vec<_> = (0..8).map(|_| s.spawn(|| *promised.wait().unwrap())).collect();
            let _ = yield_now();
            resolver.fill(5).unwrap();
            waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), 5));
        });
    });
}

#[test]
fn a_dropped_resolver_breaks_the_promise() {
    everywhere(|| {
        let (resolver, promised) = promise::<u8>();
        let waiter = spawn(move || (promised.wait().err(), promised.take()));
        let _ = yield_now();
        drop(resolver);
        assert_eq!(waiter.join().unwrap(), (Some(WaitError::Closed), Err(WaitError::Closed)));
        // A resolver that a panic drops tells them too.
        let (resolver, promised) = promise::<u8>();
        let panicked = spawn(move || {
            let _resolver = resolver;
            std::panic::panic_any("planted");
        });
        assert_eq!(promised.wait(), Err(WaitError::Closed));
        assert!(panicked.join().is_err());
    });
}

#[test]
fn a_cancelled_wait_leaves_the_promise_to_be_waited_for_again() {
    everywhere(|| {
        let (resolver, promised) = promise();
        scope(|s| {
            let waiter = s.spawn(|| promised.wait().cloned());
            let _ = yield_now();
            s.cancel();
            // Cancelled in the wait, or before it ran.
            assert!(!matches!(shield(|| waiter.join()), Ok(Ok(_))));
            assert!(promised.wait().is_err(), "cancellation sticks");
        });
        resolver.fill(7).unwrap();
        assert_eq!(promised.wait(), Ok(&7));
        check().unwrap();
    });
}

#[test]
fn values_are_dropped_once_however_it_ends() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    everywhere(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let make = || (Counted(Arc::clone(&drops)), promise());
        // Never waited for; waited for; taken; taken by one who waits; cancelled in the take; the
        // promise gone first.
        let (value, (resolver, promised)) = make();
        resolver.fill(value).unwrap();
        drop(promised);
        let (value, (resolver, promised)) = make();
        resolver.fill(value).unwrap();
        assert!(promised.wait().is_ok());
        drop(promised);
        let (value, (resolver, promised)) = make();
        resolver.fill(value).unwrap();
        drop(promised.take());
        let (value, (resolver, promised)) = make();
        let taker = spawn(move || drop(promised.take()));
        let _ = yield_now();
        resolver.fill(value).unwrap();
        taker.join().unwrap();
        let (value, (resolver, promised)) = make();
        scope(|s| {
            drop(s.spawn(move || drop(promised.take())));
            let _ = yield_now();
            s.cancel();
            drop(resolver.fill(value));
        });
        let (value, (resolver, promised)) = make();
        drop(promised);
        drop(resolver.fill(value));
        assert_eq!(drops.load(SeqCst), 6);
    });
}

#[test]
fn fill_against_take_against_cancel() {
    for workers in [1, 2] {
        let (a, b) = (pool(workers), pool(1));
        for round in 0..1000 {
            let (resolver, promised) = promise();
            let taker = a.spawn(move || {
                scope(|s| {
                    let token = s.token();
                    let taken = s.spawn(move || promised.take());
                    if round % 3 == 0 {
                        let _ = yield_now();
                    }
                    if round % 2 == 0 {
                        token.cancel();
                    }
                    shield(|| taken.join())
                })
            });
            let filler = b.spawn(move || resolver.fill(round));
            match taker.join().unwrap() {
                Ok(Ok(value)) => assert_eq!(value, round),
                Ok(Err(error)) => assert!(round % 2 == 0 && error != WaitError::Closed, "{error}"),
                Err(_) => assert_eq!(round % 2, 0),
            }
            // A cancelled `take` has let go of the promise.
            assert!(filler.join().unwrap().is_ok() || round % 2 == 0);
        }
    }
}

#[test]
fn a_fiber_waits_for_a_fiber_of_another_pool_that_waits_for_a_thread() {
    let (a, b, c) = (pool(1), pool(2), segue::runtime().workers(1).pool().unwrap());
    for round in 0..300 {
        let (from_thread, to_b) = promise::<u32>();
        let (from_b, to_a) = promise::<u32>();
        let (from_a, to_c) = promise::<u32>();
        let last = c.spawn(move || to_c.take().unwrap() + 1);
        let first = a.spawn(move || from_a.fill(to_a.take().unwrap() + 1));
        let second = b.spawn(move || from_b.fill(*to_b.wait().unwrap() + 1));
        let thread = std::thread::spawn(move || from_thread.fill(round));
        assert_eq!(last.join().unwrap(), round + 3);
        first.join().unwrap().unwrap();
        second.join().unwrap().unwrap();
        thread.join().unwrap().unwrap();
    }
}

#[test]
fn the_first_half_of_a_join_waits_for_a_promise_that_the_second_fills() {
    everywhere(|| {
        if !segue::core::in_fiber() {
            return; // Plain threads go through the default runtime, below.
        }
        let (resolver, promised) = promise();
        let (a, filled) = segue::join(|| promised.wait().cloned(), || resolver.fill(3));
        assert_eq!((a, filled), (Ok(3), Ok(())));
    });
    let (resolver, promised) = promise();
    assert_eq!(segue::join(|| promised.wait().cloned(), || resolver.fill(4)).0, Ok(4));
}

#[test]
fn a_wait_while_panicking_is_refused() {
    struct WaitsInDrop(Promise<u8>);
    impl Drop for WaitsInDrop {
        fn drop(&mut self) {
            assert!(matches!(self.0.wait(), Err(WaitError::Cancelled(_))));
        }
    }
    // In fibers: a plain thread that panics may park.
    for workers in [1, 2] {
        let run = pool(workers).run(|| {
            let (_resolver, promised): (Resolver<u8>, _) = promise();
            catch_unwind(AssertUnwindSafe(|| {
                let _waits = WaitsInDrop(promised);
                std::panic::panic_any("planted");
            }))
            .is_err()
        });
        assert_eq!(run, Ok(true));
    }
}

#[test]
fn a_deadlock_names_both_fibers_and_what_each_waits_for() {
    for seed in 0..20 {
        let run = Sim::new(seed).stacks(StackConfig::new()).run(|| {
            let ((fill_left, left), (fill_right, right)) = (promise::<()>(), promise::<()>());
            scope(|s| {
                let wait = |promised: Promise<()>, resolver: Resolver<()>| {
                    move || {
                        if promised.wait().is_ok() {
                            resolver.fill(()).unwrap();
                        }
                    }
                };
                drop(Builder::new().name("left").within(s).spawn(wait(left, fill_right)));
                drop(Builder::new().name("right").within(s).spawn(wait(right, fill_left)));
            });
        });
        let deadlock = run.unwrap_err();
        let text = deadlock.to_string();
        for name in ["left", "right"] {
            let line = text.lines().find(|line| line.contains(&format!("fiber `{name}`"))).expect(&text);
            assert!(line.contains("waits for a promise at ") && line.contains("promises.rs:"), "{line}");
        }
        assert!(text.contains(&format!("seed {seed}")), "{text}");
    }
}

#[test]
fn plain_threads_use_the_default_runtime() {
    let threads: Vec<_> = (0..4)
        .map(|n| {
            std::thread::spawn(move || {
                let (resolver, promised) = promise();
                let fiber = spawn(move || {
                    sleep(Duration::from_millis(1)).unwrap();
                    resolver.fill(n).unwrap();
                });
                assert_eq!(promised.take(), Ok(n));
                fiber.join().unwrap();
                let (a, b) = segue::join(|| spawn(move || n).join().unwrap(), || n);
                assert_eq!(a, b);
                let mut borrowed = 0;
                scope(|s| drop(s.spawn(|| borrowed = n)));
                assert_eq!(borrowed, n);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_promise_is_awaited_by_any_number_of_tasks() {
    everywhere(|| {
        let (resolver, promised) = promise();
        assert_eq!(format!("{promised:?} {resolver:?}"), "Promise { state: \"empty\" } Resolver { .. }");
        let mut tasks = [(); 4].map(|()| Task::waiting(promised.wait_source()));
        drop(Task::waiting(promised.wait_source()));
        resolver.fill(5).unwrap();
        assert!(tasks.iter_mut().all(|task| task.wakes() == 1 && task.poll() == Some(Ok(&5))));
        // At once, now.
        assert_eq!((block_on(promised.wait_source()), promised.wait_source().wait()), (Ok(&5), Ok(Ok(&5))));
        assert_eq!(format!("{promised:?}"), "Promise { state: \"full\" }");
        let (resolver, promised) = promise::<u8>();
        let mut task = Task::waiting(promised.wait_source());
        drop(resolver);
        assert_eq!((task.poll(), promised.wait_source().attempt()), (Some(Err(Closed)), Some(Err(Closed))));
        assert_eq!(format!("{promised:?}"), "Promise { state: \"broken\" }");
    });
}

#[test]
fn a_value_is_taken_once_from_a_promise_that_stays() {
    everywhere(|| {
        let (resolver, mut promised) = promise();
        scope(|s| {
            s.spawn(|| {
                assert_eq!(promised.take_source().wait(), Ok(Ok(String::from("once"))));
                // Once it is taken, nothing will come any more.
                assert_eq!(promised.take_source().wait(), Ok(Err(Closed)));
                assert_eq!((promised.try_get(), promised.wait()), (Some(Err(Closed)), Err(WaitError::Closed)));
                assert_eq!(format!("{promised:?}"), "Promise { state: \"broken\" }");
            });
            let _ = yield_now();
            resolver.fill(String::from("once")).unwrap();
        });
        assert_eq!(promised.take(), Err(WaitError::Closed));
    });
}

#[test]
fn conservation_a_value_stays_in_the_promise_when_the_one_who_takes_it_leaves() {
    everywhere(|| {
        let (resolver, mut promised) = promise();
        // Dropped before it is filled, cancelled, late, and dropped when it was told that it is
        // filled.
        drop(Task::waiting(promised.take_source()));
        let token = CancelToken::new();
        token.cancel();
        assert!(token.run(|| promised.take_source().wait()).is_err());
        assert!(timeout(Duration::from_millis(1), || promised.take_source().wait()).is_err());
        assert!(matches!(promised.take_source().or(after(Duration::from_millis(1))).wait(), Ok(Either::Right(()))));
        let told = Task::waiting(promised.take_source());
        resolver.fill(String::from("here")).unwrap();
        assert_eq!(told.wakes(), 1);
        drop(told);
        assert_eq!(promised.try_get(), Some(Ok(&String::from("here"))));
        assert_eq!(promised.take(), Ok(String::from("here")));
        // Also where it lost against another one in a choice.
        let ((resolver, mut promised), free) = (promise(), Semaphore::new(0));
        let mut lost = Task::waiting(free.acquire_source().or(promised.take_source()));
        free.add_permits(1);
        resolver.fill(String::from("there")).unwrap();
        assert!(matches!(lost.poll(), Some(Either::Left(Ok(_)))));
        drop(lost);
        assert_eq!(promised.take(), Ok(String::from("there")));
    });
}

#[test]
fn a_promise_in_a_choice_is_filled_broken_or_late() {
    everywhere(|| {
        for (filled, awaited) in [(true, false), (true, true), (false, false), (false, true)] {
            let ((resolver, promised), (_never, other)) = (promise::<u8>(), promise::<u8>());
            scope(|s| {
                let waits = s.spawn(|| {
                    let choice = other.wait_source().or(promised.wait_source());
                    if awaited { block_on(choice) } else { choice.wait().unwrap() }
                });
                let _ = yield_now();
                if filled {
                    resolver.fill(3).unwrap()
                } else {
                    drop(resolver)
                }
                let expected = if filled { Ok(&3) } else { Err(Closed) };
                assert_eq!(waits.join().unwrap(), Either::Right(expected));
            });
            assert!(other.try_get().is_none());
        }
    });
}

#[test]
fn values_that_must_not_be_shared_are_sent_through_a_promise() {
    everywhere(|| {
        // `Cell` is `Send` and not `Sync`: the promise may be sent, and its value taken, but not
        // both looked at.
        let (resolver, promised) = promise();
        let taker = spawn(move || promised.take().map(Cell::into_inner));
        resolver.fill(Cell::new(4)).unwrap();
        assert_eq!(taker.join().unwrap(), Ok(4));
        // The future of a take is `Send`, as the value is.
        let (resolver, mut promised) = promise();
        let mut task = Task::waiting(promised.take_source());
        let filler = spawn(move || resolver.fill(Cell::new(5)));
        filler.join().unwrap().unwrap();
        assert_eq!(task.poll().unwrap().map(Cell::into_inner), Ok(5));
        drop(task);
        // On its own thread it is looked at as well.
        let (resolver, promised) = promise();
        resolver.fill(Cell::new(6)).unwrap();
        promised.wait().unwrap().set(7);
        assert_eq!(promised.take().map(Cell::into_inner), Ok(7));
    });
}

#[test]
fn conservation_fill_against_a_task_that_is_dropped_and_one_that_takes() {
    let outcomes: [AtomicUsize; 3] = Default::default();
    std::thread::scope(|t| {
        let (promises, next) = std::sync::mpsc::channel::<(usize, Resolver<Box<usize>>)>();
        t.spawn(move || next.into_iter().for_each(|(round, resolver)| drop(resolver.fill(Box::new(round)))));
        for round in 0..3000 {
            let (resolver, mut promised) = promise();
            promises.send((round, resolver)).unwrap();
            let mut task = Task::new(promised.take_source());
            let polls = (0..round % 4).find_map(|_| task.poll());
            let wakes = task.wakes();
            drop(task);
            match polls {
                Some(taken) => {
                    assert_eq!(taken.map(|value| *value), Ok(round));
                    assert_eq!(promised.take(), Err(WaitError::Closed));
                    outcomes[0].fetch_add(1, SeqCst);
                }
                None => {
                    assert_eq!(block_on(promised.take_source()).map(|value| *value), Ok(round));
                    outcomes[1 + wakes.min(1)].fetch_add(1, SeqCst);
                }
            }
        }
    });
    assert!(outcomes[..2].iter().all(|outcome| outcome.load(SeqCst) > 0), "{outcomes:?}");
}

#[test]
fn what_nobody_can_take_comes_back_to_the_resolver() {
    let (mut taken, mut returned) = (0, 0);
    everywhere(|| {
        let (resolver, promised) = promise();
        drop(promised);
        let back = resolver.fill(String::from("unread")).unwrap_err();
        assert_eq!((back.value.as_str(), back.error), ("unread", Closed));
        // A wait that takes it along is cancelled.
        let (resolver, promised) = promise();
        let token = segue::CancelToken::new();
        token.cancel();
        assert!(matches!(token.run(|| promised.take()), Err(WaitError::Cancelled(_))));
        assert_eq!(resolver.fill(7).unwrap_err().value, 7);
        // A task that was dropped has let go of it.
        let (resolver, mut promised) = promise();
        drop(Task::waiting(Box::pin(async move { promised.take_source().await })));
        assert!(resolver.fill(8).is_err());
        let (resolver, _) = promise();
        let error = std::io::Error::from(resolver.fill(9).unwrap_err());
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
    });
    // Taken, or given back: never both, and never neither.
    for round in 0..2_000 {
        let (resolver, promised) = promise();
        std::thread::scope(|t| {
            let filler = t.spawn(move || resolver.fill(Box::new(round)));
            let seen = promised.try_get().is_some();
            drop(promised);
            match filler.join().unwrap() {
                Ok(()) => taken += 1,
                Err(back) => {
                    assert!(!seen && *back.value == round);
                    returned += 1;
                }
            }
        });
    }
    println!("{taken} kept, {returned} returned");
    assert_eq!(taken + returned, 2_000);
}
