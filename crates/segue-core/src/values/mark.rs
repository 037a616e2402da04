//! A number for a fiber that no other fiber of its thread has.
//!
//! Used by the names of fibers that users compare.

use crate::contract::fiber::Fiber;
use crate::primitives::atomic::local;
use std::cell::Cell;

local!(static MARKS: Cell<u64> = Cell::new(0));

impl Fiber {
    /// A number that no other fiber of its thread ever has; the address and `id` of one that has
    /// ended come again. Never zero. For the fiber's own thread.
    #[inline]
    pub fn mark(&self) -> u64 {
        if self.mark.get() == 0 {
            self.mark.set(MARKS.with(|marks| {
                marks.set(marks.get() + 1);
                marks.get()
            }));
        }
        self.mark.get()
    }
}
