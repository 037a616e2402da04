//! When the fibers of a builder begin, and whether each can be cancelled by its handle.
//!
//! Used by `builder.rs`, as the second part of a builder's type.
//!
//! # Delayed closures
//!
//! Until it is due, such a closure is part of a future that waits for a point in time, or for its
//! token: a task, which has no stack. The poll that finds the closure due runs the closure to its
//! end, on the stack of that poll, where it may wait as a fiber does.
//!
//! **Commit point**: the poll's look at the token. A token that was cancelled before wins over a
//! delay that is over. Scopes and runtimes cancel the future as any task: the future is dropped
//! where it waits, and with it the closure.

use crate::cancel::token::CancelToken;
use crate::chain::unwind::__rust_begin_short_backtrace;
use crate::contract::job::Given;
use crate::spawn::async_task::Ending;
use crate::spawn::join_error::Failed;
use crate::spawn::join_handle::JoinHandle;
use crate::spawn::place::{Place, Sealed};
use crate::tree::cancelled::Cancelled;
use crate::wait::deadline::after;
use std::time::Duration;

/// When the fibers of a builder begin, and by which token each is cancelled: `()` for at once and
/// none, a [`CancelToken`] for at once, and [`Delayed`].
pub trait Begin: Sized + Sealed {
    /// The token in the handle.
    type Token;

    /// Starts a fiber in this place.
    #[doc(hidden)]
    fn start<'a, P, F, T>(self, place: P, given: Given, f: F) -> JoinHandle<T, Self::Token>
    where
        P: Place<'a>,
        F: FnOnce() -> T + Send + 'a,
        T: Send + 'a;
}

impl Sealed for () {}
impl Sealed for CancelToken {}
impl Sealed for Delayed {}

impl Begin for () {
    type Token = ();

    #[inline]
    fn start<'a, P, F, T>(self, place: P, given: Given, f: F) -> JoinHandle<T>
    where
        P: Place<'a>,
        F: FnOnce() -> T + Send + 'a,
        T: Send + 'a,
    {
        place.start(given, f)
    }
}

/// If the token is cancelled before the fiber starts, the fiber does start, and is cancelled from
/// the beginning.
impl Begin for CancelToken {
    type Token = CancelToken;

    #[inline]
    fn start<'a, P, F, T>(self, place: P, given: Given, f: F) -> JoinHandle<T, CancelToken>
    where
        P: Place<'a>,
        F: FnOnce() -> T + Send + 'a,
        T: Send + 'a,
    {
        let under = self.clone();
        JoinHandle { handle: place.start(given, move || under.run(f)).handle, token: self }
    }
}

/// After a delay, as [`Builder::after`](crate::build::Builder::after) says; under a token.
#[derive(Debug)]
pub struct Delayed {
    pub(super) token: CancelToken,
    pub(super) delay: Duration,
}

impl Begin for Delayed {
    type Token = CancelToken;

    fn start<'a, P, F, T>(self, place: P, given: Given, f: F) -> JoinHandle<T, CancelToken>
    where
        P: Place<'a>,
        F: FnOnce() -> T + Send + 'a,
        T: Send + 'a,
    {
        let Self { token, delay } = self;
        let future = when_due(delay, token.clone(), f);
        JoinHandle { handle: place.start_task(given, future).handle, token }
    }
}

/// The end of a delayed closure.
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
