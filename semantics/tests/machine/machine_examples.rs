//! The paper's examples, on the machine in both modes: what the text and the figures say that they
//! do.

use std::rc::Rc;

use semantics::machine::{Mode, Rule, Run, run};
use semantics::observe::{Event, Outcome, Shown};
use semantics::syntax::*;

const BOTH: [Mode; 2] = [Mode::Paper, Mode::Segue];

fn value(n: i64) -> Outcome {
    Outcome::Value(Shown::Int(n))
}

fn run_as(e: &Rc<Expr>, mode: Mode) -> Run {
    run(&program(e.clone()), mode, 10_000)
}

#[track_caller]
fn gives(e: Rc<Expr>, outcome: Outcome) {
    for mode in BOTH {
        assert_eq!(run_as(&e, mode).observed.outcome, outcome, "{e} in {mode:?}");
    }
}

// The calculator: a division by zero asks its context. Results are numbers here: `Error` is -1, an
// infinity 1000.

fn division(n: i64, by_zero: bool) -> Rc<Expr> {
    let quotient = if by_zero { perform("DivBy0", int(n)) } else { arith(Op::Div, int(n), int(2)) };
    arith(Op::Add, quotient, int(0))
}

#[test]
fn a_calculator_answers_with_an_error() {
    let ios = |e| handle(e, Handler::identity().effect("DivBy0", "v", "k", resume(var("k"), int(-1))));
    gives(ios(division(1, true)), value(-1));
    gives(ios(division(8, false)), value(4));
}

#[test]
fn another_calculator_answers_with_an_infinity_of_the_same_sign() {
    // There is no conditional; the sign is what a number is divided by.
    let infinity = arith(Op::Mul, var("v"), int(1000));
    let gsearch = |e| handle(e, Handler::identity().effect("DivBy0", "v", "k", resume(var("k"), infinity)));
    gives(gsearch(division(1, true)), value(1000));
    let infinity = arith(Op::Mul, var("v"), int(1000));
    let gsearch = |e| handle(e, Handler::identity().effect("DivBy0", "v", "k", resume(var("k"), infinity)));
    gives(gsearch(division(-1, true)), value(-1000));
}

#[test]
fn a_handler_for_input_goes_around_one_for_division_and_neither_knows_of_the_other() {
    let inp = perform("Read", int(0));
    let e = arith(Op::Add, inp, perform("DivBy0", int(1)));
    let calculator = handle(e, Handler::identity().effect("DivBy0", "v", "k", resume(var("k"), int(-1))));
    let reading = Handler::identity().effect("Read", "channel", "k", resume(var("k"), int(42)));
    let e = handle(calculator, reading);
    for mode in BOTH {
        let run = run_as(&e, mode);
        assert_eq!(run.observed.outcome, value(41));
        // `Read` passes the other handler.
        assert_eq!((run.count(Rule::EffFwd), run.count(Rule::EffHn)), (1, 2));
    }
}

#[test]
fn reading_without_a_handler_raises_unhandled_at_the_perform() {
    gives(perform("Read", int(0)), Outcome::Exception(UNHANDLED, Shown::Int(0)));
    // It can be caught there, around other exceptions' handlers.
    let caught = handle(perform("Read", int(0)), Handler::identity().exception(UNHANDLED, "x", int(7)));
    gives(caught.clone(), value(7));
    // And it is raised inside the handlers that the effect has passed.
    gives(handle(caught, Handler::identity().effect("Other", "x", "k", int(0))), value(7));
}

/// `meander`: an exception of a callback passes C and gets to `h1`, since `h2` has no case for it.
#[test]
fn an_exception_meanders_through_c() {
    let c_to_ocaml = lam("_", raise("E1", int(0)));
    let ocaml_to_c = c_lam("f", app(c_lam("_", int(0)), app(var("f"), int(0))));
    let h2 = handle(app(ocaml_to_c, c_to_ocaml), Handler::identity().exception("E2", "x", int(0)));
    let omain = handle(h2, Handler::identity().exception("E1", "x", int(42)));
    for mode in BOTH {
        let run = run_as(&omain, mode);
        assert_eq!(run.observed.outcome, value(42));
        assert_eq!(run.observed.trace, [Event::Exception("E1", Shown::Int(0))]);
        let crossings = [Rule::Callback, Rule::ExtCall, Rule::ExnFwdC, Rule::ExnFwdO].map(|rule| run.count(rule));
        // The first callback is that of the main function.
        assert_eq!(crossings, if mode == Mode::Paper { [2, 1, 1, 1] } else { [1, 0, 0, 0] });
    }
}

