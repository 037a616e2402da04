//! What a computation is inside of when it gives or performs belongs to it: it leaves with it, and
//! surrounds it again wherever it goes on. It never surrounds the consumer, or the clause.
//!
//! On a plain thread, and in fibers under simulated time. Not on the host with a thread for each
//! fiber, where a handled computation is on a thread that does not know which fiber it is part of.
#![cfg(not(feature = "threads"))]

use segue_core::{
    CancelToken, Cancelled, after, check, deadline, is_cancelled, now, scope, shield, sleep, spawn, timeout, yield_now,
};
use segue_fiber::effect::{Continuation, Effect, Handler, perform};
use segue_fiber::{Generator, generator};
use segue_sched::{Fifo, Runtime, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(1000);

struct Ask;
impl Effect for Ask {
    type Output = u64;
}

/// An effect for a handler further out.
struct AskFurther;
impl Effect for AskFurther {
    type Output = u64;
}

type Kept = Continuation<'static, u64, u64>;

/// Runs `body` up to its first perform.
fn captured(body: impl FnOnce() -> u64 + 'static) -> Kept {
    let kept = Rc::new(Cell::new(None));
    let to = Rc::clone(&kept);
    let clause = move |_: Ask, k| {
        to.set(Some(k));
        0
    };
    assert_eq!(Handler::stored().on(clause).handle(body), 0);
    kept.take().expect("it has performed")
}

/// In a fiber, where time is simulated, under several schedules; and on a plain thread.
fn everywhere(case: fn()) {
    for seed in 0..5 {
        Sim::new(seed).run(case).unwrap();
    }
    case();
}

fn timed_out<T: std::fmt::Debug>(result: Result<T, Cancelled>) -> bool {
    result.is_err_and(|cancelled| cancelled.timed_out())
}

#[test]
fn a_timeout_in_a_generator_does_not_cut_its_consumer() {
    everywhere(|| {
        let mut elements = generator(|y| timeout(MS, || y.give(1)));
        assert_eq!(elements.next(), Some(1));
        assert_eq!(sleep(3 * MS), Ok(()));
        assert_eq!(check(), Ok(()));
        assert_eq!(elements.next(), None);
        assert_eq!(check(), Ok(()));
    });
}

#[test]
fn a_timeout_in_a_generator_passes_while_the_consumer_is_at_it() {
    everywhere(|| {
        let mut elements = generator(|y| {
            let late = timeout(2 * MS, || {
                y.give(false);
                after(LONG).wait()
            });
            y.give(timed_out(late));
        });
        assert_eq!(elements.next(), Some(false));
        sleep(4 * MS).unwrap();
        assert_eq!(elements.next(), Some(true));
    });
}

#[test]
fn a_token_in_a_generator_cancels_its_body_alone() {
    everywhere(|| {
        let token = CancelToken::new();
        let inside = token.clone();
        let mut elements = generator(move |y| {
            y.give(inside.run(|| {
                y.give(is_cancelled());
                is_cancelled()
            }));
            y.give(is_cancelled());
        });
        assert_eq!(elements.next(), Some(false));
        token.cancel();
        assert_eq!(yield_now(), Ok(()));
        assert_eq!(elements.next(), Some(true));
        assert_eq!(elements.next(), Some(false));
    });
}

#[test]
fn a_shield_in_a_generator_does_not_hide_its_consumers_cancellation() {
    everywhere(|| {
        let token = CancelToken::new();
        let mut elements = generator(|y| {
            shield(|| {
                y.give(is_cancelled());
                y.give(is_cancelled());
            });
            y.give(is_cancelled());
        });
        token.run(|| {
            assert_eq!(elements.next(), Some(false));
            assert_eq!(check(), Ok(()));
            token.cancel();
            assert!(is_cancelled());
            assert_eq!(elements.next(), Some(false), "the body is shielded, whoever asks");
            assert!(check().is_err());
            assert_eq!(elements.next(), Some(true));
        });
    });
}

/// Gives 1 to 3, each inside of a timeout and a scope of its own.
fn inside_of_much(base: u32) -> Generator<'static, u32> {
    generator(move |y| {
        timeout(LONG, || {
            (1..=3).for_each(|n| {
                scope(|s| {
                    s.spawn(|| yield_now().unwrap());
                    y.give(base + n);
                });
            });
        });
    })
}

#[test]
fn generators_inside_of_contexts_are_zipped_and_asked_inside_of_others() {
    everywhere(|| {
        let zipped: Vec<_> = inside_of_much(0).zip(inside_of_much(10)).collect();
        assert_eq!(zipped, [(1, 11), (2, 12), (3, 13)]);
        let mut elements = inside_of_much(0);
        let asked: Vec<_> = std::iter::from_fn(|| timeout(LONG, || elements.next())).collect();
        assert_eq!(asked, [1, 2, 3]);
    });
}

