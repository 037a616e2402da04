//! Where suspended coroutines are, and what stands for them, on real stacks. Where running threads
//! are is in `watched.rs`.
//!
//! Functions that a trace must name are kept out of line and do something after their calls, so
//! that each has a frame.

#![cfg(unwinds)]

mod common;

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::ptr::NonNull;
use std::rc::Rc;

use common::{coroutine, count, end, end_returned, names, owner, pool, rest_here, resume_inner};
use segue_fiber::effect::{Continuation, Effect, Handler, perform};
use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool, Step, Yielder, generator};

#[inline(never)]
fn descend(depth: usize, header: NonNull<()>) -> usize {
    if depth == 0 {
        rest_here(header);
        return 0;
    }
    black_box(descend(depth - 1, header)) + 1
}

#[test]
fn a_suspended_coroutine_shows_its_calls() {
    let mut pool = pool();
    let mut fiber = coroutine(&mut pool, 7, "reader", |me| {
        black_box(descend(3, me));
    });
    assert!(fiber.backtrace().to_string().contains("not started"));
    assert_eq!(fiber.resume(), Step::Suspended);
    let trace = fiber.backtrace();
    assert_eq!(trace, fiber.backtrace());
    let names = names(&trace);
    assert_eq!(names.len(), 1);
    assert!(trace.stacks()[0].is_whole());
    assert_eq!(*trace.stacks()[0].owner(), owner(7, "reader"));
    assert_eq!((count(&names[0], "rest_here"), count(&names[0], "descend")), (1, 4), "{trace}");
    let text = trace.to_string();
    assert!(text.contains("fiber 'reader' (7)") && text.contains("traces::descend"), "{text}");
    // As panics name it, and in no other way, wherever the program runs.
    let named = text.lines().filter(|line| line.contains("tests/traces.rs:")).count();
    let as_compiled = text.matches(concat!(" at ", file!(), ":")).count();
    assert_eq!((named > 0, named), (cfg!(feature = "lines"), as_compiled), "{text}");
    assert_eq!(fiber.resume(), Step::Returned);
    assert!(fiber.backtrace().to_string().contains("returned"));
    end_returned(fiber, &mut pool);
}

#[test]
fn each_finds_its_own_stack_while_arenas_of_other_layouts_come_and_go() {
    let come_and_go = |thread: u64| {
        for round in 0..200 {
            let config = StackConfig::new().slot_size((64 * 1024) << (round % 4)).max_slots(1 + round % 7);
            let mut pool = StackPool::new(StackArena::new(config.guard_pages(1 + round % 3)).unwrap());
            let mut fiber = coroutine(&mut pool, thread, "own", |me| {
                black_box(descend(3, me));
            });
            assert_eq!(fiber.resume(), Step::Suspended);
            let trace = fiber.backtrace();
            assert_eq!(trace.stacks().len(), 1, "round {round}");
            assert!(trace.stacks()[0].is_whole(), "round {round}");
            assert_eq!(*trace.stacks()[0].owner(), owner(thread, "own"), "round {round}");
            end(fiber, &mut pool);
        }
    };
    std::thread::scope(|s| {
        for thread in 0..4 {
            s.spawn(move || come_and_go(thread));
        }
    });
}

#[test]
fn a_thousand_calls_are_all_there() {
    let mut pool = StackPool::new(StackArena::new(StackConfig::new().slot_size(1 << 20)).unwrap());
    let mut fiber = coroutine(&mut pool, 0, "", |me| {
        black_box(descend(1000, me));
    });
    assert_eq!(fiber.resume(), Step::Suspended);
    let trace = fiber.backtrace();
    assert!(trace.stacks()[0].is_whole());
    assert_eq!(count(&names(&trace)[0], "descend"), 1001);
    assert_eq!(*trace.stacks()[0].owner(), owner(0, ""));
    end(fiber, &mut pool);
}

/// The outermost of some coroutines, each of which has resumed the next, and the innermost of which
/// has suspended the first.
#[inline(never)]
fn captured(levels: u64, first: Option<NonNull<()>>, pool: Rc<RefCell<StackPool>>) -> Coroutine<()> {
    let stacks = Rc::clone(&pool);
    let fiber = move |me| {
        let first = first.unwrap_or(me);
        match levels {
            0 => rest_here(first),
            _ => {
                let mut inner = captured(levels - 1, Some(first), Rc::clone(&pool));
                assert_eq!(resume_inner(&mut inner), Step::Returned);
                pool.borrow_mut().put(inner.into_stack());
            }
        }
    };
    coroutine(&mut stacks.borrow_mut(), 100 + levels, "", fiber)
}

#[test]
fn a_trace_goes_through_the_stacks_that_were_captured_and_no_further() {
    let pool = Rc::new(RefCell::new(pool()));
    for levels in [1, 2, 10] {
        let mut outer = captured(levels, None, Rc::clone(&pool));
        // The resumer's calls must not be in it.
        assert_eq!(resume_inner(&mut outer), Step::Suspended);
        let trace = outer.backtrace();
        let names = names(&trace);
        assert_eq!(names.len() as u64, levels + 1, "{trace}");
        for (level, (stack, names)) in trace.stacks().iter().zip(&names).enumerate() {
            assert!(stack.is_whole());
            assert_eq!(*stack.owner(), owner(100 + level as u64, ""));
            let innermost = usize::from(level == 0);
            assert_eq!(
                (count(names, "rest_here"), count(names, "resume_inner")),
                (innermost, 1 - innermost),
                "{trace}"
            );
        }
        while outer.resume() == Step::Suspended {}
        pool.borrow_mut().put(outer.into_stack());
    }
}

