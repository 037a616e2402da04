//! A place to wait until somebody says that something may have changed.
//!
//! Used with a [`Mutex`](super::Mutex) around the changing value, by fibers, threads and tasks.
//!
//! # States of a wait
//!
//! ```text
//!   Holds(guard) --joins the condition's queue, then unlocks--> Waits
//!   Waits        --notified-----------------------------------> Locks (it owes the notification)
//!   Waits        --withdrawn----------------------------------> Locks
//!   Locks        --the mutex is locked------------------------> the guard again
//! ```
//!
//! A wait is a source of two steps: for the notification, and then for the mutex. The waiter joins
//! the condition's queue first and unlocks second. So a notifier that changed the value under the
//! mutex finds the waiter in the queue: no notification is lost in between. The unlock comes after
//! the lock of the queue, since an unlock runs wakers.
//!
//! **Commit point**: the guard. Up to then a wait that ends otherwise passes its notification on to
//! the next waiter: by the refused claim if the wait was cancelled first, by `give_back` if dropped
//! before a look, by its `Drop` if dropped while waiting for the mutex. A wait that was notified
//! first and cancelled while waiting for the mutex yields the guard, and the cancellation shows at
//! the next wait.
//!
//! **Cancellation** of a fiber or thread: the waiter leaves the queue, locks the mutex again,
//! whatever cancels the waiter, and the guard is in the error. A task that is dropped leaves, and
//! does not lock the mutex.
//!
//! **The race to fear**: an arm of a select that joins, unlocks and is withdrawn, because a later
//! arm is ready, and then begins anew. A notification in between would not find that arm. So the
//! arm does not wait again: it locks the mutex, as after a wake-up without a reason.
//!
//! Orderings: those of the queue and of the mutex. The mutex orders all that is true under it.
//!
//! After Hoare's and Mesa's monitors; as in Mesa, a notification is a hint, and the waiter looks
//! again.
#![allow(unsafe_code)] // A source that is made of two.

use crate::Rejected;

use super::mutex::{Lock, MutexGuard, Standing};
use segue_core::{
    Cancelled, Node, Retreat, Source, Take, Trigger, WaitQueue, Waitable, Waiting, WaitsFor, preemption_point,
    registered, wait, wait_future_shielded,
};
use std::panic::Location;

/// A condition that is waited for with a [`Mutex`](super::Mutex) unlocked.
///
/// As [`std::sync::Condvar`]: a waiter must check its condition again, since a wait may end without
/// a reason, and since others may have come first. One condition may be used with several mutexes.
///
/// # Fairness
///
/// First in, first out: [`notify_one`](Condvar::notify_one) wakes the waiter that came first. For
/// the mutex that waiter then competes like any other locker.
///
/// # Examples
///
/// ```
/// use segue::sync::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// segue::scope(|s| {
///     let (ready, changed) = (&ready, &changed);
///     s.spawn(|| -> Result<(), segue::Cancelled> {
///         let guard = changed.wait_while(ready.lock()?, |ready| !*ready)?;
///         assert!(*guard);
///         Ok(())
///     });
///     *ready.lock().unwrap() = true;
///     changed.notify_one();
/// });
/// ```
#[derive(Default)]
pub struct Condvar {
    waiters: WaitQueue<()>,
}

impl Condvar {
    /// A condition that nobody waits for.
    #[must_use]
    #[inline]
    pub const fn new() -> Self {
        Self { waiters: WaitQueue::new(()) }
    }

