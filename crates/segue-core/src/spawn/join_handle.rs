//! The handle of a fiber or an async task, as users have it: to wait for the result, and to cancel
//! a fiber that was spawned for a cancellation of its own.
//!
//! Used by applications; `task.rs` says which side frees which part.

use crate::cancel::shield;
use crate::cancel::token::CancelToken;
use crate::primitives::waits_for::WaitsFor;
use crate::sim::preemption::preemption_point;
use crate::spawn::join_error::JoinError;
use crate::spawn::task::{Handle, Joining};
use crate::wait::future::SourceFuture;
use crate::wait::source::Waitable;
use std::error::Error;

/// The wait of a join.
const END: &str = "the end of a fiber";

/// Waits for a spawned fiber and takes its result.
///
/// Dropping the handle detaches the fiber: the fiber goes on, and its result is dropped.
///
/// The handle of a fiber that was spawned [cancellable](crate::Builder::cancellable), a
/// `JoinHandle<T, CancelToken>`, can also cancel that fiber. The others can't: their fibers are
/// cancelled with their scope or runtime, and have no token of their own, which would cost each
/// spawn an allocation.
pub struct JoinHandle<T, C = ()> {
    pub(super) handle: Handle<T>,
    pub(super) token: C,
}

impl<T> JoinHandle<T> {
    #[inline]
    pub(super) fn new(handle: Handle<T>) -> Self {
        Self { handle, token: () }
    }
}

impl<T, C> JoinHandle<T, C> {
    /// Suspends the calling fiber, or parks the calling thread, until the fiber has ended, and
    /// returns its result.
    ///
    /// A fiber that has ended is joined by a cancelled caller, too: its result is there for good.
    ///
    /// # Cancellation
    /// *No effect*: the fiber goes on, and the handle is in the error, to join again, under a
    /// [`shield`] for instance. The body of a scope need not: the scope's cancellation does not cut
    /// its joins of the scope's fibers short, as these are cancelled with it, and the scope would
    /// wait for them all the same.
    ///
    /// # Errors
    /// [`JoinError`] says whether the wait was cancelled, or the fiber, or whether that panicked.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{JoinError, scope, shield, sleep, spawn};
    /// use std::time::Duration;
    ///
    /// assert_eq!(spawn(|| 6 * 7).join().unwrap(), 42);
    ///
    /// let late = spawn(|| sleep(Duration::from_millis(1)));
    /// scope(|s| {
    ///     s.cancel();
    ///     let Err(JoinError::WaitCancelled(_, late)) = late.join() else { return };
    ///     assert_eq!(shield(|| late.join()).unwrap(), Ok(()));
    /// });
    /// ```
    #[track_caller]
    pub fn join(self) -> Result<T, JoinError<Self>> {
        let Self { handle, token } = self;
        let joined = handle.join(WaitsFor::new(END));
        joined.map_err(|error| error.map_handle(|handle| Self { handle, token }))
    }

    /// [`join`](JoinHandle::join) as a source: to be awaited, or chosen among others. A handle can
    /// also be awaited itself.
    ///
    /// # Cancellation
    /// The fiber goes on, detached, as if the handle had been dropped: also if another arm is
    /// chosen. A choice [by reference](Waitable::by_ref) leaves the source with its
    /// [handle](Joining::into_handle).
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Either, after, sleep, spawn};
    /// use std::time::Duration;
    ///
    /// let first = spawn(|| 6 * 7).join_source().or(after(Duration::MAX)).wait();
    /// assert!(matches!(first, Ok(Either::Left(Ok(42)))));
    ///
    /// let mut end = spawn(|| sleep(Duration::from_millis(20))).join_source();
    /// let first = end.by_ref().or(after(Duration::from_millis(1))).wait();
    /// assert!(matches!(first, Ok(Either::Right(()))));
    /// let handle = end.into_source().into_handle().expect("it was not joined");
    /// assert_eq!(handle.join().unwrap(), Ok(()));
    /// ```
    #[track_caller]
    pub fn join_source(self) -> Waitable<Joining<T, C>> {
        Waitable::new(Joining { handle: Some(self.handle), token: self.token, waits_for: WaitsFor::new(END) })
    }

    /// Whether the fiber has ended. Never waits.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        preemption_point();
        self.handle.has_ended()
    }
}

impl<T> JoinHandle<T, CancelToken> {
    /// Requests that the fiber stop. Never waits; without effect after its end.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// As [`cancel`](JoinHandle::cancel), with a reason that the fiber finds in its
    /// [`Cancelled`](crate::Cancelled).
    pub fn cancel_with(&self, reason: impl Into<Box<dyn Error + Send + Sync>>) {
        self.token.cancel_with(reason);
    }

    /// Requests that the fiber stop, and waits for its end.
    ///
    /// # Cancellation
    /// *No effect*: the wait is not cut short, as under a [`shield`].
    ///
    /// # Errors
    /// [`JoinError::Panicked`] after a panic; [`JoinError::NeverRan`] after a cancellation, with
    /// its scope or runtime, before the start. A fiber that is panicking can't wait: then the
    /// handle comes back.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Builder, after};
    /// use std::time::Duration;
    ///
    /// let ticks = Builder::new().cancellable().spawn(|| {
    ///     let mut ticks = 0;
    ///     while after(Duration::from_millis(1)).wait().is_ok() {
    ///         ticks += 1;
    ///     }
    ///     ticks
    /// });
    /// let _number = ticks.cancel_and_join().unwrap();
    /// ```
    #[track_caller]
    pub fn cancel_and_join(self) -> Result<T, JoinError<Self>> {
        self.token.cancel();
        let Self { handle, token } = self;
        let waits_for = WaitsFor::new(END);
        let joined = shield(|| handle.join(waits_for));
        joined.map_err(|error| error.map_handle(|handle| Self { handle, token }))
    }

    /// The token that cancels the fiber, and all else that runs under that token.
    #[must_use]
    pub fn token(&self) -> &CancelToken {
        &self.token
    }
}

impl<T> From<JoinHandle<T, CancelToken>> for JoinHandle<T> {
    /// Gives up the right to cancel by this handle.
    fn from(handle: JoinHandle<T, CancelToken>) -> Self {
        Self::new(handle.handle)
    }
}

impl<T, C> Joining<T, C> {
    /// The handle again, unless the result was taken.
    pub fn into_handle(self) -> Option<JoinHandle<T, C>> {
        let Self { handle, token, .. } = self;
        handle.map(|handle| JoinHandle { handle, token })
    }
}

impl<T, C> IntoFuture for JoinHandle<T, C> {
    type Output = Result<T, JoinError>;
    type IntoFuture = SourceFuture<Joining<T, C>>;

    #[track_caller]
    fn into_future(self) -> SourceFuture<Joining<T, C>> {
        self.join_source().into_future()
    }
}

impl<T, C> std::fmt::Debug for JoinHandle<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.handle.fmt(f)
    }
}
