//! The end of a body before its time.
//!
//! Used by bodies, which pass a [`Stop`] on, and by the code that runs them.

use crate::var::TVar;
use crate::version::{Head, Version};
use segue_core::Cancelled;
use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;

/// Why the body of a transaction stops before its end: made by [`Tx::retry`](crate::Tx::retry), by
/// a read or write that has met a conflict, and by a cancellation. A body passes it on, by `?`.
#[must_use = "a body passes it on"]
pub struct Stop(pub(crate) Why);

pub(crate) enum Why {
    /// The body waits for a change; of something that is no variable too, if the event of
    /// `outside.rs` is there, and then no `or_else` takes this back.
    Retry(Option<TVar<()>>),
    /// A read or write has failed; the attempt knows why.
    Stopped,
    /// Another transaction has committed, or is about to.
    Conflict(Blame),
    /// The transaction in turn has what this one would write.
    Held(Blame),
    /// A check of the caller's cancellation, or a wait, has failed.
    Cancelled(Cancelled),
}

/// The use of a variable that has met a conflict.
#[derive(Clone, Copy)]
pub(crate) struct Blame {
    pub(crate) head: NonNull<Head>,
    /// The version that was read.
    pub(crate) seen: Option<NonNull<Version>>,
    pub(crate) site: &'static Location<'static>,
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stop({self})")
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Retry(_) => f.write_str("the transaction waits for a change"),
            Why::Stopped | Why::Conflict(_) | Why::Held(_) => {
                f.write_str("the transaction begins again after a conflict")
            }
            Why::Cancelled(cancelled) => cancelled.fmt(f),
        }
    }
}

impl std::error::Error for Stop {}

/// The error of a call in a body that has stopped.
#[cold]
pub(crate) fn stopped() -> Cancelled {
    Cancelled::with_reason("the transaction around begins again")
}

/// A check within a body that finds the caller cancelled ends the transaction; so does a wait,
/// which is refused there.
impl From<Cancelled> for Stop {
    fn from(cancelled: Cancelled) -> Self {
        Self(Why::Cancelled(cancelled))
    }
}
