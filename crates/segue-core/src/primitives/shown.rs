//! A cell of one thread's that a debug build lets other threads read.
//!
//! Used by the headers of fibers: a scope that waits for long names the waits of its fibers.

#[cfg(debug_assertions)]
use crate::primitives::lock::Lock;

/// A cell for its own thread; in a debug build, for all.
#[cfg(not(debug_assertions))]
pub(crate) type Shown<T> = std::cell::Cell<T>;

/// A cell for its own thread; in a debug build, for all.
#[cfg(debug_assertions)]
pub(crate) struct Shown<T>(Lock<T>);

#[cfg(debug_assertions)]
impl<T: Copy> Shown<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Lock::new(value))
    }

    pub(crate) fn get(&self) -> T {
        *self.0.lock()
    }

    pub(crate) fn set(&self, value: T) {
        *self.0.lock() = value;
    }

    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut *self.0.lock(), value)
    }
}
