//! The halves of a stream that own it.
//!
//! Used where two fibers have a direction each, and neither borrows from somebody who waits for
//! both. Made by [`Stream::into_split`].

use super::protocol::Protocol;
use super::stream::Stream;
use crate::system::whole::{reads, writes};
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

impl<P: Protocol> Stream<P> {
    /// Two halves that own the stream, for two fibers of which none outlives the other for sure.
    /// Never waits.
    ///
    /// Where both fibers can borrow, as in a scope, `&Stream` reads and writes as well.
    ///
    /// When the [`WriteHalf`] is dropped, writing is [shut down](Self::shutdown): the other end
    /// reads the end of the stream. When the [`ReadHalf`] is dropped, nothing happens.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_io::net::UnixStream;
    /// use std::io::{Read, Write};
    ///
    /// let (client, server) = UnixStream::pair()?;
    /// let echo = segue_core::spawn(move || {
    ///     let (mut reads, mut writes) = server.into_split();
    ///     std::io::copy(&mut reads, &mut writes)
    /// });
    /// let (mut reads, mut writes) = client.into_split();
    /// writes.write_all(b"hello")?;
    /// drop(writes);
    /// let mut text = String::new();
    /// reads.read_to_string(&mut text)?;
    /// assert_eq!(text, "hello");
    /// assert_eq!(echo.join().unwrap()?, 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use = "when the write half is dropped, writing is shut down"]
    pub fn into_split(self) -> (ReadHalf<P>, WriteHalf<P>) {
        (ReadHalf(Self::of(self.shared.clone())), WriteHalf(Some(self)))
    }
}

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

reads!([P: Protocol] ReadHalf<P>, |it| it.0.shared);
writes!([P: Protocol] WriteHalf<P>, |it| it.as_stream().shared);

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
