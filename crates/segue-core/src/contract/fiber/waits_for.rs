//! What a suspended fiber waits for.
//!
//! Every wait says it, for dumps, deadlock reports and the messages of refused effects.

use crate::contract::fiber::Fiber;
use std::panic::Location;

/// What a suspended fiber waits for, as reports say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitsFor {
    /// The kind of thing: "a promise".
    pub what: &'static str,
    /// Where the wait was called.
    pub at: &'static Location<'static>,
}

impl WaitsFor {
    /// A wait for `what`, called from here; in a `#[track_caller]` operation, from where that is.
    #[track_caller]
    #[must_use]
    #[inline]
    pub fn new(what: &'static str) -> Self {
        Self { what, at: Location::caller() }
    }
}

impl std::fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.what, self.at)
    }
}

impl Fiber {
    /// What it waits for, if it is suspended. For the fiber's own thread.
    pub fn waits_for(&self) -> Option<WaitsFor> {
        self.waits_for.get()
    }

    /// Whether it waits for the kernel, in a simulation, which does not drive it. See
    /// [`kernel_wait`](crate::drivers::kernel_wait).
    pub fn waits_for_kernel(&self) -> bool {
        self.kernel_waits.get() > 0
    }

    /// Counts one more wait for the kernel, or one less. A report is all that goes by it: so it may
    /// be wrong where the future of a source is dropped in another fiber than polled it, or where
    /// there are hundreds.
    pub(crate) fn count_kernel_wait(&self, begins: bool) {
        let waits = self.kernel_waits.get();
        self.kernel_waits.set(if begins { waits.saturating_add(1) } else { waits.saturating_sub(1) });
    }
}
