//! A cell of one thread's that a debug build lets other threads read.
//!
//! Used by the headers of fibers: a scope that waits for long names the waits of its fibers.

#[cfg(debug_assertions)]
use crate::primitives::lock::Lock;

/// A cell for its own thread; in a debug build, for all.
#[cfg(not(debug_assertions))]
pub(crate) struct Shown<T>(std::cell::Cell<T>);

#[cfg(not(debug_assertions))]
impl<T: Copy> Shown<T> {
    #[inline]
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::Cell::new(value))
    }

    #[inline]
    pub(crate) fn get(&self) -> T {
        self.0.get()
    }

    /// Calls `f` with the value, which nobody changes meanwhile.
    pub(crate) fn look<R>(&self, f: impl FnOnce(T) -> R) -> R {
        f(self.0.get())
    }

    /// The value, if nobody looks at the moment.
    pub(crate) fn glance(&self) -> Option<T> {
        Some(self.0.get())
    }

    #[inline]
    pub(crate) fn set(&self, value: T) {
        self.0.set(value);
    }

    #[inline]
    pub(crate) fn replace(&self, value: T) -> T {
        self.0.replace(value)
    }
}

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

    /// Calls `f` with the value, which nobody changes meanwhile.
    pub(crate) fn look<R>(&self, f: impl FnOnce(T) -> R) -> R {
        f(*self.0.lock())
    }

    /// The value, if nobody looks at the moment.
    pub(crate) fn glance(&self) -> Option<T> {
        self.0.try_lock().map(|value| *value)
    }

    pub(crate) fn set(&self, value: T) {
        *self.0.lock() = value;
    }

    pub(crate) fn replace(&self, value: T) -> T {
        std::mem::replace(&mut *self.0.lock(), value)
    }
}
