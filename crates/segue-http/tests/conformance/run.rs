//! Runs one case against one of the servers, in memory, and takes what it answered apart.

use crate::cases::Case;
use crate::common::{Event, Script, Step};
use crate::handler::{self, MAX_BODY};
use crate::rival;
use segue_http::{Config, IntoResponse, Payload, Request, Response, Server};
use std::fmt;
use std::io::Read;
use std::time::Duration;

/// The request behind a case's.
const PROBE: &[u8] = b"GET /probe HTTP/1.1\r\nHost: h\r\n\r\n";

/// Before the client ends its direction it is silent for so long, longer than the server lingers.
const SILENCE: Duration = Duration::from_secs(2);

/// What one run has shown.
pub struct Observed {
    pub output: Vec<u8>,
    pub replies: Vec<Reply>,
    /// The server ended the connection before the client did.
    pub closed: bool,
}

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
    complete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Segue,
    Hyper,
}

/// How the octets of a case arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    Whole,
    ByteByByte,
    FivePieces,
}

pub const ARRIVALS: [Arrival; 3] = [Arrival::Whole, Arrival::ByteByByte, Arrival::FivePieces];

/// Has `who` serve the case's request and the probe.
pub fn run(case: &Case, who: Who, arrival: Arrival) -> Result<Observed, String> {
    let mut input = case.request.clone();
    if !case.alone {
        input.extend_from_slice(PROBE);
    }
    let pieces = cut(&input, arrival);
    let (output, closed) = match who {
        Who::Segue => segue(pieces),
        Who::Hyper => rival::serve(pieces),
    };
    let replies = parse(&output, case.head)?;
    Ok(Observed { output, replies, closed })
}

fn cut(input: &[u8], arrival: Arrival) -> Vec<Vec<u8>> {
    /// Of a longer input only the two ends come byte by byte, and the middle in larger pieces.
    const LONG: usize = 4_000;
    const ENDS: usize = 300;
    let pieces = |bytes: &[u8], size: usize| bytes.chunks(size.max(1)).map(<[u8]>::to_vec).collect::<Vec<_>>();
    match arrival {
        Arrival::Whole => vec![input.to_vec()],
        Arrival::ByteByByte if input.len() > LONG => {
            let middle = &input[ENDS..input.len() - ENDS];
            [
                pieces(&input[..ENDS], 1),
                pieces(middle, middle.len().div_ceil(20)),
                pieces(&input[input.len() - ENDS..], 1),
            ]
            .concat()
        }
        Arrival::ByteByByte => pieces(input, 1),
        Arrival::FivePieces => pieces(input, input.len().div_ceil(5)),
    }
}

fn segue(pieces: Vec<Vec<u8>>) -> (Vec<u8>, bool) {
    let steps = pieces.into_iter().map(Step::Send).chain([Step::Pause(SILENCE), Step::End]);
    let script = Script::new(steps);
    let log = script.log();
    let config = Config::new().max_body_bytes(MAX_BODY as u64);
    // A connection that ends early is what some cases want.
    let _ = Server::new(answer).config(config).serve_connection(script);
    let closed = log.waited() < SILENCE || log.events().contains(&Event::ShutdownWrite);
    (log.output(), closed)
}

fn answer(request: &mut Request<'_>) -> Response {
    let mut body = Vec::new();
    if request.uri().path() != handler::UNREAD
        && let Err(error) = request.body_mut().read_to_end(&mut body)
    {
        return error.into_response();
    }
    let answer = handler::answer(request.method(), request.uri(), request.version(), request.headers(), &body);
    answer.map(|content| match content.sized {
        true => content.bytes.into(),
        false => Payload::reader(std::io::Cursor::new(content.bytes)),
    })
}

impl Observed {
    pub fn finals(&self) -> impl Iterator<Item = &Reply> {
        self.replies.iter().filter(|reply| reply.status >= 200)
    }

    /// What holds of every response, whatever the case.
    pub fn is_sane(&self) -> Result<(), String> {
        for (place, reply) in self.replies.iter().enumerate() {
            let has = |name: &str| reply.header(name).is_some();
            if has("content-length") && has("transfer-encoding") {
                return Err("both Content-Length and Transfer-Encoding".into());
            }
            if (reply.status < 200 || reply.status == 204) && (has("content-length") || has("transfer-encoding")) {
                return Err(format!("a {} that is framed", reply.status));
            }
            let last = place + 1 == self.replies.len();
            if !last && reply.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
                return Err("a response behind the one that says close".into());
            }
            if !reply.complete {
                return Err(format!("{self}, cut short"));
            }
        }
        Ok(())
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.split("\r\n").skip(1);
        lines
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|line| line.1)
    }

    pub fn answers_probe(&self) -> bool {
        self.status == 200 && self.body.starts_with(b"GET /probe ")
    }
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.replies.is_empty() {
            f.write_str("nothing")?;
        }
        for (place, reply) in self.replies.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let what = if reply.answers_probe() { " to the probe" } else { "" };
            write!(f, "{comma}{}{what}", reply.status)?;
        }
        f.write_str(if self.closed { ", closed" } else { ", open" })
    }
}

/// Takes an output apart. `head` is the final response that has no body in any case.
fn parse(mut output: &[u8], head: Option<usize>) -> Result<Vec<Reply>, String> {
    let mut replies: Vec<Reply> = Vec::new();
    while !output.is_empty() {
        let size = output.windows(4).position(|four| four == b"\r\n\r\n").ok_or("a head without an end")? + 4;
        let text = std::str::from_utf8(&output[..size - 2]).map_err(|_| "a head that is no text")?;
        let mut words = text.splitn(3, ' ');
        let (version, status) = (words.next(), words.next().and_then(|status| status.parse().ok()));
        let (true, Some(status), Some(_)) =
            (version == Some("HTTP/1.1") || version == Some("HTTP/1.0"), status, words.next())
        else {
            return Err("no status line".into());
        };
        output = &output[size..];
        let finals = replies.iter().filter(|reply| reply.status >= 200).count();
        let mut reply = Reply { status, head: text.to_owned(), body: Vec::new(), complete: true };
        if head == Some(finals) || status < 200 || status == 204 || status == 304 {
            // It ends with its head.
        } else if reply.header("transfer-encoding").is_some() {
            (reply.body, reply.complete, output) = unchunk(output)?;
        } else if let Some(length) = reply.header("content-length") {
            let length: usize = length.parse().map_err(|_| "a length that is no number")?;
            let there = length.min(output.len());
            reply.complete = there == length;
            reply.body = output[..there].to_vec();
            output = &output[there..];
        } else {
            reply.body = output.to_vec();
            output = &[];
        }
        replies.push(reply);
    }
    Ok(replies)
}

/// A chunked body, whether its end is there, and what follows.
fn unchunk(mut rest: &[u8]) -> Result<(Vec<u8>, bool, &[u8]), String> {
    let mut body = Vec::new();
    loop {
        let Ok(httparse::Status::Complete((at, size))) = httparse::parse_chunk_size(rest) else {
            return if rest.is_empty() { Ok((body, false, rest)) } else { Err("a malformed chunk".into()) };
        };
        let end = at + size as usize;
        body.extend_from_slice(rest.get(at..end).ok_or("a chunk that is cut short")?);
        if rest.get(end..end + 2) != Some(b"\r\n") {
            return Err("a chunk without an end".into());
        }
        rest = &rest[end + 2..];
        if size == 0 {
            return Ok((body, true, rest));
        }
    }
}
