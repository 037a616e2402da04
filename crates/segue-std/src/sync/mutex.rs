//! std's mutex.

use super::mark::{Flag, Watch, guards, marked};
use crate::cancelled::{locked, wait};
use segue::sync;
use std::sync::{LockResult, TryLockError, TryLockResult};

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

marked!(Mutex);

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

guards!(MutexGuard: inner, mut);
