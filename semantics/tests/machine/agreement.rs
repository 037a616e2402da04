//! The runtime agrees with the machine on random programs, and a runtime that is wrong is found.

use semantics::check::{SIZE, check, differ};
use semantics::generate::generate;
use semantics::machine::{Mode, run};
use semantics::runtime::{Fault, Options, Style};
use semantics::syntax::*;

#[test]
fn the_runtime_agrees_with_the_machine() {
    for style in Style::ALL {
        let statistics =
            check(0, 2_000, SIZE, Options { style, fault: None }, |_| ()).unwrap_or_else(|it| panic!("{it}"));
        assert!(statistics.left_out < 20, "{statistics}");
    }
}

#[test]
fn the_runtime_agrees_on_large_programs() {
    for style in Style::ALL {
        check(1 << 40, 100, 600, Options { style, fault: None }, |_| ()).unwrap_or_else(|it| panic!("{it}"));
    }
}

#[test]
fn a_handler_that_is_skipped_is_found_and_the_program_made_small() {
    for (style, first) in [(Style::Plain, 0), (Style::Tail, 1_000), (Style::Scoped, 2_000)] {
        let options = Options { style, fault: Some(Fault::SkipsHandlers) };
        let found = check(first, 1_000, SIZE, options, |_| ()).expect_err("a planted fault");
        println!("{found}");
        // \o _. match perform l 0 with { return x -> 0 | exception l' x -> 0 | effect l x k -> 0 },
        // called with 0
        assert!(found.program.size() <= 11, "{found}");
        assert!(found.program.size() < found.found.size(), "{found}");
        // It is what the fault is: without it, the two agree.
        let machine = run(&found.program, Mode::Segue, 1_000);
        assert!(differ(&found.program, &machine, options).is_some());
        assert_eq!(differ(&found.program, &machine, Options { fault: None, ..options }), None);
        // The seed replays it.
        assert_eq!(generate(found.seed, SIZE), found.found);
        let again = check(found.seed, 1, SIZE, options, |_| ()).expect_err("the same program");
        assert_eq!(again.program, found.program);
        assert!(found.to_string().contains(&format!("--seed {}", found.seed)), "{found}");
    }
}

#[test]
fn a_continuation_that_is_forgotten_is_found() {
    // Its stack is never unwound, which only the count of abandoned continuations shows.
    let e = program(handle(perform("A", int(0)), Handler::identity().effect("A", "x", "k", int(1))));
    let machine = run(&e, Mode::Segue, 1_000);
    // A handler that borrows would see to it before its end.
    for style in [Style::Plain, Style::Tail] {
        let options = Options { style, fault: Some(Fault::ForgetsContinuations) };
        let forgotten = differ(&e, &machine, options).expect("a planted fault");
        assert_eq!((forgotten.outcome, &forgotten.trace), (machine.observed.outcome, &machine.observed.trace));
        assert_eq!((forgotten.abandoned, machine.observed.abandoned), (0, 1));
        assert_eq!(differ(&e, &machine, Options { fault: None, ..options }), None);
    }
}

#[test]
fn a_second_argument_may_wait_beyond_calls_and_handlers() {
    // (k f) v, where `k f` is what a function, a case or a resumed continuation gives.
    let identity = || lam("x", var("x"));
    let partial = || app(var("k"), identity());
    let through = [
        app(lam("_", partial()), int(0)),
        handle(int(0), Handler::returns("_", partial())),
        handle(raise("E", int(0)), Handler::identity().exception("E", "_", partial())),
        handle(perform("B", int(0)), Handler::returns("_", partial()).effect("B", "x", "b", resume(var("b"), int(0)))),
        // Through C there is none.
        app(c_lam("_", partial()), int(0)),
        arith(Op::Add, partial(), int(0)),
    ];
    for (i, through) in through.into_iter().enumerate() {
        let h = Handler::identity().effect("A", "x", "k", app(through, int(7)));
        let e = program(handle(perform("A", int(0)), h));
        let machine = run(&e, Mode::Segue, 1_000);
        let outcome = machine.observed.outcome.to_string();
        assert_eq!(outcome, if i < 4 { "value 7" } else { "stuck" }, "{e}");
        for style in Style::ALL {
            assert_eq!(differ(&e, &machine, Options { style, fault: None }), None, "{e}: {outcome}");
        }
    }
}
