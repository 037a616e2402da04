//! A request that is answered with an error because of its content: a status and a short text.
//!
//! Used by the readers of JSON, forms and parameters, and by handlers.

use std::borrow::Cow;
use std::fmt;
use std::io;

use http::StatusCode;

/// A status with a short text, as an error: so `?` refuses a request.
///
/// A `Refusal` converts into an [`io::Error`], of kind
/// [`InvalidInput`](io::ErrorKind::InvalidInput), and such an error is answered with the status and
/// the text. So a handler that returns [`io::Result`] refuses requests, reads bodies and reads
/// files by the same `?`.
///
/// ```
/// use segue_http::http::StatusCode;
/// use segue_http::{Refusal, Request, Server};
/// use std::io;
///
/// let server = Server::new(|request: &mut Request<'_>| -> io::Result<&'static str> {
///     if !request.headers().contains_key("authorization") {
///         Err(Refusal::new(StatusCode::FORBIDDEN, "this page is not for everybody"))?;
///     }
///     Ok("the page")
/// });
/// # let _ = server;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    text: Cow<'static, str>,
}

impl Refusal {
    /// A refusal with this status, and a text for the client.
    ///
    /// ```
    /// use segue_http::{Refusal, http::StatusCode};
    /// let refusal = Refusal::new(StatusCode::CONFLICT, format!("there is a note {} already", 7));
    /// assert_eq!(refusal.to_string(), "there is a note 7 already");
    /// ```
    #[must_use]
    pub fn new(status: StatusCode, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { status, text: text.into() }
    }

    /// The status that tells the client.
    ///
    /// ```
    /// use segue_http::{Refusal, http::StatusCode};
    /// assert_eq!(Refusal::new(StatusCode::CONFLICT, "it has changed").status(), 409);
    /// ```
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// One of the commonest kind.
    pub(crate) fn bad(text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, text)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, refusal)
    }
}
