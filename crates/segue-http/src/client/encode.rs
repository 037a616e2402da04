//! Writes requests: their heads, and their bodies behind them. Used by the client's connection.

use std::io;

use http::header::{self, HeaderMap};
use http::request::Parts;
use http::{Method, Version, uri::Scheme};

use crate::client::error::Error;
use crate::message::encode::BodyWriter;
use crate::message::framing::has_token;
use crate::message::response::{Kind, Payload};
use crate::wire::buffers::COPY_LIMIT;
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// The parts of a request's head that the connection decides.
pub(super) struct Plan {
    /// The value of `Host`, if the request has none.
    host: Option<String>,
    /// The length of the body; `None` is one in chunks.
    length: Option<u64>,
    pub(super) is_head: bool,
    /// The request asks the server to end the connection.
    pub(super) close: bool,
}

/// Whether, and how, this request can be sent.
pub(super) fn plan(parts: &Parts, length: Option<u64>, is_secure: bool) -> Result<Plan, Error> {
    if parts.version != Version::HTTP_11 {
        return Err(Error::Request("its version is not HTTP/1.1"));
    }
    if parts.method == Method::CONNECT {
        return Err(Error::Request("this client opens no tunnels"));
    }
    match parts.uri.path_and_query().map(http::uri::PathAndQuery::as_str) {
        Some("*") if parts.method != Method::OPTIONS => {
            return Err(Error::Request("the target * is for OPTIONS only"));
        }
        Some(_) => {}
        None => return Err(Error::Request("its URI has no path")),
    }
    if parts.uri.scheme() == Some(&Scheme::HTTPS) && !is_secure {
        return Err(Error::Request("an https URI over a connection that is not secured"));
    }
    let mut hosts = parts.headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next(), parts.uri.authority()) {
        (Some(_), None, _) => None,
        (Some(_), Some(_), _) => return Err(Error::Request("more than one Host header")),
        (None, _, Some(authority)) => {
            // User information is not for the server.
            Some(authority.as_str().rsplit('@').next().unwrap_or_default().to_owned())
        }
        (None, _, None) => return Err(Error::Request("neither a Host header nor a URI with a host")),
    };
    Ok(Plan { host, length, is_head: parts.method == Method::HEAD, close: says_close(&parts.headers) })
}

/// Appends the head of a request that has a plan.
pub(super) fn head(out: &mut Vec<u8>, parts: &Parts, plan: &Plan) {
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    if !target.starts_with(['/', '*']) {
        out.push(b'/');
    }
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(host) = &plan.host {
        line(out, "host", host.as_bytes());
    }
    for (name, value) in &parts.headers {
        if *name != header::CONTENT_LENGTH && *name != header::TRANSFER_ENCODING {
            line(out, name.as_str(), value.as_bytes());
        }
    }
    let means_body = !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS | Method::DELETE);
    match plan.length {
        Some(0) if !means_body => {}
        Some(length) => line(out, "content-length", itoa::Buffer::new().format(length).as_bytes()),
        None => line(out, "transfer-encoding", b"chunked"),
    }
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn says_close(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| has_token(value.as_bytes(), b"close"))
}

/// Writes the body behind its head.
pub(super) fn body(line: &Line<dyn Transport>, payload: Payload) -> io::Result<()> {
    match payload.0 {
        Kind::Owned(bytes) => send_bytes(line, &bytes),
        Kind::Shared(bytes) => send_bytes(line, &bytes),
        Kind::Reader(length, mut reader) => stream(line, length.is_none(), |out| {
            let copied = out.copy(&mut *reader, length.unwrap_or(u64::MAX))?;
            match length {
                Some(length) if copied < length => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(()),
            }
        }),
        Kind::Writer(write) => stream(line, true, write),
        Kind::File(body) => body.send(&mut *line.wire()?),
        Kind::Upgrade(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "an upgrade is no body of a request")),
    }
}

fn send_bytes(line: &Line<dyn Transport>, bytes: &[u8]) -> io::Result<()> {
    let mut wire = line.wire()?;
    if bytes.len() > COPY_LIMIT {
        return wire.send(bytes);
    }
    wire.out.extend_from_slice(bytes);
    wire.flush_if_much()
}

fn stream(
    line: &Line<dyn Transport>,
    chunked: bool,
    write: impl FnOnce(&mut BodyWriter<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BodyWriter::new(line, chunked);
    match write(&mut out) {
        Ok(()) => out.finish(),
        Err(error) => {
            // Another failure here says less.
            let _ = out.abandon();
            Err(error)
        }
    }
}
