//! A cell that the first caller initialises, once, while every later one waits for the value in its
//! own way.
//!
//! Used for values that are computed once and read often, by fibers, threads and tasks alike;
//! [`Lazy`](super::Lazy) and [`Once`](super::Once) are made of it.
//!
//! The file holds the value and the calls. The right to initialise, the waiters, cancelled and
//! recursive forces are in `entry.rs`. The rule between the two: the holder of the right writes the
//! value before the store of `full`; all others read the value only after that.
//!
//! # Orderings
//!
//! | release | acquire | carries |
//! | --- | --- | --- |
//! | the store of `full`, by the filler | the load of `full`, in `get` | the value |

#![allow(unsafe_code)] // The cell of the value.

use segue_core::{Cancelled, Map, Owner, Source, WaitQueue, Waitable, WaitsFor, preemption_point, wait};
use std::cell::UnsafeCell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Rejected;

use super::entry::{Entry, Force, Forcing, INITIALISE, READ, Right, State};
use super::force_error::{Called, ForceError, Recursive, SetError};
use super::outside;

/// A cell that is initialised once, in the shape of [`std::sync::OnceLock`].
///
/// The first caller runs its initialiser; a caller that comes meanwhile waits: a fiber is
/// suspended, a thread parked, a task pending. An initialiser may wait itself. If an initialiser
/// fails, panics or is cancelled, the next caller that brought an initialiser runs its own, in the
/// order in which they came, and nothing is poisoned.
///
/// In the body of a [transaction](crate::stm) a force that would have to wait fails, to be passed
/// on by `?`; the transaction begins again when an initialiser has ended.
///
/// Once the cell is full, to get its value is one load and one branch. That is not a wait, so a
/// cancelled caller gets the value, too.
///
/// # Examples
///
/// ```
/// use segue::sync::OnceCell;
///
/// static CONFIG: OnceCell<String> = OnceCell::new();
///
/// let config = CONFIG.get_or_init(|| String::from("loaded"))?;
/// assert_eq!(config, "loaded");
/// assert_eq!(CONFIG.get(), Some(config));
/// # Ok::<(), segue::sync::ForceError>(())
/// ```
pub struct OnceCell<T> {
    full: AtomicBool,
    /// The holder of the right to initialise, for dumps.
    pub(super) owner: Owner,
    pub(super) state: WaitQueue<State, Right, 2>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: a shared cell gives shared access to the value, and moves it in from the thread that
// initialises; the other fields are atomic or locked.
unsafe impl<T: Send + Sync> Sync for OnceCell<T> {}
// SAFETY: the cell owns its value, and nobody waits in a cell that is moved.
unsafe impl<T: Send> Send for OnceCell<T> {}
impl<T: RefUnwindSafe + UnwindSafe> RefUnwindSafe for OnceCell<T> {}
impl<T: UnwindSafe> UnwindSafe for OnceCell<T> {}

impl<T> OnceCell<T> {
    /// An empty cell.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            full: AtomicBool::new(false),
            owner: Owner::new(),
            state: WaitQueue::new(State::EMPTY),
            value: UnsafeCell::new(None),
        }
    }

    pub(super) fn waiting<const LIST: usize>(&self, called: Called) -> Forcing<'_, T, LIST> {
        let waits_for = WaitsFor { what: called.what, at: called.at };
        self.state.operation(waits_for, Force { cell: self, called })
    }

    /// Writes the value of a cell that is not full yet, and makes the value known to all.
    ///
    /// # Safety
    /// For the holder of the right to initialise this cell.
    pub(super) unsafe fn put(&self, value: T) {
        // SAFETY: nobody else has the right, so nobody else writes; and nobody reads before the
        // cell is full.
        unsafe { *self.value.get() = Some(value) };
        self.full.store(true, Ordering::Release);
    }

    /// The value of a full cell.
    ///
    /// # Safety
    /// `put` has returned, and the caller has acquired what came before that.
    #[inline]
    pub(super) unsafe fn value(&self) -> &T {
        debug_assert!(self.full.load(Ordering::Relaxed));
        // SAFETY: `put` has put the value there, as the caller promises, and nobody writes or takes
        // the value while the cell is shared.
        unsafe { (*self.value.get()).as_ref().unwrap_unchecked() }
    }

    /// The value, if the cell is full. Never waits: one load.
    ///
    /// # Examples
    ///
    /// ```
    /// let cell = segue::sync::OnceCell::new();
    /// assert_eq!(cell.get(), None);
    /// cell.try_set(1).unwrap();
    /// assert_eq!(cell.get(), Some(&1));
    /// ```
    #[inline]
    pub fn get(&self) -> Option<&T> {
        preemption_point();
        // SAFETY: `full` is stored by `put`, which releases the value, and acquired here.
        self.full.load(Ordering::Acquire).then(|| unsafe { self.value() })
    }

    /// The value, to change: the cell is borrowed exclusively, so nobody waits.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// The value; the cell is empty then.
    ///
    /// # Examples
    ///
    /// ```
    /// let mut cell = segue::sync::OnceCell::from(1);
    /// assert_eq!((cell.take(), cell.take()), (Some(1), None));
    /// ```
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }

    /// The value, if there is one.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// The value, after initialising the cell by `f` if empty.
    ///
    /// If somebody else is initialising the cell, the caller waits, and runs `f` only if the others
    /// have failed; in the order of arrival. `f` may wait.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; `f` was not run then. A full cell gives its value to a
    /// cancelled caller, too.
    ///
    /// # Errors
    /// [`ForceError::Recursive`] if the caller is inside of this cell's initialiser: on its fiber,
    /// or on one for which that fiber waits without fail (a scope's, the other half of a `join`, a
    /// call that blocks or moves to another scheduler); [`ForceError::Cancelled`] if the caller was
    /// cancelled.
    ///
    /// # Panics
    /// If `f` does. The next waiter runs its own then.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::{ForceError, OnceCell};
    ///
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.get_or_init(|| 6 * 7), Ok(&42));
    /// assert_eq!(cell.get_or_init(|| unreachable!()), Ok(&42));
    ///
    /// let knot: OnceCell<u32> = OnceCell::new();
    /// let tied = knot.get_or_try_init(|| Ok::<_, ForceError>(1 + knot.get_or_init(|| 1)?));
    /// assert!(matches!(tied, Err(ForceError::Failed(ForceError::Recursive(_)))));
    /// ```
    #[inline]
    #[track_caller]
    pub fn get_or_init<F: FnOnce() -> T>(&self, f: F) -> Result<&T, ForceError> {
        self.get_or_try_init(|| Ok(f()))
    }

    /// As [`get_or_init`](OnceCell::get_or_init), by an `f` that may fail. A failure is the
    /// caller's own: the next waiter tries with its own initialiser.
    ///
    /// # Cancellation
    /// As for [`get_or_init`](OnceCell::get_or_init).
    ///
    /// # Errors
    /// [`ForceError::Failed`] with the error of `f`, and those of
    /// [`get_or_init`](OnceCell::get_or_init).
    ///
    /// # Panics
    /// If `f` does.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::sync::{ForceError, OnceCell};
    ///
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.get_or_try_init(|| Err("no network")), Err(ForceError::Failed("no network")));
    /// assert_eq!(cell.get_or_try_init(|| Ok::<_, &str>(42)), Ok(&42));
    /// ```
    #[inline]
    #[track_caller]
    pub fn get_or_try_init<F, E>(&self, f: F) -> Result<&T, ForceError<E>>
    where
        F: FnOnce() -> Result<T, E>,
    {
        match self.get() {
            Some(value) => Ok(value),
            None => self.force(Called::of::<Self>(), f),
        }
    }

    /// Forces a cell that is not full.
    #[cold]
    pub(super) fn force<E>(&self, called: Called, f: impl FnOnce() -> Result<T, E>) -> Result<&T, ForceError<E>> {
        self.entry_to_run::<ForceError<E>>(called)?.run(|| make(f))
    }

    /// The value, or the right to initialise the cell, which the caller uses or drops before its
    /// return: an initialiser of its own.
    #[inline]
    pub(super) fn entry_to_run<E: From<Cancelled> + From<Recursive>>(&self, called: Called) -> Result<Entry<'_, T>, E> {
        Ok(wait_or_stop(&mut self.waiting::<INITIALISE>(called))??)
    }

    /// The source of a force, which yields the result of `then` on the entry, in the call or poll
    /// of its arrival.
    pub(super) fn force_source<'a, R, F>(&'a self, called: Called, then: F) -> Map<Forcing<'a, T>, F>
    where
        F: FnMut(Result<Entry<'a, T>, Recursive>) -> R,
    {
        Map::new(self.waiting::<INITIALISE>(called), then)
    }

    pub(super) fn init_source<'a, F, E>(
        &'a self,
        called: Called,
        f: F,
    ) -> Waitable<impl Source<Output = Result<&'a T, ForceError<E>>> + use<'a, T, F, E>>
    where
        F: FnOnce() -> Result<T, E>,
    {
        let mut f = Some(f);
        let mut run = move || f.take().expect("an initialiser is run once")();
        Waitable::new(self.force_source(called, move |entry| entry?.run(|| make(&mut run))))
    }

    /// [`get_or_init`](OnceCell::get_or_init) as a source: to be awaited, or chosen among others.
    ///
    /// For a task: the source waits until the cell is full or the task may initialise it; in the
    /// latter case `f` runs inside of the poll that gets the right, like any other synchronous code
    /// of the task. So an `f` that waits blocks whatever polls: a fiber is only suspended, a thread
    /// is parked. To initialise by an `async` block, take the [entry](OnceCell::entry_source).
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; `f` was not run then. A task that might run `f`, and is
    /// dropped before its next poll, leaves that to the next.
    ///
    /// # Panics
    /// If `f` does. Or in an attempt after a panic of `f`, which was used up.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let cell = segue::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_init_source(|| 6 * 7).await, Ok(&42));
    /// # }
    /// ```
    #[track_caller]
    pub fn get_or_init_source<'a, F>(
        &'a self,
        f: F,
    ) -> Waitable<impl Source<Output = Result<&'a T, ForceError>> + use<'a, T, F>>
    where
        F: FnOnce() -> T,
    {
        self.get_or_try_init_source(|| Ok(f()))
    }

    /// [`get_or_try_init`](OnceCell::get_or_try_init) as a source, as
    /// [`get_or_init_source`](OnceCell::get_or_init_source).
    ///
    /// # Cancellation
    /// As for [`get_or_init_source`](OnceCell::get_or_init_source).
    ///
    /// # Panics
    /// As for [`get_or_init_source`](OnceCell::get_or_init_source); or in an attempt after a
    /// failure of `f`.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let cell = segue::sync::OnceCell::new();
    /// assert_eq!(cell.get_or_try_init_source(|| "42".parse::<u32>()).await, Ok(&42));
    /// # }
    /// ```
    #[track_caller]
    pub fn get_or_try_init_source<'a, F, E>(
        &'a self,
        f: F,
    ) -> Waitable<impl Source<Output = Result<&'a T, ForceError<E>>> + use<'a, T, F, E>>
    where
        F: FnOnce() -> Result<T, E>,
    {
        self.init_source(Called::of::<Self>(), f)
    }

    /// Waits until another caller has initialised the cell. The wait does not initialise the cell,
    /// nor take over from a caller that has failed.
    ///
    /// # Cancellation
    /// *No effect*: the cell can be waited for again. A full cell gives its value to a cancelled
    /// caller, too.
    ///
    /// # Errors
    /// [`ForceError::Recursive`] if the caller is inside of this cell's initialiser: on its fiber,
    /// or on one for which that fiber waits without fail (a scope's, the other half of a `join`, a
    /// call that blocks or moves to another scheduler); [`ForceError::Cancelled`] if the caller was
    /// cancelled.
    ///
    /// # Examples
    ///
    /// ```
    /// let cell = segue::sync::OnceCell::new();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(cell.wait(), Ok(&42)));
    ///     cell.set(42).unwrap();
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> Result<&T, ForceError> {
        match self.get() {
            Some(value) => Ok(value),
            None => wait_or_stop(&mut self.reading(Called::of::<Self>()))?,
        }
    }

    /// [`wait`](OnceCell::wait) as a source.
    ///
    /// # Cancellation
    /// *No effect*.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let cell = segue::sync::OnceCell::from(1);
    /// assert_eq!(cell.wait_source().await, Ok(&1));
    /// # }
    /// ```
    #[track_caller]
    pub fn wait_source(&self) -> Waitable<impl Source<Output = Result<&T, ForceError>>> {
        Waitable::new(self.reading(Called::of::<Self>()))
    }

    #[cold]
    fn reading(&self, called: Called) -> impl Source<Output = Result<&T, ForceError>> {
        Map::new(self.waiting::<READ>(called), |entry| match entry? {
            Entry::Full(value) => Ok(value),
            Entry::Empty(_) => unreachable!("it did not ask for the right"),
        })
    }

    /// Fills the cell with `value` if nobody else does. If somebody is initialising the cell, the
    /// outcome is waited for.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*, and gives the value back.
    ///
    /// # Errors
    /// [`SetError::Full`] if the cell is full; and those of [`get_or_init`](OnceCell::get_or_init).
    /// Each gives the value back.
    ///
    /// # Examples
    ///
    /// ```
    /// let cell = segue::sync::OnceCell::new();
    /// assert!(cell.set(1).is_ok());
    /// assert_eq!(cell.set(2).unwrap_err().value, 2);
    /// ```
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), Rejected<T, SetError>> {
        match self.get() {
            Some(full) => set(Ok(Entry::Full(full)), value),
            None => set(self.entry_to_run(Called::of::<Self>()), value),
        }
    }

    /// [`set`](OnceCell::set) as a source, which holds the value meanwhile.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*; the value is dropped with the source.
    ///
    /// # Panics
    /// In an attempt after an outcome.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn example() {
    /// let cell = segue::sync::OnceCell::new();
    /// assert!(cell.set_source(42).await.is_ok());
    /// # }
    /// ```
    #[track_caller]
    pub fn set_source(&self, value: T) -> Waitable<impl Source<Output = Result<(), Rejected<T, SetError>>>> {
        let mut value = Some(value);
        Waitable::new(self.force_source(Called::of::<Self>(), move |entry| {
            set(entry.map_err(SetError::from), value.take().expect("a value is set once"))
        }))
    }

    /// Fills the cell with `value` if it is empty and nobody is at that. Never waits.
    ///
    /// # Errors
    /// [`SetError::Full`] if the cell is full, and [`SetError::Busy`] if somebody initialises the
    /// cell, also the caller. Each gives the value back.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue::Rejected;
    /// use segue::sync::{OnceCell, SetError};
    ///
    /// let cell = OnceCell::new();
    /// assert_eq!(cell.try_set(1), Ok(()));
    /// assert_eq!(cell.try_set(2), Err(Rejected { value: 2, error: SetError::Full }));
    /// ```
    pub fn try_set(&self, value: T) -> Result<(), Rejected<T, SetError>> {
        set(self.try_entry().ok_or(SetError::Busy), value)
    }
}

