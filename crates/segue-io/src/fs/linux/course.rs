//! The course of a transfer: the bytes that are in memory, the offset of a flight, and the position
//! that has to move on.
//!
//! A part of each transfer.

use super::in_memory::{offset, read_now};
use crate::fs::place::{Place, Visitors};
use rustix::fs::OFlags;
use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

/// A transfer's place, and its flight from there.
pub(in crate::fs) struct Course<'a> {
    place: Place,
    at_position: &'a Visitors,
    /// The position at the beginning, which has to move on with the transfer.
    from: Option<u64>,
}

impl<'a> Course<'a> {
    /// Of a file of a disk: a ring would move bytes of a file without offsets at the position.
    pub(in crate::fs) fn new(place: Place, at_position: &'a Visitors) -> Self {
        Self { place, at_position, from: None }
    }

    pub(in crate::fs) fn place(&self) -> Place {
        self.place
    }

    /// Makes a call at the position.
    pub(in crate::fs) fn visit<T>(&self, call: impl FnOnce() -> T) -> T {
        self.at_position.with(call)
    }

    /// The bytes in memory, if that needs no lock that somebody has for long.
    #[inline]
    pub(in crate::fs) fn read_now(
        &self,
        file: BorrowedFd<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Option<io::Result<usize>> {
        let waits = self.place == (Place::Cursor { alone: false }) && self.at_position.are_there();
        if waits { None } else { read_now(file, bufs, self.place) }
    }

    /// The offset for a ring; `None` if the transfer is for the system call.
    ///
    /// A ring can go by the position itself. But if a transfer has moved something and then fails,
    /// its result says how much, and the kernel leaves the position unmoved: a write that came to
    /// the end of the disk would be written over by the next. So the transfer flies to an offset,
    /// and the position is set afterwards.
    pub(in crate::fs) fn offset(&mut self, file: BorrowedFd<'_>, writes: bool) -> Option<u64> {
        match self.place {
            Place::At(_) => offset(self.place),
            Place::Cursor { alone: false } => None,
            // To append moves the position to an end that nobody knows.
            Place::Cursor { alone: true } if writes && rustix::fs::fcntl_getfl(file).ok()?.contains(OFlags::APPEND) => {
                None
            }
            Place::Cursor { alone: true } => {
                self.from = rustix::fs::tell(file).ok();
                self.from
            }
        }
    }

    /// The transfer has landed, and has moved so much.
    pub(in crate::fs) fn landed(&self, file: BorrowedFd<'_>, count: usize) -> usize {
        if let Some(from) = self.from.filter(|_| count > 0) {
            let to = rustix::fs::SeekFrom::Start(from.saturating_add(count as u64));
            let _ = rustix::fs::seek(file, to);
        }
        count
    }
}
