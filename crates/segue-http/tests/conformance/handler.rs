//! The handler that both servers have. Each of them calls it when it has read the request's body.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Uri, Version};

/// Both servers refuse bodies above this.
pub const MAX_BODY: usize = 8 << 20;

/// The path whose requests' bodies the servers leave unread.
pub const UNREAD: &str = "/noread";

/// A response's body, and whether its length is told.
pub struct Content {
    pub bytes: Bytes,
    pub sized: bool,
}

/// Echoes the request, or does what its path asks for.
pub fn answer(method: &Method, uri: &Uri, version: Version, headers: &HeaderMap, body: &[u8]) -> Response<Content> {
    let host = uri.authority().map(|authority| authority.as_str().as_bytes());
    let host = host.or(headers.get(header::HOST).map(HeaderValue::as_bytes)).unwrap_or_default();
    let text = format!("{method} {uri} {version:?} {} [{}]", host.escape_ascii(), String::from_utf8_lossy(body));
    let mut response = Response::new(Content { bytes: text.into(), sized: true });
    let mut status = |code: u16, body: &'static str| {
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        response.body_mut().bytes = Bytes::from_static(body.as_bytes());
    };
    if *method == Method::CONNECT {
        status(501, "no tunnels");
        return response;
    }
    match uri.path() {
        "/204" => status(204, ""),
        "/204b" => status(204, "nobody reads this"),
        "/205" => status(205, ""),
        "/205b" | "/205s" => status(205, "nobody reads this"),
        "/299" => status(299, "a status of nobody's"),
        "/301" => status(301, ""),
        "/304" => status(304, ""),
        "/304b" => status(304, "nobody reads this"),
        "/404" => status(404, "nothing"),
        "/empty" => status(200, ""),
        "/stream" => status(200, "stream"),
        _ => {}
    }
    response.body_mut().sized = !matches!(uri.path(), "/stream" | "/205s" | "/te");
    let headers_out = response.headers_mut();
    match uri.path() {
        "/close" => {
            headers_out.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        "/date" => {
            headers_out.insert(header::DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"));
        }
        "/te" => {
            headers_out.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        "/inject" => {
            let copied = headers.get("x-copy").map_or(uri.query().unwrap_or("").as_bytes(), HeaderValue::as_bytes);
            headers_out.insert(header::LOCATION, HeaderValue::from_bytes(copied).unwrap());
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
        }
        _ => {}
    }
    response
}
