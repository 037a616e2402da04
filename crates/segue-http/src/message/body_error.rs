//! Why a message's body could not be read.
//!
//! Used by the reader of a body, its framing and its trailers, and by handlers, which answer with
//! the status.

use std::fmt;
use std::io;

use http::StatusCode;

/// Why a request's body could not be read, or for a [client](crate::client) a response's.
///
/// ```
/// use segue_http::BodyError;
/// assert_eq!(BodyError::TooLarge.status(), 413);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyError {
    /// The body has more bytes than [`Config::max_body_bytes`](crate::Config::max_body_bytes), or
    /// than the handler's own [limit](crate::Body::limit).
    TooLarge,
    /// Its chunks or trailers are malformed, or their framing is out of proportion.
    Malformed,
    /// Its trailers are longer than [`Config::max_head_bytes`](crate::Config::max_head_bytes), or
    /// more than [`Config::max_headers`](crate::Config::max_headers).
    TrailersTooLarge,
    /// The body did not arrive within [`Config::body_timeout`](crate::Config::body_timeout).
    TimedOut,
    /// The client ended the connection before the body's end.
    Truncated,
}

impl BodyError {
    /// The status that tells the client.
    ///
    /// ```
    /// use segue_http::BodyError;
    /// assert_eq!(BodyError::TimedOut.status(), 408);
    /// ```
    #[must_use]
    pub fn status(self) -> StatusCode {
        self.told().0
    }

    /// Said to the client, to the handler, and to readers of the error.
    fn told(self) -> (StatusCode, io::ErrorKind, &'static str) {
        use io::ErrorKind::{FileTooLarge, InvalidData, UnexpectedEof};
        match self {
            BodyError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, FileTooLarge, "the body is too long"),
            BodyError::Malformed => (StatusCode::BAD_REQUEST, InvalidData, "the body is malformed"),
            BodyError::TrailersTooLarge => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, FileTooLarge, "the trailers are too long")
            }
            BodyError::TimedOut => {
                (StatusCode::REQUEST_TIMEOUT, io::ErrorKind::TimedOut, "the body did not arrive in time")
            }
            BodyError::Truncated => (StatusCode::BAD_REQUEST, UnexpectedEof, "the body is cut short"),
        }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.told().2)
    }
}

impl std::error::Error for BodyError {}

impl From<BodyError> for io::Error {
    fn from(error: BodyError) -> io::Error {
        io::Error::new(error.told().1, error)
    }
}
