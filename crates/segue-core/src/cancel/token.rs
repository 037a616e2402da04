//! The right to cancel.
//!
//! Used by applications, scopes and runtimes. The tree behind tokens is in `context.rs`.

use crate::sim::preemption::preemption_point;
use crate::tree::cancelled::Reason;
use crate::tree::context::Context;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// The right to cancel: all that [runs](CancelToken::run) under the token, or its scope. From
/// anywhere and at any time.
///
/// Clones are the same token. A token may outlive its fibers, and then has no effect.
///
/// # Examples
///
/// To cancel the work of a fiber, with an error of your choice. (A fiber that is spawned
/// [`cancellable`](crate::Builder::cancellable) has such a token in its handle.)
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
#[derive(Clone, Debug)]
pub struct CancelToken(pub(crate) Arc<Context>);

impl CancelToken {
    /// A token that nothing runs under yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Context::alone())
    }

    /// Runs `f` so that this token cancels the waits of `f`, as the caller's own cancellation does.
    ///
    /// # Cancellation
    /// The cancellation shows inside; the result of `f` is returned.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.run_following(f)
    }

    /// Runs `f` so that this token alone cancels the waits of `f`, or asks `f` to finish: the
    /// caller's own cancellation does not show, as in a [`shield`](crate::shield()).
    ///
    /// For work that must be finished once begun, but not at any price. A token that was
    /// [made](Self::new) for that costs as little as a shield.
    ///
    /// # Cancellation
    /// The token's shows inside, and the budget of a [shield](crate::shield_for) around; the result
    /// of `f` is returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{CancelToken, check};
    ///
    /// let (caller, shutdown) = (CancelToken::new(), CancelToken::new());
    /// caller.cancel();
    /// caller.run(|| {
    ///     assert!(check().is_err());
    ///     assert!(shutdown.shield(check).is_ok());
    ///     shutdown.cancel();
    ///     assert!(shutdown.shield(check).is_err());
    /// });
    /// ```
    pub fn shield<T>(&self, f: impl FnOnce() -> T) -> T {
        self.0.run_shielded(f)
    }

    /// Requests that everything under the token stop. Never waits; again has no effect.
    pub fn cancel(&self) {
        preemption_point();
        self.0.cancel(None);
    }

    /// As [`cancel`](CancelToken::cancel), with a reason, which arrives in each
    /// [`Cancelled`](crate::Cancelled).
    pub fn cancel_with(&self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        preemption_point();
        self.0.cancel(Some(Reason::new(reason)));
    }

    /// Asks everything under the token to finish, and cancels nothing: code that
    /// [looks](crate::is_finishing), or [waits](crate::finishing_source) for the request, ends in
    /// its own time. Never waits; again has no effect.
    ///
    /// [`cancel_soft`](Self::cancel_soft) cancels the rest.
    pub fn ask_to_finish(&self) {
        preemption_point();
        self.0.ask_to_finish();
    }

    /// [Asks](Self::ask_to_finish) everything under the token to finish, and cancels the rest after
    /// `grace`, as [`Scope::cancel_soft`](crate::Scope::cancel_soft) does: the reason says so, and
    /// names the fibers that are there still. Never waits.
    ///
    /// A grace of zero is none; one beyond the end of the clock does not end. Asked again, the
    /// grace that ends first counts. The grace ends also after a drop of this token, as long as
    /// something runs under the token.
    ///
    /// # Panics
    /// If the process can't start the thread that measures the time of plain threads.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Builder, CancelToken, after};
    /// use std::time::Duration;
    ///
    /// let token = CancelToken::new();
    /// let fiber = Builder::new().token(&token).spawn(|| after(Duration::MAX).wait());
    /// token.cancel_soft(Duration::from_millis(5));
    /// assert!(!token.is_cancelled(), "it has 5 ms to finish");
    /// let cancelled = fiber.join().map_or_else(|never_ran| never_ran.to_string(), |end| end.unwrap_err().to_string());
    /// assert!(cancelled.contains("asked to finish, and not over after 5ms"));
    /// ```
    pub fn cancel_soft(&self, grace: Duration) {
        preemption_point();
        self.0.cancel_soft(grace);
    }

    /// The names of fibers that have waited under the token and are there still: of at most so
    /// many. Fibers under a shield are not among them. Never waits.
    #[must_use]
    pub fn names(&self, most: usize) -> Vec<String> {
        self.0.names(most)
    }

    /// Whether a cancellation was requested.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}
