//! Resuming more than once: backtracking, probability, handlers around it.

use segue_fiber::effect::{Continuation, Effect, Handler, perform, perform_result, try_perform};
use segue_fiber::{leaked_stacks, multi};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Flip(f64);
impl Effect for Flip {
    type Output = bool;
}

struct Column(u32);
impl Effect for Column {
    type Output = u32;
}

struct Tick;
impl Effect for Tick {
    type Output = ();
}

#[test]
fn queens() {
    fn place(queens: u32) -> Option<Vec<u32>> {
        let mut columns: Vec<u32> = vec![];
        for row in 0..queens {
            let column = perform(Column(queens));
            let attacked =
                columns.iter().zip(0..).any(|(&other, at)| other == column || other.abs_diff(column) == row - at);
            if attacked {
                return None;
            }
            columns.push(column);
        }
        Some(columns)
    }
    let queens = if cfg!(any(miri, threads)) { 4 } else { 6 };
    let first = multi::handle(|| place(queens), |it| it, |Column(of), k| (0..of).find_map(|it| k.resume(it)));
    assert_eq!(first.unwrap(), if queens == 4 { vec![1, 3, 0, 2] } else { vec![1, 3, 5, 0, 2, 4] });
    let all = multi::handle(
        || place(queens),
        |it| u32::from(it.is_some()),
        |Column(of), k| (0..of).map(|it| k.resume(it)).sum(),
    );
    assert_eq!(all, if queens == 4 { 2 } else { 4 });
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn the_probability_of_a_program() {
    let both = multi::handle(
        || perform(Flip(0.5)) && perform(Flip(0.25)),
        |it| if it { 1.0 } else { 0.0 },
        |Flip(p), k| p * k.resume(true) + (1.0 - p) * k.resume(false),
    );
    assert!((both - 0.125_f64).abs() < 1e-12);
}

#[test]
fn other_effects_go_outside_again_with_each_run() {
    let ticks = Cell::new(0);
    let heads = Handler::new().answer(|_: Tick| ticks.set(ticks.get() + 1)).handle(|| {
        multi::handle(
            || {
                perform(Tick);
                let first = perform(Flip(0.5));
                perform(Tick);
                u32::from(first) + u32::from(perform(Flip(0.5)))
            },
            |heads| heads,
            |_: Flip, k| k.resume(true) + k.resume(false),
        )
    });
    // A run for each path: the first resumes go on with the run that has performed.
    assert_eq!((heads, ticks.get()), (4, 4 * 2));
}

/// One of so many.
struct Pick(u32);
impl Effect for Pick {
    type Output = u32;
}

#[test]
fn resumes_of_one_perform_are_independent_in_whatever_order() {
    let orders: [fn(u32) -> Vec<u32>; 3] =
        [|n| (0..n).collect(), |n| (0..n).rev().collect(), |n| (0..n).chain(0..n).rev().collect()];
    for order in orders {
        let digits = multi::handle(
            || {
                let first = perform(Pick(3));
                // How many more there are depends on the first.
                let rest: Vec<u32> = (0..first + 1).map(|i| perform(Pick(i + 2))).collect();
                (first, rest)
            },
            |path| vec![path],
            |Pick(n), k| order(n).into_iter().flat_map(|answer| k.resume(answer)).collect(),
        );
        let mut expected = Vec::new();
        for first in order(3) {
            let mut rests = vec![vec![]];
            for i in 0..first + 1 {
                rests = rests
                    .into_iter()
                    .flat_map(|rest: Vec<u32>| order(i + 2).into_iter().map(move |it| [&rest[..], &[it]].concat()))
                    .collect();
            }
            expected.extend(rests.into_iter().map(|rest| (first, rest)));
        }
        assert_eq!(digits, expected);
    }
}

#[test]
fn a_resume_that_panics_leaves_the_others_alone() {
    let seen = multi::handle(
        || {
            let first = perform(Pick(3));
            assert_ne!(first, 0, "the first one panics");
            first * 10 + perform(Pick(2))
        },
        |it| vec![it],
        |Pick(n), k| {
            (0..n).flat_map(|it| catch_unwind(AssertUnwindSafe(|| k.resume(it))).unwrap_or_else(|_| vec![99])).collect()
        },
    );
    assert_eq!(seen, [99, 10, 11, 20, 21]);
    // A clause that panics unwinds the body that waits for it.
    let unwound = Cell::new(0);
    struct Count<'a>(&'a Cell<u32>);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let body = || {
        let _count = Count(&unwound);
        perform(Pick(2))
    };
    let panicked = catch_unwind(AssertUnwindSafe(|| multi::handle(body, |it| it, |Pick(_), _| panic!("the clause"))));
    assert_eq!((panicked.is_err(), unwound.get()), (true, 1));
    assert_eq!(leaked_stacks(), 0);
}

