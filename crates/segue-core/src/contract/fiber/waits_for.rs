//! What a suspended fiber waits for.
//!
//! Every wait says it, for dumps, deadlock reports and the messages of refused effects.

use crate::contract::fiber::Fiber;
#[cfg(debug_assertions)]
use crate::primitives::lock::Lock;
#[cfg(debug_assertions)]
use std::mem;
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

/// What a fiber waits for, in a cell of its own thread's. A debug build lets others look, too, so
/// that a scope which waits for long can say what its fibers wait for.
#[cfg(not(debug_assertions))]
pub(super) type Told = std::cell::Cell<Option<WaitsFor>>;

#[cfg(debug_assertions)]
pub(super) struct Told(Lock<Option<WaitsFor>>);

#[cfg(debug_assertions)]
impl Told {
    pub(super) fn new(waits_for: Option<WaitsFor>) -> Self {
        Self(Lock::new(waits_for))
    }

    pub(super) fn get(&self) -> Option<WaitsFor> {
        *self.0.lock()
    }

    pub(super) fn set(&self, waits_for: Option<WaitsFor>) {
        *self.0.lock() = waits_for;
    }

    pub(super) fn replace(&self, waits_for: Option<WaitsFor>) -> Option<WaitsFor> {
        mem::replace(&mut *self.0.lock(), waits_for)
    }
}

impl Fiber {
    /// What it waits for, if it is suspended. For the fiber's own thread.
    pub fn waits_for(&self) -> Option<WaitsFor> {
        self.waits_for.get()
    }

    /// As [`waits_for`](Self::waits_for), for any thread that keeps the header in place.
    #[cfg(debug_assertions)]
    pub(crate) fn waits_for_from_elsewhere(&self) -> Option<WaitsFor> {
        self.waits_for.get()
    }
}
