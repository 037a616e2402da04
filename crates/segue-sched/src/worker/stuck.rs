//! A fiber that is suspended, as reports name the fiber.
//!
//! Made by the worker, which looks through its fibers; read by users of the simulator's reports of
//! deadlocks and of reports of shutdowns.

use segue_core::WaitsFor;
use segue_fiber::Backtrace;
use std::fmt;

/// A suspended fiber, in the words of reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// "fiber `name`", or its number.
    pub fiber: String,
    /// Its wait, and the line of that call.
    pub waits_for: Option<WaitsFor>,
    /// Whether that comes from the network, which a simulation does not drive.
    pub network: bool,
    /// Its calls, on request ([`Sim::backtraces`](crate::Sim::backtraces)), or if foreign code has
    /// called the wait: by std, in [`io::copy`](std::io::copy) for instance, or by a library. That
    /// is told by the path of its file, which is absolute.
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
