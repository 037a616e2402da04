//! The mark of a lock whose owner panicked, as std's locks have it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, PoisonError};
use std::thread;

/// Whether an owner has panicked. The holder of the lock reads and writes the mark, and the lock
/// orders that.
#[derive(Debug, Default)]
pub(super) struct Flag(AtomicBool);

impl Flag {
    pub(super) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// For a new holder of the lock, to be kept beside the lock.
    pub(super) fn watch(&self) -> Watch<'_> {
        Watch { flag: self, panicking: thread::panicking() }
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// An error with the requested guard or value, if set.
    pub(super) fn check<G>(&self, asked: G) -> LockResult<G> {
        if self.is_set() { Err(PoisonError::new(asked)) } else { Ok(asked) }
    }
}

/// Sets the flag when it is dropped by a panic that began after the lock was locked. To be dropped
/// before the lock is unlocked.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    flag: &'a Flag,
    panicking: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn flag(&self) -> &'a Flag {
        self.flag
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.panicking && thread::panicking() {
            self.flag.0.store(true, Ordering::Relaxed);
        }
    }
}