#[test]
fn no_resume_at_all() {
    assert_eq!(multi::handle(|| perform(Flip(0.5)), |_| 1, |_: Flip, _| 2), 2);
}

#[test]
fn a_body_that_was_given_up_is_nobodys_whatever_it_does() {
    let seen = RefCell::new(Vec::new());
    let clause = |Pick(n): Pick, k: &multi::Resumption<'_, u32, Vec<u32>>| {
        seen.borrow_mut().push(n);
        if n == 1 { vec![] } else { k.resume(20) }
    };
    let as_value = || perform_result(Pick(1)).unwrap_or(50) + perform_result(Pick(2)).unwrap_or(60);
    let caught = || catch_unwind(|| perform(Pick(1))).unwrap_or(50) + perform(Pick(2));
    assert_eq!(multi::handle(as_value, |it| vec![it], clause), []);
    assert_eq!(multi::handle(caught, |it| vec![it], clause), []);
    // The clause is asked once, and the case for a value never.
    assert_eq!(*seen.borrow(), [1, 1]);
    let given_up = || perform_result(Pick(1)).unwrap_or(50);
    assert_eq!(multi::handle(given_up, |_| unreachable!("it has no value"), clause), []);
    assert_eq!(leaked_stacks(), 0);
}

thread_local! {
    static CLONES: Cell<usize> = const { Cell::new(0) };
}

/// Counts how often it is cloned, and performs when it is.
#[derive(Debug, PartialEq)]
struct Counted(u32);
impl Clone for Counted {
    fn clone(&self) -> Self {
        CLONES.set(CLONES.get() + 1);
        let _ = try_perform(Cloning);
        Self(self.0)
    }
}

struct Cloning;
impl Effect for Cloning {
    type Output = ();
}

struct Ask;
impl Effect for Ask {
    type Output = Counted;
}

#[test]
fn a_first_resume_clones_its_own_answer_and_no_other() {
    let body = || (0..50).map(|_| perform(Ask).0).sum::<u32>();
    CLONES.set(0);
    assert_eq!(multi::handle(body, |it| it, |Ask, k| k.resume(Counted(1))), 50);
    assert_eq!(CLONES.get(), 50);
}

/// The clone of an answer performs, and the handler of that resumes the same perform.
#[test]
fn an_answer_that_resumes_when_it_is_cloned_gets_all_of_its_results() {
    let body = || (perform(Ask).0, perform(Ask).0);
    let nested = Cell::new(false);
    let all = multi::handle(
        body,
        |it| vec![it],
        |Ask, k| {
            let inner = |_: Cloning, clones: Continuation<'_, (), Vec<(u32, u32)>>| {
                let more = if nested.replace(true) { vec![] } else { k.resume(Counted(2)) };
                [more, clones.resume(())].concat()
            };
            Handler::new().on(inner).handle(|| k.resume(Counted(1)))
        },
    );
    let [ones, twos] = [1, 2].map(|first| all.iter().filter(|(it, _)| *it == first).count());
    assert!(nested.get() && ones >= 1 && twos >= 1, "{all:?}");
    assert_eq!(leaked_stacks(), 0);
}
