//! [`PerProcess`]: a lock that the child of a fork can take, also if a thread of the parent held
//! that.
//!
//! Used by the lists of a whole process: of the plain threads that sleep, of schedulers, of rings.
//!
//! # The idea
//!
//! The child of a fork has one thread. A lock that another thread held at that instant is never
//! unlocked in the child, and the value may be in the middle of a change; and it tells of threads
//! that the child does not have. So the word of the lock names the *process* of the holder, and a
//! locker of another process takes the lock from that one. The first holder in a process begins
//! with a new value. That of the parent stays where it is: nobody reads or drops a half of a
//! change.
//!
//! | word | means | a locker |
//! | --- | --- | --- |
//! | 0 | free | takes the lock |
//! | this process | a thread of this process holds the lock | waits |
//! | another process | left behind by a fork | takes the lock |
//!
//! **The race to fear**: two threads of the child take the lock from the parent's at once. Each
//! does so by an exchange of the very word that it has seen, and the second one sees its own
//! process.
//!
//! A child never has the number of its parent, which is there at the fork. A grandchild may get
//! that of a process that has ended: then it counts as the same one.
//!
//! Ordering: an unlock releases, a lock acquires.
#![allow(unsafe_code)] // The cell behind the lock.

use std::cell::UnsafeCell;
use std::fmt;
use std::hint;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A lock around a value that each process has for itself.
///
/// # Examples
///
/// ```
/// use segue_core::scheduling::PerProcess;
///
/// static NAMES: PerProcess<Vec<&str>> = PerProcess::new(Vec::new);
///
/// NAMES.lock().push("a name");
/// assert_eq!(*NAMES.lock(), ["a name"]);
/// ```
pub struct PerProcess<T> {
    /// Zero, or the process of the holder.
    holder: AtomicU32,
    /// Zero, or the process that the value in place belongs to. Written by holders.
    process: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
    new: fn() -> T,
}

// SAFETY: the value is reached through a guard alone, and of a process one thread has that.
unsafe impl<T: Send> Sync for PerProcess<T> {}

/// The right to use the value of a [`PerProcess`], until its drop.
///
/// Shared between threads only if the value may be: a guard hands out references to the value.
///
/// ```compile_fail,E0277
/// use segue_core::scheduling::{OfProcess, PerProcess};
/// use std::cell::Cell;
///
/// fn shared<T: Sync>(_: T) {}
///
/// static COUNT: PerProcess<Cell<u32>> = PerProcess::new(Cell::default);
/// shared(COUNT.lock());
/// ```
pub struct OfProcess<'a, T>(&'a PerProcess<T>, PhantomData<&'a mut T>);

fn this_process() -> u32 {
    // Elsewhere there is no fork, or no process.
    if cfg!(unix) { std::process::id() } else { 1 }
}

impl<T> PerProcess<T> {
    /// A lock that nobody holds. `new` makes the value in each process, at the first lock. `new`
    /// does not panic.
    pub const fn new(new: fn() -> T) -> Self {
        Self {
            holder: AtomicU32::new(0),
            process: AtomicU32::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
            new,
        }
    }

    /// Locks. The holder calls no foreign code, and so the wait is short; the thread is blocked.
    pub fn lock(&self) -> OfProcess<'_, T> {
        let mut looks = 0_u32;
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            looks = looks.saturating_add(1);
            match looks {
                ..64 => hint::spin_loop(),
                64..128 => thread::yield_now(),
                // The holder may be one that the system lets run later than this thread.
                _ => thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Locks, if no thread of this process does.
    pub fn try_lock(&self) -> Option<OfProcess<'_, T>> {
        let (seen, own) = (self.holder.load(Ordering::Relaxed), this_process());
        if seen == own {
            return None;
        }
        self.holder.compare_exchange(seen, own, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let guard = OfProcess(self, PhantomData);
        if self.process.load(Ordering::Relaxed) != own {
            // SAFETY: this thread has the lock, and no other thread of the process a reference to
            // the value. A value of the parent's is not dropped.
            unsafe { *self.value.get() = MaybeUninit::new((self.new)()) };
            self.process.store(own, Ordering::Relaxed);
        }
        Some(guard)
    }
}

impl<T> Deref for OfProcess<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held, and has put the value of this process in place.
        unsafe { (*self.0.value.get()).assume_init_ref() }
    }
}

impl<T> DerefMut for OfProcess<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; and this is the holder's one guard, borrowed alone.
        unsafe { (*self.0.value.get()).assume_init_mut() }
    }
}

impl<T> Drop for OfProcess<'_, T> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Release);
    }
}

impl<T> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PerProcess")
    }
}

impl<T> fmt::Debug for OfProcess<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfProcess")
    }
}

#[cfg(all(test, unix, not(any(miri, loom))))]
#[path = "../../tests/units/per_process.rs"]
mod tests;
