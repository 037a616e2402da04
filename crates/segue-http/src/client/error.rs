//! Why an exchange of a client failed. Used by the client's connection; programs find the error
//! inside of an [`io::Error`].

use std::fmt;
use std::io;

use crate::message::framing::Reject;

/// Why an exchange with a server failed, inside of an [`io::Error`]: other than by the transport's
/// errors, and by those of a response's body, which is a [`BodyError`](crate::BodyError).
///
/// ```
/// use std::io;
/// use segue_http::client::Error;
///
/// let error = io::Error::from(Error::NotReusable);
/// assert_eq!(error.kind(), io::ErrorKind::NotConnected);
/// assert_eq!(Error::of(&error), Some(Error::NotReusable));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The request cannot be sent, for this reason; nothing of the request was sent.
    Request(&'static str),
    /// No request waits for a response.
    NoRequest,
    /// The server ended the connection before the first byte of this response. The server may have
    /// acted on the request.
    Closed,
    /// The server ended the connection within the head of the response.
    Truncated,
    /// The head of the response is malformed or ambiguous, for this reason.
    Malformed(&'static str),
    /// The head is longer than [`Config::max_head_bytes`](crate::Config::max_head_bytes).
    HeadTooLarge,
    /// There are more header lines than [`Config::max_headers`](crate::Config::max_headers).
    TooManyHeaders,
    /// The response did not begin within [`Config::idle_timeout`](crate::Config::idle_timeout), or
    /// its head did not arrive within [`Config::head_timeout`](crate::Config::head_timeout).
    TimedOut,
    /// An earlier exchange has left the connection without a way to another one.
    NotReusable,
}

impl Error {
    /// The client's error inside of this one, if there is one. This never waits.
    ///
    /// ```
    /// use segue_http::client::Error;
    /// assert_eq!(Error::of(&std::io::ErrorKind::BrokenPipe.into()), None);
    /// ```
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Error> {
        error.get_ref()?.downcast_ref().copied()
    }

    fn kind(self) -> io::ErrorKind {
        match self {
            Error::Request(_) | Error::NoRequest => io::ErrorKind::InvalidInput,
            Error::Closed => io::ErrorKind::ConnectionAborted,
            Error::Truncated => io::ErrorKind::UnexpectedEof,
            Error::Malformed(_) => io::ErrorKind::InvalidData,
            Error::HeadTooLarge | Error::TooManyHeaders => io::ErrorKind::FileTooLarge,
            Error::TimedOut => io::ErrorKind::TimedOut,
            Error::NotReusable => io::ErrorKind::NotConnected,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Request(reason) => return write!(f, "the request cannot be sent: {reason}"),
            Error::Malformed(reason) => return write!(f, "malformed response: {reason}"),
            Error::NoRequest => "no request waits for a response: send one first",
            Error::Closed => "the server ended the connection without a response",
            Error::Truncated => "the response's head is cut short",
            Error::HeadTooLarge => "the response's head is too long",
            Error::TooManyHeaders => "the response has too many headers",
            Error::TimedOut => "the response did not arrive in time",
            Error::NotReusable => "an earlier exchange has ended this connection: connect anew",
        })
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

impl From<Reject> for Error {
    fn from(reject: Reject) -> Error {
        Error::Malformed(reject.reason)
    }
}
