//! Parses a request's head and decides how its body is framed, refusing whatever is ambiguous.
//! Used by the connection loop; the trailer check also by request bodies.

use std::cell::Cell;
use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::{Parts, Request};
use http::{Extensions, Method, StatusCode, Uri, Version};
use httparse::Status;
use segue_core::unwind::contain;

use crate::config::Config;
use crate::message::authority::is_authority;
use crate::message::body_error::BodyError;
use crate::message::framing::{Fields, Framing, Kind, Reject, bad};
use crate::message::names::Names;
use crate::wire::facts::Connection;

/// Header lines parsed on the stack; a request with more takes a second pass. An idle connection
/// keeps the stack that its requests have touched: with as many as this, that is one page.
const ON_STACK: usize = 16;
/// The longest target that the `http` crate takes.
const MAX_TARGET: usize = u16::MAX as usize - 1;

/// The most room of a header map that is kept, with its head, for the next request.
const MAX_SPARE: usize = 192;
/// The size of a store for the bytes of heads; a longer head has bytes of its own. A value that a
/// program keeps holds its store.
const STORE: usize = 2 << 10;

thread_local! {
    /// A head that no connection of this thread uses, for whichever parses next.
    static SPARE: Cell<Option<Box<Head>>> = const { Cell::new(None) };
}

pub(crate) const HEAD_TOO_LARGE: Reject =
    Reject::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's head is too long");
const TOO_MANY_HEADERS: Reject =
    Reject::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request has too many headers");
const FRAGMENT: &str = "the request's target has a fragment";
const TARGET_TOO_LONG: Reject = Reject::new(StatusCode::URI_TOO_LONG, "the request's target is too long");

