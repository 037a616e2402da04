//! Parses a request's head and decides how its body is framed, refusing whatever is ambiguous.
//! Used by the connection loop; the trailer check also by request bodies.

use std::cell::Cell;
use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Extensions, Method, StatusCode, Uri, Version};
use httparse::Status;
use segue_core::unwind::contain;

use crate::config::Config;
use crate::message::authority::is_authority;
use crate::message::body_error::BodyError;

/// Header lines parsed on the stack; a request with more takes a second pass. An idle connection
/// keeps the stack that its requests have touched: with as many as this, that is one page.
const ON_STACK: usize = 16;
/// The longest target that the `http` crate takes.
const MAX_TARGET: usize = u16::MAX as usize - 1;

/// The most room of a header map that is kept, with its head, for the next request.
const MAX_SPARE: usize = 192;

thread_local! {
    /// A head that no connection of this thread uses, for whichever parses next.
    static SPARE: Cell<Option<Box<Head>>> = const { Cell::new(None) };
}

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
const TARGET_TOO_LONG: Reject = Reject::new(StatusCode::URI_TOO_LONG, "the request's target is too long");

/// How long the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    /// To the end of the connection: of a response alone.
    UntilClose,
}

/// A parsed head. A connection has one from the parsing to the handler's end, and none while idle:
/// not in its frames either, which would reach one more page of its stack.
pub(crate) struct Head {
    /// Bytes of input, including the empty line.
    pub(crate) size: usize,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) version: Version,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
    /// How many header lines it has: the next head of this thread most likely has as many.
    pub(crate) lines: usize,
    /// Its memory is used again from request to request.
    pub(crate) headers: HeaderMap,
    /// Those of the request that the handler gets; its memory, too, is used again.
    pub(crate) extensions: Extensions,
}

impl Head {
    /// One without headers: with a map that has memory, if another request of this thread has left
    /// its head.
    pub(crate) fn spare() -> Box<Self> {
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_else(|| Box::new(Self::new()))
    }

    fn new() -> Self {
        Self {
            size: 0,
            method: Method::GET,
            uri: Uri::default(),
            version: Version::HTTP_11,
            framing: Framing::Length(0),
            keep_alive: false,
            expects_continue: false,
            lines: 0,
            headers: HeaderMap::new(),
            extensions: Extensions::new(),
        }
    }

    /// Leaves the head to the next request of this thread, if not too large.
    pub(crate) fn leave(mut self: Box<Self>) {
        self.headers.clear();
        // The values of handlers are foreign code.
        if contain(|| self.extensions.clear()).is_none() {
            return;
        }
        if self.headers.capacity() <= MAX_SPARE {
            // One is enough: a head is taken for one request at a time, unless a handler waits.
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}

/// Parses the head at the start of `input` into `head`, which has no headers. Answers whether the
/// head has an end yet; if not, `head` is unchanged.
pub(crate) fn parse(input: &[u8], config: &Config, head: &mut Head) -> Result<bool, Reject> {
    let input = &input[..input.len().min(config.max_head_bytes)];
    match input {
        // The connection skips a few empty lines; the parser would skip any number of them.
        [] | [b'\r'] => return Ok(false),
        [b'\r' | b'\n', ..] => return Err(bad("an empty line where a request was expected")),
        _ => {}
    }
    if head.lines > ON_STACK && config.max_headers > ON_STACK {
        return parse_long(input, config, head);
    }
    let mut slots = [const { MaybeUninit::uninit() }; ON_STACK];
    let allowed = config.max_headers.min(ON_STACK);
    let mut request = httparse::Request::new(&mut []);
    let parsed = match request.parse_with_uninit_headers(input, &mut slots[..allowed]) {
        Err(httparse::Error::TooManyHeaders) if config.max_headers > ON_STACK => {
            return parse_long(input, config, head);
        }
        Err(httparse::Error::Version) => return parse_version(input, config, head),
        parsed => parsed,
    };
    finish(input, parsed, &request, config, head)
}

/// A request of a version that the parser does not know. A later minor version is served as 1.1.
#[cold]
fn parse_version(input: &[u8], config: &Config, head: &mut Head) -> Result<bool, Reject> {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
        return if input.len() >= config.max_head_bytes { Err(too_long(input)) } else { Ok(false) };
    };
    let line = &input[..end];
    match version(line.strip_suffix(b"\r").unwrap_or(line)) {
        Some((b'1', b'2'..=b'9', at)) => {
            let mut newest = input.to_vec();
            newest[at] = b'1';
            parse(&newest, config, head)
        }
        Some(_) => Err(Reject::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "this server speaks HTTP/1.1 and HTTP/1.0")),
        None => Err(bad("malformed request line")),
    }
}

