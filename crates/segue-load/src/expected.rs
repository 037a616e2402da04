//! The request, and the right reply to it: its status and body, and its bytes for the hot path.
//! Made of the first exchange; used by all connections.

use std::io::{self, Read};
use std::ops::Range;
use std::time::Duration;

use segue_http::bytes::Bytes;
use segue_http::client::{Connection, Response};
use segue_http::http::{Request, StatusCode};
use segue_http::{Config, Payload};

use crate::link::{Address, Link};
use crate::options::{Body, Options};
use crate::tally::Kind;
use crate::web_socket;

/// The length of the value of `Date`.
const DATE: usize = 29;

/// The right reply.
pub struct Expected {
    status: StatusCode,
    body: Content,
    /// The request's bytes.
    pub request: Vec<u8>,
    /// The bytes of the first reply, if a reply like it ends where its head says, and another one
    /// may follow.
    pub reply: Option<Reply>,
    /// The request is a message over a WebSocket, and the reply is its echo.
    pub is_web_socket: bool,
}

enum Content {
    Bytes(Vec<u8>),
    Length(u64),
}

/// The bytes of a reply.
pub struct Reply {
    bytes: Vec<u8>,
    /// The value of `Date`, which may be another one.
    date: Range<usize>,
}

impl Reply {
    /// Exactly these bytes.
    pub(crate) fn exactly(bytes: Vec<u8>) -> Reply {
        Reply { bytes, date: 0..0 }
    }

    fn new(bytes: Vec<u8>) -> Reply {
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(bytes.len());
        let name = b"\r\ndate: ";
        let found = bytes[..head].windows(name.len()).position(|part| part.eq_ignore_ascii_case(name));
        let start = found.map_or(0, |at| at + name.len());
        let fits = bytes.get(start + DATE..).is_some_and(|rest| rest.starts_with(b"\r\n"));
        Reply { date: if found.is_some() && fits { start..start + DATE } else { 0..0 }, bytes }
    }

    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Whether `input` is the beginning of such a reply, or begins with one. Its first `checked`
    /// bytes are known to be.
    #[inline]
    pub(crate) fn begins(&self, input: &[u8], checked: usize) -> bool {
        let end = input.len().min(self.bytes.len());
        let same = |from: usize, to: usize| from >= to || input[from..to] == self.bytes[from..to];
        let date = checked.max(self.date.start)..end.min(self.date.end);
        same(checked, end.min(self.date.start))
            && same(checked.max(self.date.end), end)
            // No byte of a date can end its line.
            && (date.is_empty() || input[date].iter().all(|byte| (b' '..=b'z').contains(byte)))
    }
}

/// The limits of a connection: times are the user's, bodies may be of any length.
pub(crate) fn limits(timeout: Duration) -> Config {
    let config = Config::new().max_body_bytes(u64::MAX).idle_timeout(timeout).head_timeout(timeout);
    config.body_timeout(timeout).write_timeout(timeout)
}

/// One request.
pub(crate) fn request(options: &Options) -> Request<Payload> {
    let mut request = Request::new(Payload::from(Bytes::clone(&options.body)));
    *request.method_mut() = options.method.clone();
    *request.uri_mut() = options.uri.clone();
    *request.headers_mut() = options.headers.clone();
    request
}

impl Expected {
    /// Asks once.
    ///
    /// An error says what to do.
    pub(crate) fn find(options: &Options, address: &Address) -> io::Result<Expected> {
        let explain = |error: io::Error, advice: &str| {
            io::Error::new(error.kind(), format!("{} ({}): {error}: {advice}", options.uri, address.socket))
        };
        let link = Link::connect(address, options.timeout);
        let mut link = link.map_err(|error| explain(error, "is the server running, and is this its address?"))?;
        if options.is_web_socket() {
            let asked = web_socket::open(&mut link, options).and_then(|()| web_socket::ask(&mut link, &options.body));
            asked.map_err(|error| explain(error, "does this server echo over WebSockets?"))?;
            let (request, reply) = (web_socket::message(&options.body), web_socket::echo(&options.body));
            return Ok(Expected {
                status: options.status,
                body: Content::Length(0),
                request,
                reply: Some(Reply::exactly(reply)),
                is_web_socket: true,
            });
        }
        let record = link.record();
        let mut connection = Connection::with_config(link, limits(options.timeout));
        let mut body = Vec::new();
        let mut ask = || {
            let response = connection.request(request(options))?;
            let status = response.status();
            response.into_body().read_to_end(&mut body)?;
            Ok(status)
        };
        let status = ask().map_err(|error| explain(error, "is this an HTTP/1.1 server?"))?;
        if status != options.status {
            let text = format!("{} answers with {status} and not {}: see --expect-status", options.uri, options.status);
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let is_reusable = connection.is_reusable();
        drop(connection);
        let record = record.take();
        let mut expected = Expected {
            status,
            request: record.sent,
            body: match &options.expected {
                Body::First => Content::Bytes(Vec::new()),
                Body::Bytes(bytes) => Content::Bytes(bytes.clone()),
                Body::Length(length) => Content::Length(*length),
            },
            reply: None,
            is_web_socket: false,
        };
        let is_right = match &options.expected {
            Body::First => true,
            Body::Bytes(bytes) => *bytes == body,
            Body::Length(length) => *length == body.len() as u64,
        };
        if !is_right {
            let text =
                format!("{} answers with another body than the expected one, of {} bytes", options.uri, body.len());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if matches!(options.expected, Body::First) {
            expected.body = Content::Bytes(body);
        }
        // An interim response may come with one reply and not with another.
        if is_reusable && !record.received.starts_with(b"HTTP/1.1 1") {
            expected.reply = Some(Reply::new(record.received));
        }
        Ok(expected)
    }

    /// Reads a reply to its end, and says why it is wrong, if it is.
    pub(crate) fn check(&self, response: Response<'_>, scratch: &mut [u8]) -> io::Result<Option<Kind>> {
        let wrong = (response.status() != self.status).then_some(Kind::Status);
        let mut body = response.into_body();
        let (mut length, mut same) = (0, true);
        loop {
            let count = body.read(scratch)?;
            if count == 0 {
                break;
            }
            if let Content::Bytes(bytes) = &self.body {
                same &= bytes.get(length..length + count) == Some(&scratch[..count]);
            }
            length += count;
        }
        let is_right = match &self.body {
            Content::Bytes(bytes) => same && length == bytes.len(),
            Content::Length(expected) => *expected == length as u64,
        };
        Ok(wrong.or((!is_right).then_some(Kind::Body)))
    }
}
