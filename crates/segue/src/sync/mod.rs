//! Structures at which fibers of any scheduler, plain threads and tasks of any async runtime meet.
//!
//! Each is written once against `segue-core`, with its one queue of waiters, and knows no
//! scheduler. An operation that can wait comes in up to three forms: `x` waits, in a fiber or a
//! thread; `try_x`, where there is a use for it, never waits; `x_source` is a
//! [`Waitable`](crate::Waitable) that can be awaited by a task, or chosen among others.

mod barrier;
mod condvar;
mod counter;
mod entry;
mod force_error;
mod latch;
mod lazy;
mod mutex;
mod mvar;
mod notify;
mod once;
mod once_cell;
#[cfg(not(feature = "stm"))]
mod outside;
mod permit;
mod place;
mod poison;
mod promise;
mod rwlock;
mod rwlock_guard;
mod semaphore;
mod wait_group;

#[cfg(feature = "stm")]
use segue_stm::outside;

pub use barrier::{Barrier, BarrierWaitResult};
pub use condvar::Condvar;
pub use entry::{Entry, Initializer};
pub use force_error::{ForceError, Recursive, SetError};
pub use latch::Latch;
pub use lazy::Lazy;
pub use mutex::{Mutex, MutexGuard};
pub use mvar::{Loan, MVar};
pub use notify::Notify;
pub use once::Once;
pub use once_cell::OnceCell;
pub use permit::{OwnedPermit, Permit, Permits};
pub use place::{Put, Putting};
pub use poison::{Change, Poison, Poisoned};
pub use promise::{Promise, Resolver, promise};
pub use rwlock::RwLock;
pub use rwlock_guard::{RwLockGuard, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::Semaphore;
pub use wait_group::{Hold, WaitGroup};