/// The digits of a request line's version, and where the second one is.
fn version(line: &[u8]) -> Option<(u8, u8, usize)> {
    let mut words = line.split(|&byte| byte == b' ').skip(2);
    match (words.next(), words.next()) {
        (Some(&[b'H', b'T', b'T', b'P', b'/', major, b'.', minor]), None)
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Some((major, minor, line.len() - 1))
        }
        _ => None,
    }
}

/// The answer to a head with only its beginning here: its method is too long, its target, or all of
/// the head.
fn too_long(input: &[u8]) -> Reject {
    if input.contains(&b'\n') {
        HEAD_TOO_LARGE
    } else if input.contains(&b' ') {
        TARGET_TOO_LONG
    } else {
        Reject::new(StatusCode::NOT_IMPLEMENTED, "the request's method is too long")
    }
}

/// For a request with many headers, off the fiber's stack.
#[cold]
fn parse_long(input: &[u8], config: &Config, head: &mut Head) -> Result<bool, Reject> {
    let mut slots = Vec::with_capacity(config.max_headers);
    let mut request = httparse::Request::new(&mut []);
    let allowed = &mut slots.spare_capacity_mut()[..config.max_headers];
    let parsed = match request.parse_with_uninit_headers(input, allowed) {
        Err(httparse::Error::Version) => return parse_version(input, config, head),
        parsed => parsed,
    };
    finish(input, parsed, &request, config, head)
}

fn finish(
    input: &[u8],
    parsed: httparse::Result<usize>,
    request: &httparse::Request<'_, '_>,
    config: &Config,
    head: &mut Head,
) -> Result<bool, Reject> {
    let size = match parsed {
        Ok(Status::Complete(size)) => size,
        Ok(Status::Partial) if input.len() >= config.max_head_bytes => return Err(too_long(input)),
        Ok(Status::Partial) => return Ok(false),
        Err(httparse::Error::TooManyHeaders) => return Err(TOO_MANY_HEADERS),
        Err(httparse::Error::HeaderName) => return Err(bad("malformed header name")),
        Err(httparse::Error::HeaderValue) => return Err(bad("malformed header value")),
        Err(_) => return Err(bad("malformed request line")),
    };
    let input = &input[..size];
    if has_bare_line_feed(input) {
        return Err(bad("a line does not end in CR LF"));
    }
    // A complete request has all three.
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(bad("malformed request line"));
    };
    head.size = size;
    head.lines = request.headers.len();
    head.method = Method::from_bytes(method.as_bytes()).map_err(|_| bad("malformed method"))?;
    head.version = if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    // One copy, which the target and all values share.
    let shared = Bytes::copy_from_slice(input);
    let share = |part: &[u8]| {
        let at = part.as_ptr().addr() - input.as_ptr().addr();
        shared.slice(at..at + part.len())
    };
    head.uri = parse_target(&head.method, target, || share(target.as_bytes()))?;

    head.headers.try_reserve(request.headers.len()).map_err(|_| TOO_MANY_HEADERS)?;
    let mut fields = Fields::default();
    for line in request.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| bad("malformed header name"))?;
        fields.note(&name, line.value)?;
        let value = match line.value {
            // Its place is not within the head.
            [] => Ok(HeaderValue::from_static("")),
            value => HeaderValue::from_maybe_shared(share(value)),
        };
        let value = value.map_err(|_| bad("malformed header value"))?;
        head.headers.try_append(name, value).map_err(|_| TOO_MANY_HEADERS)?;
    }
    fields.decide(head)?;
    Ok(true)
}

/// The headers' statement about the connection and the body.
#[derive(Default)]
pub(crate) struct Fields {
    hosts: usize,
    pub(crate) length: Option<u64>,
    /// There is a Transfer-Encoding, with so many codings on all its lines together.
    pub(crate) is_coded: bool,
    codings: usize,
    /// The number of `chunked` among them, and whether the last one is `chunked`.
    chunked: usize,
    ends_chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    expects_continue: bool,
    expects_other: bool,
}

impl Fields {
    pub(crate) fn note(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), Reject> {
        if *name == header::HOST {
            self.hosts += 1;
            if self.hosts > 1 {
                return Err(bad("more than one Host header"));
            }
            if !is_authority(value) {
                return Err(bad("malformed Host header"));
            }
        } else if *name == header::CONTENT_LENGTH {
            if self.length.is_some() {
                return Err(bad("more than one Content-Length"));
            }
            self.length = Some(parse_length(value).ok_or(bad("malformed Content-Length"))?);
        } else if *name == header::TRANSFER_ENCODING {
            self.is_coded = true;
            for coding in members(value) {
                self.ends_chunked = coding.eq_ignore_ascii_case(b"chunked");
                self.chunked += usize::from(self.ends_chunked);
                self.codings += 1;
            }
        } else if *name == header::CONNECTION {
            self.close |= has_token(value, b"close");
            self.keep_alive |= has_token(value, b"keep-alive");
        } else if *name == header::EXPECT {
            for member in members(value) {
                let known = member.eq_ignore_ascii_case(b"100-continue");
                self.expects_continue |= known;
                self.expects_other |= !known;
            }
        }
        Ok(())
    }

