//! A response that is a file: its headers, a request's conditions, and the ranges that are asked
//! for. Used by handlers, and by the handler of a directory.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::ops::Range;
use std::time::SystemTime;

use http::StatusCode;
use http::header::{self, HeaderValue};
use segue_io::fs::{File, Metadata};

use crate::files::conditions::{Validators, Verdict, judge};
use crate::files::ranges::{Asked, asked};
use crate::files::types::BINARY;
use crate::message::file_body::FileBody;
use crate::message::response::{Kind, Payload, Request, Response};

/// A regular file as the answer to a request, by RFC 9110: with an `ETag`, with `Last-Modified`,
/// and in ranges.
///
/// | the request has | the answer |
/// | --- | --- |
/// | `If-Match` without the tag; or `If-Unmodified-Since` before the last change | 412 |
/// | `If-None-Match` with the tag; or `If-Modified-Since` not before the last change | 304 |
/// | `Range`, with none of its bytes in the file | 416, with the length |
/// | `Range`, with up to 16 ranges that do not touch | 206: the range, or `multipart/byteranges` |
/// | a `Range` that is malformed, has more, or stands beside another one; `If-Range` of another file | 200, the whole file |
///
/// Ranges that overlap or touch are joined, so that no byte is sent twice. Conditions count for GET
/// and HEAD, and ranges for GET; other methods get the whole file.
///
/// The tag is strong: the length, the time of the last change and the number of the file. A file
/// that is changed in place, twice in a few ms and without another length, keeps its tag; one that
/// is renamed over never does. `Last-Modified` is stated as soon as that second is over.
///
/// The length is that of the moment of [`new`](Self::new): see [`Payload::file`].
///
/// ```
/// use http::HeaderValue;
/// use segue_http::{FileResponse, Request, Response, Server};
/// use segue_io::fs::File;
/// use std::io;
///
/// let server = Server::new(|request: &mut Request<'_>| -> io::Result<Response> {
///     let movie = FileResponse::new(File::open("movie.mp4")?)?;
///     Ok(movie.content_type(HeaderValue::from_static("video/mp4")).respond(request))
/// });
/// # let _ = server;
/// ```
pub struct FileResponse {
    file: File,
    length: u64,
    validators: Validators,
    content_type: HeaderValue,
}

impl FileResponse {
    /// A response with all of this file, which is asked for its length.
    ///
    /// # Cancellation
    /// *No effect*: the file is asked for its metadata.
    ///
    /// # Errors
    /// Those of [`File::metadata`]; `InvalidInput` for anything but a regular file.
    ///
    /// ```
    /// let file = segue_io::fs::File::open("Cargo.toml")?;
    /// let response = segue_http::FileResponse::new(file)?;
    /// # let _ = response;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(file: File) -> io::Result<FileResponse> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "only a regular file is sent as a response"));
        }
        Ok(FileResponse::of(file, &metadata))
    }

    /// The same of a regular file with this metadata.
    pub(super) fn of(file: File, metadata: &Metadata) -> FileResponse {
        let validators = Validators::new(metadata, SystemTime::now());
        FileResponse { file, length: metadata.len(), validators, content_type: BINARY }
    }

    /// Sets the `Content-Type`, which is `application/octet-stream` else.
    ///
    /// ```
    /// let file = segue_io::fs::File::open("Cargo.toml")?;
    /// let response = segue_http::FileResponse::new(file)?;
    /// let response = response.content_type(http::HeaderValue::from_static("text/plain"));
    /// # let _ = response;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn content_type(self, content_type: HeaderValue) -> FileResponse {
        FileResponse { content_type, ..self }
    }

    /// The answer to a request for this file. Never waits: the connection sends the file when the
    /// handler has returned.
    ///
    /// ```
    /// use segue_http::{FileResponse, Request, Response, Server};
    /// use segue_io::fs::File;
    ///
    /// let server = Server::new(|request: &mut Request<'_>| -> std::io::Result<Response> {
    ///     Ok(FileResponse::new(File::open("Cargo.toml")?)?.respond(request))
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn respond(self, request: &Request<'_>) -> Response {
        let asked = match judge(request.method(), request.headers(), &self.validators) {
            Verdict::Status(status) => return self.stated(status, None),
            Verdict::Whole => Asked::Whole,
            Verdict::Ranges => asked(request.headers(), self.length),
        };
        let length = self.length;
        match asked {
            Asked::Whole => self.sent(StatusCode::OK, vec![Range { start: 0, end: length }]),
            Asked::Parts(parts) => self.sent(StatusCode::PARTIAL_CONTENT, parts),
            Asked::Unsatisfiable => {
                let range = format!("bytes */{length}");
                self.stated(StatusCode::RANGE_NOT_SATISFIABLE, Some(&range))
            }
        }
    }

    /// A response with parts of the file.
    fn sent(self, status: StatusCode, parts: Vec<Range<u64>>) -> Response {
        let FileResponse { file, length, validators, content_type } = self;
        let told = |range: &Range<u64>| format!("bytes {}-{}/{length}", range.start, range.end - 1);
        let (payload, content_type, range) = match &parts[..] {
            [part] => {
                let range = (status == StatusCode::PARTIAL_CONTENT).then(|| told(part));
                (FileBody::new(file, part.clone()), content_type, range)
            }
            _ => {
                let boundary = boundary();
                let mut line_end = "";
                let mut heads = Vec::new();
                for part in parts {
                    let mut head = format!("{line_end}--{boundary}\r\nContent-Type: ").into_bytes();
                    head.extend_from_slice(content_type.as_bytes());
                    head.extend_from_slice(format!("\r\nContent-Range: {}\r\n\r\n", told(&part)).as_bytes());
                    heads.push((head, part));
                    line_end = "\r\n";
                }
                let end = format!("\r\n--{boundary}--\r\n").into_bytes();
                let content_type = HeaderValue::from_str(&format!("multipart/byteranges; boundary={boundary}"));
                // Letters and digits are always a value.
                (FileBody::of_parts(file, heads, end), content_type.unwrap_or(BINARY), None)
            }
        };
        let payload = Payload(Kind::File(Box::new(payload)));
        let mut response = state(status, payload, range.as_deref(), &validators);
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }

    /// A response without bytes of the file.
    fn stated(&self, status: StatusCode, range: Option<&str>) -> Response {
        state(status, Payload::empty(), range, &self.validators)
    }
}

segue_core::impl_debug!([] FileResponse, |it| length: it.length);

/// A response with the headers that each answer about a file has.
fn state(status: StatusCode, payload: Payload, range: Option<&str>, validators: &Validators) -> Response {
    let mut response = Response::new(payload);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    validators.state(headers);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Digits and such are always a value.
    if let Some(range) = range.and_then(|range| HeaderValue::from_str(range).ok()) {
        headers.insert(header::CONTENT_RANGE, range);
    }
    response
}

/// A line that no file has in it but by a guess of 128 bits, which keys of the process decide.
fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
