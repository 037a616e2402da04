//! The course of a transfer: its place, and the calls that are at the position.
//!
//! A part of each transfer.

use crate::fs::place::{Place, Visitors};
use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

/// A transfer's place.
pub(in crate::fs) struct Course<'a> {
    place: Place,
    at_position: &'a Visitors,
}

impl<'a> Course<'a> {
    pub(in crate::fs) fn new(place: Place, at_position: &'a Visitors) -> Self {
        Self { place, at_position }
    }

    pub(in crate::fs) fn place(&self) -> Place {
        self.place
    }

    /// Makes a call at the position.
    pub(in crate::fs) fn visit<T>(&self, call: impl FnOnce() -> T) -> T {
        self.at_position.with(call)
    }

    /// The kernel can't be asked for the bytes in memory.
    pub(in crate::fs) fn read_now(
        &self,
        _file: BorrowedFd<'_>,
        _bufs: &mut [IoSliceMut<'_>],
    ) -> Option<io::Result<usize>> {
        None
    }
}
