//! A count that is waited for until it is zero.
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
//! everybody in the queue. A waiter joins under the lock as well, after it has seen there that the
//! count is not zero. Hence each waiter in the queue has seen a count that has not been zero since.
//!
//! **Commit point** of a wait: the look that finds zero, or the release. A waiter that was released
//! is done whatever the count has become since: a count that is used again does not call back those
//! of its former round. **Cancellation**: the waiter leaves the queue; the count is as it was.
//! **Idle**: zero, and an empty queue.
//!
//! **The race to fear**: the last one counts down between a waiter's look and its joining, and
//! nobody is left to wake it. It can't: both are under the lock.
//!
//! # Orderings
//!
//! `count_down` releases, and each later step on the word continues its release sequence; a waiter
//! that sees zero has acquired what all parties did before they counted down: by its own load, or,
//! if it is released, through the claim of the party that made the step to zero with an exchange
//! that acquires.

use segue_core::{Guard, Operation, Unlocked, WaitQueue, Waiting, WaitsFor};
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) struct Counter {
    count: AtomicUsize,
    waiters: WaitQueue<(), ()>,
}

/// Why a step was refused; the count is as it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OutOfRange;

impl Counter {
    pub(super) const fn new(count: usize) -> Self {
        Self { count: AtomicUsize::new(count), waiters: WaitQueue::new(()) }
    }

    /// The count, and what was done before it was counted down.
    #[inline]
    pub(super) fn get(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Counts up.
    #[inline]
    pub(super) fn add(&self, n: usize) -> Result<(), OutOfRange> {
        let add = |count: usize| count.checked_add(n);
        // Nothing is published by it: a party that counts up goes on to do something, and publishes
        // that when it counts down.
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map(drop).map_err(|_| OutOfRange)
    }

    /// Counts down, and releases the waiters if it reaches zero.
    #[inline]
    pub(super) fn count_down(&self, n: usize) -> Result<(), OutOfRange> {
        let not_to_zero = |count: usize| count.checked_sub(n).filter(|left| *left > 0 || n == 0);
        match self.count.fetch_update(Ordering::Release, Ordering::Relaxed, not_to_zero) {
            Ok(_) => Ok(()),
            Err(_) => self.count_down_to_zero(n),
        }
    }

    #[cold]
    fn count_down_to_zero(&self, n: usize) -> Result<(), OutOfRange> {
        let waiters = self.waiters.lock();
        // Others may count in between, so it need not be zero any more.
        let step = |count: usize| count.checked_sub(n);
        let before = self.count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step).map_err(|_| OutOfRange)?;
        if before == n {
            waiters.hand_over_all(0, ());
        }
        Ok(())
    }

    /// The wait for zero.
    #[inline]
    pub(super) fn waiting(&self, waits_for: WaitsFor) -> Waiting<'_, Zero<'_>, (), ()> {
        self.waiters.operation(waits_for, Zero(self))
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
