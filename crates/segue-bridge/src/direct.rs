//! Straight-line code on a fiber of Segue's own workers, as a future for any executor.
//!
//! Used by async tasks.

use segue_core::build::{Builder, DefaultRuntime, Detached};
use segue_core::{CancelToken, JoinError, JoinHandle, Joining, SourceFuture};
use segue_sched::{Pool, default_pool};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The result of a fiber, as a future. Made by [`direct`] and [`direct_on`].
#[must_use = "dropping it cancels the fiber"]
pub struct Direct<T> {
    /// Boxed, since this crate has no `unsafe` by which to pin a field.
    result: Pin<Box<SourceFuture<Joining<T>>>>,
    token: CancelToken,
}

/// Starts `f` as a fiber on Segue's own workers, and returns a future of its result, for a task of
/// any executor.
///
/// The fiber starts at once, whether or not the future is polled, and its waits suspend that fiber
/// alone. Its place is that of a [`segue_core::spawn`]: under the caller's scheduler, if a fiber
/// calls this; else in the [default runtime](segue_sched::default_pool).
///
/// The result is an error if `f` panicked, or if its runtime ended before its start.
///
/// # Cancellation
/// Dropping the future cancels the fiber, which goes on, detached, until it notices, and its result
/// is dropped. So its work may be done in part. For a fiber that is to finish in any case, spawn
/// and keep the handle.
///
/// # Examples
///
/// ```
/// use segue_bridge::direct;
/// use segue_core::sleep;
/// use std::time::Duration;
///
/// let answer = futures::executor::block_on(direct(|| {
///     sleep(Duration::from_millis(1)).unwrap();
///     42
/// }));
/// assert_eq!(answer.unwrap(), 42);
/// ```
#[track_caller]
pub fn direct<F, T>(f: F) -> Direct<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    direct_as(segue_core::Builder::new(), f)
}

/// As [`direct`], with a name, attributes or a stack size, as a builder of `segue` or of
/// `segue-core` says.
///
/// # Cancellation
/// As for [`direct`].
///
/// # Examples
///
/// ```
/// let given = segue_core::Builder::new().name("answer").stack_size(1 << 20);
/// assert_eq!(futures::executor::block_on(segue_bridge::direct_as(given, || 42)).unwrap(), 42);
/// ```
#[track_caller]
pub fn direct_as<R, F, T>(given: Builder<Detached<R>>, f: F) -> Direct<T>
where
    R: DefaultRuntime,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start(|token| {
        let fiber = move || token.run(f);
        if segue_core::in_fiber() { given.spawn(fiber) } else { given.on(default_pool()).spawn(fiber) }
    })
}

/// As [`direct`], on the workers of `pool`.
///
/// # Cancellation
/// As for [`direct`]. The end of the pool cancels the fiber as well, which shows at its waits.
///
/// # Examples
///
/// ```
/// let pool = segue_sched::Runtime::new().workers(1).pool().unwrap();
/// let answer = futures::executor::block_on(segue_bridge::direct_on(&pool, || 42));
/// assert_eq!(answer.unwrap(), 42);
/// ```
#[track_caller]
pub fn direct_on<F, T>(pool: &Pool, f: F) -> Direct<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    start(|token| pool.spawn(move || token.run(f)))
}

#[track_caller]
fn start<T>(spawn: impl FnOnce(CancelToken) -> JoinHandle<T>) -> Direct<T> {
    let token = CancelToken::new();
    let handle = spawn(token.clone());
    Direct { result: Box::pin(handle.into_future()), token }
}

impl<T> Future for Direct<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.result.as_mut().poll(task)
    }
}

impl<T> Drop for Direct<T> {
    fn drop(&mut self) {
        // Without effect on a fiber that has ended.
        self.token.cancel();
    }
}

segue_core::impl_debug!([T] Direct<T>, |it| token: it.token);
