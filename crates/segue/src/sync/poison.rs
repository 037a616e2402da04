//! A mark on a value that a panic interrupted a change of it.
//!
//! Used around the value of a [`Mutex`](super::Mutex) or [`RwLock`](super::RwLock), neither of
//! which poisons by itself.
//!
//! The mark is kept beside the value and set by a guard that is dropped while its thread panics,
//! and was not made so. It needs exclusive access and has no state that is shared.

use std::ops::{Deref, DerefMut};

/// A value that is marked when a panic interrupts a change of it.
///
/// # Examples
///
/// ```
/// use segue::sync::{Mutex, Poison};
///
/// let account = Mutex::new(Poison::new((100, 0)));
/// let failed = segue::spawn(move || {
///     let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
///         let mut guard = account.lock().unwrap();
///         let mut balance = guard.change().unwrap();
///         balance.0 -= 10;
///         std::panic::panic_any("half way");
///     }));
///     let failed = account.lock().unwrap().change().is_err();
///     failed
/// });
/// assert_eq!(failed.join().unwrap(), true);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Poison<T: ?Sized> {
    poisoned: bool,
    value: T,
}

/// A panic has interrupted a change of the value, which may be half done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poisoned;

impl std::fmt::Display for Poisoned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a panic interrupted a change of this value")
    }
}

impl std::error::Error for Poisoned {}

impl<T> Poison<T> {
    /// A value without the mark.
    pub const fn new(value: T) -> Self {
        Self { poisoned: false, value }
    }

    /// The value, whether or not it is marked.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T: ?Sized> Poison<T> {
    /// Begins a change, which a panic before the guard is dropped interrupts.
    ///
    /// # Errors
    /// [`Poisoned`] if one was interrupted, until the mark is [cleared](Poison::clear).
    pub fn change(&mut self) -> Result<Change<'_, T>, Poisoned> {
        if self.poisoned {
            return Err(Poisoned);
        }
        Ok(Change { panicking: std::thread::panicking(), poison: self })
    }

    /// The value, to read.
    ///
    /// # Errors
    /// [`Poisoned`] if a change was interrupted.
    pub fn get(&self) -> Result<&T, Poisoned> {
        if self.poisoned { Err(Poisoned) } else { Ok(&self.value) }
    }

    /// Whether a change was interrupted.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Takes the mark away, and gives the value to be put right.
    pub fn clear(&mut self) -> &mut T {
        self.poisoned = false;
        &mut self.value
    }
}

/// A change of a [`Poison`]'s value.
#[derive(Debug)]
pub struct Change<'a, T: ?Sized> {
    panicking: bool,
    poison: &'a mut Poison<T>,
}

impl<T: ?Sized> Deref for Change<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.poison.value
    }
}

impl<T: ?Sized> DerefMut for Change<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.poison.value
    }
}

impl<T: ?Sized> Drop for Change<'_, T> {
    fn drop(&mut self) {
        if !self.panicking && std::thread::panicking() {
            self.poison.poisoned = true;
        }
    }
}
