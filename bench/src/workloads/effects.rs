//! `effects`: handlers are installed, effects performed, computations resumed; an operation is one
//! of these, or all of them, as each variant says.
//!
//! Timed: what the paper "Retrofitting Effect Handlers onto OCaml" calls a to e. A new computation
//! and its end (a-b, d-e); a perform and a resume, with the handler in place (b-c, c-d); all of it;
//! all of it with a computation that is discontinued, and unwinds or, "as a value", returns. At a
//! depth of 10 or 100 the handler of the effect is the outermost of as many, and the others handle
//! another one. `answer` is Segue's clause for a handler that always resumes at once, which needs
//! no stack; `on_tail` the clause that resumes last, which needs none of the resumer's.
//!
//! "By hand" is a coroutine of corosensei's on a stack that is kept for the next one: no search for
//! a handler, no clause, the effect's own type in the switch. A closure that is passed down by
//! reference is what an answer costs at least.

use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use segue::effect::{Continuation, Effect, Handler, perform, perform_result};
use std::hint::black_box;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "effects", timed: "handlers are installed, effects performed, computations resumed", variants };

/// The answer is the next number.
struct Next(u64);
impl Effect for Next {
    type Output = u64;
}

/// What the handlers in between handle.
struct Other;
impl Effect for Other {
    type Output = ();
}

fn variants() -> Vec<Variant> {
    let mut all = vec![
        Variant::new("install + return", "computation", 1)
            .add(SEGUE, install)
            .add("corosensei, by hand", install_by_hand)
            .add_ocaml(&["install"]),
        Variant::new("install + perform + resume + return", "computation", 1)
            .add(SEGUE, install_and_perform)
            .add("segue, on_tail", install_and_perform_tail)
            .add("corosensei, by hand", install_and_perform_by_hand)
            .add_ocaml(&["install_and_perform"]),
        Variant::new("install + perform + discontinue", "computation", 1)
            .add(SEGUE, install_and_discontinue)
            .add("segue, as a value", install_and_discontinue_value)
            .add_ocaml(&["install_and_discontinue"]),
        Variant::new("answer: install + perform + return", "computation", 1)
            .add(SEGUE, install_and_answer)
            .add_ocaml(&["install_and_perform"]),
    ];
    for depth in [1, 10, 100] {
        let ocaml = ["perform", &depth.to_string()];
        let mut performs = Variant::new(format!("perform + resume, depth {depth}"), "perform", 1)
            .add(SEGUE, move |n| perform_under(depth, n))
            .add_ocaml(&ocaml);
        if depth == 1 {
            performs = performs.add("segue, kept", perform_kept).add("corosensei, by hand", perform_by_hand);
        }
        let mut answers = Variant::new(format!("answer: perform, depth {depth}"), "perform", 1)
            .add(SEGUE, move |n| answer_under(depth, n))
            .add_ocaml(&ocaml);
        if depth == 1 {
            answers = answers.add("closure", closure);
        }
        all.extend([performs, answers]);
    }
    all
}

/// What the answers sum up to.
fn check(sum: u64, n: u64) {
    assert_eq!(sum, n * (n + 1) / 2);
}

/// Runs `one` for each number below `n`, and checks that it returns the next one.
fn each(n: u64, mut one: impl FnMut(u64) -> u64) -> Span {
    let watch = Stopwatch::start();
    let mut sum = 0;
    for i in 0..n {
        sum += one(black_box(i));
    }
    let span = watch.stop(n);
    check(sum, n);
    span
}

fn install(n: u64) -> Span {
    each(n, |i| Handler::new().on(|Next(x), k| k.resume(x + 1)).handle(|| i + 1))
}

fn install_and_perform(n: u64) -> Span {
    each(n, |i| Handler::new().on(|Next(x), k| k.resume(x + 1)).handle(|| perform(Next(i))))
}

fn install_and_perform_tail(n: u64) -> Span {
    each(n, |i| Handler::new().on_tail(|Next(x), k| k.tail(x + 1)).handle(|| perform(Next(i))))
}

