//! Slots without memory: a stack is a token here, the thread has the stack.
//!
//! Used by [`StackArena`](crate::StackArena) alone.

use std::io;
use std::ops::Range;

use crate::config::Layout;

pub(crate) struct Region;

impl Region {
    pub fn reserve(layout: &mut Layout) -> io::Result<Region> {
        // How to reserve and guard matters for memory alone.
        let _ = (layout.may_shrink, layout.mprotect_guards);
        Ok(Region)
    }

    pub fn bounds(&self, _number: u32) -> Option<Range<usize>> {
        None
    }

    pub fn prepare(&self, _first: u32, count: u32) -> io::Result<u32> {
        Ok(count)
    }

    pub fn release(&self, _slots: &[u32]) {}
}
