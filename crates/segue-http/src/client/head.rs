//! Parses a response's head and decides how its body is framed, refusing whatever is ambiguous.
//! Used by the client's connection.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Version};
use httparse::Status;

use crate::client::error::Error;
use crate::config::Config;
use crate::message::framing::{Fields, Framing, Kind};
use crate::message::head::has_bare_line_feed;

/// Header lines for which there is room at first; a response with more takes a second pass.
const FEW: usize = 32;

/// A parsed head.
pub(super) struct Head {
    /// Bytes of input, including the empty line.
    pub(super) size: usize,
    pub(super) status: StatusCode,
    pub(super) version: Version,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// Whether another response may follow, as far as the server says.
    pub(super) keep_alive: bool,
}

/// Parses the head at the start of `input`, if the head has its end there. `is_head` says that the
/// request was one for the head alone.
pub(super) fn parse(input: &[u8], config: &Config, is_head: bool) -> Result<Option<Head>, Error> {
    let input = &input[..input.len().min(config.max_head_bytes)];
    match input {
        [] => return Ok(None),
        // The parser would skip empty lines.
        [b'\r' | b'\n', ..] => return Err(Error::Malformed("an empty line where a response was expected")),
        _ => {}
    }
    let mut few = [httparse::EMPTY_HEADER; FEW];
    let mut many = Vec::new();
    let mut response = httparse::Response::new(&mut few[..config.max_headers.min(FEW)]);
    let mut parsed = response.parse(input);
    if parsed == Err(httparse::Error::TooManyHeaders) && config.max_headers > FEW {
        many.resize(config.max_headers, httparse::EMPTY_HEADER);
        response = httparse::Response::new(&mut many);
        parsed = response.parse(input);
    }
    let size = match parsed {
        Ok(Status::Complete(size)) => size,
        Ok(Status::Partial) if input.len() >= config.max_head_bytes => return Err(Error::HeadTooLarge),
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(Error::TooManyHeaders),
        Err(httparse::Error::HeaderName) => return Err(Error::Malformed("malformed header name")),
        Err(httparse::Error::HeaderValue) => return Err(Error::Malformed("malformed header value")),
        Err(httparse::Error::Version) => return Err(Error::Malformed("neither HTTP/1.1 nor HTTP/1.0")),
        Err(_) => return Err(Error::Malformed("malformed status line")),
    };
    read(&input[..size], &response, is_head).map(Some)
}

/// The head, of which `input` has all bytes.
fn read(input: &[u8], response: &httparse::Response<'_, '_>, is_head: bool) -> Result<Head, Error> {
    if has_bare_line_feed(input) {
        return Err(Error::Malformed("a line does not end in CR LF"));
    }
    // A complete response has both.
    let (Some(minor), Some(code)) = (response.version, response.code) else {
        return Err(Error::Malformed("malformed status line"));
    };
    let status = StatusCode::from_u16(code).map_err(|_| Error::Malformed("malformed status"))?;
    let newer = minor > 0;
    // One copy, which all values share.
    let shared = Bytes::copy_from_slice(input);
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    let mut fields = Fields::default();
    for line in response.headers.iter() {
        let malformed = || Error::Malformed("malformed header");
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| malformed())?;
        // It means nothing in a response.
        let kind = Kind::of(&name);
        if kind != Kind::Host {
            fields.note(kind, line.value)?;
        }
        let value = match line.value {
            // Its place is not within the head.
            [] => HeaderValue::from_static(""),
            value => {
                let at = value.as_ptr().addr() - input.as_ptr().addr();
                HeaderValue::from_maybe_shared(shared.slice(at..at + value.len())).map_err(|_| malformed())?
            }
        };
        headers.try_append(name, value).map_err(|_| Error::TooManyHeaders)?;
    }
    if fields.is_coded {
        fields.check_codings(newer)?;
    }
    let bodiless =
        is_head || status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let framing = match fields.length {
        _ if bodiless => Framing::Length(0),
        _ if fields.is_coded => Framing::Chunked,
        Some(length) => Framing::Length(length),
        None => Framing::UntilClose,
    };
    Ok(Head {
        size: input.len(),
        status,
        version: if newer { Version::HTTP_11 } else { Version::HTTP_10 },
        headers,
        framing,
        keep_alive: framing != Framing::UntilClose && !fields.close && (newer || fields.keep_alive),
    })
}
