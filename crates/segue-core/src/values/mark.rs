//! A number for a fiber that no other fiber of the process has.
//!
//! Used by the names of fibers that users compare, by the owners' words of locks, and by dumps.

use crate::contract::fiber::Fiber;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers below this are of fibers that were not [numbered](Fiber::set_number): they have one when
/// they are first asked.
const NUMBERED: u64 = 1 << 40;

static MARKS: AtomicU64 = AtomicU64::new(1);

impl Fiber {
    /// A number that no other fiber of the process ever has; the address and `id` of one that has
    /// ended come again. Never zero. For the fiber's own thread.
    #[inline]
    pub fn mark(&self) -> u64 {
        if self.mark.get() == 0 {
            self.mark.set(MARKS.fetch_add(1, Relaxed) % NUMBERED);
        }
        self.mark.get()
    }

    /// The same, or zero if the fiber has none yet. For the fiber's own thread.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u64 {
        self.mark.get()
    }

    /// Numbers the fiber. For its scheduler, before the fiber runs: with a number from 2^40 on that
    /// nobody else in the process is given.
    #[inline]
    pub fn set_number(&self, number: u64) {
        debug_assert!(number >= NUMBERED);
        self.mark.set(number);
    }
}
