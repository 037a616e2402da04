//! The number of the caller's worker, and whether something waits for this worker.
//!
//! Used by applications, by fork-join and by loops over several workers.

use crate::worker::common::with_caller;

/// Which worker of its scheduler the calling fiber runs on, from 0; `None` if that is none of this
/// crate's, and on a plain thread.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_sched::worker_index(), None);
/// ```
// Not inlined: rayon's loops ask at each fork, and have no room for this (`rayon-patch`).
#[must_use]
pub fn worker_index() -> Option<usize> {
    with_caller(|caller| caller.map(|(worker, _)| worker.index))
}

/// Whether something seems to wait for its turn on the worker that the calling fiber runs on: a
/// closure that it could start, or mail. `None` where [`worker_index`] is.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_sched::worker_has_more(), None);
/// ```
#[must_use]
pub fn worker_has_more() -> Option<bool> {
    with_caller(|caller| caller.map(|(worker, _)| worker.has_business()))
}
