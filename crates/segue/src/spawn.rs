//! Spawning from anywhere: the core's `spawn`, `scope` and `Builder`, with the default runtime
//! behind plain threads, and `join`.
//!
//! Used by applications.

use segue_core::build::{DefaultRuntime, Detached};
use segue_core::{Cancelled, JoinHandle, Scope, ScopeError, TryScope};
use std::error::Error;

/// Starts a detached fiber and returns a handle for its result.
///
/// A fiber's children run under its own scheduler and belong to its runtime: when that ends, they
/// are cancelled and waited for. On a plain thread the default runtime is used, which starts at
/// first use and stays.
///
/// # Examples
///
/// ```
/// let handle = segue::spawn(|| "done");
/// assert_eq!(handle.join().unwrap(), "done");
/// ```
#[track_caller]
pub fn spawn<F, T>(f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(f)
}

/// Starts a detached async task next to the fibers, and returns a handle for its result.
///
/// The caller's scheduler polls the task, or on a plain thread the default runtime. Each poll may
/// be on another worker, and between two polls the task has no stack; that its future may move, the
/// compiler checks.
///
/// # Cancellation
/// A cancelled task is dropped in its wait, and its handle yields
/// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
///
/// # Examples
///
/// ```
/// use segue::sync::promise;
///
/// let (resolver, promised) = promise();
/// let task = segue::spawn_task(async move { *promised.wait_source().await.unwrap() * 6 });
/// segue::spawn(move || resolver.fill(7));
/// assert_eq!(task.join().unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn_task<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Builder::new().spawn_task(future)
}

/// The runtime behind plain threads, for the builders and scopes of this crate.
#[cfg(feature = "sched")]
type Behind = segue_sched::DefaultPool;
#[cfg(not(feature = "sched"))]
type Behind = segue_core::build::Threads;

/// A spawn with settings: a name, a place, a delay, a token and others, in the shape of
/// [`std::thread::Builder`].
///
/// This is the builder of `segue-core`, with the default runtime behind plain threads; see
/// [`core::build::Builder`](crate::core::build::Builder) for its methods. `new()` begins a detached
/// fiber. [`within`](crate::core::build::Builder::within) is for scopes,
/// [`on`](crate::core::build::Builder::on) for pools. Most fibers need no settings: they are
/// started by [`spawn`], [`Scope::spawn`], [`Scope::spawn_daemon`], [`Scope::spawn_local`],
/// [`TryScope::spawn_try`], or `Pool::spawn`.
///
/// # Examples
///
/// ```
/// use segue::Builder;
/// use std::time::Duration;
///
/// let handle = Builder::new().name("answer").spawn(|| 42);
/// assert_eq!(handle.join().unwrap(), 42);
///
/// let word = String::from("short");
/// let length = segue::scope(|s| Builder::new().name("counts").within(s).spawn(|| word.len()).join());
/// assert_eq!(length.unwrap(), 5);
///
/// let fiber = Builder::new().cancellable().spawn(|| segue::after(Duration::MAX).wait());
/// fiber.cancel_with("no longer wanted");
/// assert_eq!(fiber.join().unwrap().unwrap_err().to_string(), "cancelled: no longer wanted");
///
/// let reminder = Builder::new().after(Duration::from_secs(3600)).spawn(|| println!("it has been an hour"));
/// reminder.cancel();
/// assert!(reminder.join().is_err(), "it was taken back");
/// ```
pub type Builder = segue_core::build::Builder<Detached<Behind>>;

/// Runs `f` with a scope in which fibers can be spawned that borrow from the surroundings, and
/// waits for all of them.
///
/// The scope is cancelled when its body or one of its fibers panics, when [`Scope::cancel`] is
/// called, and with the caller's own cancellation. The scope always waits until the last fiber has
/// ended.
///
/// **An `Err` cancels nothing here.** If the body leaves by `?`, the scope waits for its fibers all
/// the same, for ever if they serve for ever. Where the body uses `?`, or fibers return errors,
/// [`try_scope`] has the first error cancel the rest. A debug build reports a scope that has waited
/// for 5 s behind its body, unless the body joins its fibers.
///
/// # Cancellation
/// The scope's fibers are cancelled with the caller. The wait for them is not cut short, since they
/// may borrow.
///
/// # Panics
/// With the first panic of the body, of a fiber or of a hook, after all have ended. If there were
/// more, the message says all of them.
///
/// # Examples
///
/// ```
/// let words = ["straight", "line"];
/// let total = segue::scope(|s| {
///     let halves = words.map(|word| s.spawn(move || word.len()));
///     halves.map(|half| half.join().unwrap()).iter().sum::<usize>()
/// });
/// assert_eq!(total, 12);
/// ```
#[track_caller]
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    segue_core::scheduling::scope_over(Behind::start, f)
}

