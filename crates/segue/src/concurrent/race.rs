//! Closures that run at the same time: all of them, or until one decides.
//!
//! Used by applications, through `concurrent`.
//!
//! Each closure is a fiber of one scope. One that ends the race exchanges its number into a word
//! and cancels the scope: the exchange is the commit point, and a closure that ends later finds the
//! word taken. The scope's end waits for all others, which are cancelled, and takes their results.

use super::Incomplete;
use crate::scope;
use segue_core::{Cancelled, JoinError, after};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// No closure has decided the race.
const NONE: usize = usize::MAX;

/// The one that came first, and the results of the others after their cancellation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First<T, O = T> {
    /// The number of the closure that came first.
    pub index: usize,
    /// Its result.
    pub value: T,
    /// The results of the others, with their numbers, in order. Those that never began are not
    /// here.
    pub others: Vec<(usize, O)>,
}

/// No closure has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoneOk<E> {
    /// The errors, with the numbers of their closures, in order.
    pub errors: Vec<(usize, E)>,
    /// Why some were not begun, if so.
    pub cancelled: Option<Cancelled>,
}

impl<E: fmt::Display> fmt::Display for NoneOk<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cancelled, self.errors.last()) {
            (Some(cancelled), _) => write!(f, "none has succeeded, and not all were tried: {cancelled}"),
            (None, Some((index, error))) => write!(f, "none has succeeded; number {index} failed: {error}"),
            (None, None) => f.write_str("none has succeeded: there was nothing to try"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for NoneOk<E> {
    /// As of the cancellation, if there is nothing else.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cancelled.as_ref().filter(|_| self.errors.is_empty())?.source()
    }
}

/// The results, and the number of the deciding one.
struct Ended<T> {
    results: Vec<Option<T>>,
    first: Option<usize>,
    /// Why some were not begun, where nobody had decided.
    cancelled: Option<Cancelled>,
}

/// Runs the closures until one decides, and waits for the others.
#[track_caller]
fn run<F, T>(closures: impl IntoIterator<Item = F>, decides: impl Fn(&T) -> bool + Sync) -> Ended<T>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let first = AtomicUsize::new(NONE);
    let fibers = scope(|s| {
        let mut fibers = Vec::new();
        for (index, closure) in closures.into_iter().enumerate() {
            if first.load(Ordering::Relaxed) != NONE {
                break;
            }
            let (first, decides) = (&first, &decides);
            fibers.push(s.spawn(move || {
                let value = closure();
                if decides(&value) && first.compare_exchange(NONE, index, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                {
                    s.cancel();
                }
                value
            }));
        }
        fibers
    });
    let mut cancelled = None;
    // The scope has waited for them, and has raised the panic of one.
    let results = fibers.into_iter().map(|fiber| match fiber.join() {
        Ok(value) => Some(value),
        Err(JoinError::NeverRan(why) | JoinError::Cancelled(why) | JoinError::WaitCancelled(why, _)) => {
            cancelled.get_or_insert(why);
            None
        }
        Err(JoinError::Panicked(_)) => None,
    });
    let results = results.collect();
    let first = Some(first.into_inner()).filter(|&first| first != NONE);
    Ended { results, cancelled: cancelled.filter(|_| first.is_none()), first }
}

impl<T> Ended<T> {
    /// The one that decided, and the others.
    fn split(self) -> Result<First<T>, Self> {
        let Some(index) = self.first else { return Err(self) };
        let (mut value, mut others) = (None, Vec::new());
        for (number, result) in self.results.into_iter().enumerate() {
            match result {
                Some(result) if number == index => value = Some(result),
                Some(result) => others.push((number, result)),
                None => {}
            }
        }
        Ok(First { index, value: value.expect("it has ended with a value"), others })
    }
}

/// Runs all closures at the same time, each in a fiber, and waits for all. Their results come in
/// the order of the closures.
///
/// A closure that fails stops nobody: closures that an error is to stop belong into a
/// [`scope`](crate::scope) of its own.
///
/// # Cancellation
/// *Loses nothing*: the closures that have begun are cancelled with the caller, and their results
/// are returned, in the error if others were never begun. *May already have happened*: their
/// effects.
///
/// # Errors
/// [`Incomplete`] if the caller was cancelled before each closure had begun.
///
/// # Panics
/// With the first panic of a closure or of the iterator, when all have ended.
///
/// # Examples
///
/// ```
/// use segue::concurrent::join_all;
///
/// let numbers = [1, 2, 3];
/// let squares = join_all(numbers.iter().map(|n| move || n * n))?;
/// assert_eq!(squares, [1, 4, 9]);
/// # Ok::<(), segue::Cancelled>(())
/// ```
#[track_caller]
pub fn join_all<F, T>(closures: impl IntoIterator<Item = F>) -> Result<Vec<T>, Incomplete<T>>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let Ended { results, cancelled, .. } = run(closures, |_| false);
    match cancelled {
        None => Ok(results.into_iter().flatten().collect()),
        Some(error) => Err(Incomplete { results, error }),
    }
}

