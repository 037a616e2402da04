//! The guards of an [`RwLock`]: the owner of one reads or changes the value, and unlocks by
//! dropping the guard.
//!
//! Made by `rwlock.rs`, which has the states, when it has entered the lock for the guard's owner.
#![allow(unsafe_code)] // The cell behind the lock.

use super::RwLock;
use segue_core::preemption_point;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

/// The right to read the value of an [`RwLock`], until it is dropped, on any thread.
#[must_use = "the lock is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    pub(super) lock: &'a RwLock<T>,
}

/// The right to change the value of an [`RwLock`], until it is dropped, on any thread.
#[must_use = "the lock is unlocked when this is dropped"]
#[clippy::has_significant_drop]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    pub(super) lock: &'a RwLock<T>,
    /// Shared and sent as an exclusive reference is.
    pub(super) value: PhantomData<&'a mut T>,
}

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
        RwLockReadGuard { lock }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is a reader, so nobody writes while this guard is there.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the one guard that there is, and it is borrowed.
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

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        preemption_point();
        self.lock.raw.unlock_read();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        preemption_point();
        self.lock.raw.unlock_write();
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
