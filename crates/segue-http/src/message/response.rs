//! The results of handlers: a response with its payload, or a value that converts into one. Used by
//! programs; the connection loop takes the payload apart.

use std::cell::Cell;
use std::io::{self, Read};
use std::ops::Range;

use bytes::Bytes;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use segue_io::fs::File;

use crate::message::body::Body;
use crate::message::body_error::BodyError;
use crate::message::encode::BodyWriter;
use crate::message::file_body::FileBody;
use crate::message::refusal::Refusal;
use crate::message::upgrade::Upgraded;

/// A request: the `http` crate's, with a [`Body`] that reads from the connection.
pub type Request<'c> = http::Request<Body<'c>>;

/// A response: the `http` crate's, with a [`Payload`] that is sent as its body.
pub type Response = http::Response<Payload>;

type WriteBody = Box<dyn FnOnce(&mut BodyWriter<'_>) -> io::Result<()>>;

type UseStream = Box<dyn FnOnce(Upgraded<'_>) -> io::Result<()>>;

pub(crate) enum Kind {
    Owned(Vec<u8>),
    Shared(Bytes),
    Reader(Option<u64>, Box<dyn Read>),
    Writer(WriteBody),
    File(Box<FileBody>),
    Upgrade(UseStream),
}

/// The body of a response: bytes, a reader, or a function that writes.
///
/// Bytes come [`From`] the usual types and have a `Content-Length`. A payload of unknown length is
/// sent in chunks, or to an HTTP/1.0 client until the connection ends.
///
/// ```
/// use segue_http::{Payload, Response};
/// let response: Response = http::Response::new(Payload::from("hello"));
/// # let _ = response;
/// ```
pub struct Payload(pub(crate) Kind);

impl Payload {
    /// No bytes.
    ///
    /// ```
    /// let response = http::Response::new(segue_http::Payload::empty());
    /// # let _ = response;
    /// ```
    #[must_use]
    pub fn empty() -> Payload {
        Payload(Kind::Shared(Bytes::new()))
    }

    /// The bytes of `reader`, to its end, sent as they are read.
    ///
    /// After a failed read the connection ends, in such a way that the client notices where the
    /// protocol allows that.
    ///
    /// ```
    /// use segue_http::{Payload, Server};
    /// let server = Server::new(|_| http::Response::new(Payload::reader(std::io::repeat(b'.'))));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn reader(reader: impl Read + 'static) -> Payload {
        Payload(Kind::Reader(None, Box::new(reader)))
    }

    /// The first `length` bytes that `reader` gives, sent as they are read, with a
    /// `Content-Length`.
    ///
    /// If there are fewer, or a read fails, the connection ends and the client finds the body cut
    /// short.
    ///
    /// ```
    /// use segue_http::{Payload, Server};
    /// use std::fs::File;
    /// use std::io;
    ///
    /// let server = Server::new(|_| -> io::Result<_> {
    ///     let file = File::open("index.html")?;
    ///     let length = file.metadata()?.len();
    ///     Ok(http::Response::new(Payload::sized_reader(length, file)))
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn sized_reader(length: u64, reader: impl Read + 'static) -> Payload {
        Payload(Kind::Reader(Some(length), Box::new(reader)))
    }

    /// The output of `write`, sent in chunks on the way.
    ///
    /// Small writes are gathered; [`flush`](io::Write::flush) sends the gathered bytes. If `write`
    /// fails or panics the connection ends without the last chunk, so that the client finds the
    /// body cut short. To a HEAD request, and with a status that allows no body, `write` is not
    /// called.
    ///
    /// ```
    /// use segue_http::{Payload, Server};
    /// use std::io::Write;
    ///
    /// let server = Server::new(|_| {
    ///     http::Response::new(Payload::writer(|out| {
    ///         for line in 0..1_000 {
    ///             writeln!(out, "line {line}")?;
    ///         }
    ///         Ok(())
    ///     }))
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn writer(write: impl FnOnce(&mut BodyWriter<'_>) -> io::Result<()> + 'static) -> Payload {
        Payload(Kind::Writer(Box::new(write)))
    }

    /// The bytes of a file in a range, with a `Content-Length`.
    ///
    /// On Linux a long range goes from the page cache to the client's socket without a copy, where
    /// the [transport](crate::Transport::send_file) can do that; else the file is read, 64 KiB at
    /// a time. The file needs offsets: a pipe has none.
    ///
    /// A file that ends before the range does, or a read that fails, ends the connection, and the
    /// client finds the body cut short. Bytes behind the range are not sent, whatever is appended
    /// meanwhile. Nothing makes the bytes those of one moment: a file that is to be replaced is
    /// renamed over, and not written over.
    ///
    /// [`FileResponse`](crate::FileResponse) has the headers that belong to a file, and answers
    /// requests for parts.
    ///
    /// ```
    /// use segue_http::{Payload, Response, Server};
    /// use segue_io::fs::File;
    /// use std::io;
    ///
    /// let server = Server::new(|_| -> io::Result<_> {
    ///     let file = File::open("movie.mp4")?;
    ///     let length = file.metadata()?.len();
    ///     Ok(Response::new(Payload::file(file, 0..length)))
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn file(file: File, range: Range<u64>) -> Payload {
        Payload(Kind::File(Box::new(FileBody::new(file, range))))
    }

    /// The connection itself: after the head of this response, with status 101, the client and
    /// `talk` speak another protocol.
    ///
    /// The response has an `Upgrade` header that names the protocol, set by the handler, which has
    /// found that name in the request's; status and `Connection` are the server's. `talk` is called
    /// in the connection's fiber, with a stream that begins with the bytes behind the request. When
    /// `talk` returns, the connection ends: its last bytes reach the client.
    ///
    /// A body of the request that the handler has not read is discarded first, if little. A request
    /// of HTTP/1.0, or without `upgrade` in its `Connection`, is answered with 426, a body that
    /// can't be discarded with 413, a response without `Upgrade` with 500; and `talk` is not
    /// called. An error or a panic of `talk` ends the connection.
    ///
    /// The connection counts among [`Config::max_connections`](crate::Config::max_connections), and
    /// nothing ends the connection to make room. A shutdown asks `talk` to finish, as
    /// [`finishing_source`](segue_core::finishing_source) tells, and waits for that.
    ///
    /// ```
    /// use segue_http::{Payload, Server};
    /// use std::io::{Read, Write};
    ///
    /// let server = Server::new(|_| {
    ///     let echo = Payload::upgrade(|mut stream| {
    ///         let mut bytes = [0; 1024];
    ///         loop {
    ///             match stream.read(&mut bytes)? {
    ///                 0 => return Ok(()),
    ///                 count => stream.write_all(&bytes[..count])?,
    ///             }
    ///         }
    ///     });
    ///     http::Response::builder().header("upgrade", "echo").body(echo).unwrap()
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn upgrade(talk: impl FnOnce(Upgraded<'_>) -> io::Result<()> + 'static) -> Payload {
        Payload(Kind::Upgrade(Box::new(talk)))
    }

    pub(crate) fn is_upgrade(&self) -> bool {
        matches!(self.0, Kind::Upgrade(_))
    }

    /// The length in bytes, where known before sending.
    ///
    /// ```
    /// assert_eq!(segue_http::Payload::from("hello").length(), Some(5));
    /// ```
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        match &self.0 {
            Kind::Owned(bytes) => Some(bytes.len() as u64),
            Kind::Shared(bytes) => Some(bytes.len() as u64),
            Kind::Reader(length, _) => *length,
            Kind::File(body) => Some(body.length()),
            Kind::Writer(_) | Kind::Upgrade(_) => None,
        }
    }
}

segue_core::impl_debug!([] Payload, |it| length: it.length());

impl Default for Payload {
    fn default() -> Payload {
        Payload::empty()
    }
}

impl From<()> for Payload {
    fn from((): ()) -> Payload {
        Payload::empty()
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload(Kind::Owned(bytes))
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Payload {
        Payload(Kind::Owned(text.into_bytes()))
    }
}

impl From<&'static str> for Payload {
    fn from(text: &'static str) -> Payload {
        Payload(Kind::Shared(Bytes::from_static(text.as_bytes())))
    }
}

impl From<&'static [u8]> for Payload {
    fn from(bytes: &'static [u8]) -> Payload {
        Payload(Kind::Shared(Bytes::from_static(bytes)))
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Payload {
        Payload(Kind::Shared(bytes))
    }
}

/// The possible results of a handler.
///
/// Text is sent as `text/plain; charset=utf-8` and bytes as `application/octet-stream`, both with
/// status 200; a status has an empty body; of a `Result`, either side is sent. An [`io::Error`]
/// that a request's body gave is sent as [`BodyError::status`], one that is a [`Refusal`] with the
/// status and the text of that, and any other error as 500 without its text. A full
/// `http::Response` is sent unchanged.
///
/// A status, headers, or both may stand before a response, in a tuple: headers as an array of names
/// and values, or as a [`HeaderMap`](http::HeaderMap). The first header of a name replaces those of
/// the response.
///
/// A function that takes the request and returns `impl IntoResponse` says `impl IntoResponse +
/// use<>`, or `Response`: by the rules of the language the result borrows from the request
/// otherwise.
///
/// ```
/// use http::StatusCode;
/// use segue_http::{IntoResponse, Request, Response, Server};
///
/// let server = Server::new(|request: &mut Request<'_>| match request.uri().path() {
///     "/" => "welcome".into_response(),
///     "/old" => http::Response::builder().status(301).header("location", "/").body("").into_response(),
///     "/style" => ([("content-type", "text/css")], "p { color: teal }").into_response(),
///     _ => (StatusCode::NOT_FOUND, "there is nothing here").into_response(),
/// });
/// # let _ = server;
/// ```
///
/// An error type of the program works with `?` once there is a response for it:
///
/// ```
/// use segue_http::{IntoResponse, Params, Response, Router, http::StatusCode};
/// use std::{fs, io};
///
/// enum Failure {
///     NoSuchNote(u64),
///     Io(io::Error),
/// }
///
/// impl From<io::Error> for Failure {
///     fn from(error: io::Error) -> Failure {
///         Failure::Io(error)
///     }
/// }
///
/// impl IntoResponse for Failure {
///     fn into_response(self) -> Response {
///         match self {
///             Failure::NoSuchNote(id) => (StatusCode::NOT_FOUND, format!("no note {id}")).into_response(),
///             // As the library does: the mistakes of clients have their statuses.
///             Failure::Io(error) => error.into_response(),
///         }
///     }
/// }
///
/// let router = Router::new().get("/notes/{id}", |request| -> Result<String, Failure> {
///     let id: u64 = Params::of(request).parse("id")?;
///     if id > 1_000 {
///         return Err(Failure::NoSuchNote(id));
///     }
///     Ok(fs::read_to_string(format!("notes/{id}"))?)
/// });
/// # let _ = router;
/// ```
pub trait IntoResponse {
    /// Converts into a response.
    fn into_response(self) -> Response;
}

/// The most headers that a map has which is kept.
const MAX_SPARE: usize = 24;

thread_local! {
    /// The map of the last response, for the next one: with the type of its content, if that was
    /// all that there was, and the type is one of those below.
    static SPARE: Cell<Option<HeaderMap>> = const { Cell::new(None) };
}

/// Leaves the memory of a response's headers to the next response of this thread.
pub(crate) fn leave(mut headers: HeaderMap) {
    if (1..=MAX_SPARE).contains(&headers.capacity()) {
        let is_ours = |value: &HeaderValue| is_same(value, &TEXT) || is_same(value, &BINARY);
        match headers.iter().next() {
            // A value of the handler's own may hold much memory, or a lock.
            Some((&header::CONTENT_TYPE, value)) if headers.len() == 1 && is_ours(value) => {}
            _ => headers.clear(),
        }
        let _ = SPARE.try_with(|spare| spare.set(Some(headers)));
    }
}

/// A map with this type of content alone.
fn typed(content_type: &HeaderValue) -> HeaderMap {
    let mut headers = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_else(|| HeaderMap::with_capacity(1));
    match headers.values_mut().next() {
        // The responses of a server are often of one type.
        Some(kept) if is_same(kept, content_type) => {}
        Some(kept) => *kept = content_type.clone(),
        None => drop(headers.insert(header::CONTENT_TYPE, content_type.clone())),
    }
    headers
}

/// Whether both are one text in memory.
fn is_same(one: &HeaderValue, other: &HeaderValue) -> bool {
    std::ptr::eq(one.as_bytes(), other.as_bytes()) && !one.is_sensitive()
}

pub(super) fn plain(status: StatusCode, content_type: Option<&HeaderValue>, payload: Payload) -> Response {
    let mut response = http::Response::new(payload);
    *response.status_mut() = status;
    if let Some(content_type) = content_type {
        *response.headers_mut() = typed(content_type);
    }
    response
}

// They are checked once, and not in each response.
static TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
static BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");

impl<P: Into<Payload>> IntoResponse for http::Response<P> {
    fn into_response(self) -> Response {
        self.map(Into::into)
    }
}

macro_rules! sent_as {
    ($content_type:ident: $($value:ty),+) => {$(
        impl IntoResponse for $value {
            fn into_response(self) -> Response {
                plain(StatusCode::OK, Some(&$content_type), self.into())
            }
        }
    )+};
}
sent_as!(TEXT: &'static str, String);
sent_as!(BINARY: Vec<u8>, &'static [u8], Bytes);

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        plain(self, None, Payload::empty())
    }
}

impl<R: IntoResponse> IntoResponse for (StatusCode, R) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        *response.status_mut() = self.0;
        response
    }
}

impl<R: IntoResponse, E: IntoResponse> IntoResponse for Result<R, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        plain(self.status(), Some(&TEXT), self.to_string().into())
    }
}

impl IntoResponse for io::Error {
    fn into_response(self) -> Response {
        let Some(inner) = self.get_ref() else { return internal_error() };
        if let Some(error) = inner.downcast_ref::<BodyError>() {
            return error.into_response();
        }
        match inner.downcast_ref::<Refusal>() {
            Some(refusal) => refusal.clone().into_response(),
            None => internal_error(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        plain(self.status(), Some(&TEXT), self.to_string().into())
    }
}

impl IntoResponse for http::Error {
    fn into_response(self) -> Response {
        internal_error()
    }
}

/// The client's answer to a failure of the handler.
pub(crate) fn internal_error() -> Response {
    plain(StatusCode::INTERNAL_SERVER_ERROR, Some(&TEXT), "internal server error".into())
}