/// Runs all closures at the same time, each in a fiber, until the first of them ends. The others
/// are cancelled and waited for, and their results come beside the first value: a connection that
/// was made a moment too late is there to be used or closed.
///
/// The first is the closure that ends before the others, with any result; [`first_ok`] is for
/// closures that may fail. Of no closures none ends: the call waits for its cancellation.
///
/// A loser that does not wait, or ignores its cancellation, holds the race up.
///
/// # Cancellation
/// The closures are cancelled with the caller; the first that then ends is the first. *Loses
/// nothing*: every result is returned. *May already have happened*: their effects.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled before a closure had begun.
///
/// # Panics
/// With the first panic of a closure or of the iterator, when all have ended.
///
/// # Examples
///
/// ```
/// use segue::concurrent::race;
/// use std::time::Duration;
///
/// let pauses = [Duration::MAX, Duration::from_millis(1)];
/// let first = race(pauses.map(|pause| move || segue::sleep(pause)))?;
/// assert_eq!((first.index, first.value), (1, Ok(())));
/// assert!(first.others[0].1.is_err(), "it was cancelled");
/// # Ok::<(), segue::Cancelled>(())
/// ```
///
/// # Sources
/// The paper on Gears, section 3: `race`, and groups that cancel the rest. Eio's `Fiber.any` drops
/// a loser's result, unless a function combines the two.
#[track_caller]
pub fn race<F, T>(closures: impl IntoIterator<Item = F>) -> Result<First<T>, Cancelled>
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    match run(closures, |_| true).split() {
        Ok(first) => Ok(first),
        Err(Ended { cancelled: Some(cancelled), .. }) => Err(cancelled),
        Err(Ended { cancelled: None, .. }) => Err(forever()),
    }
}

/// Runs all closures at the same time, each in a fiber, until the first of them succeeds. The
/// others are cancelled and waited for, and their results come beside the first value.
///
/// # Cancellation
/// The closures are cancelled with the caller. *Loses nothing*: every result is returned. *May
/// already have happened*: their effects.
///
/// # Errors
/// [`NoneOk`] with all errors if none succeeds; of no closures none does.
///
/// # Panics
/// With the first panic of a closure or of the iterator, when all have ended.
///
/// # Examples
///
/// ```
/// use segue::concurrent::first_ok;
///
/// let first = first_ok(["many", "7"].map(|text| move || text.parse::<u32>())).unwrap();
/// assert_eq!((first.index, first.value), (1, 7));
/// ```
#[track_caller]
pub fn first_ok<F, T, E>(closures: impl IntoIterator<Item = F>) -> Result<First<T, Result<T, E>>, NoneOk<E>>
where
    F: FnOnce() -> Result<T, E> + Send,
    T: Send,
    E: Send,
{
    match run(closures, Result::is_ok).split() {
        Ok(First { index, value: Ok(value), others }) => Ok(First { index, value, others }),
        Ok(First { value: Err(_), .. }) => unreachable!("only a success decides"),
        Err(Ended { results, cancelled, .. }) => {
            let errors = results.into_iter().enumerate().filter_map(|(index, result)| Some((index, result?.err()?)));
            Err(NoneOk { errors: errors.collect(), cancelled })
        }
    }
}

/// Waits for nothing, until that is cancelled.
#[track_caller]
fn forever() -> Cancelled {
    loop {
        if let Err(cancelled) = after(Duration::MAX).wait() {
            return cancelled;
        }
    }
}
