//! What reports say: which fibers are suspended, and which worker is stuck in one.
//!
//! Used by the simulator's reports of deadlocks and by the monitor; read by users.

use segue_core::WaitsFor;
use segue_fiber::{Backtrace, Unanswered};
use std::fmt;
use std::time::Duration;

/// A fiber that is suspended, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// "fiber `name`", or its number.
    pub fiber: String,
    /// What it waits for, and where the wait was called.
    pub waits_for: Option<WaitsFor>,
    /// Whether that comes from the network, which a simulation does not drive.
    pub network: bool,
    /// Where it is, if that was asked for ([`Sim::backtraces`](crate::Sim::backtraces)).
    pub backtrace: Option<Backtrace>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.waits_for {
            Some(what) if self.network => {
                write!(f, "{} waits for the network, which the simulator does not drive: {what}", self.fiber)
            }
            Some(what) => write!(f, "{} waits for {what}", self.fiber),
            None => write!(f, "{} is ready", self.fiber),
        }?;
        self.backtrace.iter().try_for_each(|backtrace| write!(f, "\n{backtrace}"))
    }
}

/// A worker that has been in one fiber for long, as the [monitor](crate::Builder::monitor) found
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckWorker {
    /// The name of its thread if the scheduler has made it: the scheduler's
    /// [name](crate::Builder::name) and the worker's number.
    pub name: String,
    /// Its number in its scheduler.
    pub worker: usize,
    /// "fiber `name`", or its number. Of a long name this is the beginning, some forty bytes.
    /// `None` if the worker is in no fiber, but in a park or a hook; or if that is not known, since
    /// its thread did not say where it is. A policy may be asked on the stack of a fiber that
    /// waits: then it is that one.
    pub fiber: Option<String>,
    /// For how long it has been there, at least.
    pub held: Duration,
    /// Where its thread is, from the innermost call to the beginning of the fiber, if it is in one;
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
