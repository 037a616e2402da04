//! Handlers under pressure: depth, numbers, size, panics at odd times, performs while the thread
//! panics.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use segue_fiber::effect::{Continuation, Effect, Handler, Next, Unhandled, outside, perform, try_perform};
use segue_fiber::{Coroutine, Step, leaked_stacks, thread_stacks};

struct Ask;
impl Effect for Ask {
    type Output = u64;
}

struct Tell(#[expect(dead_code)] u64);
impl Effect for Tell {
    type Output = ();
}

fn scaled(native: u64, threads: u64) -> u64 {
    if cfg!(miri) {
        3
    } else if cfg!(threads) || option_env!("SEGUE_SMALL").is_some() {
        threads
    } else {
        native
    }
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload.downcast_ref::<&str>().unwrap()
}

#[test]
fn a_thousand_nested_handlers() {
    fn nest(depth: u64) -> u64 {
        if depth == 0 {
            return perform(Ask) + perform(Ask);
        }
        Handler::new().on(|Tell(_), k| k.resume(())).handle(|| nest(depth - 1) + 1)
    }
    let depth = scaled(1000, 50);
    for _ in 0..3 {
        assert_eq!(Handler::new().on(|_: Ask, k| k.resume(7)).handle(|| nest(depth)), 14 + depth);
        assert_eq!(Handler::new().on(|_: Ask, _| 5).handle(|| nest(depth)), 5, "and all of them are unwound");
    }
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn a_million_captures_leave_nothing() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let kept: Rc<Cell<Option<Continuation<u64, u64>>>> = Rc::default();
    let mut before = None;
    for round in 0..scaled(1_000_000, 200) {
        let first = Handler::stored()
            .on({
                let kept = Rc::clone(&kept);
                move |_: Ask, k| {
                    kept.set(Some(k));
                    0
                }
            })
            .handle(|| perform(Ask));
        assert_eq!(first, 0);
        match round % 64 {
            0 => drop(kept.take()),
            _ => assert_eq!(kept.take().unwrap().resume(round), round),
        }
        if round == 1000 {
            before = Some(resident());
        }
    }
    if let (Some(before), false) = (before, cfg!(threads)) {
        assert!(resident() < before + (8 << 20), "{} bytes more", resident() - before);
    }
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn large_clauses_states_and_values() {
    let big = [1_u64; 300];
    let yielded = Handler::with_state([2_u64; 300])
        .on(move |_: Ask, mut k: Continuation<_, _, [u64; 300]>| {
            k.state()[0] += 1;
            k.resume(big.iter().sum())
        })
        .value_with(|state, it: [u64; 300]| state[0] + it[299])
        .handle(move || [perform(Ask) + big[5]; 300]);
    assert_eq!(yielded, 3 + 301);
    #[repr(align(256))]
    #[derive(Clone, Copy)]
    struct Aligned(u64);
    let at = Aligned(4);
    let yielded = Handler::new()
        .on(move |_: Ask, k: Continuation<u64, u64>| {
            assert!((&raw const at).is_aligned());
            k.resume(at.0)
        })
        .handle(|| perform(Ask));
    assert_eq!(yielded, 4);
}

#[test]
fn panics_in_the_value_case_and_in_destructors() {
    let raised = catch_unwind(|| {
        Handler::new().on(|_: Ask, k| k.resume(1)).value(|_: u64| -> u64 { panic!("value") }).handle(|| perform(Ask))
    });
    assert_eq!(message(&*raised.unwrap_err()), "value");

    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("{}", self.0);
            }
        }
    }
    // In the destructor of a clause,
    let bomb = Bomb("clause");
    let raised = catch_unwind(AssertUnwindSafe(|| {
        Handler::new()
            .on(move |_: Ask, k| {
                let _bomb = &bomb;
                k.resume(1)
            })
            .handle(|| perform(Ask))
    }));
    assert_eq!(raised.unwrap_err().downcast_ref::<String>().unwrap(), "clause");
    // of the body's frame at its end,
    let raised = catch_unwind(|| {
        Handler::new().on(|_: Ask, k| k.resume(1)).handle(|| {
            let _bomb = Bomb("frame");
            perform(Ask)
        })
    });
    assert_eq!(raised.unwrap_err().downcast_ref::<String>().unwrap(), "frame");
    // and of what the body catches when its continuation is dropped: the drop's panic is the
    // clause's.
    let raised = catch_unwind(|| {
        Handler::new()
            .on(|_: Ask, k| {
                drop(k);
                2
            })
            .handle(|| {
                let _ = catch_unwind(|| perform(Ask));
                drop(Bomb("late"));
                1
            })
    });
    assert_eq!(raised.unwrap_err().downcast_ref::<String>().unwrap(), "late");
    assert!(try_perform(Ask).is_err());
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn an_answer_whose_destructor_panics_is_no_reason_not_to_unwind() {
    struct Bomb(bool);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 {
                panic!("answer");
            }
        }
    }
    struct Give;
    impl Effect for Give {
        type Output = Bomb;
    }
    struct Unwound(Rc<Cell<bool>>);
    impl Drop for Unwound {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let unwound = Rc::new(Cell::new(false));
    let raised = catch_unwind(AssertUnwindSafe(|| {
        let frame = Unwound(Rc::clone(&unwound));
        Handler::stored()
            .on_tail(|_: Give, k| {
                drop(k.tail(Bomb(true)));
                Next::done(1)
            })
            .handle(move || {
                let _frame = frame;
                perform(Give).0 = false;
                2
            })
    }));
    assert_eq!(message(&*raised.unwrap_err()), "answer");
    assert!(unwound.get(), "the computation is left, with all that is on its stack");
}

