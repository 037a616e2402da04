//! The runtimes of applications, and the default one: the pool behind plain threads.
//!
//! Used by parallel loops outside of fibers, by hosted fibers, and by `segue`.
//!
//! # One runtime, whichever function is called first
//!
//! How the workers of these runtimes idle is decided when a program is built: by the feature `io`
//! of this crate, which `segue` switches on with its own. So the first call need not say that, and
//! a parallel loop that comes first finds the same pool as a socket does. The same is true for the
//! size of stacks, by the feature `deep-stacks`.

use crate::run::pool::Pool;
use crate::run::runtime::Runtime;
use segue_core::WaitsFor;
use segue_core::build::DefaultRuntime;
use segue_core::chain::barrier;
#[cfg(not(feature = "io"))]
use segue_core::scheduling::WaitPark as Idle;
use segue_core::scheduling::{Family, Spawn};
use segue_core::unwind::__rust_begin_short_backtrace;
#[cfg(feature = "io")]
use segue_io::DriverPark as Idle;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

/// The time that a worker may stay in one fiber until a debug build reports that.
const PATIENCE: Duration = Duration::from_secs(1);

/// The stacks of the default runtime with the feature `deep-stacks`: as large as those of threads,
/// with room for their guards.
const DEEP: usize = 4 << 20;

/// Makes the park of one worker.
type MakeIdle = fn() -> io::Result<Idle>;

/// A scheduler for an application, to be configured and started: `runtime().workers(2).run(..)`.
///
/// The runtime steals work by default. With the feature `io`, which `segue` has by default, its
/// workers wait for the network while they have nothing to run.
///
/// In debug builds the runtime has a [monitor](Runtime::monitor), and so have [`run`] and
/// [`default_pool`]: a worker that stays in one fiber for more than a second is reported on
/// standard error, with the fiber's name and place. Such a fiber computes without a
/// [`checkpoint`](crate::checkpoint), or has blocked its thread by a call that is not Segue's, with
/// all other fibers of its worker. [`no_monitor`](Runtime::no_monitor) leaves that out; release
/// builds have one on request.
///
/// # Examples
///
/// ```
/// let answer = segue_sched::runtime().workers(2).run(|| 42)?;
/// assert_eq!(answer, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn runtime() -> Runtime<MakeIdle> {
    #[cfg(feature = "io")]
    let make: MakeIdle = Idle::new;
    #[cfg(not(feature = "io"))]
    let make: MakeIdle = || Ok(Idle::new());
    segue_core::scheduling::name_fibers_in_debug_builds();
    let runtime = Runtime::new().park(make);
    if cfg!(all(debug_assertions, not(miri))) { runtime.monitor(PATIENCE) } else { runtime }
}

/// Runs `f` as the first fiber of a runtime with a worker for each processor, and returns its
/// result.
///
/// When `f` has returned, the remaining fibers are cancelled and waited for; a [`runtime`] can give
/// them a grace, and a deadline ([`Runtime::shutdown`]). A fiber starts another runtime inside of
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
/// assert_eq!(segue_sched::run(|| segue_core::spawn(|| 42).join().unwrap()), 42);
/// ```
pub fn run<T>(f: impl FnOnce() -> T) -> T {
    let (mut f, mut result) = (Some(f), None);
    run_first(&mut || result = f.take().map(__rust_begin_short_backtrace));
    result.expect("the first fiber was there")
}

/// As [`run`], compiled here and not in each program.
#[inline(never)]
fn run_first(f: &mut dyn FnMut()) {
    runtime().run(f).unwrap_or_else(|error| panic!("the runtime could not be started: {error}"));
}

static DEFAULT: OnceLock<Pool> = OnceLock::new();

/// The runtime behind plain threads, a [`runtime`] on threads of its own. This one starts at the
/// first use and stays until the process ends.
///
/// # Panics
/// If threads, stacks or a driver can't be made.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_sched::default_pool().run(|| 42), Ok(42));
/// ```
pub fn default_pool() -> &'static Pool {
    let or_panic = |error| -> Pool { panic!("the default runtime could not be started: {error}") };
    // A computation that is captured here would leave the cell locked.
    let start = || barrier(WaitsFor::new("the start of the default runtime"), make);
    DEFAULT.get_or_init(|| start().unwrap_or_else(or_panic))
}

fn make() -> io::Result<Pool> {
    let runtime = runtime().name("segue-default");
    if cfg!(feature = "deep-stacks") {
        runtime.stacks(crate::StackConfig::new().slot_size(DEEP)).pool()
    } else {
        runtime.pool()
    }
}

/// The [`default_pool`], behind the builders and scopes that plain threads use.
///
/// # Examples
///
/// ```
/// use segue_core::build::{Builder, Detached};
/// use segue_sched::DefaultPool;
///
/// let fiber = Builder::<Detached<DefaultPool>>::new().spawn(segue_core::in_fiber);
/// assert!(fiber.join().unwrap());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DefaultPool;

impl DefaultRuntime for DefaultPool {
    fn start() -> Option<(&'static dyn Spawn, &'static Family)> {
        let pool = default_pool();
        Some((pool, pool.family()))
    }
}
