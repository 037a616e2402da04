//! One run of a program under one schedule, and the outcome.
//!
//! Used by the explorer for each schedule, by shrinking and by traces.

use super::course::{Choice, Course};
use super::failure::{Cause, Failure, Verdict};
use super::quiet::{Mode, printing};
use super::schedule::Schedule;
use super::sim::{Setup, simulate};
use super::trace::{Told, Trace};
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_fiber::StackArena;
use std::cell::RefCell;
use std::sync::Arc;

/// A program under test, without its type: the explorer is compiled once, and not for each test.
pub(super) trait Program {
    /// Runs the program, and keeps its verdict.
    fn run(&self);

    /// Takes the verdict of the last run, if that has one, and says what is wrong, if `is_wanted`.
    fn complaint(&self, is_wanted: bool) -> Option<String>;
}

/// A closure as a program.
pub(super) struct Closure<F, T> {
    f: F,
    verdict: RefCell<Option<T>>,
}

impl<F: Fn() -> T, T: Verdict> Closure<F, T> {
    pub(super) fn new(f: F) -> Self {
        Self { f, verdict: RefCell::new(None) }
    }
}

impl<F: Fn() -> T, T: Verdict> Program for Closure<F, T> {
    fn run(&self) {
        let verdict = __rust_begin_short_backtrace(&self.f);
        *self.verdict.borrow_mut() = Some(verdict);
    }

    fn complaint(&self, is_wanted: bool) -> Option<String> {
        let verdict = self.verdict.take();
        verdict.filter(|_| is_wanted).and_then(Verdict::complaint)
    }
}

/// A program, with the settings of the exploration and the stacks of its runs.
pub(super) struct Lab<'p> {
    pub(super) preemptive: bool,
    /// After how many steps a schedule is endless.
    pub(super) steps: u64,
    pub(super) forbids_leaks: bool,
    pub(super) arena: Arc<StackArena>,
    pub(super) program: &'p dyn Program,
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

impl Lab<'_> {
    /// The turns out of order of the plainest schedule, which is run once more, without a word.
    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
    pub(super) fn turns_of(&self, failure: &Failure) -> Vec<String> {
        let tried = printing(Mode::None, || self.try_one(failure.plainest(), Some(Trace::new(Told::OutOfOrder))));
        let cause = failure.shrunk.as_ref().map_or(&failure.cause, |shrunk| &shrunk.cause);
        if tried.cause.is_some_and(|found| found.is_like(cause)) { tried.turns } else { Vec::new() }
    }

    #[cfg_attr(not(debug_assertions), inline)] // As `simulate`.
    pub(super) fn try_one(&self, schedule: &Schedule, trace: Option<Trace>) -> Tried {
        let mut course = Course::new(schedule.strategy(), self.preemptive);
        (course.choices, course.most_steps, course.trace) = (Some(Vec::new()), self.steps, trace);
        let name = format!("schedule {schedule}");
        let report = |fibers| format!("{name}: {}", Cause::Deadlock(fibers));
        let setup = Setup { seed: schedule.seed(), name: name.clone(), ..Setup::default() };
        let run = simulate(course, &self.arena, setup, &report, &mut || self.program.run());
        let is_over = run.deadlock.is_none() && !run.course.took_too_long();
        let complaint = self.program.complaint(is_over);
        // The first cause explains later ones: a fiber that is cancelled for a deadlock may
        // panic.
        let cause = match (run.deadlock, run.outcome) {
            _ if run.course.took_too_long() => Some(Cause::Endless(self.steps)),
            (Some(fibers), _) => Some(Cause::Deadlock(fibers)),
            (None, Err(payload)) => Some(Cause::of_panic(&*payload)),
            (None, Ok(())) => match complaint {
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
