//! The transfers: the calls that move bytes out of a file, and into one.
//!
//! Made by `file`, carried out by `run` of the system.

use super::place::Place;
use super::system::{Call, Course, flies};
use crate::system::sys::taken_at_once;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

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

            flies!(
                |call| {
                    let at = call.course.offset(call.file, $writes)?;
                    Some(Request::$request(call.file, call.bufs, at))
                },
                |call, answer| call.course.landed(call.file, answer.count())
            );

            fn perform(&mut self) -> rustix::io::Result<usize> {
                let $all = &mut self.bufs;
                let taken = $taken;
                match self.course.place() {
                    Place::Cursor { .. } => self.course.visit(|| rustix::io::$call(self.file, taken)),
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
