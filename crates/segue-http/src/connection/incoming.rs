//! The requests of a connection as they come: waits for each head, and parses it. Used by the
//! connection loop.
//!
//! A connection that waits for the first byte of a request is at rest, and may lose its place. The
//! request that has arrived by then is the last one.

use std::cell::RefMut;
use std::io;
use std::time::{Duration, Instant};

use http::StatusCode;
use http::uri::Scheme;
use segue_core::trim_stack;

use crate::config::Config;
use crate::connection::contexts::Contexts;
use crate::message::framing::Reject;
use crate::message::head::{self, Head};
use crate::wire::buffers::{AT_ONCE, SMALL, Wire, is_timeout};
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// Empty lines before a request that are skipped.
const MAX_EMPTY_LINES: usize = 4;
/// A connection that has been idle for so long gives back the stack memory that its requests
/// needed: clients that send one request after the other do not pay for that.
const REST: Duration = Duration::from_secs(1);

/// The next thing that a connection has to do.
pub(super) enum Next {
    Request(Box<Head>),
    Reject(Reject),
    End,
}

/// The requests of one connection.
pub(super) struct Incoming<'c> {
    line: &'c Line<dyn Transport>,
    config: &'c Config,
    contexts: Contexts<'c>,
    /// There was a request.
    used: bool,
    /// There will be no other one: the gate needs the place.
    pub(super) last: bool,
    look: Look,
}

/// How much of the next head has been looked at. Parsing again only when it may help keeps the work
/// linear in a head that comes in small pieces.
#[derive(Default)]
struct Look {
    empty_lines: usize,
    /// The length of the input at the last parse.
    parsed: usize,
    /// And at the last search for the head's end.
    searched: usize,
}

impl<'c> Incoming<'c> {
    pub(super) fn new(line: &'c Line<dyn Transport>, config: &'c Config, contexts: Contexts<'c>) -> Incoming<'c> {
        Incoming { line, config, contexts, used: false, last: false, look: Look::default() }
    }

    fn wire(&self) -> RefMut<'c, Wire<dyn Transport>> {
        self.line.wire_here()
    }

    /// The input, if there is a whole head or a malformed one.
    pub(super) fn arrived(&mut self) -> Option<Next> {
        let config = self.config;
        let mut wire = self.wire();
        let look = &mut self.look;
        while wire.arrived().starts_with(b"\r\n") && look.empty_lines < MAX_EMPTY_LINES {
            wire.consume(2);
            *look = Look { empty_lines: look.empty_lines + 1, ..Look::default() };
        }
        let length = wire.arrived().len();
        if length > 0 {
            let fresh = &wire.arrived()[usize::saturating_sub(look.searched, 3)..];
            if length >= look.parsed * 2 || length >= config.max_head_bytes || has_end(fresh) {
                drop(wire);
                if let Some(next) = self.parse() {
                    self.look = Look::default();
                    self.used |= matches!(next, Next::Request(_));
                    return Some(next);
                }
                self.look.parsed = length;
            }
            self.look.searched = length;
        }
        None
    }

    /// Has the transport make itself ready: at rest, so a shutdown ends this wait, and so does the
    /// gate. Answers whether the connection has kept its place.
    pub(super) fn handshake(&self) -> io::Result<bool> {
        let limit = self.config.handshake_timeout;
        self.contexts.rest(false);
        let ready = self.contexts.at_rest(|| self.wire().handshake(limit));
        let stays = self.contexts.rise();
        if stays { ready.map(|()| true) } else { Ok(false) }
    }