/// A parsed head. A connection has one from the parsing to the handler's end, and none while idle:
/// not in its frames either, which would reach one more page of its stack.
///
/// Its memory is used again from request to request: the header map, the map of extensions, and the
/// store of the bytes that target and values share.
pub(crate) struct Head {
    /// Bytes of input, including the empty line.
    pub(crate) size: usize,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
    /// How many header lines it has: the next head of this thread most likely has as many.
    pub(crate) lines: usize,
    /// The request but for its body; `None` while a handler has the request.
    parts: Option<Parts>,
    /// Behind the bytes of the last head, which are used again when nobody has a part of them.
    store: BytesMut,
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
            framing: Framing::Length(0),
            keep_alive: false,
            expects_continue: false,
            lines: 0,
            parts: Some(Request::new(()).into_parts().0),
            store: BytesMut::new(),
        }
    }

    /// The request, while no handler has it.
    pub(crate) fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("the handler has given the request back")
    }

    pub(crate) fn parts_mut(&mut self) -> &mut Parts {
        self.parts.as_mut().expect("the handler has given the request back")
    }

    /// Makes the request, with facts of its connection. Its parts are to come back.
    pub(crate) fn request<B>(&mut self, connection: Connection, body: B) -> Request<B> {
        let mut parts = self.parts.take().expect("no other handler has the request");
        match parts.extensions.get_mut() {
            Some(facts) => *facts = connection,
            None => drop(parts.extensions.insert(connection)),
        }
        Request::from_parts(parts, body)
    }

    /// Takes the parts of the request back from the handler.
    pub(crate) fn give_back(&mut self, parts: Parts) {
        self.parts = Some(parts);
    }

    /// Leaves the head to the next request of this thread, if not too large.
    pub(crate) fn leave(mut self: Box<Self>) {
        let Some(parts) = &mut self.parts else { return };
        parts.headers.clear();
        parts.uri = Uri::default();
        // The values of handlers are foreign code.
        if contain(|| forget(&mut parts.extensions)).is_none() {
            return;
        }
        if parts.headers.capacity() <= MAX_SPARE {
            // One is enough: a head is taken for one request at a time, unless a handler waits.
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}

/// Forgets the facts of a connection, and keeps their place in the map; and all that a handler has
/// put beside them.
fn forget(extensions: &mut Extensions) {
    if extensions.len() == 1
        && let Some(facts) = extensions.get_mut::<Connection>()
    {
        *facts = Connection::default();
    } else {
        extensions.clear();
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
    let is_strict = ends_in_line_feeds(input, request);
    debug_assert_eq!(is_strict, !has_bare_line_feed(input), "two ways to look at the same");
    if !is_strict {
        return Err(bad("a line does not end in CR LF"));
    }
    // A complete request has all three.
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(bad("malformed request line"));
    };
    head.size = size;
    head.lines = request.headers.len();
    // One copy, which the target and all values share.
    let shared = if size > STORE {
        Bytes::copy_from_slice(input)
    } else {
        if head.store.capacity() < size {
            head.store.reserve(STORE);
        }
        head.store.extend_from_slice(input);
        head.store.split().freeze()
    };
    let share = |part: &[u8]| {
        let at = part.as_ptr().addr() - input.as_ptr().addr();
        shared.slice(at..at + part.len())
    };
    let parts = head.parts_mut();
    parts.method = Method::from_bytes(method.as_bytes()).map_err(|_| bad("malformed method"))?;
    parts.version = if minor == 0 { Version::HTTP_10 } else { Version::HTTP_11 };
    parts.uri = parse_target(&parts.method, target, || share(target.as_bytes()))?;
    let mut names = Names::take();
    let fields = append_lines(&mut parts.headers, request.headers, &mut names, share);
    names.leave();
    decide(&fields?, head)?;
    Ok(true)
}

/// Puts header lines into the map. Their values share the bytes of the head.
fn append_lines(
    headers: &mut HeaderMap,
    lines: &[httparse::Header<'_>],
    names: &mut Names,
    share: impl Fn(&[u8]) -> Bytes,
) -> Result<Fields, Reject> {
    headers.try_reserve(lines.len()).map_err(|_| TOO_MANY_HEADERS)?;
    let mut fields = Fields::default();
    for line in lines {
        let Ok(known) = names.get(line.name.as_bytes()) else { return Err(bad("malformed header name")) };
        if known.kind != Kind::Other {
            fields.note(known.kind, line.value)?;
        }
        let value = match line.value {
            // Its place is not within the head.
            [] => Ok(HeaderValue::from_static("")),
            value => HeaderValue::from_maybe_shared(share(value)),
        };
        let Ok(value) = value else { return Err(bad("malformed header value")) };
        headers.try_append(&known.name, value).map_err(|_| TOO_MANY_HEADERS)?;
    }
    Ok(fields)
}

/// The result for this head, with a known request line.
fn decide(fields: &Fields, head: &mut Head) -> Result<(), Reject> {
    let parts = head.parts_mut();
    let newer = parts.version == Version::HTTP_11;
    if newer && fields.hosts == 0 {
        return Err(bad("the Host header is missing"));
    }
    if fields.is_coded {
        fields.check_codings(newer)?;
    }
    if newer && fields.expects_other {
        return Err(Reject::new(StatusCode::EXPECTATION_FAILED, "the only supported expectation is 100-continue"));
    }
    // An absolute target's authority replaces the Host header.
    if let Some(authority) = parts.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad("malformed target"))?;
        parts.headers.try_insert(header::HOST, host).map_err(|_| TOO_MANY_HEADERS)?;
    }
    head.framing = if fields.is_coded { Framing::Chunked } else { Framing::Length(fields.length.unwrap_or(0)) };
    head.keep_alive = !fields.close && (newer || fields.keep_alive);
    head.expects_continue = fields.expects_continue && newer;
    Ok(())
}

/// Whether each line of a head that the parser has taken ends in CR LF. The parser takes line feeds
/// at the ends of lines alone: in front of a name, and at the end.
fn ends_in_line_feeds(input: &[u8], request: &httparse::Request<'_, '_>) -> bool {
    let is_strict = |line: &httparse::Header<'_>| {
        let at = line.name.as_ptr().addr() - input.as_ptr().addr();
        input[..at].ends_with(b"\r\n")
    };
    input.ends_with(b"\r\n\r\n") && request.headers.iter().all(is_strict)
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
    let uri = Uri::from_maybe_shared(share()).map_err(|_| bad("malformed request target"));
    if target.starts_with('/') {
        let uri = uri?;
        // A fragment is left out there.
        return if uri.path_and_query().is_some_and(|kept| kept.as_str().len() == target.len()) {
            Ok(uri)
        } else {
            Err(bad(FRAGMENT))
        };
    }
    if target.contains('#') {
        return Err(bad(FRAGMENT));
    }
    let uri = uri?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    match uri.authority() {
        Some(authority) if known && is_authority(authority.as_str().as_bytes()) && !authority.host().is_empty() => {
            Ok(uri)
        }
        _ => Err(bad("the request's target is neither a path nor an http URI")),
    }
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
