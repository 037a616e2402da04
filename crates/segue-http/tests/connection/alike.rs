//! The pieces in which a client's bytes come change nothing of the server's answers. Used by the
//! test beside this file, and by the fuzzer.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use segue_http::{Body, Config, IntoResponse, Payload, Request, Response, Server, Transport};

/// What one run came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The requests that the handler saw, with their bodies.
    pub seen: Vec<String>,
    pub output: Vec<u8>,
}

/// A client that sends its bytes in pieces, and ends its direction.
struct Pieces {
    bytes: Vec<u8>,
    lengths: std::vec::IntoIter<usize>,
    /// Of the current piece, the bytes that are not read.
    piece: usize,
    at: usize,
    output: Rc<RefCell<Vec<u8>>>,
}

impl Read for Pieces {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        while self.piece == 0 {
            let Some(length) = self.lengths.next() else { return Ok(0) };
            self.piece = length;
        }
        let count = self.piece.min(dst.len());
        dst[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.piece -= count;
        self.at += count;
        Ok(count)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transport for Pieces {
    fn set_read_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the whole body, and answers in a way that the target chooses.
fn answer(request: &mut Request<'_>, seen: &Mutex<Vec<String>>) -> Response {
    let mut body = Vec::new();
    let read = request.body_mut().read_to_end(&mut body).map(|_| ());
    let trailers = Body::trailers(request.body()).len();
    let text = format!(
        "{} {} {:?} {:?} {} {trailers} {:?}",
        request.method(),
        request.uri(),
        request.version(),
        request.headers(),
        body.escape_ascii(),
        read.as_ref().map_err(|error| error.kind()),
    );
    seen.lock().unwrap().push(text.clone());
    if let Err(error) = read {
        return error.into_response();
    }
    match request.uri().path().as_bytes().last() {
        Some(b'0') => http::StatusCode::NO_CONTENT.into_response(),
        Some(b'1') => http::Response::new(Payload::reader(io::Cursor::new(text))).into_response(),
        Some(b'2') => http::Response::new(Payload::writer(move |out| {
            out.write_all(text.as_bytes())?;
            out.flush()?;
            out.write_all(b".")
        })),
        Some(b'3') => http::StatusCode::NOT_MODIFIED.into_response(),
        Some(b'4') => http::Response::builder().header("connection", "close").body(text).into_response(),
        _ => text.into_response(),
    }
}

/// Has a server answer these bytes, in pieces of these lengths, on this thread or fiber.
pub fn outcome(bytes: &[u8], lengths: Vec<usize>) -> Outcome {
    assert_eq!(lengths.iter().sum::<usize>(), bytes.len());
    let output = Rc::new(RefCell::new(Vec::new()));
    let lengths = lengths.into_iter();
    let client = Pieces { bytes: bytes.to_vec(), lengths, piece: 0, at: 0, output: Rc::clone(&output) };
    let seen = Mutex::default();
    let server = Server::new(|request: &mut Request<'_>| answer(request, &seen))
        .config(Config::new().max_body_bytes(1 << 16).max_head_bytes(1 << 11).max_headers(20).send_date(false));
    let ended = server.serve_connection(client);
    drop(server);
    assert!(ended.is_ok(), "{ended:?}");
    Outcome {
        seen: seen.into_inner().unwrap(),
        output: Rc::into_inner(output).expect("the transport is gone").into_inner(),
    }
}

/// The output is a row of responses: one for each request that the handler saw, perhaps one of the
/// server's own, and none behind one that ends the connection. Returns their statuses.
pub fn statuses(outcome: &Outcome) -> Vec<u16> {
    let (mut rest, mut statuses, mut is_over) = (&outcome.output[..], Vec::new(), false);
    while !rest.is_empty() {
        assert!(!is_over, "behind the last response: {}", rest.escape_ascii());
        let mut slots = [httparse::EMPTY_HEADER; 16];
        let mut head = httparse::Response::new(&mut slots);
        let size = head.parse(rest).expect("a head").unwrap();
        rest = &rest[size..];
        let value = |name: &str| head.headers.iter().find(|line| line.name == name).map(|line| line.value);
        let status = head.code.unwrap();
        if status == 100 {
            continue;
        }
        let request = outcome.seen.get(statuses.len());
        statuses.push(status);
        is_over = value("connection") == Some(b"close");
        if request.is_some_and(|request| request.starts_with("HEAD ")) || matches!(status, 204 | 304) {
            continue;
        }
        rest = if value("transfer-encoding").is_some() {
            unchunked(rest)
        } else if let Some(length) = value("content-length") {
            let length: usize = std::str::from_utf8(length).unwrap().parse().unwrap();
            // A refusal of a HEAD request has no body, and the handler has not seen that request.
            if request.is_none() && rest.is_empty() { rest } else { &rest[length..] }
        } else {
            assert!(is_over, "a body until the end of a connection that goes on");
            &[]
        };
    }
    assert!(statuses.len() >= outcome.seen.len(), "a request has no response");
    assert!(statuses.len() <= outcome.seen.len() + 1, "the server has answered more than once by itself");
    statuses
}

/// The bytes behind a body in chunks.
fn unchunked(mut rest: &[u8]) -> &[u8] {
    loop {
        let (size, length) = httparse::parse_chunk_size(rest).expect("a chunk").unwrap();
        let end = size + usize::try_from(length).unwrap();
        assert_eq!(&rest[end..end + 2], b"\r\n");
        rest = &rest[end + 2..];
        if length == 0 {
            return rest;
        }
    }
}

/// Checks an input of a fuzzer: a number, so many lengths of pieces, which are taken in turns, and
/// the client's bytes.
pub fn fuzzed(data: &[u8]) -> Vec<u16> {
    let Some((number, rest)) = data.split_first() else { return Vec::new() };
    let (lengths, bytes) = rest.split_at(rest.len().min(usize::from(number % 8)));
    let whole = outcome(bytes, vec![bytes.len()]);
    let statuses = statuses(&whole);
    let (mut pieces, mut left) = (Vec::new(), bytes.len());
    for length in lengths.iter().cycle().take(2 * bytes.len()) {
        let piece = left.min((*length).into());
        pieces.push(piece);
        left -= piece;
    }
    pieces.push(left);
    for pieces in [pieces, vec![1; bytes.len()]] {
        let same = outcome(bytes, pieces.clone());
        assert_eq!(same.seen, whole.seen, "in pieces of {pieces:?}: {}", bytes.escape_ascii());
        let (same, whole) = (same.output.escape_ascii().to_string(), whole.output.escape_ascii().to_string());
        assert_eq!(same, whole, "in pieces of {pieces:?}: {}", bytes.escape_ascii());
    }
    statuses
}
