//! Request bodies that are read whole: the check of their content type, and their text.
//!
//! Used by the readers of JSON and of forms.

use std::io::{self, Read};

use http::{HeaderMap, StatusCode, header};

use crate::message::refusal::Refusal;
use crate::message::response::Request;

/// The most memory that is taken for a body before its first byte has come.
const FIRST: u64 = 16 << 10;

/// The media type of a request's body, without parameters; empty if the request names none.
fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or("").trim()
}

/// The text of a body whose media type is as `accepts` says; `expected` is that for the client.
///
/// The body is not touched when its type is another one.
pub(crate) fn read(
    request: &mut Request<'_>,
    accepts: impl Fn(&str) -> bool,
    expected: &'static str,
) -> io::Result<String> {
    if !accepts(media_type(request.headers())) {
        let text = format!("the body has to be of the content type {expected}");
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
    }
    let body = request.body_mut();
    let mut bytes = Vec::with_capacity(body.remaining().unwrap_or(0).min(FIRST) as usize);
    body.read_to_end(&mut bytes)?;
    String::from_utf8(bytes).map_err(|error| {
        let (line, column) = place(error.as_bytes(), error.utf8_error().valid_up_to());
        Refusal::bad(format!("the body is not UTF-8: line {line}, column {column}")).into()
    })
}

/// The line and the column of a byte, both counted from one.
fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = &bytes[..at];
    let line = before.iter().filter(|&&byte| byte == b'\n').count();
    let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    (line + 1, at - begin + 1)
}
