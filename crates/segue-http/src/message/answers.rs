//! More results of handlers: headers beside a response, pages, and redirections.
//!
//! Used by programs.

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::message::response::{IntoResponse, Payload, Response, internal_error, plain};

static HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// A page: sent as `text/html; charset=utf-8`.
///
/// The text is sent as given: a program that puts texts of others into the page has to escape them.
///
/// ```
/// use segue_http::{Html, Server};
/// let server = Server::new(|_| Html("<!doctype html><title>Hello</title><p>Hello!"));
/// # let _ = server;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Html<T>(pub T);

impl<T: Into<Payload>> IntoResponse for Html<T> {
    fn into_response(self) -> Response {
        plain(StatusCode::OK, Some(&HTML), self.0.into())
    }
}

/// A response that sends the client to another place.
///
/// Bytes of the place that no URI can have are escaped in the header, line ends among them: so a
/// place that is made of a client's text adds no header. Whether the place is one of this server is
/// for the program to see to.
///
/// ```
/// use segue_http::{IntoResponse, Redirect};
/// let response = Redirect::to("/notes/7").into_response();
/// assert_eq!((response.status().as_u16(), &response.headers()["location"]), (303, &"/notes/7".parse().unwrap()));
/// ```
#[derive(Clone, Debug)]
pub struct Redirect {
    status: StatusCode,
    location: HeaderValue,
}

impl Redirect {
    /// See there: status 303. The client gets the place by GET, whatever the method was: the answer
    /// to a form.
    ///
    /// ```
    /// use segue_http::{Redirect, Server};
    /// let server = Server::new(|_| Redirect::to("/thanks"));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn to(location: &str) -> Redirect {
        Redirect::new(StatusCode::SEE_OTHER, location)
    }

    /// There for now: status 307. The client sends the same request there.
    ///
    /// ```
    /// use segue_http::{Redirect, Server};
    /// let server = Server::new(|_| Redirect::temporary("https://other.example/"));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn temporary(location: &str) -> Redirect {
        Redirect::new(StatusCode::TEMPORARY_REDIRECT, location)
    }

    /// There for good: status 308. The client sends the same request there, and later ones without
    /// asking here.
    ///
    /// ```
    /// use segue_http::{Redirect, Server};
    /// let server = Server::new(|_| Redirect::permanent("/new"));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn permanent(location: &str) -> Redirect {
        Redirect::new(StatusCode::PERMANENT_REDIRECT, location)
    }

    fn new(status: StatusCode, location: &str) -> Redirect {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let mut escaped = Vec::with_capacity(location.len());
        for byte in location.bytes() {
            if byte.is_ascii_graphic() {
                escaped.push(byte);
            } else {
                escaped.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        }
        let location = HeaderValue::from_maybe_shared(bytes::Bytes::from(escaped)).expect("visible ASCII");
        Redirect { status, location }
    }
}

impl IntoResponse for Redirect {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.headers_mut().insert(header::LOCATION, self.location);
        response
    }
}

/// Puts headers on a response: the first of a name replaces those of the response, and further ones
/// stand beside that. Answers whether all are headers.
fn put<N, V, const COUNT: usize>(headers: &mut HeaderMap, pairs: [(N, V); COUNT]) -> bool
where
    N: TryInto<HeaderName>,
    V: TryInto<HeaderValue>,
{
    let mut names: [Option<HeaderName>; COUNT] = [const { None }; COUNT];
    for (at, (name, value)) in pairs.into_iter().enumerate() {
        let (Ok(name), Ok(value)) = (name.try_into(), value.try_into()) else {
            return false;
        };
        if names[..at].iter().flatten().any(|before| *before == name) {
            headers.append(name, value);
        } else {
            headers.insert(name.clone(), value);
            names[at] = Some(name);
        }
    }
    true
}

/// A name or a value that no header can have makes an internal error of the response.
impl<N, V, R, const COUNT: usize> IntoResponse for ([(N, V); COUNT], R)
where
    N: TryInto<HeaderName>,
    V: TryInto<HeaderValue>,
    R: IntoResponse,
{
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        if put(response.headers_mut(), self.0) { response } else { internal_error() }
    }
}

/// A name or a value that no header can have makes an internal error of the response.
impl<N, V, R, const COUNT: usize> IntoResponse for (StatusCode, [(N, V); COUNT], R)
where
    N: TryInto<HeaderName>,
    V: TryInto<HeaderValue>,
    R: IntoResponse,
{
    fn into_response(self) -> Response {
        let mut response = (self.0, self.2).into_response();
        if put(response.headers_mut(), self.1) { response } else { internal_error() }
    }
}

impl<R: IntoResponse> IntoResponse for (HeaderMap, R) {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        response.headers_mut().extend(self.0);
        response
    }
}

impl<R: IntoResponse> IntoResponse for (StatusCode, HeaderMap, R) {
    fn into_response(self) -> Response {
        (self.1, (self.0, self.2)).into_response()
    }
}
