//! Locks, cells and channels with std's signatures, on those of [`segue::sync`] and
//! [`segue::channel`].

mod barrier;
mod condvar;
mod mark;
pub mod mpsc;
mod mutex;
mod once;
mod rwlock;

pub use barrier::Barrier;
pub use condvar::{Condvar, WaitTimeoutResult};
pub use mutex::{Mutex, MutexGuard};
#[expect(deprecated, reason = "std has the name, too")]
pub use once::ONCE_INIT;
pub use once::{LazyLock, Once, OnceLock, OnceState};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use segue::sync::BarrierWaitResult;
#[doc(no_inline)]
pub use std::sync::*;

use mpsc::{Receiver, Sender, SyncSender};
use std::panic::{RefUnwindSafe, UnwindSafe};

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