    /// Unlocks the mutex, waits for a notification, and locks again. No notification after the
    /// unlock is missed.
    ///
    /// To wait for a limited time, make the call in [`timeout`](crate::timeout).
    ///
    /// # Cancellation
    /// *Loses its place in the queue*. The mutex is locked again in any case, which may take as
    /// long as others have the mutex; the guard is in the error. If the caller was cancelled before
    /// the call, or is a fiber that panics, the mutex is not unlocked at all.
    ///
    /// # Errors
    /// [`Rejected`], which has the guard, if the caller was cancelled; `?` makes a [`Cancelled`] of
    /// it, and unlocks.
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
    ) -> Result<MutexGuard<'a, T>, Rejected<MutexGuard<'a, T>>> {
        self.wait_at(guard, Location::caller())
    }

    /// As [`wait`](Condvar::wait), called at `at`: for `segue-std`, which waits in a closure.
    ///
    /// # Cancellation
    /// As for [`wait`](Condvar::wait).
    ///
    /// # Errors
    /// As for [`wait`](Condvar::wait).
    #[doc(hidden)]
    pub fn wait_at<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        at: &'static Location<'static>,
    ) -> Result<MutexGuard<'a, T>, Rejected<MutexGuard<'a, T>>> {
        let mut waiting = self.waiting(guard, at);
        wait(&mut waiting).or_else(|cancelled| waiting.end(cancelled))
    }

    /// Waits while `condition` holds for the value; the closure is called under the mutex, first
    /// before the wait and then after each notification.
    ///
    /// # Cancellation
    /// As for [`wait`](Condvar::wait).
    ///
    /// # Errors
    /// [`Rejected`], which has the guard, if the caller was cancelled during a wait.
    #[track_caller]
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<MutexGuard<'a, T>, Rejected<MutexGuard<'a, T>>> {
        let at = Location::caller();
        while condition(&mut guard) {
            guard = self.wait_at(guard, at)?;
        }
        Ok(guard)
    }

    /// [`wait`](Condvar::wait) as a source, which yields the guard again. The first poll or wait
    /// unlocks the mutex.
    ///
    /// # Cancellation
    /// *Loses its place in the queue*, and the mutex is unlocked: a future that is dropped, or an
    /// arm that was not chosen, has given its guard away. Its notification, if any, goes to the
    /// next.
    ///
    /// # Examples
    ///
    /// ```
    /// # use segue::sync::{Condvar, Mutex};
    /// async fn until_open(open: &Mutex<bool>, changed: &Condvar) {
    ///     let mut guard = open.lock_source().await;
    ///     while !*guard {
    ///         guard = changed.wait_source(guard).await;
    ///     }
    /// }
    /// ```
    #[track_caller]
    pub fn wait_source<'a, T: ?Sized>(
        &'a self,
        guard: MutexGuard<'a, T>,
    ) -> Waitable<impl Source<Output = MutexGuard<'a, T>>> {
        Waitable::new(self.waiting(guard, Location::caller()))
    }

    fn waiting<'c, 'a, T: ?Sized>(
        &'c self,
        guard: MutexGuard<'a, T>,
        at: &'static Location<'static>,
    ) -> Wait<'c, 'a, T> {
        let waits_for = WaitsFor { what: "a condition", at };
        Wait {
            condition: self,
            notified: self.waiters.source(waits_for, |()| false, |()| ()),
            locking: MutexGuard::mutex(&guard).locking(waits_for),
            step: Step::Holds(guard),
        }
    }

    /// Wakes the one that has waited longest. No effect without a waiter. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// segue::sync::Condvar::new().notify_one();
    /// ```
    #[inline]
    pub fn notify_one(&self) {
        preemption_point();
        // Without a waiter the notification is for nobody.
        let _ = self.waiters.lock().hand_over(0, ());
    }

    /// Wakes all waiters. Never waits.
    #[inline]
    pub fn notify_all(&self) {
        preemption_point();
        self.waiters.lock().hand_over_all(0, ());
    }
}

segue_core::impl_debug!([] Condvar);

/// Waits to be notified, and for nothing else: finds nothing by itself, and passes on an unused
/// notification.
type Notified<'c> = Waiting<'c, Take<fn(&()) -> bool, fn(&mut ())>, (), ()>;

/// How far a wait is.
enum Step<'a, T: ?Sized> {
    Holds(MutexGuard<'a, T>),
    Waits,
    Locks { notified: bool },
}

/// The source of a wait.
struct Wait<'c, 'a, T: ?Sized> {
    condition: &'c Condvar,
    notified: Notified<'c>,
    locking: Waiting<'a, Lock<'a, T>, (), Standing>,
    step: Step<'a, T>,
}

