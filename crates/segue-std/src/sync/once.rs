//! std's types for one initialisation: by a closure that may wait.

use crate::cancelled::{unless_cancelled, wait};
use segue::core::{WaitQueue, Waitable, WaitsFor};
use segue::sync::{self, ForceError, SetError};
use segue::{Either, Rejected};
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::{fmt, mem};

/// The result of an initialiser; std's cells panic where ours fail.
#[track_caller]
fn forced<T>(result: Result<T, ForceError>) -> T {
    match result {
        Ok(value) => value,
        Err(ForceError::Cancelled(cancelled)) => resume_unwind(Box::new(cancelled)),
        Err(error) => panic!("{error}"),
    }
}

/// [`std::sync::Once`]: a closure that is run once, and that others wait for.
///
/// # Cancellation
/// The wait for somebody else's closure unwinds; see [the module](crate).
///
/// # Examples
///
/// ```
/// use segue_std::sync::Once;
///
/// static START: Once = Once::new();
/// START.call_once(|| println!("started"));
/// START.call_once(|| unreachable!());
/// assert!(START.is_completed());
/// ```
#[derive(Default)]
pub struct Once {
    once: sync::Once,
    /// Whether the closure that was run last has panicked, for those that only wait.
    poisoned: WaitQueue<bool>,
}

/// The panic of a caller that comes after one.
const POISONED: &str = "a `Once` whose closure has panicked before";

/// [`std::sync::OnceState`]: what a closure of [`Once::call_once_force`] comes after.
#[derive(Debug)]
pub struct OnceState {
    poisoned: bool,
}

impl OnceState {
    /// Whether an earlier closure has panicked.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }
}

impl Once {
    /// Not done yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { once: sync::Once::new(), poisoned: WaitQueue::new(false) }
    }

    /// Runs `f`, unless somebody has done so; if somebody is at that, waits for the end.
    ///
    /// # Panics
    /// If `f` does; from then on always. In a recursive call from `f`.
    #[track_caller]
    pub fn call_once<F: FnOnce()>(&self, f: F) {
        self.call_once_force(|state| {
            assert!(!state.poisoned, "{POISONED}");
            f();
        });
    }

    /// As [`call_once`](Once::call_once), also after a panic.
    ///
    /// # Panics
    /// If `f` panics, or in a recursive call.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_std::sync::Once;
    ///
    /// let start = Once::new();
    /// let failed = segue_std::thread::scope(|s| s.spawn(|| start.call_once(|| panic!("out of ink"))).join());
    /// assert!(failed.is_err());
    /// start.call_once_force(|state| assert!(state.is_poisoned()));
    /// assert!(start.is_completed());
    /// ```
    #[track_caller]
    pub fn call_once_force<F: FnOnce(&OnceState)>(&self, f: F) {
        let run = || {
            // A caller that waits meanwhile waits for the end of this one.
            let state = OnceState { poisoned: mem::take(self.poisoned.lock().state()) };
            let outcome = catch_unwind(AssertUnwindSafe(|| f(&state)));
            outcome.unwrap_or_else(|payload| {
                let mut poisoned = self.poisoned.lock();
                *poisoned.state() = true;
                poisoned.notify_all(0);
                resume_unwind(payload);
            });
        };
        forced(wait!(self.once.call_once(run)));
    }

    /// Waits until somebody else has initialised.
    ///
    /// # Cancellation
    /// Unwinds; see [the module](crate).
    ///
    /// # Panics
    /// If a closure has panicked, or panics during the wait. In the closure itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_std::{sync::Once, thread};
    ///
    /// let started = Once::new();
    /// thread::scope(|s| {
    ///     s.spawn(|| started.call_once(|| ()));
    ///     started.wait();
    /// });
    /// assert!(started.is_completed());
    /// ```
    #[track_caller]
    pub fn wait(&self) {
        if self.is_completed() {
            return;
        }
        let poisoned = self.poisoned.source(WaitsFor::new("a `Once`"), |poisoned| *poisoned, |_| ());
        match unless_cancelled(wait!(self.once.wait_source().or(Waitable::new(poisoned)).wait())) {
            Either::Left(done) => forced(done),
            Either::Right(()) => panic!("{POISONED}"),
        }
    }

    /// As [`wait`](Once::wait), but a panic does not count: somebody may yet initialise by
    /// [`call_once_force`](Once::call_once_force).
    ///
    /// # Cancellation
    /// Unwinds; see [the module](crate).
    ///
    /// # Panics
    /// In the closure itself.
    #[track_caller]
    pub fn wait_force(&self) {
        forced(wait!(self.once.wait()));
    }

    /// Whether the initialisation is done. Never waits.
    pub fn is_completed(&self) -> bool {
        self.once.is_completed()
    }
}