fn install_and_discontinue(n: u64) -> Span {
    each(n, |i| {
        Handler::new()
            .on(|Next(x), k| k.discontinue(x + 1))
            .panic(|payload| *payload.downcast::<u64>().expect("what it was discontinued with"))
            .handle(|| perform(Next(i)))
    })
}

fn install_and_discontinue_value(n: u64) -> Span {
    each(n, |i| {
        Handler::new().on(|Next(x), k| k.discontinue(x + 1)).handle(|| match perform_result(Next(i)) {
            Ok(next) => next,
            Err(end) => *end.into_payload().downcast::<u64>().expect("what it was discontinued with"),
        })
    })
}

fn install_and_answer(n: u64) -> Span {
    each(n, |i| Handler::new().answer(|Next(x)| x + 1).handle(|| perform(Next(i))))
}

/// Performs with handlers of something else in between.
fn perform_under(depth: usize, n: u64) -> Span {
    fn under(others: usize, body: &mut dyn FnMut() -> Span) -> Span {
        match others {
            0 => body(),
            _ => Handler::new().on(|Other, k| k.resume(())).handle(|| under(others - 1, body)),
        }
    }
    Handler::new()
        .on_tail(|Next(x), k| k.tail(x + 1))
        .handle(|| under(depth - 1, &mut || each(n, |i| perform(Next(i)))))
}

/// The handler only says what was performed, and its caller resumes.
fn perform_kept(n: u64) -> Span {
    enum Step {
        Asks(u64, Continuation<'static, u64, Step>),
        Done(Box<Span>),
    }
    let handler = Handler::stored().on(|Next(x), k| Step::Asks(x, k)).value(|span| Step::Done(Box::new(span)));
    let mut step = handler.handle(move || each(n, |i| perform(Next(i))));
    loop {
        match step {
            Step::Asks(x, k) => step = k.resume(x + 1),
            Step::Done(span) => return *span,
        }
    }
}

fn answer_under(depth: usize, n: u64) -> Span {
    fn under(others: usize, body: &mut dyn FnMut() -> Span) -> Span {
        match others {
            0 => body(),
            _ => Handler::new().answer(|Other| ()).handle(|| under(others - 1, body)),
        }
    }
    Handler::new().answer(|Next(x)| x + 1).handle(|| under(depth - 1, &mut || each(n, |i| perform(Next(i)))))
}

fn closure(n: u64) -> Span {
    let mut next = |x| x + 1;
    let next: &mut dyn FnMut(u64) -> u64 = black_box(&mut next);
    each(n, next)
}

/// A coroutine by hand that performs once, or not at all.
fn once_by_hand(stack: &mut Option<DefaultStack>, i: u64, performs: bool) -> u64 {
    let mut coroutine = Coroutine::<u64, u64, u64>::with_stack(stack.take().expect("kept"), move |yielder, _| {
        if performs { yielder.suspend(i) } else { i + 1 }
    });
    let mut answer = 0;
    let result = loop {
        match coroutine.resume(answer) {
            CoroutineResult::Yield(x) => answer = x + 1,
            CoroutineResult::Return(result) => break result,
        }
    };
    *stack = Some(coroutine.into_stack());
    result
}

fn install_by_hand(n: u64) -> Span {
    let mut stack = Some(DefaultStack::default());
    each(n, |i| once_by_hand(&mut stack, i, false))
}

fn install_and_perform_by_hand(n: u64) -> Span {
    let mut stack = Some(DefaultStack::default());
    each(n, |i| once_by_hand(&mut stack, i, true))
}

fn perform_by_hand(n: u64) -> Span {
    let mut coroutine = Coroutine::<u64, u64, Span>::new(move |yielder, _| each(n, |i| yielder.suspend(i)));
    let mut answer = 0;
    loop {
        match coroutine.resume(answer) {
            CoroutineResult::Yield(x) => answer = x + 1,
            CoroutineResult::Return(span) => return span,
        }
    }
}
