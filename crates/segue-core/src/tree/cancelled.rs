//! The error of a wait that was cancelled, and its reason.
//!
//! Used by every operation that can wait.

use crate::primitives::at_end::at_end;
use crate::primitives::atomic::plain_thread_local;
use std::cell::Cell;
use std::error::Error;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// The error of a wait that was cancelled: the operation did not take place.
///
/// Carried outwards by `?`; converts into [`io::Error`], of kind `TimedOut` if a deadline has
/// cancelled, `Other` if not, and never `Interrupted`, since std's loops retry that. A cancellation
/// may carry a [reason](Cancelled::reason), which is any error; two cancellations are equal with
/// any reasons.
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
pub(crate) struct Reason(pub(crate) Box<dyn Error + Send + Sync>);

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
    /// A cancellation without a reason: for work that was dropped before its start.
    #[inline]
    #[must_use]
    #[allow(clippy::new_without_default, reason = "an error is made on purpose")]
    pub fn new() -> Self {
        Self { reason: None }
    }

    /// A cancellation with a reason: for a runtime that can't fulfil a request.
    #[must_use]
    pub fn with_reason(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::because(Some(Reason::new(reason)))
    }

    #[inline]
    pub(crate) fn because(reason: Option<Arc<Reason>>) -> Self {
        Self { reason }
    }

    /// Whether both were caused by one and the same, or neither has a reason.
    pub(crate) fn is_for_reason_of(&self, other: &Self) -> bool {
        match (&self.reason, &other.reason) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether just this was the cause.
    pub(crate) fn is_for(&self, reason: &Arc<Reason>) -> bool {
        self.reason.as_ref().is_some_and(|own| Arc::ptr_eq(own, reason))
    }

    /// The error that the canceller gave, if any.
    #[must_use]
    pub fn reason(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.reason.as_deref().map(|reason| &*reason.0)
    }

    /// Whether a deadline has cancelled, or the end of a budget.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.reason().is_some_and(|reason| reason.is::<TimedOut>() || reason.is::<Overran>())
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

plain_thread_local! {
    /// Whether a scope looks for the cancellation that an error consists of. If the error's code
    /// waits meanwhile, others on this thread may be told of a source too many.
    static LOOKED_FOR: Cell<bool> = Cell::new(false);
}

/// The source of an error, which is this cancellation if the error consists of one, and takes its
/// own source from that. Calls foreign code.
pub(crate) fn source_or_cancellation<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let before = LOOKED_FOR.replace(true);
    let _restore = at_end(|| LOOKED_FOR.set(before));
    error.source()
}

impl Error for Cancelled {
    /// The source of the [reason](Cancelled::reason): the reason itself is in the message, and
    /// would be said twice.
    ///
    /// An error that consists of a cancellation does well to have the same source. By this call a
    /// scope tells mere cancellations from other failures.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if LOOKED_FOR.get() { Some(self) } else { self.reason()?.source() }
    }
}

impl From<Cancelled> for io::Error {
    /// Of kind `TimedOut` if a deadline cancelled, and `Other` if not.
    fn from(cancelled: Cancelled) -> Self {
        let kind = if cancelled.timed_out() { io::ErrorKind::TimedOut } else { io::ErrorKind::Other };
        io::Error::new(kind, cancelled)
    }
}

/// The time that was allowed is over: the reason of a [`Cancelled`] that a deadline caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimedOut;

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time allowed is over")
    }
}

impl Error for TimedOut {}

/// A cleanup has used up its budget: the reason of a [`Cancelled`] under a shield.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overran {
    /// Where the budget was given.
    pub(crate) at: &'static Location<'static>,
    pub(crate) budget: Duration,
    /// The name of the fiber, if there is one.
    pub(crate) fiber: Option<Box<str>>,
}

impl Overran {
    /// Where the budget was given that is used up.
    #[must_use]
    pub fn at(&self) -> &'static Location<'static> {
        self.at
    }

    /// The result.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// The name of the fiber of the shield, if there is one.
    #[must_use]
    pub fn fiber(&self) -> Option<&str> {
        self.fiber.as_deref()
    }
}

impl fmt::Display for Overran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cleanup at {}", self.at)?;
        if let Some(fiber) = &self.fiber {
            write!(f, " in fiber `{fiber}`")?;
        }
        write!(f, " has used up its budget of {:?}", self.budget)
    }
}

impl Error for Overran {}