#[test]
fn whoever_asks_surrounds_the_body_for_as_long() {
    everywhere(|| {
        let mut elements = generator(|y| {
            y.give(false);
            // Cut by the one that has asked for the second element, but not for the third one.
            y.give(timed_out(after(LONG).wait()));
            y.give(timed_out(after(MS).wait()));
        });
        assert_eq!(elements.next(), Some(false));
        assert_eq!(timeout(2 * MS, || elements.next()), Some(true));
        // What has cut the body was around it then, and is not any more.
        assert_eq!(elements.next(), Some(false));
    });
}

#[test]
fn a_deadline_that_was_around_at_the_birth_is_left_behind() {
    everywhere(|| {
        // Long enough for the capture to come first, also on a machine with much else to do.
        let passes = now() + 20 * MS;
        let k = deadline(Some(passes), || {
            captured(|| {
                timeout(LONG, || {
                    scope(|s| {
                        let asked = perform(Ask);
                        // Both by the look at the clock, without a wait.
                        let child = s.spawn(check).join().unwrap();
                        asked + u64::from(check().is_ok() && child.is_ok())
                    })
                })
            })
        });
        sleep(passes.saturating_duration_since(now()) + MS).unwrap();
        assert_eq!(k.resume(1), 2);
    });
}

#[test]
fn a_deadline_of_whoever_resumes_is_noticed_without_a_wait() {
    everywhere(|| {
        let k = captured(|| timeout(LONG, || scope(|_| perform(Ask) + u64::from(timed_out(check())))));
        assert_eq!(deadline(Some(now()), || k.resume(1)), 2);
        let k = captured(|| {
            timeout(LONG, || {
                perform(Ask);
                let passed = now() + 2 * MS;
                while now() < passed {
                    let _ = shield(|| sleep(MS));
                }
                u64::from(timed_out(check()))
            })
        });
        assert_eq!(timeout(MS, || k.resume(1)), 1);
    });
}

#[test]
fn a_cancellation_before_the_resume_is_found() {
    everywhere(|| {
        let token = CancelToken::new();
        token.cancel_with("no longer wanted");
        let k = captured(|| {
            timeout(LONG, || {
                perform(Ask);
                let cancelled = check().unwrap_err();
                assert_eq!(cancelled.reason().unwrap().to_string(), "no longer wanted");
                assert!(scope(|s| s.spawn(|| ()).join()).is_err());
                5
            })
        });
        assert_eq!(token.run(|| k.resume(1)), 5);
        assert_eq!(check(), Ok(()));
    });
}

#[test]
fn a_cancellation_of_where_it_was_captured_is_not() {
    everywhere(|| {
        let token = CancelToken::new();
        let k = token.run(|| captured(|| timeout(LONG, || perform(Ask) + u64::from(check().is_ok()))));
        token.cancel();
        assert_eq!(k.resume(1), 2);
    });
}

#[test]
fn a_clause_that_waits_is_not_cut_by_the_performers_timeout() {
    everywhere(|| {
        let late = Handler::new()
            .on(|_: Ask, k| {
                assert_eq!(sleep(3 * MS), Ok(()));
                k.resume(1)
            })
            .handle(|| timeout(MS, || perform(Ask) + u64::from(timed_out(check()))));
        assert_eq!(late, 2);
    });
}

#[test]
fn a_clause_that_answers_is_a_call_in_the_performers_timeout() {
    everywhere(|| {
        let cut = Handler::new().answer(|_: Ask| u64::from(timed_out(after(LONG).wait())));
        assert_eq!(cut.handle(|| timeout(MS, || perform(Ask))), 1);
    });
}

#[test]
fn what_is_captured_in_a_clause_that_answers_takes_the_performers_contexts_along() {
    everywhere(|| {
        let kept: Rc<RefCell<Vec<Kept>>> = Rc::default();
        let to = Rc::clone(&kept);
        let clause = move |_: AskFurther, k| {
            to.borrow_mut().push(k);
            0
        };
        let began = now();
        timeout(20 * MS, || {
            Handler::stored().on(clause).handle(|| {
                let answer = |_: Ask| perform(AskFurther) + u64::from(check().is_ok());
                Handler::new().answer(answer).handle(|| {
                    let inside = timeout(LONG, || perform(Ask) + u64::from(check().is_ok()));
                    inside + 10 * u64::from(check().is_ok())
                })
            });
            let _ = shield(|| sleep(21 * MS));
            assert!(check().is_err() && now() >= began + 20 * MS);
        });
        // Nothing of the timeout in which it was captured is around it any more.
        assert_eq!(kept.borrow_mut().pop().unwrap().resume(1), 13);
        assert_eq!(check(), Ok(()));
    });
}

