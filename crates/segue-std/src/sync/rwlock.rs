//! std's lock for readers and writers.

use super::mark::{Flag, Watch};
use crate::cancelled::{locked, wait};
use segue::sync;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::{fmt, mem};

/// [`std::sync::RwLock`]: many readers or one writer; poisoned by a writer that panics.
///
/// # Cancellation
/// As for [`Mutex`](super::Mutex).
///
/// # Examples
///
/// ```
/// use segue_std::sync::RwLock;
///
/// let lock = RwLock::new(1);
/// *lock.write().unwrap() += 1;
/// let (one, other) = (lock.read().unwrap(), lock.read().unwrap());
/// assert_eq!(*one + *other, 4);
/// assert!(lock.try_write().is_err());
/// ```
#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    poison: Flag,
    inner: sync::RwLock<T>,
}

/// The right to read the value of an [`RwLock`], until it is dropped.
#[must_use = "the lock is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized>(sync::RwLockReadGuard<'a, T>);

/// The right to change the value of an [`RwLock`], until it is dropped.
#[must_use = "the lock is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // Dropped in this order.
    watch: Watch<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        Self { poison: Flag::new(), inner: sync::RwLock::new(value) }
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

impl<T: ?Sized> RwLock<T> {
    /// Locks to read, after waiting while somebody writes, or waits to.
    ///
    /// # Errors
    /// If it is poisoned: with the guard.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.poison.check(RwLockReadGuard(locked(wait!(self.inner.read()), || self.inner.try_read())))
    }

    /// Locks to write, after waiting while somebody else has the lock.
    ///
    /// # Errors
    /// If it is poisoned: with the guard.
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.guard(locked(wait!(self.inner.write()), || self.inner.try_write()))
    }

    /// Locks to read, if that need not wait.
    ///
    /// # Errors
    /// If it would have to wait, or if the lock is poisoned: then with the guard.
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        let inner = self.inner.try_read().ok_or(TryLockError::WouldBlock)?;
        Ok(self.poison.check(RwLockReadGuard(inner))?)
    }

    /// Locks to write, if that need not wait.
    ///
    /// # Errors
    /// If it would have to wait, or if the lock is poisoned: then with the guard.
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let inner = self.inner.try_write().ok_or(TryLockError::WouldBlock)?;
        Ok(self.guard(inner)?)
    }

    /// Whether a writer has panicked.
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

    fn guard<'a>(&'a self, inner: sync::RwLockWriteGuard<'a, T>) -> LockResult<RwLockWriteGuard<'a, T>> {
        self.poison.check(RwLockWriteGuard { watch: self.poison.watch(), inner })
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader, with no writer in between. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_std::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let mut guard = lock.write().unwrap();
    /// *guard = 2;
    /// let guard = RwLockWriteGuard::downgrade(guard);
    /// assert_eq!(*guard + *lock.read().unwrap(), 4);
    /// ```
    pub fn downgrade(s: Self) -> RwLockReadGuard<'a, T> {
        let Self { watch, inner } = s;
        // A reader does not poison, whatever comes.
        mem::forget(watch);
        RwLockReadGuard(sync::RwLockWriteGuard::downgrade(inner))
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("inner", &&self.inner).field("poisoned", &self.is_poisoned()).finish()
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