/// Waits, or stops the body of a transaction.
#[inline(always)] // As `wait`.
fn wait_or_stop<S: Source>(source: &mut S) -> Result<S::Output, Cancelled> {
    match outside::look(|| source.attempt()) {
        Some(in_body) => in_body,
        None => wait(source),
    }
}

/// Calls an initialiser. In the body of a transaction that is to begin again it fails, whatever it
/// returns: that may come from the stop itself.
pub(super) fn make<T, E>(f: impl FnOnce() -> Result<T, E>) -> Result<T, ForceError<E>> {
    let value = outside::apart(f).map_err(ForceError::Failed)?;
    outside::look(|| Some(())).unwrap_or(Ok(()))?;
    Ok(value)
}

/// Fills the cell of this entry, if that is empty.
fn set<T>(entry: Result<Entry<'_, T>, SetError>, value: T) -> Result<(), Rejected<T, SetError>> {
    let error = match entry {
        Ok(Entry::Empty(initializer)) => {
            initializer.fill(value);
            return Ok(());
        }
        Ok(Entry::Full(_)) => SetError::Full,
        Err(error) => error,
    };
    Err(Rejected { value, error })
}

impl<T> Default for OnceCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceCell<T> {
    fn from(value: T) -> Self {
        let full = AtomicBool::new(true);
        Self { full, owner: Owner::new(), state: WaitQueue::new(State::FULL), value: UnsafeCell::new(Some(value)) }
    }
}

impl<T: Clone> Clone for OnceCell<T> {
    /// A cell of its own with a clone of the value; empty if this one is not full.
    fn clone(&self) -> Self {
        self.get().cloned().map_or_else(Self::new, Self::from)
    }
}

impl<T: PartialEq> PartialEq for OnceCell<T> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceCell<T> {}

impl<T: std::fmt::Debug> std::fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_tuple("OnceCell");
        match self.get() {
            Some(value) => debug.field(value).finish(),
            None => debug.field(&format_args!("<uninit>")).finish(),
        }
    }
}