#[test]
fn while_the_thread_panics_only_answers_are_asked() {
    struct AtEnd<'a>(&'a RefCell<Vec<Result<u64, ()>>>);
    impl Drop for AtEnd<'_> {
        fn drop(&mut self) {
            self.0.borrow_mut().push(try_perform(Ask).map_err(|_| ()));
        }
    }
    let got = RefCell::new(vec![]);
    let unwind = || {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _at_end = AtEnd(&got);
            panic!("unwinds");
        }));
        drop(AtEnd(&got));
        0
    };
    Handler::new().on(|_: Ask, k| k.resume(1)).handle(unwind);
    Handler::new().answer(|_: Ask| 2).handle(|| Handler::new().on(|_: Ask, k| k.resume(1)).handle(unwind));
    assert_eq!(*got.borrow(), [Err(()), Ok(1), Ok(2), Ok(1)]);

    // Whole handlers work, as long as they are left in order.
    struct Handles<'a>(&'a Cell<u64>);
    impl Drop for Handles<'_> {
        fn drop(&mut self) {
            self.0.set(Handler::new().on(|_: Ask, k| k.resume(3)).handle(|| 4));
        }
    }
    let value = Cell::new(0);
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _handles = Handles(&value);
        panic!("unwinds");
    }));
    assert_eq!(value.get(), 4);
}

#[test]
fn a_kept_continuation_is_resumed_in_a_destructor_of_a_panic() {
    let kept: Rc<Cell<Option<Continuation<u64, u64>>>> = Rc::default();
    Handler::stored()
        .on({
            let kept = Rc::clone(&kept);
            move |_: Ask, k| {
                kept.set(Some(k));
                0
            }
        })
        .handle(|| perform(Ask) * 2);
    struct Resumes(Rc<Cell<Option<Continuation<'static, u64, u64>>>>, Rc<Cell<u64>>);
    impl Drop for Resumes {
        fn drop(&mut self) {
            self.1.set(self.0.take().unwrap().resume(8));
        }
    }
    let value = Rc::new(Cell::new(0));
    let resumes = Resumes(kept, Rc::clone(&value));
    let _ = catch_unwind(AssertUnwindSafe(move || {
        let _resumes = resumes;
        panic!("unwinds");
    }));
    assert_eq!((value.get(), leaked_stacks()), (16, 0));
}

#[test]
fn effects_do_not_leave_a_coroutine_or_outside() {
    let found = Rc::new(Cell::new(0));
    Handler::new().on(|_: Ask, k| k.resume(1)).handle(|| {
        assert!(outside(|| try_perform(Ask).is_err()));
        let inside = Rc::clone(&found);
        let mut coroutine = Coroutine::new(thread_stacks::take().unwrap(), (), move |()| {
            let raised = catch_unwind(|| perform(Ask)).unwrap_err();
            assert!(raised.downcast_ref::<Unhandled>().unwrap().to_string().contains("no handlers in place"));
            inside.set(Handler::new().on(|_: Ask, k| k.resume(6)).handle(|| perform(Ask)));
        });
        assert_eq!(coroutine.resume(), Step::Returned);
        thread_stacks::put(coroutine.into_stack());
        perform(Ask)
    });
    assert_eq!(found.get(), 6);
}

#[test]
#[cfg(not(any(threads, miri)))]
fn a_backtrace_crosses_handlers() {
    #[inline(never)]
    fn outermost_frame_of_the_test() -> String {
        Handler::new().on(|Tell(_), k| k.resume(())).handle(|| {
            Handler::new().on(|_: Ask, k| k.resume(1)).handle(|| std::backtrace::Backtrace::force_capture().to_string())
        })
    }
    let trace = outermost_frame_of_the_test();
    assert!(trace.contains("outermost_frame_of_the_test"), "{trace}");
}
