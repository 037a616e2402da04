//! The stream of a connection that has left HTTP. Used by the functions of upgrades, WebSocket
//! among them.
//!
//! # Buffers
//!
//! The wire's input may have bytes behind the request: the stream begins with these. From then on
//! the stream reads as an idle connection does: the first 512 bytes without a buffer, and only a
//! client that sends more gets one, until the next wait. Where the wait is one for *readable*, the
//! read behind that goes into a buffer at once. Writes go to the transport at once, so
//! their count says how many bytes the client gets, also of a write that is cancelled.

use std::cell::RefMut;
use std::io::{self, Read, Write};
use std::time::Duration;
#[cfg(feature = "websocket")]
use std::time::Instant;

use segue_core::{LocalBoxSource, Waitable, after};

use crate::wire::buffers::{AT_ONCE, FIRST, MEDIUM, Pace, SMALL, Wire, is_timeout};
use crate::wire::transport::Transport;

/// The stream of a connection that was [upgraded](crate::Payload::upgrade): first the bytes that
/// the client has sent behind its request, then all further ones.
///
/// There is no buffer for writes: each is a call of the transport's, unless a
/// [`BufWriter`](std::io::BufWriter) gathers them. While the stream waits for input, its connection
/// has no buffers.
///
/// ```
/// use segue_http::Payload;
/// use std::io::{BufRead, BufReader};
///
/// let payload = Payload::upgrade(|stream| {
///     for line in BufReader::new(stream).lines() {
///         println!("{}", line?);
///     }
///     Ok(())
/// });
/// # let _ = payload;
/// ```
pub struct Upgraded<'c> {
    wire: RefMut<'c, Wire<dyn Transport>>,
    read_timeout: Duration,
    pace: Pace,
    /// The room for something that has arrived, most likely, since the last read has filled its
    /// room, or since its wait is over; zero if nothing is known.
    rush: usize,
}

impl<'c> Upgraded<'c> {
    pub(crate) fn new(wire: RefMut<'c, Wire<dyn Transport>>) -> Upgraded<'c> {
        Upgraded { wire, read_timeout: Duration::MAX, pace: Pace::default(), rush: 0 }
    }

    /// Limits each following read. At first there is no limit, which `None` is, too.
    ///
    /// A read that waits longer fails with [`io::ErrorKind::TimedOut`] or
    /// [`io::ErrorKind::WouldBlock`], and the next one may read. Writes have the limit
    /// [`Config::write_timeout`](crate::Config::write_timeout).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let payload = segue_http::Payload::upgrade(|mut stream| {
    ///     stream.set_read_timeout(Some(Duration::from_secs(10)));
    ///     std::io::copy(&mut stream, &mut std::io::sink()).map(drop)
    /// });
    /// # let _ = payload;
    /// ```
    pub fn set_read_timeout(&mut self, time: Option<Duration>) {
        self.read_timeout = time.unwrap_or(Duration::MAX).max(AT_ONCE);
    }

    /// Ready when a read would not wait, or nearly so: see
    /// [`Transport::readable_source`](crate::Transport::readable_source). `None` if the transport
    /// has no such source.
    ///
    /// # Cancellation
    /// The wait has *no effect*: nothing is read.
    ///
    /// # Errors
    /// The wait yields the error that a read would find, if the stream can't be asked.
    ///
    /// ```
    /// use segue_core::{Either, finishing_source};
    /// use std::io;
    ///
    /// let payload = segue_http::Payload::upgrade(|mut stream| {
    ///     let readable = stream.readable_source().ok_or(io::ErrorKind::Unsupported)?;
    ///     match readable.or(finishing_source()).wait()? {
    ///         Either::Left(ready) => ready,
    ///         Either::Right(()) => Ok(()),
    ///     }
    /// });
    /// # let _ = payload;
    /// ```
    pub fn readable_source(&mut self) -> Option<Waitable<LocalBoxSource<'_, io::Result<()>>>> {
        if !self.wire.arrived().is_empty() {
            return Some(after(Duration::ZERO).map(|()| Ok(())).boxed_local());
        }
        self.rush = SMALL;
        self.wire.rest();
        self.wire.transport.readable_source()
    }

    /// The time by which the limits of this stream are counted.
    #[cfg(feature = "websocket")]
    pub(crate) fn now(&self) -> Instant {
        self.wire.transport.now()
    }

    /// Writes some of two slices, in one call.
    pub(crate) fn write_pair(&mut self, first: &[u8], second: &[u8]) -> io::Result<usize> {
        if first.len() + second.len() == 0 { Ok(0) } else { self.wire.write_some(first, second, &mut self.pace) }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let room = std::mem::take(&mut self.rush);
        if room > 0 {
            // Into a buffer at once, but not for the length of a wait.
            match self.wire.fill(AT_ONCE, room) {
                Err(error) if is_timeout(&error) && self.read_timeout > AT_ONCE => {}
                filled => return filled,
            }
        }
        self.wire.fill_first(self.read_timeout)
    }
}

/// # Cancellation
/// *No effect*: nothing is read.
///
/// # Errors
/// The transport's, a time-out included.
impl Read for Upgraded<'_> {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        if dst.is_empty() {
            return Ok(0);
        }
        if self.wire.arrived().is_empty() {
            // Not every transport asks.
            segue_core::check()?;
            self.rush = if self.fill()? >= FIRST { MEDIUM } else { 0 };
        }
        let arrived = self.wire.arrived();
        let count = arrived.len().min(dst.len());
        dst[..count].copy_from_slice(&arrived[..count]);
        self.wire.consume(count);
        Ok(count)
    }
}

/// # Cancellation
/// *No effect*: a write that has sent some of the bytes says so.
///
/// # Errors
/// The transport's; a time-out if the client takes nothing for the length of
/// [`Config::write_timeout`](crate::Config::write_timeout), or too little.
impl Write for Upgraded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_pair(bytes, &[])
    }

    fn flush(&mut self) -> io::Result<()> {
        // A write that was cancelled may have left bytes in a stream of TLS.
        self.wire.transport.flush()
    }
}

segue_core::impl_debug!([] Upgraded<'_>, |it| read_timeout: it.read_timeout);