impl<'a, T: ?Sized> Wait<'_, 'a, T> {
    /// The end of a wait that was cancelled and has left the queues: locks the mutex again.
    #[cold]
    fn end(mut self, cancelled: Cancelled) -> Result<MutexGuard<'a, T>, Rejected<MutexGuard<'a, T>>> {
        let notified = matches!(self.step, Step::Locks { notified: true });
        let guard = match std::mem::replace(&mut self.step, Step::Waits) {
            Step::Holds(guard) => guard,
            // Not in a shield, which may lie in a budget that is over.
            _ => wait_future_shielded(Waitable::new(&mut self.locking)),
        };
        if notified { Ok(guard) } else { Err(Rejected { value: guard, error: cancelled }) }
    }

    /// In the condition's queue: unlocks, which may call wakers.
    #[inline]
    fn joined(&mut self) {
        let holds = std::mem::replace(&mut self.step, Step::Waits);
        registered(self.notified.waits_for(), || drop(holds));
    }

    /// The mutex is locked: the wait is over, and the notification was used.
    #[inline]
    fn locked(&mut self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.step = Step::Locks { notified: false };
        guard
    }
}

impl<T: ?Sized> Drop for Wait<'_, '_, T> {
    fn drop(&mut self) {
        if let Step::Locks { notified: true } = self.step {
            self.condition.notify_one();
        }
    }
}

// SAFETY: every step goes to that source of the two which is registered in this step of the wait,
// with the slot of that source; the other one's is not registered then. The change from the first
// to the second happens in `commit` and `withdraw`, after which the first is not registered. The
// guard is dropped by `joined`, after the first has been registered: to unlock runs no foreign code
// but wakers, which do not unwind and, as `registered` sees to, do not wait.
unsafe impl<'a, T: ?Sized> Source for Wait<'_, 'a, T> {
    type Output = MutexGuard<'a, T>;
    type Slot = (Node<()>, Node<Standing>);

    fn waits_for(&self) -> WaitsFor {
        self.notified.waits_for()
    }

    fn address(&self, least: usize) -> Option<usize> {
        match self.step {
            Step::Locks { .. } => self.locking.address(least),
            _ => self.notified.address(least),
        }
    }

    #[inline]
    fn attempt(&mut self) -> Option<MutexGuard<'a, T>> {
        match self.step {
            Step::Locks { .. } => self.locking.attempt().map(|guard| self.locked(guard)),
            _ => None,
        }
    }

    unsafe fn register(&mut self, slot: &mut Self::Slot, trigger: &Trigger, arm: usize) -> Result<(), Retreat> {
        if let Step::Locks { .. } = self.step {
            // SAFETY: as the caller promises.
            return unsafe { self.locking.register(&mut slot.1, trigger, arm) };
        }
        // SAFETY: as the caller promises.
        unsafe { self.notified.register(&mut slot.0, trigger, arm) }?;
        self.joined();
        Ok(())
    }

    unsafe fn withdraw(&mut self, slot: &mut Self::Slot) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.step {
                Step::Holds(_) => {}
                Step::Waits => {
                    self.notified.withdraw(&mut slot.0);
                    self.step = Step::Locks { notified: false };
                }
                Step::Locks { .. } => self.locking.withdraw(&mut slot.1),
            }
        }
    }

    unsafe fn commit(&mut self, slot: &mut Self::Slot, arm: usize) -> Option<MutexGuard<'a, T>> {
        // SAFETY: as the caller promises.
        unsafe {
            match self.step {
                Step::Locks { .. } => self.locking.commit(&mut slot.1, arm).map(|guard| self.locked(guard)),
                _ => {
                    let notified = self.notified.commit(&mut slot.0, arm).is_some();
                    self.step = Step::Locks { notified };
                    None
                }
            }
        }
    }

    unsafe fn give_back(&mut self, slot: &mut Self::Slot, arm: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            match self.step {
                Step::Locks { .. } => self.locking.give_back(&mut slot.1, arm),
                _ => {
                    self.step = Step::Locks { notified: false };
                    self.notified.give_back(&mut slot.0, arm);
                }
            }
        }
    }
}
