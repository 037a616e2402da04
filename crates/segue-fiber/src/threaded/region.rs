//! Slots without memory: a stack is a token here, the thread has the stack.
//!
//! Used by [`StackArena`](crate::StackArena) alone.
#![allow(unsafe_code)] // The contracts are those of the native host.

use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::ptr::NonNull;

use crate::config::Layout;

pub(crate) struct Region;

impl Region {
    pub fn reserve(layout: &mut Layout) -> io::Result<Region> {
        // How to reserve and guard matters for memory alone.
        let _ = (layout.may_shrink, layout.mprotect_guards);
        Ok(Region)
    }

    /// Tells it from others, and is not zero.
    pub fn top(&self, number: u32) -> NonNull<u8> {
        NonNull::without_provenance(NonZero::<usize>::MIN.saturating_add(number as usize))
    }

    pub fn number(&self, top: NonNull<u8>) -> u32 {
        (top.addr().get() - 1) as u32
    }

    pub fn bounds(&self, _number: u32) -> Option<Range<usize>> {
        None
    }

    /// # Safety
    /// None, on this host; the native one has a contract.
    pub unsafe fn prepare(&self, _first: u32, count: u32) -> io::Result<u32> {
        Ok(count)
    }

    /// # Safety
    /// None, on this host; the native one has a contract.
    pub unsafe fn release(&self, _slots: &[u32]) {}
}
