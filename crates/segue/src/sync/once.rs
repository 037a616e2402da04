//! Something that the first caller does, once, before any caller goes on.
//!
//! Used for set-up that has no value. It is a [`OnceCell`] of nothing; `once_cell.rs` says how it
//! works.

use segue_core::{Source, Waitable};
use std::convert::Infallible;

use super::force_error::Called;
use super::{ForceError, OnceCell};

/// Runs a closure once, in the shape of [`std::sync::Once`].
///
/// A caller that comes while it runs waits, in its own way. One that panics is not the last word:
/// the next waiter runs its own.
///
/// # Examples
///
/// ```
/// use segue::sync::Once;
///
/// static START: Once = Once::new();
///
/// START.call_once(|| println!("once"))?;
/// START.call_once(|| unreachable!())?;
/// assert!(START.is_completed());
/// # Ok::<(), segue::sync::ForceError>(())
/// ```
#[derive(Debug, Default)]
pub struct Once(OnceCell<()>);

impl Once {
    /// Not done yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceCell::new())
    }

    /// Runs `f`, unless somebody has done so; if somebody is at it, waits until it is done. Once it
    /// is done this is one load.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; `f` was not run then. Once it is done, a cancelled caller is
    /// told so, too.
    ///
    /// # Errors
    /// [`ForceError::Recursive`] if the caller is inside of such an `f` already;
    /// [`ForceError::Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// If `f` does. The next waiter runs its own.
    #[inline]
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) -> Result<(), ForceError> {
        match self.0.get() {
            Some(()) => Ok(()),
            None => self.0.force(Called::of::<Self>(), done_by(f)).copied(),
        }
    }

    /// [`call_once`](Once::call_once) as a source; for a task, `f` runs inside of the poll that
    /// finds it undone.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; `f` was not run then.
    ///
    /// # Panics
    /// If `f` does.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let once = segue::sync::Once::new();
    /// assert_eq!(once.call_once_source(|| println!("once")).await, Ok(()));
    /// # }
    /// ```
    #[track_caller]
    pub fn call_once_source<'a, F>(
        &'a self,
        f: F,
    ) -> Waitable<impl Source<Output = Result<(), ForceError>> + use<'a, F>>
    where
        F: FnOnce(),
    {
        self.0.init_source(Called::of::<Self>(), done_by(f)).map(|done| done.copied())
    }

    /// Waits until somebody has done it.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Errors
    /// As for [`call_once`](Once::call_once).
    ///
    /// # Examples
    ///
    /// ```
    /// let once = segue::sync::Once::new();
    /// once.call_once(|| ())?;
    /// assert_eq!(once.wait(), Ok(()));
    /// # Ok::<(), segue::sync::ForceError>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> Result<(), ForceError> {
        self.0.wait().copied()
    }

    /// [`wait`](Once::wait) as a source.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let once = segue::sync::Once::new();
    /// once.call_once(|| ()).unwrap();
    /// assert_eq!(once.wait_source().await, Ok(()));
    /// # }
    /// ```
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = Result<(), ForceError>>> {
        self.0.wait_source().map(|done| done.copied())
    }

    /// Whether it is done. Never waits: one load.
    #[must_use]
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.0.get().is_some()
    }
}

/// `f` as an initialiser, which does not fail.
fn done_by(f: impl FnOnce()) -> impl FnOnce() -> Result<(), Infallible> {
    || {
        f();
        Ok(())
    }
}
