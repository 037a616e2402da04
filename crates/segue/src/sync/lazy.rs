//! A value that its first user computes, while every later one waits for it in its own way.
//!
//! Used for values that a program may need, often in a `static`, by fibers, threads and tasks
//! alike.
//!
//! A lazy value is a [`OnceCell`] (`entry.rs` has the states and the argument) and the closure that
//! initialises the cell. The holder of the right to initialise the cell runs the closure, so one at
//! a time, and drops the closure as soon as the value is made.
//!
//! # Two decisions
//!
//! **The closure is `FnMut`**, where std takes `FnOnce`. An initialiser that is cancelled, fails or
//! panics hands over to the next waiter, which has to run the closure again; with `FnOnce` the
//! first failure would be the last word (std poisons, the thesis keeps the exception). `Fn` is not
//! needed, since that right excludes others: a `Lazy` can be shared as soon as the closure can be
//! sent. A closure that panicked is called again in the state after the panic.
//!
//! **There is no `Deref`.** A force may have to wait, a wait may be cancelled, and cancellation is
//! a value here, so `*lazy` would have to panic, or wait without being cancellable behind an
//! operator that looks like a load. So one writes `lazy.force()?`, and `lazy.get()` after a force.
//! Where cancellation must not show, `shield(|| lazy.force())`.

#![allow(unsafe_code)] // The cell of the closure.

use segue_core::{Source, Waitable};
use std::cell::UnsafeCell;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};

use super::force_error::Called;
use super::once_cell::make;
use super::{Entry, ForceError, OnceCell};

/// A value that is computed at its first use, in the shape of [`std::sync::LazyLock`].
///
/// The first force runs the closure, which may wait; a force that comes meanwhile waits for the
/// value: a fiber is suspended, a thread parked, a task pending. A further force is one load and
/// one branch. A closure that panics, or (with [`force_fallible`](Lazy::force_fallible)) fails, is
/// run again by the next waiter or newcomer.
///
/// In the body of a [transaction](crate::stm) a force that would have to wait fails, to be passed
/// on by `?`; the transaction begins again when an initialiser has ended.
///
/// There is no `Deref`, since a force can be cancelled, and cancellation never panics.
///
/// # Examples
///
/// ```
/// use segue::sync::Lazy;
///
/// static PRIMES: Lazy<Vec<u32>> = Lazy::named("PRIMES", || vec![2, 3, 5, 7]);
///
/// let fiber = segue::spawn(|| PRIMES.force().map(|primes| primes[3]));
/// assert_eq!(PRIMES.force()?[0], 2);
/// assert_eq!(fiber.join().unwrap(), Ok(7));
/// # Ok::<(), segue::sync::ForceError>(())
/// ```
///
/// With a closure that may fail:
///
/// ```
/// use segue::sync::{ForceError, Lazy};
///
/// let mut tries = 0;
/// let lazy = Lazy::new(move || {
///     tries += 1;
///     if tries == 1 { Err("not yet") } else { Ok(42) }
/// });
/// assert_eq!(lazy.force_fallible(), Err(ForceError::Failed("not yet")));
/// assert_eq!(lazy.force_fallible(), Ok(&42));
/// ```
pub struct Lazy<T, F = fn() -> T> {
    cell: OnceCell<T>,
    /// `None` once the cell is full. The holder of the right to initialise the cell has this
    /// closure.
    init: UnsafeCell<Option<F>>,
    name: Option<&'static str>,
    created: &'static Location<'static>,
}

// SAFETY: only the holder of the right to initialise the cell calls and drops the closure, one at a
// time, on any thread, hence `F: Send`; nothing shares it. The rest is as in the cell.
unsafe impl<T: Send + Sync, F: Send> Sync for Lazy<T, F> {}
impl<T: RefUnwindSafe + UnwindSafe, F: UnwindSafe> RefUnwindSafe for Lazy<T, F> {}
impl<T: UnwindSafe, F: UnwindSafe> UnwindSafe for Lazy<T, F> {}

impl<T, F> Lazy<T, F> {
    /// A value that `f` will compute.
    #[track_caller]
    #[must_use]
    pub const fn new(f: F) -> Self {
        Self { cell: OnceCell::new(), init: UnsafeCell::new(Some(f)), name: None, created: Location::caller() }
    }

    /// As [`new`](Lazy::new), with a name for errors and for reports of deadlocks.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::Lazy;
    ///
    /// static KNOT: Lazy<u32, fn() -> Result<u32, String>> = Lazy::named("KNOT", || {
    ///     KNOT.force_fallible().copied().map_err(|error| error.to_string())
    /// });
    /// assert!(KNOT.force_fallible().unwrap_err().to_string().contains("KNOT"));
    /// ```
    #[track_caller]
    #[must_use]
    pub const fn named(name: &'static str, f: F) -> Self {
        let mut lazy = Self::new(f);
        lazy.name = Some(name);
        lazy
    }