#[test]
fn fibers_of_a_scope_in_a_generator_outlive_their_consumers_cancellation_and_end_with_the_generator() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&ended);
    let case = move || {
        counts.store(0, SeqCst);
        let (child, begun) = (Arc::clone(&counts), Arc::new(AtomicBool::new(false)));
        let begins = Arc::clone(&begun);
        let mut elements = generator(move |y| {
            scope(|s| {
                s.spawn(|| {
                    begins.store(true, SeqCst);
                    assert!(after(LONG).wait().is_err());
                    child.fetch_add(1, SeqCst);
                });
                y.give(1);
                y.give(2);
            });
        });
        let token = CancelToken::new();
        token.run(|| {
            assert_eq!(elements.next(), Some(1));
            token.cancel();
        });
        // Not the child's cancellation: it was cancelled where the generator was not.
        while !begun.load(SeqCst) {
            sleep(MS).unwrap();
        }
        sleep(MS).unwrap();
        assert_eq!(counts.load(SeqCst), 0);
        assert_eq!(elements.next(), Some(2));
        drop(elements);
        assert_eq!(counts.load(SeqCst), 1);
    };
    for seed in 0..5 {
        let case = case.clone();
        Sim::new(seed).run(case).unwrap();
    }
    case();
}

#[test]
fn it_goes_from_fiber_to_fiber_and_is_cancelled_with_the_one_that_it_is_in() {
    for seed in 0..20 {
        Sim::new(seed)
            .run(|| {
                let elements = RefCell::new(inside_of_much(0).chain(generator(|y| {
                    timeout(LONG, || {
                        y.give(u32::from(is_cancelled()));
                        y.give(u32::from(is_cancelled()));
                        y.give(u32::from(is_cancelled()));
                    });
                })));
                // Started fibers stay on their thread, and here is one worker.
                let next = || elements.borrow_mut().next();
                let token = CancelToken::new();
                assert_eq!(next(), Some(1));
                assert_eq!(timeout(LONG, next), Some(2));
                assert_eq!(token.run(|| shield(next)), Some(3));
                assert_eq!(next(), Some(0));
                token.cancel();
                assert_eq!(token.run(next), Some(1));
                // It is sticky: the timeout was cancelled.
                assert_eq!(next(), Some(1));
                let detached = spawn(|| yield_now().is_ok());
                assert!(detached.join().unwrap());
            })
            .unwrap();
    }
}

#[test]
fn a_timeout_that_outlives_its_scheduler_passes_all_the_same() {
    for simulated in [false, true] {
        let elements = RefCell::new(generator(|y| {
            let late = timeout(20 * MS, || {
                y.give(false);
                after(LONG).wait()
            });
            y.give(timed_out(late));
        }));
        let next = || elements.borrow_mut().next();
        let first = match simulated {
            true => Sim::new(1).run(next).unwrap(),
            false => Runtime::new().workers(1).run_with(Fifo::default, next).unwrap(),
        };
        assert_eq!(first, Some(false));
        assert_eq!(Runtime::new().workers(1).run_with(Fifo::default, next).unwrap(), Some(true));
    }
}

/// The body is inside of a scope, whose fibers need this worker. While the consumer panics, to wait
/// for them would block it; afterwards it suspends the consumer.
#[test]
fn a_body_inside_of_a_scope_outlives_its_consumer_s_panic_and_is_dropped_after_it() {
    fn case() {
        let (began, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let inside = [Arc::clone(&began), Arc::clone(&ended)];
        let mut elements = generator(move |y| {
            scope(|s| {
                let [began, ended] = &inside;
                s.spawn(move || {
                    began.fetch_add(1, SeqCst);
                    assert!(sleep(LONG).is_err());
                    ended.fetch_add(1, SeqCst);
                });
                y.give(1);
            });
        });
        let consumer = std::panic::AssertUnwindSafe(|| {
            assert_eq!(elements.next(), Some(1));
            while began.load(SeqCst) == 0 {
                yield_now().unwrap();
            }
            std::panic::resume_unwind(Box::new("expected"));
        });
        assert!(std::panic::catch_unwind(consumer).is_err());
        drop(elements);
        assert_eq!(ended.load(SeqCst), 1);
    }
    everywhere(case);
}
