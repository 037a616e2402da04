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
        self.waits_for_kernel.get()
    }

    pub(crate) fn set_waits_for_kernel(&self, yes: bool) {
        self.waits_for_kernel.set(yes);
    }
}