/// The figure of the fibers' layout: `E` passes the handler of `F`, and its continuation has both
/// fibers.
#[test]
fn an_effect_is_reperformed_by_a_handler_without_a_case() {
    let comp_f = handle(perform("E", int(0)), Handler::identity().effect("F", "x", "kf", int(0)));
    let comp_e = handle(comp_f, Handler::identity().effect("E", "x", "ke", resume(var("ke"), int(5))));
    for mode in BOTH {
        let run = run_as(&comp_e, mode);
        assert_eq!(run.observed.outcome, value(5));
        let rules = [Rule::Handle, Rule::EffFwd, Rule::EffHn, Rule::Resume].map(|rule| run.count(rule));
        assert_eq!(rules, [2, 1, 1, 1]);
        // The fiber of the perform, then those of both handlers.
        assert_eq!(run.count(Rule::RetFib), 3);
        assert_eq!(run.observed.trace, [Event::Effect("E", Shown::Int(0)), Event::Resume(Shown::Int(5))]);
    }
}

#[test]
fn the_translation_of_reperform_means_the_same() {
    // effc's last case: match perform e with v -> continue k v | exception e -> discontinue k e
    for answer in [resume(var("k"), int(5)), discontinue(var("k"), "Stop", int(6))] {
        let outer = Handler::identity().effect("E", "x", "k", answer).exception("Stop", "x", var("x"));
        let implicit = handle(perform("E", int(0)), Handler::identity());
        let again = Handler::returns("v", resume(var("k"), var("v"))).exception(
            "Stop",
            "e",
            discontinue(var("k"), "Stop", var("e")),
        );
        let reperform = handle(perform("E", var("x")), again);
        let explicit = handle(perform("E", int(0)), Handler::identity().effect("E", "x", "k", reperform));
        for mode in BOTH {
            let [a, b] = [&implicit, &explicit].map(|e| run_as(&handle(e.clone(), outer.clone()), mode));
            assert_eq!(a.observed.outcome, b.observed.outcome);
        }
    }
}

#[test]
fn handlers_are_deep() {
    let twice = arith(Op::Add, perform("A", int(1)), perform("A", int(2)));
    let ten = resume(var("k"), arith(Op::Mul, var("x"), int(10)));
    gives(handle(twice, Handler::identity().effect("A", "x", "k", ten)), value(30));
}

#[test]
fn discontinuing_raises_where_the_effect_was_performed() {
    let inner = handle(perform("A", int(1)), Handler::identity().exception("E", "x", arith(Op::Add, var("x"), int(1))));
    let e = handle(inner, Handler::identity().effect("A", "x", "k", discontinue(var("k"), "E", int(40))));
    gives(e, value(41));
}

#[test]
fn the_return_case_sees_the_value_and_not_its_own_handler() {
    let h = Handler::returns("x", perform("A", var("x"))).effect("A", "x", "k", int(0));
    let outer = Handler::identity().effect("A", "x", "k", resume(var("k"), arith(Op::Add, var("x"), int(1))));
    gives(handle(handle(int(6), h), outer), value(7));
}

#[test]
fn an_exception_of_a_case_goes_to_the_handlers_around_it() {
    let h = Handler::identity().effect("A", "x", "k", raise("E", int(1))).exception("E", "x", int(100));
    let outer = Handler::identity().exception("E", "x", int(200));
    gives(handle(handle(perform("A", int(0)), h), outer), value(200));
}

