//! Computations that are captured in the middle of something of the scheduler's, and go on
//! elsewhere or never: effects and generators against moves, joins, polls of a driven scheduler,
//! and the identity of fibers. What would go wrong is refused where it begins.
#![cfg(not(any(miri, feature = "threads")))]

use crate::common::{Meet, in_child};
use segue_core::{scope, shield, sleep, wait_future, yield_now};
use segue_fiber::effect::{Continuation, Effect, Handler, perform, try_perform};
use segue_fiber::{Generator, generator};
use segue_sched::{Fifo, Handle, Polled, Runtime, hosted, join, move_to};
use std::cell::RefCell;
use std::time::Duration;

struct Keep;
impl Effect for Keep {
    type Output = u64;
}

struct Other;
impl Effect for Other {
    type Output = ();
}

thread_local!(static KEPT: RefCell<Option<Continuation<'static, u64, u64>>> = const { RefCell::new(None) });

/// Runs `f` until it performs `Keep`, and keeps the rest of it.
fn keeping(f: impl FnOnce() -> u64 + 'static) -> u64 {
    let keep = |_: Keep, k| {
        KEPT.set(Some(k));
        0
    };
    Handler::stored().on(keep).handle(f)
}

fn kept() -> Continuation<'static, u64, u64> {
    KEPT.take().expect("it was captured")
}

/// Calls `body` in a fiber of a scheduler of one worker, with a handle of one that runs in another
/// fiber of the same thread.
fn nested(body: impl FnOnce(&Handle) + Send) {
    Runtime::new()
        .workers(1)
        .run_with(Fifo::default, || {
            let (send, receive) = std::sync::mpsc::channel();
            let over = &Meet::new();
            scope(|s| {
                s.spawn(move || {
                    let inner = Runtime::new().workers(1).run_with(Fifo::default, || {
                        send.send(Handle::current().unwrap()).unwrap();
                        over.wait().unwrap();
                    });
                    inner.unwrap();
                });
                let handle = loop {
                    match receive.try_recv() {
                        Ok(handle) => break handle,
                        Err(_) => yield_now().unwrap(),
                    }
                };
                body(&handle);
                over.put(());
            });
        })
        .unwrap();
}

#[test]
fn a_move_can_not_be_captured() {
    let end = in_child("a_move_can_not_be_captured", || {
        nested(|inner| {
            let to = inner.clone();
            // The rest would be in the other scheduler's hands, or in nobody's.
            let there = keeping(move || move_to(&to, || try_perform(Keep).map_or(1, |_| 2)).unwrap());
            assert_eq!(there, 1, "handlers around a move do not reach into it");
            assert_eq!(move_to(inner, || keeping(|| perform(Keep) + 1)), Ok(0));
            // What was captured under one scheduler goes on under another.
            assert_eq!(kept().resume(4), 5);
        });
    });
    end.assert_passed();
}

#[test]
fn a_generator_goes_on_under_the_scheduler_of_its_consumer() {
    thread_local!(static NUMBERS: RefCell<Option<Generator<'static, u64>>> = const { RefCell::new(None) });
    let end = in_child("a_generator_goes_on_under_the_scheduler_of_its_consumer", || {
        nested(|inner| {
            let (to, home) = (inner.clone(), Handle::current().unwrap());
            NUMBERS.set(Some(generator(move |numbers| {
                for number in 0.. {
                    let here = Handle::current().unwrap();
                    for there in [&to, &home] {
                        assert_eq!(&move_to(there, || Handle::current().unwrap()).unwrap(), there);
                    }
                    assert_eq!(Handle::current().unwrap(), here);
                    sleep(Duration::from_micros(10)).unwrap();
                    numbers.give(number);
                }
            })));
            let next = || NUMBERS.with_borrow_mut(|numbers| numbers.as_mut()?.next());
            assert_eq!(next(), Some(0));
            assert_eq!(move_to(inner, next), Ok(Some(1)));
            assert_eq!(next(), Some(2));
            assert_eq!(move_to(inner, || drop(NUMBERS.take())), Ok(()));
        });
    });
    end.assert_passed();
}

#[test]
fn a_join_can_not_be_captured() {
    let end = in_child("a_join_can_not_be_captured", || {
        Runtime::new()
            .workers(1)
            .run_with(Fifo::default, || {
                let outcome = scope(|_| {
                    keeping(|| {
                        // The other half is in the scope, which would end before it.
                        let (a, b) = join(|| try_perform(Keep).map_or(1, |_| 2), || 10);
                        a + b
                    })
                });
                assert_eq!(outcome, 11, "handlers around a join do not reach into it");
                let sums: Vec<u64> = (0..100)
                    .map(|n| {
                        let (a, b) = join(
                            || {
                                yield_now().unwrap();
                                n
                            },
                            || n,
                        );
                        a + b
                    })
                    .collect();
                assert_eq!(sums, (0..100).map(|n| 2 * n).collect::<Vec<_>>());
            })
            .unwrap();
    });
    end.assert_passed();
}

#[test]
fn polls_of_a_driven_scheduler_run_outside_of_handlers() {
    let end = in_child("polls_of_a_driven_scheduler_run_outside_of_handlers", || {
        let mut fibers = Runtime::new().driven(|| ()).unwrap();
        let spawned = fibers.spawn(|| try_perform(Keep).is_err());
        let last = Handler::new().answer(|_: Keep| 1).on(|_: Other, k| k.resume(())).handle(|| {
            let started = fibers.start(|| try_perform(Keep).is_err() && try_perform(Other).is_err()).unwrap();
            assert!(started.join().unwrap());
            while fibers.poll() == Polled::Again {}
            assert!(spawned.join().unwrap());
            let last = fibers.start(|| (yield_now().is_ok(), try_perform(Keep).is_err())).unwrap();
            drop(fibers);
            last
        });
        assert!(last.join().unwrap().1);
    });
    end.assert_passed();
}

/// Where `keeping` was captured it was in the contexts of a fiber that has ended since.
fn go_on_in_another_fiber() -> u64 {
    shield(|| kept().resume(1) + u64::from(segue_core::is_cancelled()))
}

#[test]
fn what_was_captured_in_a_context_goes_on_in_a_fiber_at_the_same_address() {
    // Both are hosted on the same stack.
    let first = wait_future(hosted(|| keeping(|| shield(|| perform(Keep)))));
    assert_eq!(first.unwrap().unwrap(), 0);
    assert_eq!(wait_future(hosted(go_on_in_another_fiber)).unwrap().unwrap(), 1);
}

#[test]
fn what_was_captured_in_a_context_goes_on_in_a_later_run() {
    let run = |f: fn() -> u64| Runtime::new().workers(1).run_with(Fifo::default, f).unwrap();
    assert_eq!(run(|| keeping(|| shield(|| perform(Keep)))), 0);
    assert_eq!(run(go_on_in_another_fiber), 1);
}
