//! The receivers' end of an unbounded channel: values that one of the receivers has taken off the
//! buffer, all at once, for all of them.
//!
//! Used by `state.rs`, whose essay says what goes through it.

use super::blocks::{Blocks, Supply};
use super::patience::Patience;
use segue_core::{Guard, WaitQueue};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Values that come before those in the buffer.
pub(super) struct Front<T> {
    /// A lock, and no waiters.
    values: WaitQueue<Supply<T>, (), 0>,
    /// How many there are, stored under this lock. Under the lock of the channel's queue it only
    /// becomes less.
    len: AtomicUsize,
    pub(super) patience: Patience,
}

impl<T> Front<T> {
    pub(super) fn new() -> Self {
        Self { values: WaitQueue::new(Supply::new()), len: AtomicUsize::new(0), patience: Patience::default() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn pop(&self) -> Option<T> {
        if self.len() == 0 {
            return None;
        }
        let mut values = self.values.lock();
        let Some(value) = values.state().pop_open() else {
            return self.pop_of_the_next(values);
        };
        self.len.store(self.len.load(Ordering::Relaxed) - 1, Ordering::Release);
        Some(value)
    }

    /// Opens the next ring. The guard comes by value: lent, it would lie in memory for every `pop`.
    #[cold]
    #[inline(never)]
    fn pop_of_the_next(&self, mut values: Guard<'_, Supply<T>, (), 0>) -> Option<T> {
        let value = values.state().pop_of_the_next();
        self.count(&values);
        value
    }

    /// Puts a value before all others. Under the lock of the channel's queue.
    pub(super) fn push_front(&self, value: T) {
        let mut values = self.values.lock();
        values.state().push_front(value);
        self.count(&values);
    }

    /// Takes all `others` over; there are none here. Under the lock of the channel's queue.
    #[inline]
    pub(super) fn load(&self, others: &mut Blocks<T>) {
        let mut values = self.values.lock();
        values.state().load(others);
        self.count(&values);
    }

    /// Takes all values out. Under the lock of the channel's queue.
    pub(super) fn take_all(&self) -> Blocks<T> {
        let mut values = self.values.lock();
        let all = values.state().take_all();
        self.count(&values);
        all
    }

    #[inline]
    fn count(&self, values: &Guard<'_, Supply<T>, (), 0>) {
        self.len.store(values.peek().len(), Ordering::Release);
    }
}
