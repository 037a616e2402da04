//! Scopes of fibers that may fail: the first error, or panic, cancels the rest, and all are
//! returned.
//!
//! Used by applications, through `try_scope` and `Builder`. `scope.rs` has the rules of all
//! scopes, `spawn/failure.rs` those of failures.

use crate::spawn::default_runtime::{DefaultRuntime, StartDefault, Threads};
use crate::spawn::failure::ScopeError;
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::scope::{DROPPED_VALUE, Scope, where_it_may_be_captured};
use crate::tree::cancelled::Cancelled;
use crate::tree::context::look;
use std::error::Error;
use std::ops::Deref;
use std::panic::Location;

/// A [`Scope`] of fibers that may fail. See [`try_scope`].
#[derive(Debug)]
pub struct TryScope<'scope, 'env: 'scope>(Scope<'scope, 'env>);

impl<'scope, 'env> Deref for TryScope<'scope, 'env> {
    type Target = Scope<'scope, 'env>;

    fn deref(&self) -> &Scope<'scope, 'env> {
        &self.0
    }
}

/// As [`scope`](crate::scope), for a body and for fibers that return errors: the first error, or
/// panic, cancels the others, which find the failure as the reason in their [`Cancelled`].
///
/// When all have ended the call returns the body's value if nothing failed. Otherwise all failures
/// are in the [`ScopeError`], in its order. The error of a scope further in is taken to pieces: its
/// failures are in this one's.
///
/// An error that says only that the scope was cancelled is not a failure beside others. Alone this
/// is a failure if the caller was cancelled: then the work is not complete. If the scope was
/// cancelled by itself, by [`cancel`](Scope::cancel), the fibers have obeyed, and the body's value
/// counts.
///
/// # Cancellation
/// The scope's fibers are cancelled with the caller. The wait for them is not cut short, since they
/// may borrow.
///
/// # Errors
/// [`ScopeError`] if the body failed, a fiber of [`spawn_try`](TryScope::spawn_try), or whatever
/// [says so](TryScope::fail_with).
///
/// # Panics
/// If the first failure was a panic: as [`scope`](crate::scope) does. Later panics are in the
/// error, and so is that of dropping the body's value, in place of which the error is returned.
///
/// # Examples
///
/// ```
/// use segue_core::{ScopeError, try_scope};
/// use std::error::Error;
///
/// fn sum(words: &[&str]) -> Result<u32, ScopeError> {
///     try_scope(|s| {
///         let numbers: Vec<_> = words.iter().map(|word| s.spawn_try(|| word.parse::<u32>())).collect();
///         let mut sum = 0;
///         for number in numbers {
///             // A fiber that a sibling's failure keeps from running is not there to be joined either.
///             sum += number.join()??;
///         }
///         Ok::<_, Box<dyn Error + Send + Sync>>(sum)
///     })
/// }
/// assert_eq!(sum(&["1", "2"]).unwrap(), 3);
/// assert_eq!(sum(&["1", "two"]).unwrap_err().to_string(), "a fiber failed: invalid digit found in string");
/// ```
#[track_caller]
pub fn try_scope<'env, F, T, E>(f: F) -> Result<T, ScopeError>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env>) -> Result<T, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    try_scope_over(Threads::start, f)
}

/// As [`try_scope`], with another runtime behind plain threads: for crates that have one.
///
/// # Cancellation
/// As for [`try_scope`].
///
/// # Errors
/// As for [`try_scope`].
///
/// # Panics
/// As for [`try_scope`].
///
/// # Examples
///
/// ```
/// use segue_core::Cancelled;
/// use segue_core::build::{DefaultRuntime, Threads};
/// use segue_core::scheduling::try_scope_over;
///
/// let one = try_scope_over(Threads::start, |s| s.spawn_try(|| Ok::<_, Cancelled>(1)).join().unwrap());
/// assert_eq!(one.unwrap(), 1);
/// ```
#[track_caller]
pub fn try_scope_over<'env, F, T, E>(start: StartDefault, f: F) -> Result<T, ScopeError>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env>) -> Result<T, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let at = Location::caller();
    let (mut f, mut result) = (Some(f), None);
    where_it_may_be_captured(&mut || {
        let scope = TryScope(Scope::new(start));
        let mut body = None;
        scope.run(at, || false, &mut || {
            body = f.take().map(|f| f(&scope).map_err(|error| drop(scope.fail("the body", error))));
        });
        result = Some(match scope.take_error() {
            Some(error) if error.first().panic().is_some() => scope.raise(body, error, at),
            Some(error) => Err(error.in_place_of(DROPPED_VALUE, body)),
            None => match (body, scope.take_echo()) {
                (Some(Ok(value)), Some(echo)) if look().is_err() => Err(echo.in_place_of(DROPPED_VALUE, value)),
                (Some(Ok(value)), _) => Ok(value),
                (_, Some(echo)) => Err(echo),
                _ => unreachable!("a panic and an error are kept"),
            },
        });
    });
    result.expect("the scope was opened")
}

impl<'scope> TryScope<'scope, '_> {
    /// Starts a fiber that fails the scope by an error, as by a panic.
    ///
    /// The first failure is the [reason](Cancelled::reason) of the cancellation: the siblings and
    /// the body find the failure there. The handle yields the result of `f`, with its error as the
    /// reason of a [`Cancelled`]; an error that says only that the scope was cancelled comes back
    /// as that cancellation. Handed on, neither is another failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{after, try_scope};
    /// use std::io;
    /// use std::time::Duration;
    ///
    /// let failed = try_scope(|s| {
    ///     let patient = s.spawn(|| after(Duration::MAX).wait());
    ///     s.spawn_try(|| Err::<(), _>(io::Error::other("out of ink")));
    ///     patient.join().map(drop)
    /// });
    /// assert!(failed.unwrap_err().first().error().unwrap().is::<io::Error>());
    /// ```
    #[track_caller]
    pub fn spawn_try<F, T, E>(&'scope self, f: F) -> JoinHandle<Result<T, Cancelled>>
    where
        F: FnOnce() -> Result<T, E> + Send + 'scope,
        T: Send + 'scope,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.spawn(move || f().map_err(|error| self.fail("a fiber", error)))
    }

    /// Fails the scope, as if one of its fibers had ended with this error: from a daemon, a hook or
    /// a task, for instance. The returned cancellation has the error as its reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::try_scope;
    /// use std::time::Duration;
    ///
    /// let failed = try_scope(|s| {
    ///     s.on_exit(Duration::from_secs(1), || drop(s.fail_with("the printer is still on")));
    ///     Ok::<_, std::io::Error>(())
    /// });
    /// assert_eq!(failed.unwrap_err().to_string(), "a part failed: the printer is still on");
    /// ```
    pub fn fail_with(&self, error: impl Into<Box<dyn Error + Send + Sync>>) -> Cancelled {
        self.fail("a part", error)
    }
}
