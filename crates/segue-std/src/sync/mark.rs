//! The mark of a lock whose owner panicked, as std's locks have it, and what all that are marked
//! have.

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

/// The calls of a lock with a mark.
macro_rules! marked {
    ($lock:ident) => {
        impl<T> $lock<T> {
            /// An unlocked one.
            pub const fn new(value: T) -> Self {
                Self { poison: Flag::new(), inner: sync::$lock::new(value) }
            }

            /// The value.
            ///
            /// # Errors
            /// If it is poisoned: with the value.
            pub fn into_inner(self) -> LockResult<T> {
                let Self { poison, inner } = self;
                poison.check(inner.into_inner())
            }
        }

        impl<T: ?Sized> $lock<T> {
            /// Whether an owner, or a writer, has panicked.
            pub fn is_poisoned(&self) -> bool {
                self.poison.is_set()
            }

            /// Takes the mark of a panic away.
            pub fn clear_poison(&self) {
                self.poison.clear();
            }

            /// The value, to change.
            ///
            /// # Errors
            /// If it is poisoned: with the value.
            pub fn get_mut(&mut self) -> LockResult<&mut T> {
                let Self { poison, inner } = self;
                poison.check(inner.get_mut())
            }
        }

        impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for $lock<T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($lock));
                shown.field("inner", &&self.inner).field("poisoned", &self.is_poisoned()).finish()
            }
        }

        impl<T> From<T> for $lock<T> {
            fn from(value: T) -> Self {
                Self::new(value)
            }
        }
    };
}
pub(super) use marked;

/// A guard shows its value, and is used as the value.
macro_rules! guards {
    ($($guard:ident: $inner:tt $(, $mut:tt)?);+ $(;)?) => {$(
        impl<T: ?Sized> std::ops::Deref for $guard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.$inner
            }
        }

        $(impl<T: ?Sized> std::ops::DerefMut for $guard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                &$mut self.$inner
            }
        })?

        impl<T: ?Sized + std::fmt::Debug> std::fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + std::fmt::Display> std::fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                (**self).fmt(f)
            }
        }
    )+};
}
pub(super) use guards;
