//! Writes responses: the head, and bodies of unknown length. Used by the connection loop; the
//! writer also by handlers that stream.

use std::io::{self, Read, Write};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use segue_core::unwind::contain;

use crate::message::date;
use crate::message::exchange::Panicked;
use crate::message::framing::has_token;
use crate::message::trailers;
use crate::wire::buffers::{MEDIUM, Wire};
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// How the client finds the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The status allows no body and no length.
    Nothing,
    Length(u64),
    /// The length that the handler's own header gives, of a body that is not sent.
    AsGiven,
    Chunked,
    UntilClose,
    /// No body: the connection goes on in another protocol.
    Upgrade,
}

/// The connection's additions to a handler's headers.
pub(crate) struct Framed {
    pub(crate) extent: Extent,
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    pub(crate) send_date: bool,
}

/// Appends a head. Headers that frame the message are the connection's and replace the handler's.
/// Answers whether the connection stays: a handler ends it by `Connection: close`.
pub(crate) fn head(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap, framed: &Framed) -> bool {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(status.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    let (mut has_date, mut keep_alive) = (false, framed.keep_alive);
    for (name, value) in headers {
        match *name {
            header::CONTENT_LENGTH if framed.extent != Extent::AsGiven => continue,
            header::TRANSFER_ENCODING => continue,
            header::CONNECTION => {
                keep_alive &= !has_token(value.as_bytes(), b"close");
                continue;
            }
            header::DATE => has_date = true,
            _ => {}
        }
        field(out, name, value);
    }
    match framed.extent {
        Extent::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Extent::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
        Extent::Nothing | Extent::AsGiven | Extent::UntilClose | Extent::Upgrade => {}
    }
    if framed.extent == Extent::Upgrade {
        out.extend_from_slice(b"connection: upgrade\r\n");
    } else if !keep_alive {
        out.extend_from_slice(b"connection: close\r\n");
    } else if framed.version == Version::HTTP_10 {
        out.extend_from_slice(b"connection: keep-alive\r\n");
    }
    if framed.send_date && !has_date {
        date::append(out);
    }
    out.extend_from_slice(b"\r\n");
    keep_alive
}

/// Appends a line.
fn field(out: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Room for a chunk's size: four digits and a line end.
const PREFIX: usize = 6;
/// The most data that one chunk has, so that four digits suffice.
const CHUNK: usize = MEDIUM;

/// Where a handler that streams its response writes to. See
/// [`Payload::writer`](crate::Payload::writer).
///
/// Small writes are gathered into chunks of 16 KiB; [`flush`](io::Write::flush) sends the gathered
/// bytes.
///
/// ```
/// use segue_http::{BodyWriter, Payload};
/// use std::io::{self, Write};
///
/// fn report(out: &mut BodyWriter<'_>) -> io::Result<()> {
///     writeln!(out, "started")?;
///     out.flush()
/// }
///
/// let payload = Payload::writer(report);
/// # let _ = payload;
/// ```
pub struct BodyWriter<'c> {
    line: &'c Line<dyn Transport>,
    chunked: bool,
    /// The lines that follow the last chunk.
    trailers: Vec<u8>,
}

impl<'c> BodyWriter<'c> {
    pub(crate) fn new(line: &'c Line<dyn Transport>, chunked: bool) -> BodyWriter<'c> {
        BodyWriter { line, chunked, trailers: Vec::new() }
    }

    /// Has this field follow the body, as a *trailer*: for facts that are known in the end, such as
    /// a digest. The fields are sent in the order of the calls. Never waits.
    ///
    /// Trailers exist in chunked bodies alone: in a response to an HTTP/1.0 client the field is
    /// dropped, and so it is if the body is not completed. A client may ignore trailers, and a
    /// proxy drop them. A `Trailer` header, which announces them, is up to the handler.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::InvalidInput`] if name or value are malformed, or the field may not
    /// be a trailer: one that frames or routes a message, authenticates, or tells how the content
    /// is to be processed.
    ///
    /// ```
    /// use segue_http::{BodyWriter, Payload};
    /// use std::io::{self, Write};
    ///
    /// fn report(out: &mut BodyWriter<'_>) -> io::Result<()> {
    ///     out.write_all(b"all of it")?;
    ///     assert!(out.trailer("content-length", "9").is_err());
    ///     out.trailer("lines", "1")
    /// }
    /// let payload = Payload::writer(report);
    /// # let _ = payload;
    /// ```
    pub fn trailer<N, V>(&mut self, name: N, value: V) -> io::Result<()>
    where
        N: TryInto<HeaderName>,
        V: TryInto<HeaderValue>,
    {
        let name = name.try_into().map_err(|_| trailers::refused("malformed name of a trailer"))?;
        let value = value.try_into().map_err(|_| trailers::refused("malformed value of a trailer"))?;
        if !trailers::may_be(&name) {
            return Err(trailers::refused("this field may not be a trailer"));
        }
        if self.chunked {
            field(&mut self.trailers, &name, &value);
        }
        Ok(())
    }

    /// Writes the bytes of `reader`, to its end or at most `limit` bytes. Returns how many were
    /// written.
    pub(crate) fn copy(&mut self, reader: &mut dyn Read, limit: u64) -> io::Result<u64> {
        let wire = &mut *self.line.wire()?;
        // The reader may wait, and has the wire meanwhile.
        wire.flush_finished();
        let mut copied = 0;
        while copied < limit {
            let room = wire.open_chunk(self.chunked).min(usize::try_from(limit - copied).unwrap_or(usize::MAX));
            let at = wire.out.len();
            wire.out.resize(at + room, 0);
            let read = contain(|| reader.read(&mut wire.out[at..]));
            let result = read.unwrap_or_else(|| Err(io::Error::other(Panicked("reader"))));
            wire.out.truncate(at + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => break,
                Ok(count) if count > room => {
                    let said = "the response's reader has read more than there was room for";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, said));
                }
                Ok(count) => {
                    copied += count as u64;
                    wire.settle()?;
                    if count < room && copied < limit {
                        // The reader may wait before more bytes.
                        wire.close_chunk();
                        wire.flush()?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(copied)
    }

    /// Another writer of the same body.
    pub(crate) fn again(&mut self) -> BodyWriter<'c> {
        BodyWriter::new(self.line, self.chunked)
    }

    /// Leaves the connection's buffers to others, if there is nothing in them.
    pub(crate) fn rest(&mut self) -> io::Result<()> {
        self.line.wire()?.rest();
        Ok(())
    }

    /// Ends the body.
    pub(crate) fn finish(self) -> io::Result<()> {
        let wire = &mut *self.line.wire()?;
        wire.close_chunk();
        if self.chunked {
            wire.out.extend_from_slice(b"0\r\n");
            wire.out.extend_from_slice(&self.trailers);
            wire.out.extend_from_slice(b"\r\n");
        }
        Ok(())
    }

    /// Ends the written part, but not the body: the client is to see that the body is incomplete.
    pub(crate) fn abandon(self) -> io::Result<()> {
        self.line.wire()?.close_chunk();
        Ok(())
    }
}

/// Chunks, of which one at a time is open at the end of the output.
impl Wire<dyn Transport> {
    /// How much the open chunk, opened here if none is, can still take.
    fn open_chunk(&mut self, chunked: bool) -> usize {
        if !chunked {
            return CHUNK;
        }
        let out = &mut self.out;
        let at = *self.open.get_or_insert_with(|| {
            let at = out.len();
            out.resize(at + PREFIX, 0);
            at
        });
        CHUNK - (out.len() - at - PREFIX)
    }

    /// Ends the open chunk: its size is written in front.
    fn close_chunk(&mut self) {
        let Some(at) = self.open.take() else { return };
        let out = &mut self.out;
        let size = out.len() - at - PREFIX;
        if size == 0 {
            out.truncate(at);
            return;
        }
        // A chunk that is not full has fewer digits than were left room for.
        let mut prefix = [0; PREFIX];
        let mut rest = &mut prefix[..];
        let _ = write!(rest, "{size:x}\r\n");
        let len = PREFIX - rest.len();
        out.splice(at..at + PREFIX, prefix[..len].iter().copied());
        out.extend_from_slice(b"\r\n");
    }

    /// Ends a full chunk.
    fn close_full_chunk(&mut self) {
        if self.open.is_some_and(|at| self.out.len() - at - PREFIX >= CHUNK) {
            self.close_chunk();
        }
    }

    /// Ends a full chunk, and sends output beyond the limit.
    fn settle(&mut self) -> io::Result<()> {
        self.close_full_chunk();
        if self.open.is_none() { self.flush_if_much() } else { Ok(()) }
    }
}

/// # Cancellation
/// A server that is shut down lets its responses finish, so a write of one is not cancelled; unless
/// the server gives them a [grace](crate::Shutdown::shutdown_within), and that is over, or the
/// [time of the request](crate::Config::request_timeout) is. A writer that could go on for ever
/// learns of a shutdown by [`finishing_source`](segue_core::finishing_source).
///
/// # Errors
/// The transport's, a time-out included. The connection ends.
impl Write for BodyWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let wire = &mut *self.line.wire()?;
        // Before anything is taken: an error says that nothing was.
        wire.settle()?;
        let count = wire.open_chunk(self.chunked).min(bytes.len());
        wire.out.extend_from_slice(&bytes[..count]);
        wire.close_full_chunk();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        let wire = &mut *self.line.wire()?;
        wire.close_chunk();
        wire.flush()
    }
}

segue_core::impl_debug!([] BodyWriter<'_>, |it| chunked: it.chunked);