#[test]
fn coroutines_of_several_arenas_are_told_apart() {
    let mut pools = [pool(), pool(), pool()];
    let mut fibers = Vec::new();
    for round in 0..30 {
        for (at, pool) in pools.iter_mut().enumerate() {
            let depth = round * 3 + at;
            let mut fiber = coroutine(pool, depth as u64, "one", move |me| {
                black_box(descend(depth, me));
            });
            assert_eq!(fiber.resume(), Step::Suspended);
            fibers.push((depth, at, fiber));
        }
    }
    for (depth, _, fiber) in &fibers {
        let trace = fiber.backtrace();
        assert_eq!(trace.stacks().len(), 1);
        assert_eq!(*trace.stacks()[0].owner(), owner(*depth as u64, "one"));
        assert_eq!(count(&names(&trace)[0], "descend"), depth + 1);
    }
    for (_, at, fiber) in fibers {
        end(fiber, &mut pools[at]);
    }
}

#[test]
fn a_trace_works_from_inside_of_a_coroutine_and_while_unwinding() {
    struct Tracer(Option<Coroutine<()>>, Rc<Cell<usize>>, Rc<RefCell<StackPool>>);
    impl Drop for Tracer {
        fn drop(&mut self) {
            let fiber = self.0.take().unwrap();
            self.1.set(count(&names(&fiber.backtrace())[0], "descend"));
            end(fiber, &mut self.2.borrow_mut());
        }
    }

    let pool = Rc::new(RefCell::new(pool()));
    let seen = Rc::new(Cell::new(0));
    let (stacks, saw) = (Rc::clone(&pool), Rc::clone(&seen));
    let mut outer = coroutine(&mut pool.borrow_mut(), 1, "outer", move |_| {
        let mut inner = coroutine(&mut stacks.borrow_mut(), 2, "inner", |me| {
            black_box(descend(4, me));
        });
        assert_eq!(inner.resume(), Step::Suspended);
        let tracer = Tracer(Some(inner), saw, stacks);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _tracer = tracer;
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(unwound.is_err());
    });
    assert_eq!(outer.resume(), Step::Returned);
    assert_eq!(seen.get(), 5);
    end_returned(outer, &mut pool.borrow_mut());
}

struct Ask;

impl Effect for Ask {
    type Output = usize;
}

struct Other;

impl Effect for Other {
    type Output = usize;
}

#[inline(never)]
fn ask_deep(depth: usize) -> usize {
    match depth {
        0 => black_box(perform(Ask)),
        _ => black_box(ask_deep(depth - 1)) + 1,
    }
}

/// Asks from under handlers of another effect, each of which has a stack of its own.
#[inline(never)]
fn ask_under(handlers: usize) -> usize {
    match handlers {
        0 => black_box(ask_deep(3)),
        _ => Handler::new().on(|_: Other, k| k.resume(0)).handle(move || black_box(ask_under(handlers - 1))) + 1,
    }
}

#[test]
fn a_continuation_shows_the_stacks_of_all_handlers_that_it_has_captured() {
    for handlers in [0, 1, 5] {
        let result = Handler::new()
            .on(|_: Ask, k| {
                let trace = k.backtrace();
                let names = names(&trace);
                assert_eq!(names.len(), handlers + 1, "{trace}");
                assert!(trace.stacks().iter().all(|stack| stack.is_whole()), "{trace}");
                assert_eq!(count(&names[0], "ask_deep"), 4, "{trace}");
                assert!(names.iter().all(|names| count(names, "ask_under") == 1), "{trace}");
                assert_eq!(k.backtrace(), trace);
                k.resume(10)
            })
            .handle(move || black_box(ask_under(handlers)));
        assert_eq!(result, 10 + 3 + handlers);
    }
}

#[test]
fn a_stored_continuation_shows_where_it_is_each_time() {
    type Stored = Continuation<'static, usize, Outcome>;
    enum Outcome {
        Asked(Stored),
        Done(usize),
    }
    let mut step = Handler::stored()
        .on(|_: Ask, k| Outcome::Asked(k))
        .value(Outcome::Done)
        .handle(|| (0..4).map(ask_deep).sum::<usize>());
    for depth in 0..4 {
        let Outcome::Asked(k) = step else { panic!("it asks four times") };
        assert_eq!(count(&names(&k.backtrace())[0], "ask_deep"), depth + 1);
        step = k.resume(1);
    }
    assert!(matches!(step, Outcome::Done(10)));
}

#[inline(never)]
fn visit(depth: usize, yielder: &Yielder<usize>) {
    yielder.give(depth);
    if depth < 3 {
        visit(depth + 1, yielder);
        black_box(());
    }
}

#[test]
fn a_generator_shows_where_its_last_element_came_from() {
    let mut walk = generator(|yielder| visit(0, yielder));
    assert!(walk.backtrace().to_string().contains("not started"));
    for depth in 0..4 {
        assert_eq!(walk.next(), Some(depth));
        assert_eq!(count(&names(&walk.backtrace())[0], "visit"), depth + 1);
    }
    assert_eq!(walk.next(), None);
    assert!(walk.backtrace().to_string().contains("ended"));
}

#[test]
fn a_fiber_suspended_under_handlers_shows_all_of_its_stacks() {
    let mut pool = pool();
    let mut fiber = coroutine(&mut pool, 4, "handling", |me| {
        let rested = Handler::new().on(|_: Ask, k| k.resume(1)).handle(|| {
            rest_here(me);
            1
        });
        assert_eq!(rested, 1);
    });
    assert_eq!(fiber.resume(), Step::Suspended);
    let trace = fiber.backtrace();
    let names = names(&trace);
    assert_eq!(names.len(), 2);
    assert_eq!(*trace.stacks()[1].owner(), owner(4, "handling"));
    assert_eq!(count(&names[0], "rest_here"), 1, "{trace}");
    end(fiber, &mut pool);
}
