//! One run of a program under one schedule, and the outcome.
//!
//! Used by the explorer for each schedule, by shrinking and by traces.

use super::course::{Choice, Course};
use super::failure::{Cause, Failure, Verdict};
use super::quiet::{Mode, printing};
use super::schedule::Schedule;
use super::sim::{Setup, simulate};
use super::trace::{Told, Trace};
use segue_fiber::StackArena;
use std::sync::Arc;

/// A program, with the settings of the exploration and the stacks of its runs.
pub(super) struct Lab<F> {
    pub(super) preemptive: bool,
    /// After how many steps a schedule is endless.
    pub(super) steps: u64,
    pub(super) forbids_leaks: bool,
    pub(super) arena: Arc<StackArena>,
    pub(super) f: F,
}

/// The outcome of one schedule.
pub(super) struct Tried {
    pub(super) cause: Option<Cause>,
    pub(super) choices: Vec<Choice>,
    pub(super) steps: u64,
    pub(super) fibers: u64,
    pub(super) diverged: bool,
    pub(super) has_drawn: bool,
    /// Those out of order, if there was a trace.
    pub(super) turns: Vec<String>,
}

impl<T: Verdict, F: Fn() -> T> Lab<F> {
    /// The turns out of order of the plainest schedule, which is run once more, without a word.
    pub(super) fn turns_of(&self, failure: &Failure) -> Vec<String> {
        let tried = printing(Mode::None, || self.try_one(failure.plainest(), Some(Trace::new(Told::OutOfOrder))));
        let cause = failure.shrunk.as_ref().map_or(&failure.cause, |shrunk| &shrunk.cause);
        if tried.cause.is_some_and(|found| found.is_like(cause)) { tried.turns } else { Vec::new() }
    }

    pub(super) fn try_one(&self, schedule: &Schedule, trace: Option<Trace>) -> Tried {
        let mut course = Course::new(schedule.strategy(), self.preemptive);
        (course.choices, course.most_steps, course.trace) = (Some(Vec::new()), self.steps, trace);
        let name = format!("schedule {schedule}");
        let report = |fibers| format!("{name}: {}", Cause::Deadlock(fibers));
        let setup = Setup { seed: schedule.seed(), name: name.clone(), ..Setup::default() };
        let run = simulate(course, &self.arena, setup, &report, &self.f);
        // The first cause explains later ones: a fiber that is cancelled for a deadlock may
        // panic.
        let cause = match (run.deadlock, run.outcome) {
            _ if run.course.took_too_long() => Some(Cause::Endless(self.steps)),
            (Some(fibers), _) => Some(Cause::Deadlock(fibers)),
            (None, Err(payload)) => Some(Cause::of_panic(&*payload)),
            (None, Ok(value)) => match value.complaint() {
                Some(error) => Some(Cause::Failed(error)),
                None if self.forbids_leaks && !run.left.is_empty() => Some(Cause::Leaked(run.left)),
                None => None,
            },
        };
        Tried {
            cause,
            turns: run.course.trace.as_ref().map(Trace::lines).unwrap_or_default(),
            choices: run.course.choices.unwrap_or_default(),
            steps: run.course.steps,
            fibers: run.course.fibers.into(),
            diverged: run.course.diverged,
            has_drawn: run.has_drawn,
        }
    }
}
