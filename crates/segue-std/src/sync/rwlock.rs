//! std's lock for readers and writers.

use super::mark::{Flag, Watch, guards, marked};
use crate::cancelled::{locked, wait};
use segue::sync;
use std::mem;
use std::sync::{LockResult, TryLockError, TryLockResult};

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

marked!(RwLock);

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

guards!(RwLockReadGuard: 0; RwLockWriteGuard: inner, mut);
