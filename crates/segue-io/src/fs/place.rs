//! The place in a file at which a transfer begins, and the calls that are at the position of a
//! handle.
//!
//! Used by every transfer of `calls`, `in_memory` and `elsewhere`.

use std::sync::atomic::{AtomicU32, Ordering};

/// Where a transfer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the description's position, which moves on.
    Cursor {
        /// Whether nobody else uses the position meanwhile: then a transfer flies. The system call
        /// has a lock on the position.
        alone: bool,
    },
    At(u64),
}

/// How many calls are at a handle's position, on threads that may block. They have its lock, or
/// wait for the lock. The count orders nothing: a worker that looks too early waits a while for the
/// lock.
#[derive(Default)]
pub(super) struct Visitors(AtomicU32);

impl Visitors {
    /// Whether a worker would wait for the position's lock.
    pub(super) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Makes a call at the position.
    pub(super) fn with<T>(&self, call: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let result = call();
        self.0.fetch_sub(1, Ordering::Relaxed);
        result
    }
}
