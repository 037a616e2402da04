//! Cancellation as its users see it: the error and its reason, tokens, deadlines, shields, and cleanup that may wait.
//!
//! Used by every operation that can wait, whose error is [`Cancelled`], and by applications. The tree behind it is in `context.rs`.

use crate::context::{Context, enter, innermost};
use crate::fiber;
use crate::preempt::preemption_point;
use crate::time::{Key, TimedOut, Timers};
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

/// The error of a wait that was cancelled: the operation did not take place.
///
/// Carried outwards by `?`; converts into [`io::Error`], of kind `Other` and never `Interrupted`, since std's loops retry that. It may
/// carry a [reason](Cancelled::reason), which is any error; two cancellations are equal whatever their reasons.
///
/// # Examples
///
/// ```
/// use segue_core::{CancelToken, check};
///
/// let token = CancelToken::new();
/// token.cancel_with(std::io::Error::other("the disk is full"));
/// let cancelled = token.run(check).unwrap_err();
/// assert_eq!(cancelled.to_string(), "cancelled: the disk is full");
/// assert!(cancelled.reason().unwrap().is::<std::io::Error>());
/// ```
#[derive(Clone)]
pub struct Cancelled {
    reason: Option<Arc<Reason>>,
}

/// Why something was cancelled. Behind a thin pointer, so that an error is one word.
pub(crate) struct Reason(Box<dyn Error + Send + Sync>);

impl Reason {
    pub(crate) fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Arc<Self> {
        Arc::new(Self(error.into()))
    }
}

impl PartialEq for Cancelled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Cancelled {}

impl Cancelled {
    /// A cancellation without a reason: what those report whose work was dropped before it could start.
    #[inline]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "an error is made on purpose")]
    pub fn new() -> Self {
        Self { reason: None }
    }

    /// A cancellation with a reason: what those report who can't do what was asked of them.
    #[must_use]
    pub fn with_reason(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::because(Some(Reason::new(reason)))
    }

    #[inline]
    pub(crate) fn because(reason: Option<Arc<Reason>>) -> Self {
        Self { reason }
    }

    /// The error of a wait that would suspend a fiber in the middle of a panic.
    #[cold]
    pub(crate) fn while_panicking() -> Self {
        Self::with_reason("a fiber that is panicking can't wait")
    }

    /// The error of a wait inside of a closure or waker that is called while its fiber registers itself for another wait.
    #[cold]
    pub(crate) fn while_registering() -> Self {
        Self::with_reason(
            "what is called while a fiber begins to wait, a closure of a queue or a waker, can't wait itself",
        )
    }

    /// The error that the canceller gave, if any.
    #[must_use]
    pub fn reason(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.reason.as_deref().map(|reason| &*reason.0)
    }

    /// Whether it was a deadline that cancelled.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.reason().is_some_and(|reason| reason.is::<TimedOut>())
    }

    /// Whether an I/O error is a cancellation that passed through it.
    ///
    /// # Examples
    ///
    /// ```
    /// let error = std::io::Error::from(std::io::ErrorKind::NotFound);
    /// assert!(!segue_core::Cancelled::caused(&error));
    /// ```
    #[must_use]
    pub fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Cancelled>())
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Some(reason) => write!(f, "cancelled: {reason}"),
            None => f.write_str("cancelled"),
        }
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancelled").field(&self.reason()).finish()
    }
}