/// As [`scope`], for a body and for fibers that return errors: the first error, or panic, cancels
/// the others, and the [`ScopeError`] has all that went wrong.
///
/// See [`segue_core::try_scope`](crate::core::try_scope) for the kinds of failures.
///
/// # Cancellation
/// The scope's fibers are cancelled with the caller. The wait for them is not cut short, since they
/// may borrow.
///
/// # Errors
/// [`ScopeError`] if the body failed, or a fiber of [`spawn_try`](TryScope::spawn_try).
///
/// # Panics
/// If the first failure was a panic: as [`scope`] does.
///
/// # Examples
///
/// ```
/// use segue::{after, try_scope};
/// use std::time::Duration;
///
/// let failed = try_scope(|s| {
///     s.spawn_try(|| after(Duration::MAX).wait());
///     s.spawn_try(|| "many".parse::<u32>());
///     Ok::<_, segue::Cancelled>(())
/// });
/// assert_eq!(failed.unwrap_err().to_string(), "a fiber failed: invalid digit found in string");
/// ```
#[track_caller]
pub fn try_scope<'env, F, T, E>(f: F) -> Result<T, ScopeError>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env>) -> Result<T, E>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    segue_core::scheduling::try_scope_over(Behind::start, f)
}

/// Runs `a` and `b`, on two workers if one is idle, and returns both results.
///
/// On a fiber, `a` runs at once on the caller's stack; `b` afterwards in the same place, unless an
/// idle worker took `b`, or `a` had to wait. On a plain thread, or under a foreign scheduler, both
/// run in the default runtime meanwhile.
///
/// # Cancellation
/// *No effect*: both are run, and see the caller's cancellation at their own waits.
///
/// # Panics
/// If `a` or `b` panics, with `a`'s payload if both do, when neither is running any more.
///
/// # Examples
///
/// ```
/// let (a, b) = segue::join(|| 20 + 1, || 20 + 1);
/// assert_eq!(a + b, 42);
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    #[cfg(feature = "sched")]
    return segue_sched::try_join(a, b).unwrap_or_else(|(a, b)| elsewhere(|| segue_sched::join(a, b)));
    #[cfg(not(feature = "sched"))]
    (a(), b())
}

/// As [`join`], and tells each half whether it runs on another worker.
///
/// Called on a plain thread, the first half is taken by a worker of the default runtime.
///
/// # Cancellation
/// As for [`join`].
///
/// # Panics
/// As for [`join`].
///
/// # Examples
///
/// ```
/// let told = segue::run(|| segue::join_context(|a| a.migrated(), |_| ()));
/// assert!(!told.0);
/// ```
#[cfg(feature = "sched")]
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(segue_sched::FnContext) -> RA + Send,
    B: FnOnce(segue_sched::FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    segue_sched::try_join_context(a, b)
        .unwrap_or_else(|(a, b)| elsewhere(|| segue_sched::join_context(|_| a(segue_sched::FnContext::new(true)), b)))
}

/// For long computations: fails if the caller was cancelled, and lets others run if they want to.
///
/// A fiber gives up the turn for messages from other threads, for a due timer, or after a
/// millisecond. Otherwise the call costs a few nanoseconds. On a plain thread this is
/// [`check`](segue_core::check). `sched::checkpoint` has the details.
///
/// # Cancellation
/// *No effect*.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Examples
///
/// ```
/// for _chunk in 0..10 {
///     // Some thousands of steps, and then:
///     segue::checkpoint()?;
/// }
/// # Ok::<(), segue::Cancelled>(())
/// ```
#[inline]
pub fn checkpoint() -> Result<(), Cancelled> {
    #[cfg(feature = "sched")]
    return segue_sched::checkpoint();
    #[cfg(not(feature = "sched"))]
    segue_core::check()
}

/// A join on a plain thread, or on a fiber of a foreign scheduler: on a fiber of the default
/// runtime.
#[cfg(feature = "sched")]
#[cold]
fn elsewhere<R: Send>(join: impl FnOnce() -> R + Send) -> R {
    segue_sched::default_pool().call(join)
}
