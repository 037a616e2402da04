//! A count, and waits until the count is zero.
//!
//! Used by [`Latch`](super::Latch), which only counts down, and by [`WaitGroup`](super::WaitGroup),
//! which counts in both directions and is used again.
//!
//! # States
//!
//! ```text
//!            add              count_down, not to zero
//!   ZERO ----------> COUNTING <--------------------> COUNTING
//!     ^                 |
//!     +-----------------+ count_down to zero, under the lock; it releases all waiters
//! ```
//!
//! The count is a word beside the queue. Steps that do not reach zero are one exchange on the word
//! and ask for nothing else. The step to zero is made under the lock, together with the release of
//! everybody in the queue. A waiter joins under the lock as well, after seeing there that the count
//! is not zero. Hence each waiter in the queue has seen a count that has not been zero since.
//!
//! **Commit point** of a wait: the look that finds zero, or the release. A waiter that was released
//! is done whatever the count has become since: a count that is used again does not call back those
//! of its former round. **Cancellation**: the waiter leaves the queue; the count stays. **Idle**:
//! zero, and an empty queue.
//!
//! **The race to fear**: the last one counts down between a waiter's look and its joining, and
//! nobody is left for the wake-up. This can't happen: both are under the lock.
//!
//! # Orderings
//!
//! `count_down` releases, and each later step on the word continues its release sequence; a waiter
//! that sees zero has acquired the work of all parties before their last steps: by its own load,
//! or, for a released waiter, through the claim of the party that made the step to zero with an
//! exchange that acquires.

use segue_core::{Guard, Operation, Unlocked, WaitQueue, Waiting, WaitsFor, preemption_point};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
pub(super) struct Counter {
    count: AtomicUsize,
    waiters: WaitQueue<(), ()>,
}

impl Counter {
    pub(super) const fn new(count: usize) -> Self {
        Self { count: AtomicUsize::new(count), waiters: WaitQueue::new(()) }
    }

    /// The count, and the parties' work before their steps.
    #[inline]
    pub(super) fn get(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Counts up. Answers whether that was possible; if not, the count stays.
    #[inline]
    #[must_use]
    pub(super) fn add(&self, n: usize) -> bool {
        // Publishes nothing: a party that counts up goes on to do something, and publishes that
        // when counting down.
        self.count.try_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_add(n)).is_ok()
    }

    /// Counts down, and releases the waiters at zero. Answers as [`add`](Self::add).
    #[inline]
    #[must_use]
    pub(super) fn count_down(&self, n: usize) -> bool {
        let not_to_zero = |count: usize| count.checked_sub(n).filter(|left| *left > 0 || n == 0);
        self.count.try_update(Ordering::Release, Ordering::Relaxed, not_to_zero).is_ok() || self.count_down_to_zero(n)
    }

    #[cold]
    fn count_down_to_zero(&self, n: usize) -> bool {
        let waiters = self.waiters.lock();
        // Others may count in between, so the count need not be zero any more.
        let before = self.count.try_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(n));
        if before == Ok(n) {
            waiters.hand_over_all(0, ());
        }
        before.is_ok()
    }

    /// The wait for zero.
    #[inline]
    pub(super) fn waiting(&self, waits_for: WaitsFor) -> Waiting<'_, Zero<'_>, (), ()> {
        self.waiters.operation(waits_for, Zero(self))
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        preemption_point();
        self.get().fmt(f)
    }
}

/// Waits until the count is zero.
pub(super) struct Zero<'a>(&'a Counter);

impl Operation<(), ()> for Zero<'_> {
    type Output = ();

    #[inline]
    fn attempt_unlocked(&mut self) -> Unlocked<()> {
        Unlocked::or_no((self.0.get() == 0).then_some(()))
    }

    #[inline]
    fn may_be_ready(&self) -> bool {
        self.0.get() == 0
    }

    #[inline]
    fn attempt(&mut self, _: &mut Guard<'_, (), ()>) -> Option<()> {
        (self.0.get() == 0).then_some(())
    }

    fn is_ready(&mut self, _: &mut Guard<'_, (), ()>) -> bool {
        self.0.get() == 0
    }

    #[inline]
    fn commit(&mut self, released: Option<()>) -> Option<()> {
        released
    }

    fn give_back(&mut self, _: Option<()>, _: &mut Guard<'_, (), ()>) -> Option<()> {
        // Everybody was released.
        None
    }
}
