//! The statements of header lines about the connection and the body, and whether they agree.
//! Used by the parsers of heads, the server's and the client's.

use http::StatusCode;
use http::header::{self, HeaderName};

use crate::message::authority::is_authority;

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

pub(super) const fn bad(reason: &'static str) -> Reject {
    Reject::new(StatusCode::BAD_REQUEST, reason)
}

/// How long the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    /// To the end of the connection: of a response alone.
    UntilClose,
}

/// The lines that the connection reads. All others are for handlers alone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Host,
    Length,
    Coding,
    Connection,
    Expect,
    Other,
}

impl Kind {
    pub(crate) fn of(name: &HeaderName) -> Kind {
        match *name {
            header::HOST => Kind::Host,
            header::CONTENT_LENGTH => Kind::Length,
            header::TRANSFER_ENCODING => Kind::Coding,
            header::CONNECTION => Kind::Connection,
            header::EXPECT => Kind::Expect,
            _ => Kind::Other,
        }
    }
}

/// The headers' statement about the connection and the body.
#[derive(Default)]
pub(crate) struct Fields {
    pub(super) hosts: usize,
    pub(crate) length: Option<u64>,
    /// There is a Transfer-Encoding, with so many codings on all its lines together.
    pub(crate) is_coded: bool,
    codings: usize,
    /// The number of `chunked` among them, and whether the last one is `chunked`.
    chunked: usize,
    ends_chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(super) expects_continue: bool,
    pub(super) expects_other: bool,
}

impl Fields {
    pub(crate) fn note(&mut self, kind: Kind, value: &[u8]) -> Result<(), Reject> {
        match kind {
            Kind::Other => {}
            Kind::Host => {
                self.hosts += 1;
                if self.hosts > 1 {
                    return Err(bad("more than one Host header"));
                }
                if !is_authority(value) {
                    return Err(bad("malformed Host header"));
                }
            }
            Kind::Length => {
                if self.length.is_some() {
                    return Err(bad("more than one Content-Length"));
                }
                self.length = Some(parse_length(value).ok_or(bad("malformed Content-Length"))?);
            }
            Kind::Coding => {
                self.is_coded = true;
                for coding in members(value) {
                    self.ends_chunked = coding.eq_ignore_ascii_case(b"chunked");
                    self.chunked += usize::from(self.ends_chunked);
                    self.codings += 1;
                }
            }
            Kind::Connection => {
                for option in members(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            Kind::Expect => {
                for member in members(value) {
                    let known = member.eq_ignore_ascii_case(b"100-continue");
                    self.expects_continue |= known;
                    self.expects_other |= !known;
                }
            }
        }
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
