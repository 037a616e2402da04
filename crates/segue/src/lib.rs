//! Concurrency in straight-line code.
//!
//! A program is written as if every call blocked; only the fiber blocks. Fibers of different
//! schedulers, plain threads and tasks of any async runtime meet at the same structures, because
//! these are written against one small contract for suspending and resuming, and not against a
//! runtime.
//!
//! ```
//! # #[cfg(feature = "sched")] {
//! use segue::sync::promise;
//!
//! let answer = segue::run(|| {
//!     let (resolver, promised) = promise();
//!     segue::spawn(move || resolver.fill(6 * 7));
//!     *promised.wait().unwrap()
//! });
//! assert_eq!(answer, 42);
//! # }
//! ```
//!
//! * Start: [`run`], [`runtime`], [`Pool`]; one scheduler or several in a program.
//! * Schedulers: [`move_to`] another one for a while; [`Driven`](sched::Driven) by a loop that is
//!   not ours; [`sched`] has the policies.
//! * Fibers: [`spawn`], [`scope`], [`try_scope`], [`join`], [`yield_now`], [`sleep`],
//!   [`fiber::current`]. A [`JoinHandle`] is joined, or awaited by a task. [`spawn_task`] runs a
//!   future next to them.
//! * Compute: [`join`] two closures; [`par`] has parallel loops and sorts.
//! * Meet: [`sync`] has promises, locks, permits, cells that are initialised once, latches and
//!   more. [`channel`] has channels, broadcasts and watched values.
//! * Change several variables in one step: [`stm`] has transactions, and waits until a variable has
//!   changed.
//! * Several at a time: [`concurrent`] runs closures until all have ended, or the first, and works
//!   on so many items at once.
//! * Choose: `x_source()` of an operation `x` is a [`Waitable`], to be awaited by a task, or an arm
//!   of [`select!`], of [`any_of`] a list, or of [two](Waitable::or). [`after`] and [`at`] are such
//!   sources, the ticks of an [`interval`], and any future by
//!   [`future_source`](source::future_source). [`guard`](source::guard) makes one when the wait
//!   begins, [`with_nack`](source::with_nack) reports its fate.
//! * Stop: [`Cancelled`] is the error of every wait. [`CancelToken`] cancels the fibers that run
//!   under the token, [`timeout`] and [`deadline`] long work; [`shield`] and [`finally`] finish
//!   work that was begun, [`shield_for`](cancel::shield_for) within a budget; [`check`] is for
//!   computations, and [`checkpoint`], which also lets others run. In
//!   [`no_suspend`](cancel::no_suspend) waits are refused.
//! * Control: [`effect`] asks an enclosing handler, which may keep the rest of the computation;
//!   [`generator()`](effect::generator()) makes an iterator of code that visits;
//!   [`multi`](effect::multi) resumes more than once. [`incremental`] makes a push parser of code
//!   that reads.
//! * The world: [`net`]; [`fs`]; [`process`], [`pipe`], [`pty`], [`signal`] and [`stdio`]; [`fd`],
//!   any other descriptor; calls that block their thread, by [`blocking`].
//! * Bridge: the crate `segue-bridge` has waits for futures, fibers for async tasks, and functions
//!   for tokio and rayon.
//! * Port: `extern crate segue_std as std;` has a program of threads run on fibers; the crate
//!   `segue-std`.
//! * Test: [`test`](macro@test) and [`Explore`](testing::Explore) run the same code under many
//!   schedules with simulated time, and name one that fails; [`Sim`](testing::Sim) runs a program
//!   under one.
//!
//! ```
//! # #[cfg(feature = "sched")] {
//! use segue::sync::Semaphore;
//! use segue::{Either, after, scope, timeout};
//! use std::time::Duration;
//!
//! let seats = Semaphore::new(1);
//! let taken = seats.try_acquire().unwrap();
//!
//! // A time limit around whatever waits:
//! let late = timeout(Duration::from_millis(1), || seats.acquire().map(drop));
//! assert!(late.unwrap_err().timed_out());
//!
//! // Whichever comes first:
//! let first = seats.acquire_source().or(after(Duration::from_millis(1))).wait()?;
//! assert!(matches!(first, Either::Right(())));
//!
//! // Permits, locks and handles may be held across waits, and move between fibers, threads and tasks.
//! scope(|s| {
//!     s.spawn(move || drop(taken));
//!     seats.acquire().map(drop)
//! })?;
//! # }
//! # Ok::<(), segue::Cancelled>(())
//! ```
//!
//! Without default features only `segue-core` is used: the structures work, and fibers are plain
//! threads.