    /// The result for this head, with a known request line.
    fn decide(&self, head: &mut Head) -> Result<(), Reject> {
        let newer = head.version == Version::HTTP_11;
        if newer && self.hosts == 0 {
            return Err(bad("the Host header is missing"));
        }
        if self.is_coded {
            self.check_codings(newer)?;
        }
        if newer && self.expects_other {
            return Err(Reject::new(StatusCode::EXPECTATION_FAILED, "the only supported expectation is 100-continue"));
        }
        // An absolute target's authority replaces the Host header.
        if let Some(authority) = head.uri.authority() {
            let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad("malformed target"))?;
            head.headers.try_insert(header::HOST, host).map_err(|_| TOO_MANY_HEADERS)?;
        }
        head.framing = if self.is_coded { Framing::Chunked } else { Framing::Length(self.length.unwrap_or(0)) };
        head.keep_alive = !self.close && (newer || self.keep_alive);
        head.expects_continue = self.expects_continue && newer;
        Ok(())
    }

    /// Whether the end of a coded body can be found, and chunks are the only coding.
    pub(crate) fn check_codings(&self, newer: bool) -> Result<(), Reject> {
        if !newer {
            Err(bad("Transfer-Encoding in an HTTP/1.0 message"))
        } else if self.length.is_some() {
            Err(bad("both Transfer-Encoding and Content-Length"))
        } else if !self.ends_chunked || self.chunked > 1 {
            Err(bad("chunked is not the last Transfer-Encoding, or stands twice"))
        } else if self.codings > 1 {
            Err(Reject::new(StatusCode::NOT_IMPLEMENTED, "the only supported Transfer-Encoding is chunked"))
        } else {
            Ok(())
        }
    }
}

/// The request target: a path, an absolute http URI, or `*` for OPTIONS.
fn parse_target(method: &Method, target: &str, share: impl FnOnce() -> Bytes) -> Result<Uri, Reject> {
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
    if target.len() > MAX_TARGET {
        return Err(TARGET_TOO_LONG);
    }
    if target.contains('#') {
        return Err(bad("the request's target has a fragment"));
    }
    let uri = Uri::from_maybe_shared(share()).map_err(|_| bad("malformed request target"))?;
    if target.starts_with('/') {
        return Ok(uri);
    }
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    match uri.authority() {
        Some(authority) if known && is_authority(authority.as_str().as_bytes()) && !authority.host().is_empty() => {
            Ok(uri)
        }
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
    members(list).any(|member| member.eq_ignore_ascii_case(token))
}

/// The members of a comma-separated list; empty members do not count.
fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// Whether a line ends in LF without CR.
pub(crate) fn has_bare_line_feed(lines: &[u8]) -> bool {
    let Some((first, rest)) = lines.split_first() else { return false };
    // Without an early end, so that this compiles to vector instructions.
    let bare = |bare, (&one, &two)| bare | ((two == b'\n') & (one != b'\r'));
    lines.iter().zip(rest).fold(*first == b'\n', bare)
}

/// Parses the trailers of a chunked body, which `lines` has in full, up to and with the empty line.
pub(crate) fn parse_trailers(lines: &[u8], max_headers: usize) -> Result<HeaderMap, BodyError> {
    let mut trailers = HeaderMap::new();
    if lines == b"\r\n" {
        return Ok(trailers);
    }
    if has_bare_line_feed(lines) {
        return Err(BodyError::Malformed);
    }
    // A line has four bytes at least.
    let mut slots = vec![httparse::EMPTY_HEADER; max_headers.min(lines.len() / 4)];
    match httparse::parse_headers(lines, &mut slots) {
        Ok(Status::Complete((size, parsed))) if size == lines.len() => {
            for line in parsed {
                let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| BodyError::Malformed)?;
                let value = HeaderValue::from_bytes(line.value).map_err(|_| BodyError::Malformed)?;
                trailers.try_append(name, value).map_err(|_| BodyError::TrailersTooLarge)?;
            }
            Ok(trailers)
        }
        Err(httparse::Error::TooManyHeaders) => Err(BodyError::TrailersTooLarge),
        _ => Err(BodyError::Malformed),
    }
}
