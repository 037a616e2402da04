//! The job that the calling fiber works for.
//!
//! Used by jobs that tell others who they are: the id is the key of an idempotent request.

use crate::engine::Lease;
use segue::core::fiber_local;
use std::cell::RefCell;

/// The job that a fiber works for. Made by [`current`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Current {
    /// The job's id, the same in each attempt.
    pub id: String,
    /// How often the job was given to a worker, with this time: 1 at first.
    pub attempt: u64,
    /// The attempts that there are.
    pub attempts: u64,
    /// The submitter's span, as a `traceparent`.
    pub trace: Option<String>,
}

fiber_local! {
    static CURRENT: RefCell<Option<Current>> = RefCell::new(None), inherited;
}

/// The job that the calling fiber runs, or was started by.
///
/// # Examples
///
/// ```
/// use segue_remote::{Pool, job};
///
/// #[job]
/// fn attempt() -> u64 {
///     segue_remote::current().map_or(0, |current| current.attempt)
/// }
///
/// let fibers = segue::runtime().workers(1).pool()?;
/// assert_eq!(Pool::local(&fibers).submit(Attempt {}).take()?, Ok(1));
/// assert_eq!(segue_remote::current(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn current() -> Option<Current> {
    CURRENT.with_borrow(Clone::clone)
}

/// From now on the calling fiber works for this lease.
pub(crate) fn begin(lease: &Lease) {
    let (id, trace) = (lease.job.id.clone(), lease.job.trace.clone());
    let current = Current { id, attempt: lease.attempt, attempts: lease.job.attempts, trace };
    CURRENT.with_borrow_mut(|place| *place = Some(current));
}
