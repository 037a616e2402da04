//! Closures that begin after a delay.
//!
//! Used by applications, through [`Builder::after`](crate::Builder::after).
//!
//! # The idea
//!
//! Until it is due, such a closure is part of a future that waits for a point in time, or for its
//! token: a task, which has no stack. The poll that finds it due runs the closure to its end, on
//! the stack of that poll, where it may wait as a fiber does.
//!
//! **Commit point**: the poll's look at the token. A token that was cancelled before wins over a
//! delay that is over. Scopes and runtimes cancel it as any task: the future is dropped where it
//! waits, and with it the closure.
#![allow(unsafe_code)] // As in `builder.rs`.

use crate::cancel::token::CancelToken;
use crate::chain::unwind::__rust_begin_short_backtrace;
use crate::spawn::async_task::Ending;
use crate::spawn::default_runtime::with_origin;
use crate::spawn::join_error::Failed;
use crate::spawn::join_handle::{Cancellable, JoinHandle};
use crate::spawn::scope::Scope;
use crate::tree::cancelled::Cancelled;
use crate::wait::deadline::after;
use std::time::Duration;

/// A [`Cancellable`] whose fibers begin after a delay. Made by [`Builder::after`] and
/// [`Cancellable::after`].
///
/// The delay counts from the spawn, by the clock of the caller's scheduler: in a simulation the
/// virtual one. Until it is over the closure has no stack. Without a delay it begins as soon as any
/// other; one beyond what the clock can show is never over.
///
/// Its handle can take it back: a closure that is cancelled before it has begun is dropped and not
/// run, and joining it yields [`JoinError::NeverRan`](crate::JoinError::NeverRan) with the reason.
/// The cancellation of its scope or runtime has the same effect. A later one shows at its waits. A
/// scope waits for it, and so for the delay, unless it is cancelled.
///
/// [`Builder::after`]: crate::Builder::after
///
/// # Examples
///
/// ```
/// use segue_core::{Builder, JoinError};
/// use std::time::Duration;
///
/// let soon = Builder::new().after(Duration::from_millis(1)).spawn(|| "now");
/// assert_eq!(soon.join().unwrap(), "now");
///
/// let late = Builder::new().after(Duration::from_secs(3600)).spawn(|| "too late");
/// late.cancel_with("it is not wanted any more");
/// assert!(matches!(late.join(), Err(JoinError::NeverRan(_))));
/// ```
#[derive(Debug)]
#[must_use]
pub struct Delayed {
    pub(super) cancellable: Cancellable,
    pub(super) delay: Duration,
}

impl Delayed {
    /// As [`spawn`](crate::spawn()), later.
    pub fn spawn<F, T>(self, f: F) -> JoinHandle<T, CancelToken>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let Self { cancellable: Cancellable { builder, token }, delay } = self;
        let future = when_due(delay, token.clone(), f);
        // SAFETY: as in `Builder::spawn`.
        let handle = with_origin(|origin| unsafe { origin.spawn_task(origin.family, builder.0, future) });
        JoinHandle { handle: handle.handle, token }
    }

    /// As [`Scope::spawn`], later.
    pub fn spawn_in<'scope, F, T>(self, scope: &'scope Scope<'scope, '_>, f: F) -> JoinHandle<T, CancelToken>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let Self { cancellable: Cancellable { builder, token }, delay } = self;
        let handle = scope.spawn_future(builder.0, when_due(delay, token.clone(), f));
        JoinHandle { handle: handle.handle, token }
    }
}

/// What has become of the closure.
enum Due<T> {
    Ran(T),
    TakenBack(Cancelled),
}

impl<T> Ending<T> for Due<T> {
    const BEGINS_AT_ONCE: bool = false;

    fn into_result(self) -> Result<T, Failed> {
        match self {
            Self::Ran(value) => Ok(value),
            Self::TakenBack(cancelled) => Err(Failed::NeverRan(cancelled)),
        }
    }
}

/// Calls `f` under the token when the delay is over, unless the token was cancelled.
fn when_due<F: FnOnce() -> T, T>(delay: Duration, token: CancelToken, f: F) -> impl Future<Output = Due<T>> {
    let due = after(delay);
    async move {
        due.or(token.cancelled_source()).await;
        if token.is_cancelled() {
            Due::TakenBack(token.0.error())
        } else {
            Due::Ran(token.run(|| __rust_begin_short_backtrace(f)))
        }
    }
}