    /// The value, if forced. Never waits: one load.
    ///
    /// # Examples
    ///
    /// ```
    /// let lazy = segue::sync::Lazy::new(|| 42);
    /// assert_eq!(lazy.get(), None);
    /// lazy.force()?;
    /// assert_eq!(lazy.get(), Some(&42));
    /// # Ok::<(), segue::sync::ForceError>(())
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.cell.get()
    }

    /// The value, to change it, if forced.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.cell.get_mut()
    }

    /// The value.
    ///
    /// # Errors
    /// Gives the closure back if there is no value yet.
    pub fn into_inner(self) -> Result<T, F> {
        self.cell
            .into_inner()
            .ok_or_else(|| self.init.into_inner().expect("the closure is there until there is a value"))
    }

    #[track_caller]
    fn called(&self) -> Called {
        let what = self.name.unwrap_or(std::any::type_name::<Lazy<T>>());
        Called { what, created: Some(self.created), at: Location::caller() }
    }

    /// Calls the closure by `call` if the cell is empty.
    fn run<'a, E>(
        &'a self,
        entry: Entry<'a, T>,
        call: impl FnOnce(&mut F) -> Result<T, E>,
    ) -> Result<&'a T, ForceError<E>> {
        // Dropped after the cell was filled: a drop runs foreign code.
        let mut used = None;
        entry.run(|| {
            // SAFETY: `entry` runs this with the right to initialise the cell, which is there once,
            // and within the time of that right; nobody else looks into `init` of a shared lazy.
            let init = unsafe { &mut *self.init.get() };
            let value = make(|| call(init.as_mut().expect("the closure is there until there is a value")))?;
            used = init.take();
            Ok(value)
        })
    }
}

impl<T, F: FnMut() -> T> Lazy<T, F> {
    /// The value, after the computation here or by another caller.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; the closure was not run then. A value that is there is given
    /// to a cancelled caller, too.
    ///
    /// # Errors
    /// [`ForceError::Recursive`] if the caller is inside of the closure that computes this very
    /// value: on its fiber, or on one for which that fiber waits without fail (a scope's, the other
    /// half of a `join`, a call that blocks or moves to another scheduler);
    /// [`ForceError::Cancelled`] if the caller was cancelled.
    ///
    /// # Panics
    /// If the closure does. The next waiter runs it again.
    ///
    /// # Examples
    ///
    /// ```
    /// let lazy = segue::sync::Lazy::new(|| 6 * 7);
    /// assert_eq!(lazy.force(), Ok(&42));
    /// ```
    #[inline]
    #[track_caller]
    pub fn force(&self) -> Result<&T, ForceError> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.force_slowly(|init| Ok(init())),
        }
    }

    /// [`force`](Lazy::force) as a source. For a task, the closure runs inside of the poll that
    /// gets the right to run the closure, as for [`OnceCell::get_or_init_source`].
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; the closure was not run then.
    ///
    /// # Panics
    /// If the closure does.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let lazy = segue::sync::Lazy::new(|| 6 * 7);
    /// assert_eq!(lazy.force_source().await, Ok(&42));
    /// # }
    /// ```
    #[track_caller]
    pub fn force_source(&self) -> Waitable<impl Source<Output = Result<&T, ForceError>>> {
        Waitable::new(self.cell.force_source(self.called(), |entry| self.run(entry?, |init| Ok(init()))))
    }
}

impl<T, E, F: FnMut() -> Result<T, E>> Lazy<T, F> {
    /// As [`force`](Lazy::force), by a closure that may fail. A failure is the caller's own: the
    /// next waiter or newcomer runs the closure again.
    ///
    /// # Cancellation
    /// As for [`force`](Lazy::force). If the closure's own waits are cancelled, the force fails
    /// with that.
    ///
    /// # Errors
    /// [`ForceError::Failed`] with the closure's error, and those of [`force`](Lazy::force).
    ///
    /// # Panics
    /// If the closure does.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::{ForceError, Lazy};
    /// use segue::{Cancelled, sleep};
    /// use std::time::Duration;
    ///
    /// fn fetch() -> Result<u32, Cancelled> {
    ///     sleep(Duration::from_millis(1))?;
    ///     Ok(42)
    /// }
    ///
    /// static ANSWER: Lazy<u32, fn() -> Result<u32, Cancelled>> = Lazy::new(fetch);
    /// assert_eq!(ANSWER.force_fallible(), Ok(&42));
    /// ```
    #[inline]
    #[track_caller]
    pub fn force_fallible(&self) -> Result<&T, ForceError<E>> {
        match self.get() {
            Some(value) => Ok(value),
            None => self.force_slowly(|init| init()),
        }
    }

    /// [`force_fallible`](Lazy::force_fallible) as a source, as
    /// [`force_source`](Lazy::force_source).
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; the closure was not run then.
    ///
    /// # Panics
    /// If the closure does.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let lazy = segue::sync::Lazy::new(|| "42".parse::<u32>());
    /// assert_eq!(lazy.force_fallible_source().await, Ok(&42));
    /// # }
    /// ```
    #[track_caller]
    pub fn force_fallible_source(&self) -> Waitable<impl Source<Output = Result<&T, ForceError<E>>>> {
        Waitable::new(self.cell.force_source(self.called(), |entry| self.run(entry?, |init| init())))
    }
}

impl<T, F> Lazy<T, F> {
    #[cold]
    #[track_caller]
    fn force_slowly<E>(&self, call: impl FnOnce(&mut F) -> Result<T, E>) -> Result<&T, ForceError<E>> {
        let entry = self.cell.entry_to_run::<ForceError<E>>(self.called())?;
        self.run(entry, call)
    }
}

impl<T: std::fmt::Debug, F> std::fmt::Debug for Lazy<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_tuple(self.name.unwrap_or("Lazy"));
        match self.get() {
            Some(value) => debug.field(value).finish(),
            None => debug.field(&format_args!("<unforced>")).finish(),
        }
    }
}
