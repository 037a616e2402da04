//! A schedule that fails is made plainer: choices that need not depart from the first become the
//! first.
//!
//! Used by the explorer. A departure at a preemption point is a preemption, so what is left is what
//! the failure takes.
//!
//! Two ways, one after the other. Most bugs take one departure from the dull schedule, in which all
//! choices are 0: so these are tried, as far as [`TRIES`] goes. If none fails in the same way,
//! stretches of the schedule's choices are set to 0, half of them at first and single ones at last
//! (delta debugging). What the program chose in the run that failed is gone on with, so whatever
//! the choices were, the result is a schedule that was run.

use super::course::Choice;
use super::failure::{Cause, Shrunk, Verdict};
use super::quiet::{Mode, printing};
use super::schedule::Schedule;
use super::{Lab, Tried};

/// How many runs each way may take.
const TRIES: usize = 150;

/// Looks for a schedule with fewer departures that fails like `cause`; `None` if there is nothing
/// to win.
pub(super) fn shrink<T: Verdict, F: Fn() -> T>(lab: &Lab<'_, F>, cause: &Cause, choices: &[Choice]) -> Option<Shrunk> {
    let original = chosen(choices);
    let before = departures(&original);
    let search = Search { lab, cause };
    let (plainest, cause) = match before {
        0 => None,
        _ => search.near_the_dull_one(before).or_else(|| search.with_fewer_departures(original)),
    }?;
    Some(Shrunk { departures: (departures(&plainest), before), schedule: Schedule::of_choices(plainest), cause })
}

/// A schedule that was run, and what happened in it.
type Found = (Vec<u32>, Cause);

struct Search<'a, F> {
    lab: &'a Lab<'a, F>,
    cause: &'a Cause,
}

impl<T: Verdict, F: Fn() -> T> Search<'_, F> {
    fn attempt(&self, choices: Vec<u32>) -> (Vec<Choice>, Option<Cause>) {
        let Tried { cause, choices, .. } = printing(Mode::None, || self.lab.try_one(&Schedule::Choices(choices), None));
        (choices, cause.filter(|found| found.is_like(self.cause)))
    }

    /// The dull schedule, or one that departs from it once, if it had departed more often.
    fn near_the_dull_one(&self, before: usize) -> Option<Found> {
        let (dull, cause) = self.attempt(Vec::new());
        if let Some(cause) = cause {
            return Some((Vec::new(), cause));
        }
        let departures = dull.iter().enumerate().flat_map(|(at, (_, of))| (1..*of).map(move |choice| (at, choice)));
        departures.take(if before > 1 { TRIES } else { 0 }).find_map(|(at, choice)| {
            let mut choices = vec![0; at];
            choices.push(choice);
            self.attempt(choices.clone()).1.map(|cause| (choices, cause))
        })
    }

    fn with_fewer_departures(&self, original: Vec<u32>) -> Option<Found> {
        let mut best = (original, None);
        let mut tries = 0;
        let mut stretch = best.0.len();
        while stretch > 0 {
            let mut at = 0;
            while at < best.0.len() && tries < TRIES {
                let end = best.0.len().min(at + stretch);
                if departures(&best.0[at..end]) > 0 {
                    let mut plainer = best.0.clone();
                    plainer[at..end].fill(0);
                    tries += 1;
                    let (run, cause) = self.attempt(plainer);
                    let run = chosen(&run);
                    if cause.is_some() && departures(&run) < departures(&best.0) {
                        best = (run, cause);
                    }
                }
                at = end;
            }
            stretch /= 2;
        }
        let (plainest, cause) = best;
        cause.map(|cause| (plainest, cause))
    }
}

fn chosen(choices: &[Choice]) -> Vec<u32> {
    choices.iter().map(|(chosen, _)| *chosen).collect()
}

fn departures(choices: &[u32]) -> usize {
    choices.iter().filter(|choice| **choice != 0).count()
}
