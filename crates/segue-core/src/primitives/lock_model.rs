//! The lock of `lock.rs` as the model checker sees it: a locker that finds it taken is blocked,
//! instead of looking again and again.
//!
//! Used in its place under loom, which lets threads that spin do so for ever. It is not loom's own
//! mutex, since there a thread that waits for the lock is disturbed by an `unpark` that was meant
//! for a later `park`.
#![allow(unsafe_code)] // The cell behind the lock.

use crate::primitives::atomic::{AtomicBool, Ordering, Thread, UnsafeCell, current, park};
use std::ops::{Deref, DerefMut};

pub(crate) struct Lock<T> {
    locked: AtomicBool,
    /// The blocked threads. Not a part of the model: nothing in it is a step of its own.
    blocked: std::sync::Mutex<Vec<Thread>>,
    value: UnsafeCell<T>,
}

// SAFETY: as for the lock that ships.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: as for the lock that ships.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), blocked: Default::default(), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
        while self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.blocked.lock().unwrap().push(current());
            // An unpark that is meant for the holder's caller may end this too, and is then looked
            // for where it matters: in the mail.
            park();
        }
        LockGuard { lock: self }
    }

    /// The value, without the lock: nobody else has it.
    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

pub(crate) struct LockGuard<'a, T> {
    lock: &'a Lock<T>,
}

impl<'a, T> LockGuard<'a, T> {
    /// The lock that it holds.
    pub(crate) fn lock(&self) -> &'a Lock<T> {
        self.lock
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so nobody writes while the reference lives.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock and is borrowed mutably, so this is the only reference.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
        self.lock.blocked.lock().unwrap().drain(..).for_each(|thread| thread.unpark());
    }
}
