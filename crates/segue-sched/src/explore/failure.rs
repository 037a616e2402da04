//! What an exploration finds: that every schedule passed, or one that did not, and why.
//!
//! Returned by the explorer; printed by tests that fail.

use super::schedule::Schedule;
use crate::worker::stuck::Stuck;
use std::any::Any;
use std::fmt;

/// What was found out about schedules that all passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// How many schedules were tried.
    pub schedules: u64,
    /// Whether there are no others. Only an exhaustive exploration can know.
    pub complete: bool,
    /// The most steps that one had: a step is what a fiber does from one point to the next.
    pub most_steps: u64,
    /// The most fibers that one had, the first included.
    pub most_fibers: u64,
}

/// Why a schedule failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The program panicked, with this message.
    Panicked(String),
    /// The program returned an error, of this form.
    Failed(String),
    /// No fiber could run, and no timer was left.
    Deadlock(Vec<Stuck>),
    /// These fibers were not over when the program returned.
    Leaked(Vec<Stuck>),
    /// The program was not over after so many steps.
    Endless(u64),
}

impl Cause {
    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        Self::Panicked(text.unwrap_or("with something that is not text").to_owned())
    }

    /// Whether both are of the same kind, whatever the details.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, fibers) = match self {
            Self::Panicked(message) => return write!(f, "panicked: {message}"),
            Self::Failed(error) => return write!(f, "returned an error: {error}"),
            Self::Endless(steps) => return write!(f, "was not over after {steps} steps"),
            Self::Deadlock(fibers) => ("came to a deadlock: nothing can run, and no timer is left", fibers),
            Self::Leaked(fibers) => ("left fibers when it returned", fibers),
        };
        f.write_str(what)?;
        fibers.iter().try_for_each(|stuck| write!(f, "\n    {stuck}"))
    }
}

/// A schedule that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The schedule, from which the failure is replayed.
    pub schedule: Schedule,
    /// What happened in it.
    pub cause: Cause,
    /// How many schedules were tried, this one included.
    pub tried: u64,
    /// A plainer schedule that fails in the same way, if one was looked for and found.
    pub shrunk: Option<Box<Shrunk>>,
    /// The turns out of order in the plainest schedule, a line each: which fiber was preempted
    /// where, or what it waits for, and which one went on instead. Of the first few. Empty if the
    /// schedule was not run once more to find out ([`Explore::shrink`](crate::Explore::shrink)), or
    /// all went on in order.
    pub turns: Vec<String>,
}

/// A schedule that was made plainer: a choice that need not be another than the first is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The schedule.
    pub schedule: Schedule,
    /// How many of its choices are not the first, and how many of the original's were not.
    pub departures: (usize, usize),
    /// What happens in it.
    pub cause: Cause,
}

impl Failure {
    /// The plainest schedule that is known to fail.
    pub fn plainest(&self) -> &Schedule {
        self.shrunk.as_ref().map_or(&self.schedule, |shrunk| &shrunk.schedule)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedule, cause, tried, shrunk, turns } = self;
        write!(f, "schedule {schedule} (number {tried}) failed: {cause}")?;
        if let Some(shrunk) = shrunk {
            let (now, before) = shrunk.departures;
            write!(f, "\n  {before} choices out of order come down to {now}: {}", shrunk.schedule)?;
            if shrunk.cause != *cause {
                write!(f, ", which {}", shrunk.cause)?;
            }
        }
        turns.iter().try_for_each(|turn| write!(f, "\n    {turn}"))
    }
}

impl std::error::Error for Failure {}

/// What a program under test may return: nothing, or a `Result` with an error that has a `Debug`.
#[diagnostic::on_unimplemented(
    message = "a program under test returns nothing, or a `Result` with an error that has a `Debug`, and not `{Self}`",
    label = "this returns `{Self}`"
)]
pub trait Verdict {
    /// What is wrong, if anything is.
    fn complaint(self) -> Option<String>;
}

impl Verdict for () {
    fn complaint(self) -> Option<String> {
        None
    }
}

impl<T, E: fmt::Debug> Verdict for Result<T, E> {
    fn complaint(self) -> Option<String> {
        self.err().map(|error| format!("{error:?}"))
    }
}
