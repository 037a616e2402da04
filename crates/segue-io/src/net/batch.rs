//! Several transfers at once, by one fiber.
//!
//! Used by what has something for many connections, or wants something of several: a fiber for each
//! would do it too, and costs a stack each.

use super::Stream;
use super::protocol::Protocol;
use crate::batch::{Transferring, run_all};
use crate::op::{Read, Write};
use std::io;

/// A read or a write that is to be one of a [batch](transfer_all). Made by
/// [`Stream::to_read`] and [`Stream::to_write`].
#[must_use = "it is carried out by `transfer_all`"]
pub struct Transfer<'a>(Transferring<'a>);

impl std::fmt::Debug for Transfer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            Transferring::Read(..) => "Transfer::Read",
            Transferring::Write(..) => "Transfer::Write",
        };
        f.debug_struct(name).finish_non_exhaustive()
    }
}

impl<P: Protocol> Stream<P> {
    /// A read, for a [batch](transfer_all).
    pub fn to_read<'a>(&'a self, buf: &'a mut [u8]) -> Transfer<'a> {
        Transfer(Transferring::Read(&self.shared.0, Read(buf)))
    }

    /// A write, for a [batch](transfer_all).
    pub fn to_write<'a>(&'a self, buf: &'a [u8]) -> Transfer<'a> {
        Transfer(Transferring::Write(&self.shared.0, Write(buf)))
    }
}

/// Carries out reads and writes together, and returns when all of them are over, with the result of
/// each in the order of the batch.
///
/// Each moves what [`Read::read`](std::io::Read::read) and [`Write::write`](std::io::Write::write)
/// would: some bytes, as soon as it can. In a ring all are submitted at once. The order in which
/// they happen is the kernel's: do not put two writes to one stream into a batch, nor two reads.
/// The streams' own time-outs do not count; a limit for all is a [`timeout`](segue_core::timeout)
/// around the call.
///
/// # Cancellation
/// *May already have happened*: what is over by then has its result. Each of the others has had *no
/// effect*, and its result is the cancellation.
///
/// # Errors
/// None of its own: each transfer has its own result.
///
/// # Examples
///
/// ```
/// use segue_io::net::{UnixStream, transfer_all};
///
/// let ((a, far_a), (b, far_b)) = (UnixStream::pair()?, UnixStream::pair()?);
/// let both = transfer_all([a.to_write(b"one"), b.to_write(b"other")]);
/// assert_eq!(both.into_iter().collect::<Result<Vec<_>, _>>()?, [3, 5]);
/// let (mut one, mut other) = ([0; 8], [0; 8]);
/// let read = transfer_all([far_a.to_read(&mut one), far_b.to_read(&mut other)]);
/// assert_eq!(read.into_iter().collect::<Result<Vec<_>, _>>()?, [3, 5]);
/// assert_eq!(&other[..5], b"other");
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn transfer_all<'a>(batch: impl IntoIterator<Item = Transfer<'a>>) -> Vec<io::Result<usize>> {
    run_all(batch.into_iter().map(|transfer| transfer.0).collect())
}
