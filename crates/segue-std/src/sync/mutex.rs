//! std's mutex.

use super::mark::{Flag, Watch};
use crate::cancelled::{locked, wait};
use segue::sync;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

/// [`std::sync::Mutex`]: one owner at a time, first come, first served; poisoned by an owner that
/// panics.
///
/// # Cancellation
/// A wait for the lock unwinds; see [the module](crate). An owner that is cancelled poisons
/// the mutex if it unwinds.
///
/// # Examples
///
/// ```
/// use segue_std::{sync::Mutex, thread};
///
/// let counted = Mutex::new(0);
/// thread::scope(|s| {
///     for _ in 0..10 {
///         s.spawn(|| *counted.lock().unwrap() += 1);
///     }
/// });
/// assert_eq!(counted.into_inner().unwrap(), 10);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    poison: Flag,
    inner: sync::Mutex<T>,
}

/// The right to use the value of a [`Mutex`], until it is dropped.
#[must_use = "the mutex is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct MutexGuard<'a, T: ?Sized> {
    // Dropped in this order.
    watch: Watch<'a>,
    inner: sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Self { poison: Flag::new(), inner: sync::Mutex::new(value) }
    }

    /// The value.
    ///
    /// # Errors
    /// If it is poisoned: with the value.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.poison.is_set();
        let value = self.inner.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Locks, after waiting while somebody else has the mutex.
    ///
    /// # Errors
    /// If it is poisoned: with the guard.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.guard(locked(wait!(self.inner.lock()), || self.inner.try_lock()))
    }

    /// Locks, if nobody has the mutex. Never waits.
    ///
    /// # Errors
    /// If somebody has it, or if it is poisoned: then with the guard.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock().ok_or(TryLockError::WouldBlock)?;
        Ok(self.guard(inner)?)
    }

    /// Whether an owner has panicked.
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

    fn guard<'a>(&'a self, inner: sync::MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.poison.check(MutexGuard { watch: self.poison.watch(), inner })
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// For a condition, which unlocks and locks again.
    pub(super) fn into_parts(self) -> (Watch<'a>, sync::MutexGuard<'a, T>) {
        (self.watch, self.inner)
    }

    /// The opposite.
    pub(super) fn from_parts(watch: Watch<'a>, inner: sync::MutexGuard<'a, T>) -> LockResult<Self> {
        let flag = watch.flag();
        flag.check(Self { watch, inner })
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("inner", &&self.inner).field("poisoned", &self.is_poisoned()).finish()
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
