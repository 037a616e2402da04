//! Locks, cells and channels with std's signatures, on those of [`segue::sync`] and
//! [`segue::channel`].

mod barrier;
mod condvar;
pub mod mpsc;
mod mutex;
mod once;
mod mark;
mod rwlock;

pub use barrier::Barrier;
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
#[expect(deprecated, reason = "std has the name, too")]
pub use once::ONCE_INIT;
pub use once::{LazyLock, Once, OnceLock, OnceState};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use segue::sync::BarrierWaitResult;
pub use std::sync::*;

use crate::unless_cancelled;
use mpsc::{Receiver, Sender, SyncSender};
use segue::Cancelled;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::thread;

/// The result of a wait for a lock. One that was cancelled unwinds.
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

/// Types for a `catch_unwind`, as std's: a lock says by its mark that it was left by a panic, and
/// the others are not changed half.
macro_rules! unwind_safe {
    ($($name:ident $(<$($life:lifetime,)? T $(: ?$sized:ident)?>)?),* $(,)?) => {$(
        impl $(<$($life,)? T $(: ?$sized)?>)? UnwindSafe for $name $(<$($life,)? T>)? {}
        impl $(<$($life,)? T $(: ?$sized)?>)? RefUnwindSafe for $name $(<$($life,)? T>)? {}
    )*};
}

unwind_safe! {
    Barrier,
    Condvar,
    Mutex<T: ?Sized>,
    MutexGuard<'a, T: ?Sized>,
    Once,
    Receiver<T>,
    RwLock<T: ?Sized>,
    RwLockWriteGuard<'a, T: ?Sized>,
    Sender<T>,
    SyncSender<T>,
}

impl<T: ?Sized + RefUnwindSafe> UnwindSafe for RwLockReadGuard<'_, T> {}
impl<T: ?Sized> RefUnwindSafe for RwLockReadGuard<'_, T> {}
