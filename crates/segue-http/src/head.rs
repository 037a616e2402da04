//! Parses a request's head and decides how its body is framed, refusing whatever is ambiguous.
//! Used by the connection loop; the trailer check also by request bodies.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, Uri, Version};
use httparse::Status;

use crate::config::Config;

/// Header lines parsed on the stack; a request with more takes a second pass.
const ON_STACK: usize = 64;
/// With up to this many headers each value is copied by itself; with more, all share one copy of the head.
const COPIED: usize = 3;

/// A request that is answered with an error and not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reject {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
}

impl Reject {
    pub(crate) const fn new(status: StatusCode, reason: &'static str) -> Reject {
        Reject { status, reason }
    }
}

const fn bad(reason: &'static str) -> Reject {
    Reject::new(StatusCode::BAD_REQUEST, reason)
}

pub(crate) const HEAD_TOO_LARGE: Reject =
    Reject::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too long");
const TOO_MANY_HEADERS: Reject =
    Reject::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request has too many headers");

/// How long the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

/// A parsed head, its header map apart.
pub(crate) struct Head {
    /// Bytes of input, including the empty line.
    pub(crate) size: usize,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
}

/// Parses the head at the start of `input`, its headers into `headers`; `None` if it has no end yet.
pub(crate) fn parse(input: &[u8], config: &Config, headers: &mut HeaderMap) -> Result<Option<Head>, Reject> {
    let input = &input[..input.len().min(config.max_head_bytes)];
    match input {
        // The connection skips a few empty lines; the parser would skip any number of them.
        [] | [b'\r'] => return Ok(None),
        [b'\r' | b'\n', ..] => return Err(bad("an empty line where a request was expected")),
        _ => {}
    }
    let mut slots = [const { MaybeUninit::uninit() }; ON_STACK];
    let allowed = config.max_headers.min(ON_STACK);
    let mut request = httparse::Request::new(&mut []);
    let parsed = match request.parse_with_uninit_headers(input, &mut slots[..allowed]) {
        Err(httparse::Error::TooManyHeaders) if config.max_headers > ON_STACK => {
            return parse_long(input, config, headers);
        }
        parsed => parsed,
    };
    finish(input, parsed, &request, config, headers)
}

/// The second pass for a request with many headers, off the fiber's stack.
#[cold]
fn parse_long(input: &[u8], config: &Config, headers: &mut HeaderMap) -> Result<Option<Head>, Reject> {
    let mut slots = vec![MaybeUninit::uninit(); config.max_headers];
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(input, &mut slots);
    finish(input, parsed, &request, config, headers)
}

fn finish(
    input: &[u8],
    parsed: httparse::Result<usize>,
    request: &httparse::Request<'_, '_>,
    config: &Config,
    headers: &mut HeaderMap,
) -> Result<Option<Head>, Reject> {
    let size = match parsed {
        Ok(Status::Complete(size)) => size,
        Ok(Status::Partial) if input.len() >= config.max_head_bytes => return Err(HEAD_TOO_LARGE),
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_MANY_HEADERS),
        Err(httparse::Error::Version) => {
            // The whole line tells a foreign version from a malformed one.
            return match input.iter().position(|&byte| byte == b'\n') {
                Some(end) => Err(refuse_version(&input[..end])),
                None if input.len() >= config.max_head_bytes => Err(HEAD_TOO_LARGE),
                None => Ok(None),
            };
        }
        Err(httparse::Error::HeaderName) => return Err(bad("malformed header name")),
        Err(httparse::Error::HeaderValue) => return Err(bad("malformed header value")),
        Err(_) => return Err(bad("malformed request line")),
    };
    let head = &input[..size];
    if has_bare_line_feed(head) {
        return Err(bad("a line does not end in CR LF"));
    }
    // A complete request has all three.
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(bad("malformed request line"));
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| bad("malformed method"))?;
    let version = if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    let uri = parse_target(&method, target)?;

    headers.try_reserve(request.headers.len()).map_err(|_| TOO_MANY_HEADERS)?;
    let mut fields = Fields::default();
    let shared = (request.headers.len() > COPIED).then(|| Bytes::copy_from_slice(head));
    for line in request.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| bad("malformed header name"))?;
        fields.note(&name, line.value)?;
        let value = match &shared {
            Some(shared) if !line.value.is_empty() => {
                let at = line.value.as_ptr().addr() - head.as_ptr().addr();
                HeaderValue::from_maybe_shared(shared.slice(at..at + line.value.len()))
            }
            _ => HeaderValue::from_bytes(line.value),
        };
        let value = value.map_err(|_| bad("malformed header value"))?;
        headers.try_append(name, value).map_err(|_| TOO_MANY_HEADERS)?;
    }
    fields.finish(size, method, uri, version, headers).map(Some)
}

/// What the headers say about the connection and the body.
#[derive(Default)]
struct Fields {
    hosts: usize,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    expects_other: bool,
}

