//! Runtimes for applications: schedulers with workers that idle in the I/O driver, and the default
//! one behind plain threads.
//!
//! Used by applications that start a program with [`run`].

#[cfg(not(feature = "io"))]
use segue_core::scheduling::WaitPark as Idle;
#[cfg(feature = "io")]
use segue_io::DriverPark as Idle;
use segue_sched::{Builder, FnContext, Pool};
use std::io;
use std::time::Duration;

/// The time that a worker may stay in one fiber until a debug build reports that.
const PATIENCE: Duration = Duration::from_secs(1);

/// Makes the park of one worker.
type MakeIdle = fn() -> io::Result<Idle>;

/// A scheduler to be configured and started: `runtime().workers(2).run(..)`.
///
/// The runtime steals work by default, and its workers wait for the network while they have nothing
/// to run.
///
/// In debug builds the runtime has a [monitor](Builder::monitor), and so have [`run`] and
/// [`default_pool`]: a worker that stays in one fiber for more than a second is reported on
/// standard error, with the fiber's name and place. Such a fiber computes without a
/// [`checkpoint`](crate::checkpoint), or has blocked its thread by a call that is not Segue's, with
/// all other fibers of its worker. [`no_monitor`](Builder::no_monitor) leaves that out; release
/// builds have one on request.
///
/// # Examples
///
/// ```
/// let answer = segue::runtime().workers(2).run(|| 42)?;
/// assert_eq!(answer, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn runtime() -> Builder<MakeIdle> {
    #[cfg(feature = "io")]
    let make: MakeIdle = Idle::new;
    #[cfg(not(feature = "io"))]
    let make: MakeIdle = || Ok(Idle::new());
    segue_core::scheduling::name_fibers_in_debug_builds();
    let builder = Builder::new().park(make);
    if cfg!(all(debug_assertions, not(miri))) { builder.monitor(PATIENCE) } else { builder }
}

/// Runs `f` as the first fiber of a runtime with a worker for each processor, and returns its
/// result.
///
/// When `f` has returned, the remaining fibers are cancelled and waited for; a [`runtime`] can give
/// them a grace, and a deadline ([`Builder::shutdown`]). A fiber starts another runtime inside of
/// itself by this call, and is suspended whenever the first worker of that runtime has nothing to
/// run.
///
/// # Cancellation
/// If the caller is cancelled, so is everything inside; the call returns when all fibers there have
/// ended.
///
/// # Panics
/// If `f` panics, after everything has ended; or if threads, stacks or a driver can't be made
/// ([`runtime`] returns that as an error).
///
/// # Examples
///
/// ```
/// assert_eq!(segue::run(|| segue::spawn(|| 42).join().unwrap()), 42);
/// ```
pub fn run<T>(f: impl FnOnce() -> T) -> T {
    runtime().run(f).unwrap_or_else(|error| panic!("the runtime could not be started: {error}"))
}

/// The runtime behind plain threads. This runtime starts at the first use and stays until the
/// process ends.
///
/// A [parallel loop](crate::par) that a plain thread runs before anything else of this crate starts
/// this runtime without the I/O driver: sockets work then by the driver of plain threads.
///
/// # Panics
/// If threads, stacks or a driver can't be made.
///
/// # Examples
///
/// ```
/// assert_eq!(segue::default_pool().run(|| 42), Ok(42));
/// ```
pub fn default_pool() -> &'static Pool {
    segue_sched::default_pool_or(|| runtime().name("segue-default").pool())
}

/// A join on a plain thread, or on a fiber of a foreign scheduler.
#[cold]
pub(crate) fn join_elsewhere<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    default_pool().call(|| segue_sched::join(a, b))
}

/// A join that tells its halves, on a plain thread or on a fiber of a foreign scheduler.
#[cold]
pub(crate) fn join_context_elsewhere<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    default_pool().call(|| segue_sched::join_context(|_| a(FnContext::new(true)), b))
}
