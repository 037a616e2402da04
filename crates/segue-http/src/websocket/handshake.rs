//! Answers a request for a WebSocket. Used by handlers.

use std::io;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Version};

use crate::message::framing::has_token;
use crate::message::response::{IntoResponse, Payload, Request, Response};
use crate::websocket::accept_key;
use crate::websocket::options::Options;
use crate::websocket::socket::{self, WebSocket};
use crate::wire::facts::Connection;

/// Accepts a WebSocket with the default [`Options`], and has `talk` use that: see
/// [`Options::accept`].
///
/// `talk` runs after the handler has returned, so `talk` owns its values: a handler that may borrow
/// clones a sender, or subscribes to a broadcast, before this call. A client that has the answer is
/// then told everything from there on.
///
/// ```
/// use segue_http::{Request, Server, websocket};
///
/// let server = Server::new(|request: &mut Request<'_>| {
///     websocket::accept(request, |socket| {
///         while let Some(message) = socket.recv()? {
///             socket.send(message)?;
///         }
///         Ok(())
///     })
/// });
/// # let _ = server;
/// ```
pub fn accept(request: &Request<'_>, talk: impl FnOnce(&mut WebSocket<'_>) -> io::Result<()> + 'static) -> Response {
    Options::new().accept(request, talk)
}

impl Options {
    /// Accepts a WebSocket, and has `talk` use that in the connection's fiber, once this response
    /// is sent. The connection ends when `talk` returns.
    ///
    /// Refused are requests of another method than GET (405), those that do not ask for a WebSocket
    /// of version 13 (426), those without a proper key (400), and those of a foreign page (403).
    ///
    /// ```
    /// use segue_http::{Request, Server, websocket};
    ///
    /// let options = websocket::Options::new().max_message_bytes(1 << 10);
    /// let server = Server::new(move |request: &mut Request<'_>| {
    ///     options.accept(request, |socket| {
    ///         let Some(name) = socket.recv()? else { return Ok(()) };
    ///         socket.send(format!("hello, {}", name.as_text().unwrap_or("friend")))
    ///     })
    /// });
    /// # let _ = server;
    /// ```
    pub fn accept(
        &self,
        request: &Request<'_>,
        talk: impl FnOnce(&mut WebSocket<'_>) -> io::Result<()> + 'static,
    ) -> Response {
        let key = match self.key(request) {
            Ok(key) => key,
            Err(refusal) => return *refusal,
        };
        let answer = accept_key::answer(key.as_bytes());
        let protocol = self.choose(request.headers()).cloned();
        let (limits, chosen) = (self.limits, protocol.clone());
        let mut response = Response::new(Payload::upgrade(move |stream| socket::run(stream, limits, chosen, talk)));
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.extend(HeaderValue::from_str(&answer).ok().map(|answer| (header::SEC_WEBSOCKET_ACCEPT, answer)));
        if let Some(protocol) = protocol.and_then(|name| HeaderValue::from_str(&name).ok()) {
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
        }
        response
    }

    /// The request's key, or the refusal of the request.
    fn key<'r>(&self, request: &'r Request<'_>) -> Result<&'r HeaderValue, Box<Response>> {
        let headers = request.headers();
        if *request.method() != Method::GET {
            return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, header::ALLOW, "GET").into());
        }
        let asks = request.version() == Version::HTTP_11
            && has(headers, header::CONNECTION, b"upgrade")
            && has(headers, header::UPGRADE, b"websocket");
        if !asks {
            return Err(refuse(StatusCode::UPGRADE_REQUIRED, header::UPGRADE, "websocket").into());
        }
        if only(headers, header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
            let mut refusal = refuse(StatusCode::UPGRADE_REQUIRED, header::SEC_WEBSOCKET_VERSION, "13");
            refusal.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            return Err(refusal.into());
        }
        let is_secure = request.extensions().get::<Connection>().is_some_and(Connection::is_secure);
        if !self.any_origin && is_foreign(headers, is_secure) {
            return Err((StatusCode::FORBIDDEN, "a page of another site").into_response().into());
        }
        only(headers, header::SEC_WEBSOCKET_KEY)
            .filter(|key| accept_key::is_key(key.as_bytes()))
            .ok_or_else(|| (StatusCode::BAD_REQUEST, "the key of the WebSocket is malformed").into_response().into())
    }

    /// The first subprotocol offered that the client has asked for.
    fn choose(&self, headers: &HeaderMap) -> Option<&String> {
        let asked: Vec<&str> = headers
            .get_all(header::SEC_WEBSOCKET_PROTOCOL)
            .iter()
            .filter_map(|list| list.to_str().ok())
            .flat_map(|list| list.split(',').map(str::trim))
            .collect();
        self.protocols.iter().find(|name| asked.contains(&name.as_str()))
    }
}

fn refuse(status: StatusCode, name: HeaderName, value: &'static str) -> Response {
    let mut response = status.into_response();
    response.headers_mut().insert(name, HeaderValue::from_static(value));
    response
}

fn has(headers: &HeaderMap, name: HeaderName, token: &[u8]) -> bool {
    headers.get_all(name).iter().any(|list| has_token(list.as_bytes(), token))
}

/// The value of a header that stands there once.
fn only(headers: &HeaderMap, name: HeaderName) -> Option<&HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Whether there is an origin other than the host; or, over a secured connection, one of a page
/// that came unsecured: anybody may have written that.
fn is_foreign(headers: &HeaderMap, is_secure: bool) -> bool {
    if !headers.contains_key(header::ORIGIN) {
        return false;
    }
    let origin = only(headers, header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let origin = origin.and_then(|origin| origin.split_once("://"));
    let origin = origin.filter(|(scheme, _)| !is_secure || scheme.eq_ignore_ascii_case("https"));
    let authority = origin.map(|(_, authority)| authority.as_bytes());
    let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
    !authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}
