//! A type of jobs, as a function of bytes.
//!
//! Used by workers, which register them, and by attempts.

use crate::engine::{Envelope, Kind};
use crate::job::{Format, Job, kind_of};

/// How the function of a job has ended.
pub(crate) enum Ran {
    /// With this output.
    Done(Vec<u8>),
    /// With this error.
    Failed(String),
    /// It has not begun: these bytes are no arguments.
    Unreadable(String),
}

/// Runs the jobs of one kind.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) kind: Kind,
    pub(crate) run: fn(&Envelope) -> Ran,
}

impl Handler {
    pub(crate) fn of<J: Job>() -> Self {
        Self { kind: kind_of::<J>(), run: run::<J> }
    }
}

fn run<J: Job>(job: &Envelope) -> Ran {
    if job.format != J::Format::NAME {
        let format = J::Format::NAME;
        return Ran::Unreadable(format!("arguments in the format {:?}, and this worker has {format:?}", job.format));
    }
    match J::Format::read::<J>(&job.arguments) {
        Err(why) => Ran::Unreadable(format!("the arguments do not parse: {why}")),
        Ok(job) => match job.run() {
            Err(error) => Ran::Failed(error.to_string()),
            Ok(output) => match J::Format::write(&output) {
                Ok(bytes) => Ran::Done(bytes),
                Err(why) => Ran::Failed(format!("the output can't be written: {why}")),
            },
        },
    }
}
