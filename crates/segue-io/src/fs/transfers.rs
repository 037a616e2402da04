//! The transfers: the calls that move bytes out of a file, and into one.
//!
//! Made by `file`, carried out by `call::run`.

use super::call::Call;
use super::in_memory::read_now;
use super::place::{Place, Visitors};
use crate::ring::{Answer, Request};
use crate::system::sys::taken_at_once;
use rustix::fs::OFlags;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

/// A transfer's place, and its flight from there.
pub(super) struct Course<'a> {
    place: Place,
    at_position: &'a Visitors,
    /// The position at the beginning, which has to move on with the transfer.
    from: Option<u64>,
}

impl<'a> Course<'a> {
    /// Of a file of a disk: a ring would move bytes of a file without offsets at the position.
    pub(super) fn new(place: Place, at_position: &'a Visitors) -> Self {
        Self { place, at_position, from: None }
    }

    /// The bytes in memory, if that needs no lock that somebody has for long.
    #[inline]
    fn read_now(&self, file: BorrowedFd<'_>, bufs: &mut [IoSliceMut<'_>]) -> Option<io::Result<usize>> {
        let waits = self.place == (Place::Cursor { alone: false }) && self.at_position.are_there();
        if waits { None } else { read_now(file, bufs, self.place) }
    }

    /// The offset for a ring; `None` if the transfer is for the system call.
    ///
    /// A ring can go by the position itself. But if a transfer has moved something and then fails,
    /// its result says how much, and the kernel leaves the position unmoved: a write that came to
    /// the end of the disk would be written over by the next. So the transfer flies to an offset,
    /// and the position is set afterwards.
    fn offset(&mut self, file: BorrowedFd<'_>, writes: bool) -> Option<u64> {
        match self.place {
            Place::At(_) => self.place.offset(),
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
    fn landed(&self, file: BorrowedFd<'_>, answer: Answer) -> usize {
        let count = answer.count();
        if let Some(from) = self.from.filter(|_| count > 0) {
            let to = rustix::fs::SeekFrom::Start(from.saturating_add(count as u64));
            let _ = rustix::fs::seek(file, to);
        }
        count
    }
}

/// The table of the transfers. Each has its buffers, and the part of them that one call takes; the
/// request of a ring; and the two calls of the kernel, at the position and at an offset. Reads have
/// bytes in memory at once.
macro_rules! transfers {
    ($($(#[$doc:meta])* $name:ident<$file:lifetime $(, $slices:lifetime)?>($bufs:ty),
        waits for $waits_for:literal, writes: $writes:literal, |$all:ident| $taken:expr,
        $request:ident, $call:ident, $call_at:ident $(, at once |$now:ident| $parts:expr)?;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name<$file $(, $slices)?> {
            pub(super) file: BorrowedFd<$file>,
            pub(super) bufs: $bufs,
            pub(super) course: Course<$file>,
        }

        impl<$file $(, $slices)?> Call for $name<$file $(, $slices)?> {
            type Output = usize;
            const WAITS_FOR: &'static str = $waits_for;

            $(
                #[inline]
                fn at_once(&mut self) -> Option<io::Result<usize>> {
                    let $now = &mut *self.bufs;
                    self.course.read_now(self.file, $parts)
                }
            )?

            fn request(&mut self) -> Option<Request<'_>> {
                let at = self.course.offset(self.file, $writes)?;
                Some(Request::$request(self.file, self.bufs, at))
            }

            fn landed(&mut self, answer: Answer) -> usize {
                self.course.landed(self.file, answer)
            }

            fn perform(&mut self) -> rustix::io::Result<usize> {
                let $all = &mut self.bufs;
                let taken = $taken;
                match self.course.place {
                    Place::Cursor { .. } => self.course.at_position.with(|| rustix::io::$call(self.file, taken)),
                    Place::At(at) => rustix::io::$call_at(self.file, taken, at),
                }
            }
        }
    )*};
}

transfers! {
    /// Moves bytes out of a file.
    Read<'a>(&'a mut [u8]), waits for "a read from a file", writes: false, |buf| &mut **buf,
        read, read, pread, at once |buf| &mut [IoSliceMut::new(buf)];

    /// Moves bytes out of a file, into several buffers.
    ReadVectored<'a, 'b>(&'a mut [IoSliceMut<'b>]), waits for "a read from a file", writes: false, |bufs| first(bufs),
        read_vectored, readv, preadv, at once |bufs| first(bufs);

    /// Moves bytes into a file.
    Write<'a>(&'a [u8]), waits for "a write to a file", writes: true, |buf| *buf,
        write, write, pwrite;

    /// Moves bytes into a file, from several buffers.
    WriteVectored<'a, 'b>(&'a [IoSlice<'b>]), waits for "a write to a file", writes: true, |bufs| &bufs[taken_at_once(bufs)],
        write_vectored, writev, pwritev;
}

/// The buffers that one call takes.
fn first<'a, 'b>(bufs: &'a mut [IoSliceMut<'b>]) -> &'a mut [IoSliceMut<'b>] {
    let taken = taken_at_once(bufs);
    &mut bufs[taken]
}
