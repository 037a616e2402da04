//! Handlers: who handles, what continuations do, constant stack.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use segue_fiber::effect::{
    Continuation, Discontinued, Dropped, Effect, Handler, Next, Unhandled, perform, perform_result, try_perform,
};
use segue_fiber::leaked_stacks;

struct Ask;
impl Effect for Ask {
    type Output = u64;
}

struct Tell(u64);
impl Effect for Tell {
    type Output = ();
}

/// How often a loop goes round, fewer times where each switch passes a baton or is interpreted.
fn times(native: u64) -> u64 {
    if cfg!(miri) {
        20
    } else if cfg!(threads) {
        native.min(1000)
    } else {
        native
    }
}

/// Also where the constants of one type lie at several places, as under Miri.
#[test]
fn of_two_clauses_for_an_effect_the_one_added_last_is_asked() {
    let ask = || (perform(Ask), find_far());
    // Through a handler in between, as well.
    fn find_far() -> u64 {
        Handler::new().on(|_: Tell, k| k.resume(())).handle(|| perform(Ask))
    }
    assert_eq!(Handler::new().answer(|_: Ask| 1).on(|_: Ask, k| k.resume(2)).handle(ask), (2, 2));
    assert_eq!(Handler::new().on(|_: Ask, k| k.resume(2)).answer(|_: Ask| 1).handle(ask), (1, 1));
    assert_eq!(Handler::new().on(|_: Ask, k| k.resume(1)).on(|_: Ask, k| k.resume(2)).handle(ask), (2, 2));
}

#[test]
fn a_body_without_performs_yields_its_value() {
    assert_eq!(Handler::new().on(|_: Ask, k| k.resume(1)).handle(|| 5), 5);
    assert_eq!(Handler::new().answer(|_: Ask| 1).handle(|| 5), 5);
    assert_eq!(Handler::new().handle(|| 5), 5);
    assert_eq!(Handler::stored().on(|_: Ask, k| k.resume(1)).handle(|| 5), 5);
}

