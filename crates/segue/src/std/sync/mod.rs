//! Locks, cells and channels with std's signatures, on those of [`crate::sync`] and
//! [`crate::channel`].

mod barrier;
mod condvar;
pub mod mpsc;
mod mutex;
mod once;
mod poison;
mod rwlock;

pub use ::std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic};
pub use barrier::Barrier;
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
pub use once::{LazyLock, Once, OnceLock};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use crate::sync::BarrierWaitResult;

use super::unless_cancelled;
use segue_core::Cancelled;
use std::thread;

/// What a wait for a lock has brought. One that was cancelled unwinds.
///
/// A fiber that panics can't wait, and to unwind from a `Drop` would end the process. So there the
/// thread waits, by `try_lock`.
fn locked<G>(lock: Result<G, Cancelled>, try_lock: impl Fn() -> Option<G>) -> G {
    match lock {
        Err(_) if thread::panicking() => loop {
            if let Some(guard) = try_lock() {
                return guard;
            }
            thread::yield_now();
        },
        result => unless_cancelled(result),
    }
}
