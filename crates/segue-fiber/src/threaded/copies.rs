//! Copies of stacks, where each fiber is a thread: nothing is copied.
//!
//! Used as `native/copies.rs`, which documents the interface.

use super::NO_TRACES;
use crate::backtrace::Backtrace;

/// Room for nothing.
#[derive(Debug)]
pub struct StackCopies(());

/// The copy of nothing.
#[derive(Clone, Debug)]
pub struct Copied;

impl StackCopies {
    /// No room.
    #[must_use]
    pub fn new(_stacks: usize, _bytes: usize) -> Self {
        Self(())
    }

    /// Does nothing.
    pub fn clear(&mut self) {}

    /// An empty backtrace that says why it is empty.
    #[must_use]
    pub fn backtrace(&self, _copied: &Copied) -> Backtrace {
        Backtrace::empty(NO_TRACES)
    }
}
