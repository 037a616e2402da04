//! A schedule that fails is made plainer: choices that need not depart from the first become the first.
//!
//! Used by the explorer. A departure at a preemption point is a preemption, so what is left is what the failure takes.
//!
//! After delta debugging: stretches of choices are set to 0, half of them at first and single ones at last, and a try counts if the program fails in the same way.
//! What the program chose in that run is gone on with, so whatever the choices were, the result is a schedule that was run.

use super::course::Choice;
use super::failure::{Cause, Shrunk, Verdict};
use super::schedule::Schedule;
use super::{Lab, Tried};
use std::cell::Cell;
use std::panic;
use std::sync::Once;

/// How many runs it may take.
const TRIES: usize = 300;

/// Looks for a schedule with fewer departures that fails like `cause`; `None` if there is nothing to win.
pub(super) fn shrink<T: Verdict, F: Fn() -> T>(lab: &Lab<'_, F>, cause: &Cause, choices: &[Choice]) -> Option<Shrunk> {
    let before = departures(&chosen(choices));
    let mut best: Option<(Vec<u32>, Cause)> = None;
    let mut tries = 0;
    let mut stretch = choices.len();
    while stretch > 0 && tries < TRIES {
        let mut at = 0;
        loop {
            let current = best.as_ref().map_or_else(|| chosen(choices), |(current, _)| current.clone());
            if at >= current.len() || tries >= TRIES {
                break;
            }
            let end = current.len().min(at + stretch);
            if departures(&current[at..end]) > 0 {
                let mut plainer = current.clone();
                plainer[at..end].fill(0);
                tries += 1;
                let tried = quietly(|| lab.try_one(&Schedule::Choices(plainer)));
                let plainer = chosen(&tried.choices);
                if let Tried { cause: Some(found), .. } = tried
                    && found.is_like(cause)
                    && departures(&plainer) < departures(&current)
                {
                    best = Some((plainer, found));
                }
            }
            at = end;
        }
        stretch /= 2;
    }
    let (plainest, cause) = best?;
    Some(Shrunk { departures: (departures(&plainest), before), schedule: Schedule::of_choices(plainest), cause })
}

fn chosen(choices: &[Choice]) -> Vec<u32> {
    choices.iter().map(|(chosen, _)| *chosen).collect()
}

fn departures(choices: &[u32]) -> usize {
    choices.iter().filter(|choice| **choice != 0).count()
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` without the messages of its panics, which are those of the first failure once more.
fn quietly<R>(f: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.with(Cell::get) {
                others(info);
            }
        }));
    });
    QUIET.with(|quiet| quiet.set(true));
    let result = f();
    QUIET.with(|quiet| quiet.set(false));
    result
}