pub mod cancel;
pub mod channel;
pub mod concurrent;
#[cfg(feature = "sched")]
pub mod effect;
mod error;
pub mod fiber;
#[cfg(feature = "sched")]
pub mod incremental;
#[cfg(all(unix, feature = "io"))]
mod on_quit;
mod select;
pub mod source;
mod spawn;
pub mod sync;
pub mod testing;

#[cfg(feature = "sched")]
pub use segue_sched::{self as sched, Pool, blocking_here, dump, move_to, par, run, runtime};

/// A test that is run under many schedules, in a simulation: failing with the first of them, with a
/// command that replays that one.
///
/// Stands before a function without parameters, which returns nothing or a `Result`. Other
/// attributes, such as `#[ignore]` and `#[should_panic]`, keep their meaning. The attribute writes
/// a call of [`Explore::check`](testing::Explore::check), which lists the failures, and the
/// variables of the environment that change the search: `SEGUE_SEED=...` tries the schedule that a
/// report has named, `SEGUE_SCHEDULES=...` more or fewer than the test says; `SEGUE_TRACE=1` beside
/// a schedule prints its turns.
///
/// | argument | meaning | by default |
/// | --- | --- | --- |
/// | `policy = random` | each choice is drawn | so |
/// | `policy = pct(depth)` | by random priorities, for bugs of this depth | |
/// | `policy = plain` | one schedule alone, the plainest: first in first out, and nobody is preempted | |
/// | `policy = exhaustive(limit)` | all schedules; if there are more than `limit`, that is a failure | |
/// | `schedules = N` | how many are tried | 200 |
/// | `seed = N` | the seed of the first; the next has the next | 0 |
/// | `leaks = forbid` | a fiber that is not over when the function returns is a failure | `allow` |
/// | `preempt = false` | fibers are switched only where they wait or yield | `true` |
///
/// # Examples
///
/// ```
/// #[segue::test(policy = pct(2), schedules = 50, leaks = forbid)]
/// fn one_plus_one() -> Result<(), segue::JoinError> {
///     let one = segue::spawn(|| 1);
///     assert_eq!(one.join()? + 1, 2);
///     Ok(())
/// }
/// ```
#[cfg(feature = "sched")]
pub use segue_macros::test;

#[cfg(feature = "stm")]
pub use segue_stm as stm;

#[cfg(feature = "io")]
pub use segue_io::{fd, fs, net, pipe, process, pty, signal, stdio};

#[cfg(all(unix, feature = "io"))]
pub use on_quit::dump_on_quit;

pub use error::{Closed, Full, Rejected, WaitError};
pub use segue_core::{
    self as core, Blocking, CancelToken, Cancelled, Either, JoinError, JoinHandle, Scope, ScopeError, TryScope,
    Waitable, after, any_of, at, blocking, check, deadline, fiber_local, finally, interval, is_cancelled, now, shield,
    sleep, timeout, wait_future, yield_now,
};
#[cfg(feature = "sched")]
pub use spawn::join_context;
pub use spawn::{Builder, checkpoint, join, scope, spawn, spawn_task, try_scope};

/// The programs of `docs/testing.md`, run as tests.
#[cfg(all(doctest, feature = "sched"))]
#[doc = include_str!("../../../docs/testing.md")]
pub struct TestingDoctests;

/// The programs of `docs/cancellation.md`, run as tests.
#[cfg(all(doctest, feature = "sched"))]
#[doc = include_str!("../../../docs/cancellation.md")]
pub struct CancellationDoctests;

/// The programs of `docs/coming-from.md`, run as tests.
#[cfg(all(doctest, feature = "sched"))]
#[doc = include_str!("../../../docs/coming-from.md")]
pub struct ComingFromDoctests;

/// The programs of `docs/transactions.md`, run as tests.
#[cfg(all(doctest, feature = "stm"))]
#[doc = include_str!("../../../docs/transactions.md")]
pub struct TransactionsDoctests;

/// The programs of the README, run as tests.
#[cfg(all(doctest, feature = "io"))]
#[doc = include_str!("../../../README.md")]
pub struct ReadmeDoctests;
