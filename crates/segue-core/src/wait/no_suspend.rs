//! Code in which a fiber can't wait.
//!
//! Used around foreign code that relies on its frames ending in reverse order, on its thread.

use crate::primitives::waits_for::WaitsFor;
use crate::tree::membership::{IN_BODY, NO_SUSPEND};
use crate::wait::source::registered;

/// Runs `f`, in which the calling fiber is not suspended: a wait that would have to suspend it is
/// refused, and fails with a [`Cancelled`](crate::Cancelled) and a reason that says so. What is
/// ready is taken. Nothing is captured across it by an effect or a generator.
///
/// For code that keeps a pointer into its frame in a thread-local variable and relies on frames
/// that end in reverse order, as `scoped-tls` does: no other fiber of the thread runs meanwhile. On
/// a plain thread waits park the thread, as ever, and so does the poll of a task there.
///
/// What guards borrowed memory can't be refused: the end of a scope, for instance, blocks the
/// thread instead. So a fiber of a scope runs in place, at its spawn. A detached fiber begins
/// later, and `f` can't join that. A task of a scope, and what is to begin after a delay, could not
/// end before that: it is dropped and never runs, although nobody has cancelled it, and its join
/// yields [`NeverRan`](crate::JoinError::NeverRan) with that reason.
///
/// # Cancellation
/// `f` sees the caller's; what it returns is returned.
///
/// # Examples
///
/// ```
/// use segue_core::{in_fiber, no_suspend, yield_now};
///
/// let refused = no_suspend(yield_now);
/// assert_eq!(refused.is_err(), in_fiber());
/// ```
#[track_caller]
pub fn no_suspend<R>(f: impl FnOnce() -> R) -> R {
    registered(WaitsFor::new(NO_SUSPEND), f)
}

/// As [`no_suspend`], for the body of a transaction: a simulator may interrupt `f` all the same, at
/// [points](crate::scheduling::preemption_point_in_body) of its own, but not within a `no_suspend`
/// in there.
///
/// # Cancellation
/// As for [`no_suspend`].
#[track_caller]
pub fn no_suspend_in_body<R>(f: impl FnOnce() -> R) -> R {
    registered(WaitsFor::new(IN_BODY), f)
}
