//! Reports of a scheduler: the worker that is stuck in a fiber, and the fibers that are left after
//! the deadline of a shutdown.
//!
//! Made by the monitor and by shutdowns; read by users.

use crate::worker::stuck::Stuck;
use segue_fiber::{Backtrace, Unanswered};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

/// A worker that has been in one fiber for long, by the [monitor](crate::Runtime::monitor).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckWorker {
    /// The name of the thread, if the scheduler has made this thread: the scheduler's
    /// [name](crate::Runtime::name) and the worker's number.
    pub name: String,
    /// Its number in its scheduler.
    pub worker: usize,
    /// "fiber `name`", or its number. Of a long name this is the beginning, some forty bytes.
    /// `None` if the worker is in no fiber, but in a park or a hook; or if that is not known, since
    /// the thread did not answer. A policy may be asked on the stack of a fiber that
    /// waits: then this is that fiber.
    pub fiber: Option<String>,
    /// For how long the worker has been there, at least.
    pub held: Duration,
    /// The calls of the thread, from the innermost to the beginning of the fiber, if there is one;
    /// or why that is not known.
    pub backtrace: Result<Backtrace, Unanswered>,
}

impl fmt::Display for StuckWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, fiber, held, .. } = self;
        let turn = fiber.as_deref().unwrap_or("one turn");
        writeln!(
            f,
            "worker {name} has been in {turn} for {held:.1?} without a switch; what else is ready there waits"
        )?;
        match &self.backtrace {
            Ok(backtrace) => write!(f, "{backtrace}"),
            Err(why) => writeln!(f, "(no trace: {why})"),
        }
    }
}

/// The fibers that a scheduler still had when the [deadline](crate::Shutdown::deadline) of its
/// shutdown was over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survivors {
    /// How long the scheduler had been cancelled, at least.
    pub deadline: Duration,
    /// The status with which the process ends now, if it does.
    pub exit_status: Option<i32>,
    /// The fibers that are suspended, each with its wait. In the order of their workers.
    pub fibers: Vec<Stuck>,
    /// The workers that are in a fiber, and do not say which other fibers are left with them.
    pub workers: Vec<StuckWorker>,
    /// If there is a worker that does not say which fibers are left: the names of other fibers that
    /// are known not to have ended.
    pub others: Vec<String>,
}

impl Survivors {
    /// Whether nothing of them is to be seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.fibers.is_empty() && self.workers.is_empty() && self.others.is_empty()
    }
}

impl fmt::Display for Survivors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deadline, exit_status, fibers, workers, others } = self;
        write!(f, "shutdown: not over {deadline:?} after everything was cancelled")?;
        if let Some(status) = exit_status {
            write!(f, "; the process ends with status {status}")?;
        }
        writeln!(f)?;
        fibers.iter().try_for_each(|fiber| writeln!(f, "  {fiber}"))?;
        workers.iter().try_for_each(|worker| write!(f, "  {worker}"))?;
        others
            .iter()
            .try_for_each(|name| writeln!(f, "  fiber `{name}` is left with a worker that does not answer"))?;
        if self.is_empty() {
            writeln!(f, "  no fiber is to be seen: what is left are tasks, or closures that have not started")?;
        }
        Ok(())
    }
}

/// Prints to standard error, if anybody reads it, and without its lock: a worker may be stuck that
/// holds the lock.
pub(crate) fn say(text: &str) {
    #[cfg(windows)]
    let own = std::os::windows::io::AsHandle::as_handle(&io::stderr()).try_clone_to_owned();
    #[cfg(not(windows))]
    let own = std::os::fd::AsFd::as_fd(&io::stderr()).try_clone_to_owned();
    // Nobody can be told of an error.
    let _ = own.and_then(|own| File::from(own).write_all(text.as_bytes()));
}