#[test]
fn a_continuation_may_be_kept_and_resumed_under_another_handler() {
    // let k = match 1 + perform A 0 with effect A x k -> k in match continue k (perform B 0) with
    // effect B ..
    let body = arith(Op::Add, int(1), perform("A", perform("B", int(0))));
    let kept = handle(body, Handler::identity().effect("A", "x", "k", var("k")));
    let b = |n| Handler::identity().effect("B", "x", "k", resume(var("k"), int(n)));
    let later = handle(resume(var("kept"), perform("B", int(0))), b(20));
    let e = handle(let_in("kept", kept, later), b(5));
    gives(e, value(21));
}

#[test]
fn a_continuation_that_nobody_resumes_is_counted() {
    let e = handle(perform("A", int(0)), Handler::identity().effect("A", "x", "k", int(3)));
    for mode in BOTH {
        let run = run_as(&e, mode);
        assert_eq!((run.observed.outcome, run.observed.abandoned), (value(3), 1));
    }
}

#[test]
fn c_neither_performs_nor_handles() {
    for body in [perform("A", int(0)), handle(int(0), Handler::identity())] {
        let h = Handler::identity().effect("A", "x", "k", int(1));
        gives(handle(app(c_lam("_", body), int(0)), h), Outcome::Stuck);
    }
}

#[test]
fn programs_without_a_meaning_are_stuck() {
    for e in
        [var("nobody"), app(int(1), int(2)), arith(Op::Div, int(1), int(0)), arith(Op::Add, lam("x", int(1)), int(1))]
    {
        gives(e, Outcome::Stuck);
    }
    let omega = lam("x", app(var("x"), var("x")));
    gives(app(omega.clone(), omega), Outcome::OutOfFuel);
}

// What the modes differ in.

/// A comparison that C calls performs, and the handler is beyond C.
fn across_c(h: Handler) -> Rc<Expr> {
    let compare = lam("x", perform("Compare", var("x")));
    let c = c_lam("f", arith(Op::Add, app(var("f"), int(1)), app(var("f"), int(2))));
    handle(app(c, compare), h)
}

#[test]
fn effects_of_callbacks_cross_c_in_segue_and_not_in_the_paper() {
    let ten = resume(var("k"), arith(Op::Mul, var("x"), int(10)));
    let e = across_c(Handler::identity().effect("Compare", "x", "k", ten));
    assert_eq!(run_as(&e, Mode::Paper).observed.outcome, Outcome::Exception(UNHANDLED, Shown::Int(0)));
    assert_eq!(run_as(&e, Mode::Segue).observed.outcome, value(30));
}

#[test]
fn unhandled_is_raised_in_the_callback_and_passes_c() {
    let e = across_c(Handler::identity().exception(UNHANDLED, "x", int(9)));
    gives(e.clone(), value(9));
    assert_eq!(run_as(&e, Mode::Paper).count(Rule::ExnFwdC), 1);
}

#[test]
fn continuations_have_many_shots_in_the_paper_and_one_in_segue() {
    // The appendix's example, as far as it does not need a mutable variable: `foo` performs, and
    // what is left is done for each resumption.
    let bar = arith(Op::Add, perform("E", int(0)), int(1));
    let both = arith(Op::Add, resume(var("k"), int(0)), resume(var("k"), int(10)));
    let e = handle(bar, Handler::identity().effect("E", "x", "k", both));
    assert_eq!(run_as(&e, Mode::Paper).observed.outcome, value(12));
    let once = run_as(&e, Mode::Segue);
    assert_eq!(once.observed.outcome, Outcome::Exception(ALREADY_RESUMED, Shown::Int(0)));
    assert_eq!(once.observed.trace.last(), Some(&Event::Refused));
    // It is raised for whoever tries again, not where the effect was performed.
    let refused = handle(resume(var("k"), int(10)), Handler::identity().exception(ALREADY_RESUMED, "x", int(100)));
    let bar = arith(Op::Add, perform("E", int(0)), int(1));
    let both = arith(Op::Add, resume(var("k"), int(0)), refused);
    let e = handle(bar, Handler::identity().effect("E", "x", "k", both));
    assert_eq!(run_as(&e, Mode::Segue).observed.outcome, value(101));
}