impl Error for Cancelled {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason().map(|reason| reason as &(dyn Error + 'static))
    }
}

impl From<Cancelled> for io::Error {
    fn from(cancelled: Cancelled) -> Self {
        io::Error::other(cancelled)
    }
}

/// Runs `f` where the caller's cancellation does not show; it shows again afterwards.
///
/// For work that must be finished once it was begun: answer the request, write the record. Fibers that
/// `f` spawns into scopes of its own are shielded with it.
///
/// # Examples
///
/// ```
/// let answer = segue_core::shield(|| 42);
/// assert_eq!(answer, 42);
/// ```
pub fn shield<R>(f: impl FnOnce() -> R) -> R {
    enter(ptr::null(), f)
}

/// Whether the caller's cancellation was requested. Never waits.
#[must_use]
#[inline]
pub fn is_cancelled() -> bool {
    innermost(|context| context.is_cancelled() || context.is_overdue()).unwrap_or(false)
}

/// Fails if the caller was cancelled: for long computations. It never waits itself. It is a [preemption point](preemption_point), and so is
/// every operation that can wait, each of which begins with it.
///
/// # Errors
/// [`Cancelled`] if the caller's cancellation was requested.
///
/// # Examples
///
/// ```
/// segue_core::check()?;
/// # Ok::<(), segue_core::Cancelled>(())
/// ```
#[inline]
pub fn check() -> Result<(), Cancelled> {
    preemption_point();
    look()
}

/// As [`check`], without the preemption point: for a fiber that has just been chosen to begin.
#[inline]
pub(crate) fn look() -> Result<(), Cancelled> {
    let asked =
        |context: &Context| if context.is_cancelled() || context.is_overdue() { Err(context.error()) } else { Ok(()) };
    innermost(asked).unwrap_or(Ok(()))
}

/// Runs `body`, and then `cleanup`, whichever way `body` ends. The cleanup is shielded, and it may wait, even after a panic of the body,
/// which goes on after it.
///
/// A `Drop` can do less: while a panic unwinds through it, a fiber can't wait.
///
/// # Cancellation
/// The body sees it; the cleanup does not.
///
/// # Panics
/// With the body's panic if it panicked, also if the cleanup panics as well; or with the cleanup's.
///
/// # Examples
///
/// ```
/// use segue_core::{finally, sleep};
/// use std::time::Duration;
///
/// let mut log = Vec::new();
/// let answer = finally(|| 42, || {
///     sleep(Duration::from_millis(1)).expect("it is shielded");
///     log.push("closed");
/// });
/// assert_eq!((answer, log), (42, vec!["closed"]));
/// ```
pub fn finally<T>(body: impl FnOnce() -> T, cleanup: impl FnOnce()) -> T {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    let cleaned = catch_unwind(AssertUnwindSafe(|| shield(cleanup)));
    match (outcome, cleaned) {
        (Ok(value), Ok(())) => value,
        (Err(payload), cleaned) => {
            // Its own drop may panic, which is one too many.
            std::mem::forget(cleaned);
            resume_unwind(payload)
        }
        (Ok(_), Err(payload)) => resume_unwind(payload),
    }
}

/// Runs `f`, and cancels what is inside of it when `limit` has passed: waits in it then fail with a [`Cancelled`] that
/// [timed out](Cancelled::timed_out).
///
/// What `f` returns is returned, whether or not the time was over by then; so nothing that it has obtained is lost. A limit beyond what the clock can
/// show is none. The clock is that of the caller's scheduler.
///
/// A fiber that is suspended is told by its worker, which looks at the clock between its fibers. One that computes is told by [`check`], and by every operation that can
/// wait, each of which looks at the clock inside of a `timeout`.
///
/// # Cancellation
/// The caller's cancellation shows inside as well, and the one that comes first gives the reason.
///
/// # Examples
///
/// ```
/// use segue_core::{after, timeout};
/// use std::time::Duration;
///
/// let never = after(Duration::MAX);
/// let ended = timeout(Duration::from_millis(1), || never.wait());
/// assert!(ended.is_err_and(|cancelled| cancelled.timed_out()));
/// ```
pub fn timeout<T>(limit: Duration, f: impl FnOnce() -> T) -> T {
    deadline(crate::time::now().checked_add(limit), f)
}

/// As [`timeout`], at a point in time; `None` is never.
///
/// # Cancellation
/// As for [`timeout`].
///
/// # Examples
///
/// ```
/// use segue_core::{check, deadline, now};
///
/// assert!(deadline(Some(now()), check).is_err());
/// assert!(deadline(None, check).is_ok());
/// ```
pub fn deadline<T>(at: Option<Instant>, f: impl FnOnce() -> T) -> T {
    struct End<'a>(&'a Arc<Context>, Option<(Timers, Key)>);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            if let Some((timers, key)) = self.1.take() {
                timers.cancel_no_more(key);
            }
            self.0.end();
        }
    }
    let Some(at) = at else { return f() };
    let timers = fiber::with_current(|fiber| fiber.scheduler().timers().clone());
    let context = Context::nested_until(Some((at, timers.clone())));
    let mut end = End(&context, None);
    if at <= timers.now() {
        context.cancel(Some(Reason::new(TimedOut::new())));
    } else {
        let key = timers.cancel_at(at, Arc::clone(&context));
        end.1 = Some((timers, key));
    }
    context.enter(f)
}

/// The right to cancel: whatever [runs](CancelToken::run) under it, or the scope that it is of. From anywhere and at any time.
///
/// Clones are the same token. It may outlive what it cancels, and then has no effect.
///
/// # Examples
///
/// To cancel a single fiber, with an error of your choice:
///
/// ```
/// use segue_core::{CancelToken, after, spawn};
/// use std::time::Duration;
///
/// let token = CancelToken::new();
/// let fiber = spawn({
///     let token = token.clone();
///     move || token.run(|| after(Duration::MAX).wait())
/// });
/// token.cancel_with(std::io::Error::other("no longer wanted"));
/// let cancelled = fiber.join().unwrap().unwrap_err();
/// assert_eq!(cancelled.reason().unwrap().to_string(), "no longer wanted");
/// ```
#[derive(Clone)]
pub struct CancelToken(Arc<Context>);

impl CancelToken {
    /// A token that nothing runs under yet.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "a token that nobody else has is of no use")]
    pub fn new() -> Self {
        Self(Context::root())
    }

    pub(crate) fn context(&self) -> *const Context {
        Arc::as_ptr(&self.0)
    }

    pub(crate) fn of(context: &Arc<Context>) -> Self {
        Self(Arc::clone(context))
    }

    /// Runs `f` so that this token cancels it, as the caller's own cancellation does.
    ///
    /// # Cancellation
    /// It shows inside; what `f` returns is returned.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.run_following(f)
    }

    /// Requests that everything under the token stop. Never waits; again has no effect.
    pub fn cancel(&self) {
        preemption_point();
        self.0.cancel(None);
    }

    /// As [`cancel`](CancelToken::cancel), with a reason that those who are cancelled find in their [`Cancelled`].
    pub fn cancel_with(&self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        preemption_point();
        self.0.cancel(Some(Reason::new(reason)));
    }

    /// Whether it was requested.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.is_cancelled()).finish()
    }
}
