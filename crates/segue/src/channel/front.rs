//! The receivers' end of an unbounded channel: values that one of the receivers has taken off the
//! buffer, all at once, for all of them.
//!
//! Used by `state.rs`, whose essay says what goes through it.

use super::blocks::Blocks;
use super::patience::Patience;
use segue_core::{Guard, WaitQueue};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Values that come before those in the buffer.
pub(super) struct Front<T> {
    /// A lock, and no waiters.
    values: WaitQueue<Blocks<T>, (), 0>,
    /// How many there are, stored under this lock. Under the lock of the channel's queue it only
    /// becomes less.
    len: AtomicUsize,
    pub(super) patience: Patience,
}

impl<T> Front<T> {
    pub(super) fn new() -> Self {
        Self { values: WaitQueue::new(Blocks::new()), len: AtomicUsize::new(0), patience: Patience::default() }
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
        let value = values.state().pop_front();
        self.count(&values);
        value
    }

    /// Puts a value before all others. Under the lock of the channel's queue.
    pub(super) fn push_front(&self, value: T) {
        let mut values = self.values.lock();
        values.state().push_front(value);
        self.count(&values);
    }

    /// Exchanges what is there for `others`. Under the lock of the channel's queue.
    #[inline]
    pub(super) fn exchange(&self, others: &mut Blocks<T>) {
        let mut values = self.values.lock();
        mem::swap(values.state(), others);
        self.count(&values);
    }

    #[inline]
    fn count(&self, values: &Guard<'_, Blocks<T>, (), 0>) {
        self.len.store(values.peek().len(), Ordering::Release);
    }
}
