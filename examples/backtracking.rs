//! Search as an effect: a program chooses as if it knew which choice is right, and a handler tries
//! them all, or until one is.
//!
//! Here a perform returns more than once. The first time `segue::effect::multi` goes on with the
//! program; for each further time it runs the program again with the same answers. So what it runs
//! must do the same when it is told the same.

use segue::effect::multi::{self, Resumption};
use segue::effect::{Effect, perform};
use std::cell::Cell;

/// One of the numbers below this. None, if that is zero: this was a wrong way.
struct Choose(usize);
impl Effect for Choose {
    type Output = usize;
}

fn fail() -> ! {
    perform(Choose(0));
    unreachable!("there is nothing to choose")
}

/// Places as many queens as there are rows, none of which attacks another one. There is no loop
/// over possibilities and no way back in here.
fn queens(rows: usize) -> Vec<usize> {
    let mut columns: Vec<usize> = Vec::new();
    for row in 0..rows {
        let column = perform(Choose(rows));
        let attacked = |(other, &at): (usize, &usize)| at == column || at.abs_diff(column) == row - other;
        if columns.iter().enumerate().any(attacked) {
            fail();
        }
        columns.push(column);
    }
    columns
}

/// All ways that do not fail.
fn all<T>(program: impl Fn() -> T) -> Vec<T> {
    multi::handle(program, |it| vec![it], |Choose(n), k| (0..n).flat_map(|it| k.resume(it)).collect())
}

/// The first way that does not fail. The rest is not tried.
fn first<T>(program: impl Fn() -> T) -> Option<T> {
    let clause = |Choose(n), k: &Resumption<'_, usize, Option<T>>| (0..n).find_map(|it| k.resume(it));
    multi::handle(program, Some, clause)
}

/// How likely each outcome is, if each choice is as likely as the others.
fn probability(program: impl Fn() -> bool) -> f64 {
    let clause = |Choose(n), k: &Resumption<'_, usize, f64>| (0..n).map(|it| k.resume(it)).sum::<f64>() / n as f64;
    multi::handle(program, |it| f64::from(u8::from(it)), clause)
}

fn main() {
    assert_eq!(all(|| queens(6)).len(), 4);
    assert_eq!(all(|| queens(3)).len(), 0);

    let runs = Cell::new(0);
    let counted = || {
        runs.set(runs.get() + 1);
        queens(6)
    };
    assert_eq!(first(counted), Some(vec![1, 3, 5, 0, 2, 4]));
    let until_found = runs.take();
    all(counted);
    assert!(until_found < runs.get());
    println!("six queens: the first way took {until_found} runs, all four took {}", runs.get());

    // Two dice show seven or more.
    let dice = probability(|| perform(Choose(6)) + perform(Choose(6)) + 2 >= 7);
    assert!((dice - 21.0 / 36.0).abs() < 1e-12);
    println!("two dice show seven or more with probability {dice:.3}");
}
