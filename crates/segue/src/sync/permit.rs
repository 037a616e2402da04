//! The permits of a semaphore.
//!
//! Handed out by `semaphore.rs`, and given back to it when they are dropped.

use super::Semaphore;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

/// Permits of a [`Semaphore`], which go back when this is dropped.
#[must_use = "the permits go back when this is dropped"]
#[derive(Debug)]
pub struct Permits<S: Deref<Target = Semaphore>> {
    semaphore: S,
    count: usize,
}

/// Permits that borrow their semaphore.
pub type Permit<'a> = Permits<&'a Semaphore>;

/// Permits that share the ownership of their semaphore. Made by
/// [`Permit::into_owned`](Permits::into_owned).
pub type OwnedPermit = Permits<Arc<Semaphore>>;

impl<S: Deref<Target = Semaphore>> Permits<S> {
    /// Of permits that were taken out.
    #[inline]
    pub(super) fn new(semaphore: S, count: usize) -> Self {
        Self { semaphore, count }
    }

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
    pub fn split(&mut self, count: usize) -> Option<Self>
    where
        S: Clone,
    {
        self.count = self.count.checked_sub(count)?;
        Some(Self::new(self.semaphore.clone(), count))
    }

    /// Adds those of another permit to these.
    ///
    /// # Panics
    /// If they are of another semaphore.
    pub fn merge(&mut self, mut other: Self) {
        assert!(ptr::eq(&*self.semaphore, &*other.semaphore), "permits of different semaphores can't be merged");
        self.count += std::mem::take(&mut other.count);
    }
}

impl Permit<'_> {
    /// The same permits, not tied to a borrow.
    ///
    /// # Panics
    /// If they are not of this semaphore.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::Semaphore;
    /// use std::sync::Arc;
    ///
    /// let connections = Arc::new(Semaphore::new(1));
    /// let permit = connections.acquire()?.into_owned(&connections);
    /// segue::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(connections.available_permits(), 1);
    /// # Ok::<(), segue::WaitError>(())
    /// ```
    pub fn into_owned(mut self, semaphore: &Arc<Semaphore>) -> OwnedPermit {
        assert!(ptr::eq(self.semaphore, &raw const **semaphore), "a permit belongs to the semaphore that it is of");
        Permits::new(Arc::clone(semaphore), std::mem::take(&mut self.count))
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Permits<S> {
    #[inline]
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}
