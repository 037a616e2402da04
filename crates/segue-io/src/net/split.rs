//! The halves of a stream that own it.
//!
//! Used where two fibers have a direction each, and neither borrows from somebody who waits for
//! both. Made by [`Stream::into_split`].

use super::Stream;
use super::protocol::Protocol;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::Shutdown;
use std::sync::Arc;
use std::{fmt, mem};

/// The half of a stream that reads. Made by [`Stream::into_split`].
///
/// # Cancellation
/// As for the [stream](Stream#cancellation).
#[must_use = "a half that is not read from is to be kept for `reunite`, or dropped"]
pub struct ReadHalf<P>(pub(super) Stream<P>);

/// The half of a stream that writes. Made by [`Stream::into_split`].
///
/// When it is dropped, writing is shut down, also for other handles of the stream: the other end
/// reads the end of the stream behind what was written. [`reunite`](ReadHalf::reunite) and
/// [`forget`](Self::forget) keep that off.
///
/// # Cancellation
/// As for the [stream](Stream#cancellation).
#[must_use = "when it is dropped, writing is shut down"]
pub struct WriteHalf<P>(pub(super) Option<Stream<P>>);

/// The halves are not of one stream; here they are again. The error of [`ReadHalf::reunite`].
pub struct ReuniteError<P>(pub ReadHalf<P>, pub WriteHalf<P>);

impl<P: Protocol> ReadHalf<P> {
    /// The stream of which these are the halves. Never waits.
    ///
    /// # Errors
    /// Gives the halves back if they are not of one stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::UnixStream;
    ///
    /// let (one, other) = UnixStream::pair()?;
    /// let ((reads, writes), (others, _)) = (one.into_split(), other.into_split());
    /// let error = others.reunite(writes).unwrap_err();
    /// let whole = reads.reunite(error.1).unwrap();
    /// assert!(whole.try_write(b"x").is_ok(), "it was shut down");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reunite(self, writes: WriteHalf<P>) -> Result<Stream<P>, ReuniteError<P>> {
        if !Arc::ptr_eq(&self.0.shared.0, &writes.as_stream().shared.0) {
            return Err(ReuniteError(self, writes));
        }
        writes.forget();
        Ok(self.0)
    }

    /// The stream, with what it has besides reading.
    pub fn as_stream(&self) -> &Stream<P> {
        &self.0
    }
}

impl<P: Protocol> WriteHalf<P> {
    /// Drops this half without shutting writing down. Never waits.
    pub fn forget(mut self) {
        self.0 = None;
    }

    /// The stream, with what it has besides writing.
    ///
    /// # Panics
    /// Never: only [`forget`](Self::forget) takes the stream out, with the half.
    pub fn as_stream(&self) -> &Stream<P> {
        self.0.as_ref().expect("it is taken out when the half is forgotten")
    }
}

impl<P> Drop for WriteHalf<P> {
    fn drop(&mut self) {
        if let Some(stream) = mem::take(&mut self.0) {
            // It fails if there is no connection any more.
            let _ = stream.shared.io().shutdown(Shutdown::Write);
        }
    }
}

impl<P: Protocol> io::Read for ReadHalf<P> {
    #[track_caller]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buf)
    }

    #[track_caller]
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.0).read_vectored(bufs)
    }

    crate::system::whole::read_whole!();
}

impl<P: Protocol> io::Write for WriteHalf<P> {
    #[track_caller]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.as_stream().write(buf)
    }

    #[track_caller]
    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.as_stream().write_vectored(bufs)
    }

    crate::system::whole::write_all!();

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<P: Protocol> fmt::Debug for ReadHalf<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadHalf").field(&self.0).finish()
    }
}

impl<P: Protocol> fmt::Debug for WriteHalf<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteHalf").field(self.as_stream()).finish()
    }
}

impl<P: Protocol> fmt::Debug for ReuniteError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReuniteError").field(&self.0).field(&self.1).finish()
    }
}

impl<P: Protocol> fmt::Display for ReuniteError<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("these are the halves of two streams")
    }
}

impl<P: Protocol> std::error::Error for ReuniteError<P> {}