/// As [`Once::new`].
#[deprecated(note = "`Once::new` is const")]
#[expect(clippy::declare_interior_mutable_const, reason = "as std's")]
pub const ONCE_INIT: Once = Once::new();

segue::core::impl_debug!([] Once, |it| is_completed: it.is_completed());

/// [`std::sync::OnceLock`]: a value that is set once.
///
/// # Cancellation
/// The wait for somebody else's initialiser unwinds; see [the module](crate).
///
/// # Examples
///
/// ```
/// use segue_std::sync::OnceLock;
///
/// static NAME: OnceLock<String> = OnceLock::new();
/// assert_eq!(NAME.get_or_init(|| "one".to_owned()), "one");
/// assert_eq!(NAME.set("two".to_owned()), Err("two".to_owned()));
/// ```
#[derive(Debug, Default)]
pub struct OnceLock<T>(sync::OnceCell<T>);

impl<T> OnceLock<T> {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::OnceCell::new())
    }

    /// The value, if set. Never waits.
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// The value, to change, if set.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.0.get_mut()
    }

    /// Sets the value; waits for a caller that is initialising.
    ///
    /// # Errors
    /// If the cell was set: with the value.
    ///
    /// # Panics
    /// In a call from the initialiser.
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        match wait!(self.0.set(value)) {
            Ok(()) => Ok(()),
            Err(Rejected { value, error: SetError::Full }) => Err(value),
            Err(Rejected { error: SetError::Cancelled(cancelled), .. }) => resume_unwind(Box::new(cancelled)),
            Err(Rejected { error, .. }) => panic!("{error}"),
        }
    }

    /// The value, which `f` makes if there is none. Others wait meanwhile.
    ///
    /// # Panics
    /// If `f` does: then there is no value, and the next caller's is run. In a recursive call from
    /// `f`.
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> &T {
        forced(wait!(self.0.get_or_init(f)))
    }

    /// The value, after waiting until somebody else has set one.
    ///
    /// # Cancellation
    /// Unwinds; see [the module](crate).
    ///
    /// # Panics
    /// In the initialiser.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_std::{sync::OnceLock, thread};
    ///
    /// let name = OnceLock::new();
    /// thread::scope(|s| {
    ///     s.spawn(|| name.set("one").unwrap());
    ///     assert_eq!(*name.wait(), "one");
    /// });
    /// ```
    #[track_caller]
    pub fn wait(&self) -> &T {
        forced(wait!(self.0.wait()))
    }

    /// The value, if set.
    pub fn into_inner(self) -> Option<T> {
        self.0.into_inner()
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(Self::new, Self::from)
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        Self(sync::OnceCell::from(value))
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

/// [`std::sync::LazyLock`]: a value that its first user computes.
///
/// # Cancellation
/// The wait for somebody else's computation unwinds; see [the module](crate).
///
/// # Examples
///
/// ```
/// use segue_std::sync::LazyLock;
///
/// static PRIMES: LazyLock<Vec<u32>> = LazyLock::new(|| vec![2, 3, 5, 7]);
/// assert_eq!(PRIMES[3], 7);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    cell: sync::OnceCell<T>,
    /// None after the call, which the cell makes of one at a time.
    init: Mutex<Option<F>>,
}

impl<T, F> LazyLock<T, F> {
    /// The value, if computed. Never waits.
    pub fn get(this: &Self) -> Option<&T> {
        this.cell.get()
    }

    /// The value, to change, if computed.
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        this.cell.get_mut()
    }
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `f` will compute.
    #[must_use]
    pub const fn new(f: F) -> Self {
        Self { cell: sync::OnceCell::new(), init: Mutex::new(Some(f)) }
    }

    /// The value, after the computation here or elsewhere.
    ///
    /// # Panics
    /// If the computation does, or has, or needs the value.
    #[track_caller]
    pub fn force(this: &Self) -> &T {
        let init = || {
            let init = this.init.lock().unwrap_or_else(PoisonError::into_inner).take();
            init.expect("a `LazyLock` whose computation has panicked before")()
        };
        forced(wait!(this.cell.get_or_init(init)))
    }

    /// The value, to change, after the computation.
    ///
    /// # Panics
    /// If the computation does, or has.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_std::sync::LazyLock;
    ///
    /// let mut primes = LazyLock::new(|| vec![2, 3]);
    /// LazyLock::force_mut(&mut primes).push(5);
    /// assert_eq!(LazyLock::get(&primes).unwrap().len(), 3);
    /// ```
    #[track_caller]
    pub fn force_mut(this: &mut Self) -> &mut T {
        Self::force(this);
        this.cell.get_mut().expect("it was just computed")
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    #[track_caller]
    fn deref_mut(&mut self) -> &mut T {
        Self::force_mut(self)
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[track_caller]
    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cell.get() {
            Some(value) => f.debug_tuple("LazyLock").field(value).finish(),
            None => f.write_str("LazyLock(<uninit>)"),
        }
    }
}
