//! A word lock for the few instructions that move a waiter in or out of a queue.
//!
//! Used by every structure in this crate that has a list, by schedulers for closures that their
//! workers offer each other, and by no code that calls foreign code with the lock held: the holder
//! never waits, allocates little and runs no user code, so a locker that finds a taken lock spins
//! for a moment and then gives its time slice away. In return the unlock is a store, where that of
//! a mutex with waiters is an exchange.
//!
//! Under loom a locker that finds a taken lock is blocked, since a thread that spins can do so for
//! ever there; so the models say nothing of the spinning. Loom's own mutex would not do: a thread
//! that waits for that is disturbed by an `unpark` that was meant for a later `park`.
//!
//! Ordering: the unlock releases, the next lock acquires; writes under the lock are seen under the
//! lock.
#![allow(unsafe_code)] // The cell behind the lock.

use crate::primitives::atomic::{self, AtomicBool, Ordering, UnsafeCell};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// How often to look again before the time slice is given away.
#[cfg(not(loom))]
const SPINS: u32 = 64;

/// A lock for a few instructions: its holder calls no foreign code and does not wait. A locker that
/// finds a taken lock spins, and then gives its time slice away. A panic of the holder unlocks.
///
/// # Examples
///
/// ```
/// use segue_core::scheduling::Lock;
///
/// let offers = Lock::new(Vec::new());
/// offers.lock().push("a closure");
/// assert_eq!(offers.lock().pop(), Some("a closure"));
/// ```
pub struct Lock<T> {
    locked: AtomicBool,
    /// The blocked threads of a model, and not a part of that model: nothing here is a step of its
    /// own.
    #[cfg(loom)]
    blocked: std::sync::Mutex<Vec<atomic::Thread>>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a guard, and `locked` admits one guard at a time; so a
// shared lock moves the value between threads and never shares that.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: the lock owns its value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that nobody holds.
    #[cfg(not(loom))]
    #[inline]
    pub const fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// A lock that nobody holds.
    #[cfg(loom)]
    pub fn new(value: T) -> Self {
        Self { locked: AtomicBool::new(false), blocked: Default::default(), value: UnsafeCell::new(value) }
    }

    /// Locks, until the drop of the guard.
    ///
    /// No fiber is suspended: a caller that holds the lock already spins for ever.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        if !self.try_acquire() {
            self.acquire_slowly();
        }
        LockGuard { lock: self, value: PhantomData }
    }

    /// Locks, if nobody else does.
    #[cfg(debug_assertions)]
    pub(crate) fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        self.try_acquire().then(|| LockGuard { lock: self, value: PhantomData })
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        // An exchange is cheaper than a compare-and-exchange, and as good: a taken lock stays
        // unchanged. In loom an exchange on a taken lock comes after an unlock.
        if cfg!(loom) {
            self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        } else {
            !self.locked.swap(true, Ordering::Acquire)
        }
    }

    #[cfg(not(loom))]
    #[cold]
    fn acquire_slowly(&self) {
        for _ in 0..SPINS {
            atomic::spin_loop();
            if !self.locked.load(Ordering::Relaxed) && self.try_acquire() {
                return;
            }
        }
        while !self.try_acquire() {
            atomic::yield_now();
        }
    }

    #[cfg(loom)]
    fn acquire_slowly(&self) {
        loop {
            self.blocked.lock().unwrap().push(atomic::current());
            // An unpark that is meant for the holder's caller may end this too, and is then looked
            // for in the mail, where it matters.
            atomic::park();
            if self.try_acquire() {
                return;
            }
        }
    }

    /// The value, without the lock: nobody else has that.
    pub(crate) fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// The [`Lock`] is held. The guard may be dropped on any thread.
///
/// A shared guard shares the value, which a lock does not: so a guard is `Sync` only where `T` is.
///
/// ```compile_fail,E0277
/// use segue_core::scheduling::LockGuard;
/// use std::cell::Cell;
///
/// fn is_shared_between_threads<T: Sync>() {}
/// is_shared_between_threads::<LockGuard<'_, u32>>();
/// is_shared_between_threads::<LockGuard<'_, Cell<u32>>>();
/// ```
pub struct LockGuard<'a, T> {
    lock: &'a Lock<T>,
    /// Shared and sent as an exclusive reference is.
    value: PhantomData<&'a mut T>,
}

impl<'a, T> LockGuard<'a, T> {
    /// The held lock.
    #[inline]
    pub(crate) fn lock(&self) -> &'a Lock<T> {
        self.lock
    }
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard holds the lock, so nobody writes while the reference lives.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock and is borrowed mutably, so this is the only reference.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for LockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.locked.store(false, Ordering::Release);
        #[cfg(loom)]
        self.lock.blocked.lock().unwrap().drain(..).for_each(|thread| thread.unpark());
    }
}