    /// Waits for the next request's head.
    pub(super) fn next(&mut self) -> io::Result<Next> {
        let config = self.config;
        let mut deadline: Option<Instant> = None;
        loop {
            if let Some(next) = self.arrived() {
                return Ok(next);
            }
            if !self.wire().out.is_empty() {
                self.flush()?;
            }
            let length = self.wire().arrived().len();
            let time = if length == 0 { self.rest_time() } else { self.head_time(&mut deadline) };
            let room = (length * 2).clamp(SMALL, config.max_head_bytes.max(SMALL));
            let mut filled = self.fill(time, room);
            if length == 0 && !self.last && !self.contexts.rise() {
                // The gate has given its place away. The request that has arrived already is the
                // last one.
                self.last = true;
                if filled.is_err() {
                    filled = self.fill(AT_ONCE, room);
                }
            }
            let next = match filled {
                Ok(0) => Next::End,
                Ok(_) => continue,
                Err(error) if is_timeout(&error) && length == 0 => Next::End,
                // TLS that ends without its close; between requests nothing is cut off by that.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Next::End,
                Err(error) if is_timeout(&error) => {
                    Next::Reject(Reject::new(StatusCode::REQUEST_TIMEOUT, "the request's head did not arrive in time"))
                }
                Err(error) => return Err(error),
            };
            // No more input comes. The head may be malformed all the same.
            return Ok(if length > 0 { self.parse().unwrap_or(next) } else { next });
        }
    }

    /// The time that a connection without input may take. Its place may be given away meanwhile.
    fn rest_time(&self) -> Duration {
        if self.last {
            return AT_ONCE;
        }
        self.contexts.rest(self.used);
        if self.used { self.config.idle_timeout } else { self.config.idle_timeout.min(self.config.first_byte_timeout) }
    }

    /// The rest of the time that the head may take, of which the first bytes are there.
    #[inline(never)] // No clock in the frames of an idle wait: they are to fit into a page.
    fn head_time(&self, deadline: &mut Option<Instant>) -> Duration {
        let limit = self.config.head_timeout;
        if limit == Duration::MAX {
            return limit;
        }
        let now = self.wire().transport.now();
        let end = *deadline.get_or_insert_with(|| now.checked_add(limit).unwrap_or(now));
        end.saturating_duration_since(now)
    }

    #[inline(never)] // As `head_time`.
    fn flush(&self) -> io::Result<()> {
        self.contexts.at_work(|| self.wire().flush())
    }

    /// Waits for input. A connection that has been idle for long trims its stack on the way.
    fn fill(&self, mut time: Duration, room: usize) -> io::Result<usize> {
        // The last request is one that was begun.
        if self.last {
            return self.fill_last(time, room);
        }
        let mut rests = self.used && time > REST && self.wire().arrived().is_empty();
        loop {
            let now = if rests { REST } else { time };
            match self.contexts.at_rest(|| self.fill_here(now, room)) {
                Err(error) if rests && is_timeout(&error) => {}
                filled => return filled,
            }
            trim_stack();
            rests = false;
            if time != Duration::MAX {
                time -= REST;
            }
        }
    }

    #[cold]
    #[inline(never)] // As `head_time`.
    fn fill_last(&self, time: Duration, room: usize) -> io::Result<usize> {
        self.contexts.at_work(|| self.fill_here(time, room))
    }

    #[inline(never)] // Called at several places, which would each have its frame.
    fn fill_here(&self, time: Duration, room: usize) -> io::Result<usize> {
        let mut wire = self.wire();
        if !wire.arrived().is_empty() {
            return wire.fill(time, room);
        }
        debug_assert!(wire.out.is_empty(), "a time-out is that of the read");
        // Not every transport asks.
        segue_core::check()?;
        wire.fill_first(time)
    }

    /// Parses the input; `None` at the beginning of a head.
    fn parse(&self) -> Option<Next> {
        let wire = self.wire();
        let mut head = Head::spare();
        let reject = match head::parse(wire.arrived(), self.config, &mut head) {
            Ok(true) if head.parts().uri.scheme() == Some(&Scheme::HTTPS) && !wire.transport.is_secure() => {
                let status = StatusCode::MISDIRECTED_REQUEST;
                Some(Reject::new(status, "an https URI over a connection that is not secured"))
            }
            Ok(true) => return Some(Next::Request(head)),
            Ok(false) => None,
            Err(reject) => Some(reject),
        };
        head.leave();
        reject.map(Next::Reject)
    }
}

/// Whether there is the end of a head, or of a head for a lenient server.
fn has_end(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\n') {
        rest = &rest[at + 1..];
        if rest.starts_with(b"\r\n") || rest.starts_with(b"\n") {
            return true;
        }
    }
    false
}
