//! The default runtime: the pool behind plain threads.
//!
//! Used by parallel loops outside of fibers, and by `segue`, which says how its workers idle.

use crate::run::builder::Builder;
use crate::run::pool::Pool;
use segue_core::WaitsFor;
use segue_core::chain::barrier;
use std::io;
use std::sync::OnceLock;

static DEFAULT: OnceLock<Pool> = OnceLock::new();

/// The runtime behind plain threads. It starts at the first use and stays until the process ends.
///
/// If nothing of `segue` has started it, its workers wait without a driver; sockets work all the
/// same.
///
/// # Panics
/// If threads or stacks can't be made.
///
/// # Examples
///
/// ```
/// assert_eq!(segue_sched::default_pool().run(|| 42), Ok(42));
/// ```
pub fn default_pool() -> &'static Pool {
    default_pool_or(|| Builder::new().name("segue-default").pool())
}

/// As [`default_pool`], made by `make` if it has not started yet.
///
/// # Panics
/// If `make` fails.
///
/// # Examples
///
/// ```
/// use segue_sched::{Builder, default_pool_or};
///
/// let pool = default_pool_or(|| Builder::new().workers(2).pool());
/// assert_eq!(pool.run(|| 42), Ok(42));
/// ```
pub fn default_pool_or(make: impl FnOnce() -> io::Result<Pool>) -> &'static Pool {
    let or_panic = |error| -> Pool { panic!("the default runtime could not be started: {error}") };
    // A computation that is captured here would leave the cell locked.
    let start = || barrier(WaitsFor::new("the start of the default runtime"), make);
    DEFAULT.get_or_init(|| start().unwrap_or_else(or_panic))
}
