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
//! the choices were, the result is a schedule that was run. All runs draw their random numbers from
//! the seed of the schedule that failed; the result names it if a number was drawn.

use super::course::Choice;
use super::failure::{Cause, Shrunk};
use super::lab::{Lab, Tried};
use super::quiet::{Mode, printing};
use super::schedule::Schedule;

/// How many runs each way may take.
const TRIES: usize = 150;

/// Looks for a schedule with fewer departures that fails like `cause`; `None` if there is nothing
/// to win.
#[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
pub(super) fn shrink(lab: &Lab<'_>, cause: &Cause, schedule: &Schedule, choices: &[Choice]) -> Option<Shrunk> {
    let original = chosen(choices);
    let before = departures(&original);
    let search = Search { lab, cause, seed: schedule.seed() };
    let (plainest, Fault { cause, seed }) = match before {
        0 => None,
        _ => search.near_the_dull_one(before).or_else(|| search.with_fewer_departures(original)),
    }?;
    Some(Shrunk { departures: (departures(&plainest), before), schedule: Schedule::of_choices(plainest, seed), cause })
}

/// A schedule that was run, and what happened in it.
type Found = (Vec<u32>, Fault);

/// What happened, and the seed that it takes: 0 if no random number was drawn.
struct Fault {
    cause: Cause,
    seed: u64,
}

struct Search<'a> {
    lab: &'a Lab<'a>,
    cause: &'a Cause,
    seed: u64,
}

impl Search<'_> {
    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
    fn attempt(&self, choices: Vec<u32>) -> (Vec<Choice>, Option<Fault>) {
        let schedule = Schedule::Choices { choices, seed: self.seed };
        let Tried { cause, choices, has_drawn, .. } = printing(Mode::None, || self.lab.try_one(&schedule, None));
        let seed = if has_drawn { self.seed } else { 0 };
        let cause = cause.filter(|found| found.is_like(self.cause));
        (choices, cause.map(|cause| Fault { cause, seed }))
    }

    /// The dull schedule, or one that departs from it once, if it had departed more often.
    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
    fn near_the_dull_one(&self, before: usize) -> Option<Found> {
        let (dull, fault) = self.attempt(Vec::new());
        if let Some(fault) = fault {
            return Some((Vec::new(), fault));
        }
        let departures = dull.iter().enumerate().flat_map(|(at, (_, of))| (1..*of).map(move |choice| (at, choice)));
        departures.take(if before > 1 { TRIES } else { 0 }).find_map(|(at, choice)| {
            let mut choices = vec![0; at];
            choices.push(choice);
            self.attempt(choices.clone()).1.map(|fault| (choices, fault))
        })
    }

    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
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
                    let (run, fault) = self.attempt(plainer);
                    let run = chosen(&run);
                    if fault.is_some() && departures(&run) < departures(&best.0) {
                        best = (run, fault);
                    }
                }
                at = end;
            }
            stretch /= 2;
        }
        let (plainest, fault) = best;
        fault.map(|fault| (plainest, fault))
    }
}

fn chosen(choices: &[Choice]) -> Vec<u32> {
    choices.iter().map(|(chosen, _)| *chosen).collect()
}

fn departures(choices: &[u32]) -> usize {
    choices.iter().filter(|choice| **choice != 0).count()
}
