//! The permits of a semaphore.
//!
//! Handed out by `semaphore.rs`, and given back to it when they are dropped.

use super::Semaphore;
use std::sync::Arc;

/// Permits of a [`Semaphore`], which go back when this is dropped.
#[must_use = "the permits go back when this is dropped"]
#[derive(Debug)]
pub struct Permit<'a> {
    pub(super) semaphore: &'a Semaphore,
    pub(super) count: usize,
}

impl<'a> Permit<'a> {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps them from going back: the semaphore has that many less from now on.
    pub fn forget(mut self) {
        self.count = 0;
    }

    /// Takes `count` of them away into a permit of their own; `None` if they are not that many.
    pub fn split(&mut self, count: usize) -> Option<Permit<'a>> {
        self.count = self.count.checked_sub(count)?;
        Some(Permit { semaphore: self.semaphore, count })
    }

    /// Adds those of another permit to these.
    ///
    /// # Panics
    /// If they are of another semaphore.
    pub fn merge(&mut self, mut other: Permit<'a>) {
        assert!(std::ptr::eq(self.semaphore, other.semaphore), "permits of different semaphores can't be merged");
        self.count += std::mem::take(&mut other.count);
    }

    /// The same permits, not tied to a borrow.
    ///
    /// # Panics
    /// If they are not of this semaphore.
    pub fn into_owned(mut self, semaphore: &Arc<Semaphore>) -> OwnedPermit {
        assert!(
            std::ptr::eq(self.semaphore, &raw const **semaphore),
            "a permit belongs to the semaphore that it is of"
        );
        OwnedPermit { semaphore: Arc::clone(semaphore), count: std::mem::take(&mut self.count) }
    }
}

impl Drop for Permit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}

/// Permits of a [`Semaphore`] that they share the ownership of; they go back when this is dropped.
#[must_use = "the permits go back when this is dropped"]
#[derive(Debug)]
pub struct OwnedPermit {
    semaphore: Arc<Semaphore>,
    count: usize,
}

impl OwnedPermit {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps them from going back: the semaphore has that many less from now on.
    pub fn forget(mut self) {
        self.count = 0;
    }

    /// Takes `count` of them away into a permit of their own; `None` if they are not that many.
    pub fn split(&mut self, count: usize) -> Option<OwnedPermit> {
        self.count = self.count.checked_sub(count)?;
        Some(OwnedPermit { semaphore: Arc::clone(&self.semaphore), count })
    }

    /// Adds those of another permit to these.
    ///
    /// # Panics
    /// If they are of another semaphore.
    pub fn merge(&mut self, mut other: OwnedPermit) {
        assert!(Arc::ptr_eq(&self.semaphore, &other.semaphore), "permits of different semaphores can't be merged");
        self.count += std::mem::take(&mut other.count);
    }
}

impl Drop for OwnedPermit {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}
