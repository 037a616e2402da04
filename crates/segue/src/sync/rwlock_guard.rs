//! The guard of an [`RwLock`]: its owner reads or changes the value, and unlocks by dropping it.
//!
//! Made by `rwlock.rs`, which has the states, when it has entered the lock for the guard's owner.
#![allow(unsafe_code)] // The cell behind the lock.

use super::RwLock;
use segue_core::preemption_point;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// The right to use the value of an [`RwLock`], until it is dropped, on any thread: to read it, and
/// to change it if `WRITE` says so.
#[must_use = "the lock is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockGuard<'a, T: ?Sized, const WRITE: bool> {
    pub(super) lock: &'a RwLock<T>,
}

/// The right to read the value of an [`RwLock`], until it is dropped, on any thread.
pub type RwLockReadGuard<'a, T> = RwLockGuard<'a, T, false>;

/// The right to change the value of an [`RwLock`], until it is dropped, on any thread.
pub type RwLockWriteGuard<'a, T> = RwLockGuard<'a, T, true>;

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader, with no writer in between. Never waits.
    ///
    /// The readers that wait enter as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let lock = RwLock::new(1);
    /// let mut guard = lock.write()?;
    /// *guard = 2;
    /// let guard = RwLockWriteGuard::downgrade(guard);
    /// assert_eq!(*guard + *lock.read()?, 4);
    /// # Ok::<(), segue::Cancelled>(())
    /// ```
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        preemption_point();
        let lock = ManuallyDrop::new(guard).lock;
        lock.raw.downgrade();
        RwLockGuard { lock }
    }
}

impl<T: ?Sized, const WRITE: bool> Deref for RwLockGuard<'_, T, WRITE> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: nobody else writes while this guard is there, and it is borrowed.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the one guard that there is, and it is borrowed exclusively.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized, const WRITE: bool> Drop for RwLockGuard<'_, T, WRITE> {
    #[inline]
    fn drop(&mut self) {
        preemption_point();
        self.lock.raw.unlock(WRITE);
    }
}

impl<T: ?Sized + fmt::Debug, const WRITE: bool> fmt::Debug for RwLockGuard<'_, T, WRITE> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