impl Fields {
    fn note(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), Reject> {
        if *name == header::HOST {
            self.hosts += 1;
            if self.hosts > 1 {
                return Err(bad("more than one Host header"));
            }
            if !is_host(value) {
                return Err(bad("malformed Host header"));
            }
        } else if *name == header::CONTENT_LENGTH {
            if self.length.is_some() {
                return Err(bad("more than one Content-Length"));
            }
            self.length = Some(parse_length(value).ok_or(bad("malformed Content-Length"))?);
        } else if *name == header::TRANSFER_ENCODING {
            if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Reject::new(
                    StatusCode::NOT_IMPLEMENTED,
                    "the only supported Transfer-Encoding is chunked",
                ));
            }
            self.chunked = true;
        } else if *name == header::CONNECTION {
            self.close |= has_token(value, b"close");
            self.keep_alive |= has_token(value, b"keep-alive");
        } else if *name == header::EXPECT {
            let known = value.eq_ignore_ascii_case(b"100-continue");
            self.expects_continue |= known;
            self.expects_other |= !known;
        }
        Ok(())
    }

    fn finish(
        self,
        size: usize,
        method: Method,
        uri: Uri,
        version: Version,
        headers: &mut HeaderMap,
    ) -> Result<Head, Reject> {
        let newer = version == Version::HTTP_11;
        if newer && self.hosts == 0 {
            return Err(bad("the Host header is missing"));
        }
        if self.chunked && !newer {
            return Err(bad("Transfer-Encoding in an HTTP/1.0 request"));
        }
        if self.chunked && self.length.is_some() {
            return Err(bad("both Transfer-Encoding and Content-Length"));
        }
        if newer && self.expects_other {
            return Err(Reject::new(StatusCode::EXPECTATION_FAILED, "the only supported expectation is 100-continue"));
        }
        // An absolute target's authority replaces the Host header.
        if let Some(authority) = uri.authority() {
            let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad("malformed target"))?;
            headers.try_insert(header::HOST, host).map_err(|_| TOO_MANY_HEADERS)?;
        }
        let framing = if self.chunked { Framing::Chunked } else { Framing::Length(self.length.unwrap_or(0)) };
        Ok(Head {
            size,
            method,
            uri,
            version,
            framing,
            keep_alive: !self.close && (newer || self.keep_alive),
            expects_continue: self.expects_continue && newer,
        })
    }
}

/// The request target: a path, an absolute http URI, or `*` for OPTIONS.
fn parse_target(method: &Method, target: &str) -> Result<Uri, Reject> {
    if *method == Method::CONNECT {
        return Err(Reject::new(StatusCode::NOT_IMPLEMENTED, "this server does not open tunnels"));
    }
    if target == "*" {
        return if *method == Method::OPTIONS {
            Ok(Uri::from_static("*"))
        } else {
            Err(bad("the target * is for OPTIONS only"))
        };
    }
    if target.contains('#') {
        return Err(bad("the request's target has a fragment"));
    }
    let uri = Uri::try_from(target).map_err(|_| bad("malformed request target"))?;
    if target.starts_with('/') {
        return Ok(uri);
    }
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    match uri.authority() {
        Some(authority) if known && is_host(authority.as_str().as_bytes()) && !authority.host().is_empty() => Ok(uri),
        _ => Err(bad("the request's target is neither a path nor an http URI")),
    }
}

/// Digits and nothing else.
fn parse_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |length, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    })
}

/// Whether a comma-separated list has this token, in any case.
pub(crate) fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|&byte| byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

/// Whether these are bytes that a host and port can have. Empty is allowed: it says that there is none.
fn is_host(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte))
}

/// Whether a line ends in LF without CR.
pub(crate) fn has_bare_line_feed(lines: &[u8]) -> bool {
    let Some((first, rest)) = lines.split_first() else { return false };
    // Without an early end, so that it compiles to vector instructions.
    let bare = |bare, (&one, &two)| bare | ((two == b'\n') & (one != b'\r'));
    lines.iter().zip(rest).fold(*first == b'\n', bare)
}

/// What to answer a request line whose version is not one that is spoken here.
fn refuse_version(line: &[u8]) -> Reject {
    let mut words = line.strip_suffix(b"\r").unwrap_or(line).split(|&byte| byte == b' ').skip(2);
    match (words.next(), words.next()) {
        (Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor]), None)
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Reject::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.1 and HTTP/1.0")
        }
        _ => bad("malformed request line"),
    }
}

/// Parses the trailers of a chunked body, which `lines` has in full, up to and with the empty line.
pub(crate) fn parse_trailers(lines: &[u8], max_headers: usize) -> Option<HeaderMap> {
    let mut trailers = HeaderMap::new();
    if lines == b"\r\n" {
        return Some(trailers);
    }
    if has_bare_line_feed(lines) {
        return None;
    }
    let mut slots = vec![httparse::EMPTY_HEADER; max_headers.min(ON_STACK)];
    match httparse::parse_headers(lines, &mut slots) {
        Ok(Status::Complete((size, parsed))) if size == lines.len() => {
            for line in parsed {
                let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
                let value = HeaderValue::from_bytes(line.value).ok()?;
                trailers.try_append(name, value).ok()?;
            }
            Some(trailers)
        }
        _ => None,
    }
}
