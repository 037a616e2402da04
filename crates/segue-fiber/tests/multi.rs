//! Resuming more than once: backtracking, probability, handlers around it.

use segue_fiber::effect::{Effect, Handler, perform};
use segue_fiber::{leaked_stacks, multi};
use std::cell::Cell;

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
    let queens = if cfg!(any(miri, feature = "threads")) { 4 } else { 6 };
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
    // Runs: one to the first flip, two to the second, four to the end.
    assert_eq!((heads, ticks.get()), (4, 1 + 2 * 2 + 4 * 2));
}

#[test]
fn no_resume_at_all() {
    assert_eq!(multi::handle(|| perform(Flip(0.5)), |_| 1, |_: Flip, _| 2), 2);
}