#[test]
fn a_clause_resumes_once_or_not_at_all() {
    let body = || perform(Ask) + perform(Ask) * 10;
    assert_eq!(Handler::new().on(|_: Ask, k| k.resume(3)).handle(body), 33);
    assert_eq!(Handler::new().on(|_: Ask, k| k.resume(3) + 1).handle(body), 35);
    assert_eq!(Handler::new().on(|_: Ask, _| 7).handle(body), 7);
    assert_eq!(Handler::new().on_tail(|_: Ask, k| k.tail(3)).handle(body), 33);
    assert_eq!(Handler::new().on_tail(|_: Ask, _| Next::done(8)).handle(body), 8);
    assert_eq!(Handler::new().answer(|_: Ask| 3).handle(body), 33);
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn the_value_case_runs_outside() {
    let yielded = Handler::new().answer(|_: Ask| 1).handle(|| {
        Handler::new()
            .on(|_: Ask, k| k.resume(2))
            .value(|it: u64| format!("{it} {}", perform(Ask)))
            .handle(|| perform(Ask))
    });
    assert_eq!(yielded, "2 1");
}

#[test]
fn clauses_run_under_the_outer_handlers() {
    let outer = |_: Ask, k: Continuation<u64, u64>| k.resume(100);
    assert_eq!(
        Handler::new().on(outer).handle(|| Handler::new()
            .on(|_: Ask, k| {
                let got = perform(Ask);
                k.resume(got + 1)
            })
            .handle(|| perform(Ask))),
        101
    );
    assert_eq!(
        Handler::new().on(outer).handle(|| Handler::new().answer(|_: Ask| perform(Ask) + 1).handle(|| perform(Ask))),
        101
    );
}

#[test]
fn an_effect_goes_to_the_innermost_clause_and_past_others() {
    let told = RefCell::new(Vec::new());
    let yielded = Handler::new()
        .on(|Tell(it), k| {
            told.borrow_mut().push(it);
            k.resume(())
        })
        .handle(|| {
            Handler::new().on(|_: Ask, k| k.resume(1)).handle(|| {
                Handler::new().answer(|_: Ask| 2).handle(|| {
                    perform(Tell(perform(Ask)));
                });
                perform(Tell(perform(Ask)));
                perform(Tell(9));
                perform(Ask)
            })
        });
    assert_eq!(yielded, 1);
    assert_eq!(*told.borrow(), [2, 1, 9]);
}

#[test]
fn a_handler_has_several_clauses_and_a_state() {
    let yielded = Handler::with_state(10)
        .on(|_: Ask, mut k: Continuation<_, _, u64>| {
            *k.state() += 1;
            let now = *k.state();
            k.resume(now)
        })
        .answer_with(|state: &mut u64, Tell(it)| *state += it)
        .value_with(|state, it: u64| (state, it))
        .handle(|| {
            let first = perform(Ask);
            perform(Tell(100));
            first + perform(Ask)
        });
    assert_eq!(yielded, (112, 11 + 112));
}

#[test]
fn without_a_handler_the_effect_comes_back_or_the_perform_panics() {
    assert!(matches!(try_perform(Tell(4)), Err(Tell(4))));
    let panic = catch_unwind(|| Handler::new().answer(|_: Ask| 1).handle(|| perform(Tell(4)))).unwrap_err();
    let unhandled = panic.downcast_ref::<Unhandled>().expect("the payload says what was performed");
    let message = unhandled.to_string();
    assert!(message.contains("effects::Tell") && message.contains("effects::Ask]"), "{message}");
    assert!(message.contains("tests/handlers/effects.rs"), "{message}");
    assert!(unhandled.effect().ends_with("Tell"));
}

#[test]
fn continuations_are_kept_and_resumed_under_other_handlers() {
    let kept: Rc<Cell<Option<Continuation<u64, String>>>> = Rc::default();
    let yielded = Handler::stored()
        .on({
            let kept = Rc::clone(&kept);
            move |_: Ask, k| {
                kept.set(Some(k));
                String::from("later")
            }
        })
        .value(|it: u64| it.to_string())
        .handle(|| {
            let asked = perform(Ask);
            perform(Tell(asked));
            asked * 2
        });
    assert_eq!(yielded, "later");
    let told = Cell::new(0);
    let k = kept.take().unwrap();
    let yielded = Handler::new().answer(|Tell(it)| told.set(it)).handle(|| k.resume(21));
    assert_eq!((yielded.as_str(), told.get()), ("42", 21));
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn a_scheduler_in_twenty_lines_takes_constant_stack() {
    struct Yield;
    impl Effect for Yield {
        type Output = ();
    }
    struct Fork(Box<dyn FnOnce()>);
    impl Effect for Fork {
        type Output = ();
    }
    type Queue = Rc<RefCell<VecDeque<Continuation<'static, (), ()>>>>;

    fn next(queue: &Queue) -> Next<'static, ()> {
        let k = queue.borrow_mut().pop_front();
        k.map_or_else(|| Next::done(()), |k| k.tail(()))
    }
    fn start(queue: Queue, body: Box<dyn FnOnce()>) {
        Handler::stored()
            .on_tail({
                let queue = Rc::clone(&queue);
                move |_: Yield, k| {
                    queue.borrow_mut().push_back(k);
                    next(&queue)
                }
            })
            .on({
                let queue = Rc::clone(&queue);
                move |Fork(body), k| {
                    queue.borrow_mut().push_back(k);
                    start(Rc::clone(&queue), body)
                }
            })
            .value({
                let queue = Rc::clone(&queue);
                move |()| {
                    let k = queue.borrow_mut().pop_front();
                    if let Some(k) = k {
                        k.resume(());
                    }
                }
            })
            .handle(body);
    }

    let turns = times(100_000);
    let count = Rc::new(Cell::new(0));
    start(Queue::default(), {
        let count = Rc::clone(&count);
        Box::new(move || {
            for _ in 0..3 {
                let count = Rc::clone(&count);
                perform(Fork(Box::new(move || {
                    for _ in 0..turns {
                        count.set(count.get() + 1);
                        perform(Yield);
                    }
                })));
            }
        })
    });
    assert_eq!(count.get(), 3 * turns);
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn ten_million_performs_take_constant_stack() {
    let performs = times(10_000_000);
    let sum = Handler::new().on_tail(|_: Ask, k| k.tail(1)).handle(|| (0..performs).map(|_| perform(Ask)).sum::<u64>());
    assert_eq!(sum, performs);
}

#[test]
fn a_dropped_continuation_is_unwound_at_once() {
    struct Note<'a>(&'a Cell<bool>);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let cleaned = Cell::new(false);
    let yielded = Handler::new()
        .on(|_: Ask, k| {
            assert!(!cleaned.get());
            drop(k);
            assert!(cleaned.get());
            3
        })
        .handle(|| {
            let _note = Note(&cleaned);
            perform(Ask)
        });
    assert_eq!(yielded, 3);
    let cleaned = Cell::new(false);
    let yielded = Handler::new()
        .on(|_: Ask, k| {
            std::mem::forget(k);
            4
        })
        .handle(|| {
            let _note = Note(&cleaned);
            perform(Ask)
        });
    assert_eq!((yielded, cleaned.get()), (4, true), "handle ends what was forgotten");
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn a_discontinued_computation_unwinds_with_the_payload() {
    let caught = Handler::new()
        .on(|_: Ask, k| k.discontinue("stop"))
        .panic(|payload| (*payload.downcast::<&str>().unwrap()).to_owned())
        .handle(|| perform(Ask).to_string());
    assert_eq!(caught, "stop");
    let raised = catch_unwind(|| Handler::new().on(|_: Ask, k| k.discontinue(5_u8)).handle(|| perform(Ask)));
    assert_eq!(*raised.unwrap_err().downcast::<u8>().unwrap(), 5);
    let inside = Handler::new()
        .on(|_: Ask, k| k.discontinue(Box::new(1)))
        .handle(|| catch_unwind(|| perform(Ask)).map_or(77, |_| 0));
    assert_eq!(inside, 77);
    let dropped = Handler::new()
        .on(|_: Ask, _| 1)
        .panic(|payload| {
            assert!(payload.is::<Dropped>());
            2
        })
        .handle(|| perform(Ask));
    assert_eq!(dropped, 1, "what becomes of a dropped continuation is not the result");
}

#[test]
fn a_panic_in_the_body_goes_to_the_case_or_on() {
    let body = || -> u64 { panic!("{}", perform(Ask)) };
    let case = |payload: Box<dyn std::any::Any + Send>| payload.downcast::<String>().unwrap().len() as u64;
    assert_eq!(Handler::new().on(|_: Ask, k| k.resume(123)).panic(case).handle(body), 3);
    assert_eq!(Handler::new().answer(|_: Ask| 123).panic(case).handle(body), 3);
    let raised = catch_unwind(AssertUnwindSafe(|| Handler::new().on(|_: Ask, k| k.resume(123)).handle(body)));
    assert_eq!(*raised.unwrap_err().downcast::<String>().unwrap(), "123");
}

#[test]
fn a_panic_in_a_clause_unwinds_the_body_and_leaves_handle() {
    let log = RefCell::new(Vec::new());
    struct Note<'a>(&'a RefCell<Vec<&'static str>>);
    impl Drop for Note<'_> {
        fn drop(&mut self) {
            self.0.borrow_mut().push(if std::thread::panicking() { "body, panicking" } else { "body" });
        }
    }
    let raised = catch_unwind(AssertUnwindSafe(|| {
        Handler::new()
            .on(|_: Ask, _k| -> u64 { panic!("clause") })
            .panic(|_| unreachable!("the clause is outside of the handler"))
            .handle(|| {
                let _note = Note(&log);
                perform(Ask)
            })
    }));
    assert_eq!(*raised.unwrap_err().downcast::<&str>().unwrap(), "clause");
    assert_eq!(*log.borrow(), ["body, panicking"]);
    // And the chain is what it was.
    assert!(try_perform(Ask).is_err());
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn a_discontinuation_is_a_value_for_who_asks_for_that() {
    fn two() -> Result<u64, Discontinued> {
        Ok(perform_result(Ask)? + perform_result(Ask)?)
    }
    assert_eq!(Handler::new().on(|_: Ask, k| k.resume(3)).handle(two).unwrap(), 6);
    assert_eq!(Handler::new().answer(|_: Ask| 3).handle(two).unwrap(), 6);

    // Discontinued with something, at the first and at the second perform.
    for good in 0..2 {
        let count = Cell::new(0);
        let handler = Handler::new().on(|_: Ask, k| {
            count.set(count.get() + 1);
            if count.get() > good { k.discontinue("stop") } else { k.resume(1) }
        });
        let end = handler.handle(two).unwrap_err();
        assert!(!end.is_dropped());
        assert!(end.is::<&str>() && !end.is::<String>());
        assert_eq!(end.into_payload().downcast_ref(), Some(&"stop"));
        assert_eq!(count.get(), good + 1);
    }

    // Dropped: what the body ends with is nobody's.
    let seen = Cell::new(false);
    let yielded = Handler::new().on(|_: Ask, _| 7).handle(|| {
        let end = perform_result(Ask).unwrap_err();
        assert!(end.is_dropped() && end.is::<Dropped>());
        assert_eq!(end.to_string(), "the handler of an effect has dropped the computation");
        seen.set(true);
        1
    });
    assert_eq!((yielded, seen.get()), (7, true));

    // It is an error like others.
    let passed_on = Handler::new().on(|_: Ask, k| k.discontinue(())).handle(|| {
        let sum = || -> Result<u64, Box<dyn std::error::Error + Send + Sync>> { Ok(two()?) };
        sum().unwrap_err().to_string()
    });
    assert_eq!(passed_on, "the handler of an effect has discontinued the computation");

    // Nothing is unwound, so destructors see no panic; who wants it can have it.
    struct NoPanic;
    impl Drop for NoPanic {
        fn drop(&mut self) {
            assert!(!std::thread::panicking());
        }
    }
    let ended = Handler::new().on(|_: Ask, k| k.discontinue(1u8)).handle(|| {
        let _no_panic = NoPanic;
        perform_result(Ask).is_err()
    });
    assert!(ended);
    let raised = Handler::new()
        .on(|_: Ask, k| k.discontinue(1u8))
        .panic(|payload| payload.is::<u8>())
        .handle(|| perform_result(Ask).unwrap_or_else(|end| end.raise()) > 0);
    assert!(raised);
    assert!(catch_unwind(|| perform_result(Ask)).unwrap_err().is::<Unhandled>());
    assert_eq!(leaked_stacks(), 0);
}
