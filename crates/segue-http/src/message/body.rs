//! A message's body, read from the connection on arrival. Handlers read that of a request, and
//! clients that of a response; the connection discards the rest.

use std::cell::Cell;
use std::io;
use std::sync::LazyLock;
use std::time::Duration;

use http::HeaderMap;
use segue_core::Cancelled;
use segue_core::{CancelToken, in_fiber, scope, shield};

use crate::config::Config;
use crate::message::body_error::BodyError;
use crate::message::chunked::{Chunked, Event};
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::wire::buffers::{MEDIUM, SMALL, Wire, is_timeout};
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// A request's body, and for a [client](crate::client) that of a response. Its bytes are read with
/// [`std::io::Read`].
///
/// Nothing is read from the connection before the handler asks. A client that sent `Expect:
/// 100-continue` is told to go on at the first read. An unread rest is discarded if little (64
/// KiB); otherwise the connection ends with the response.
///
/// ```
/// use std::io::{self, Read};
/// use segue_http::{Request, Server};
///
/// let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
///     let mut text = String::new();
///     request.body_mut().read_to_string(&mut text)?;
///     Ok(text.to_uppercase())
/// });
/// # let _ = server;
/// ```
pub struct Body<'c> {
    line: &'c Line<dyn Transport>,
    state: &'c mut State,
}

impl<'c> Body<'c> {
    pub(crate) fn new(line: &'c Line<dyn Transport>, state: &'c mut State) -> Body<'c> {
        Body { line, state }
    }

    /// How many bytes are still to be read, or `None` if that is not known: in a chunked body until
    /// its end, and in one that ends with its connection.
    ///
    /// ```
    /// use segue_http::{Request, Server};
    /// let server = Server::new(|request: &mut Request<'_>| format!("{:?}", request.body().remaining()));
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn remaining(&self) -> Option<u64> {
        self.state.remaining()
    }

    /// Sets the most bytes that this body may have, counted from its beginning, in place of
    /// [`Config::max_body_bytes`](crate::Config::max_body_bytes): more or fewer, or any number with
    /// [`u64::MAX`].
    ///
    /// To be called before the body is read. A body that is longer fails in its next read with
    /// [`BodyError::TooLarge`], which is answered with 413, and the connection ends. A handler that
    /// does not read the body sees nothing of that.
    ///
    /// ```
    /// use std::io::{self, Read};
    /// use segue_http::{Request, Server};
    ///
    /// let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
    ///     let mut name = String::new();
    ///     request.body_mut().limit(100).read_to_string(&mut name)?;
    ///     Ok(format!("hello, {name}"))
    /// });
    /// # let _ = server;
    /// ```
    pub fn limit(&mut self, bytes: u64) -> &mut Self {
        self.state.max_bytes = bytes;
        if let Decoder::Chunked(chunked) = &mut self.state.decoder {
            chunked.limit(bytes);
        }
        self
    }

    /// Runs `f`, and cancels the waits of `f` when the client has gone: has ended its direction, or
    /// broken the connection. Returns the result of `f`.
    ///
    /// For work that nobody needs after the client, such as a long query. Elsewhere a client that
    /// goes cancels nothing: a handler that is cut off halfway through its writes is the worse
    /// harm. The end of the client's direction is all that a server sees of a client that has
    /// closed its connection. A client that sends a request, ends its direction, and waits for the
    /// response, is taken for gone here, and only here.
    ///
    /// Bytes that arrive meanwhile, of this body or of further requests, are kept for their
    /// readers. With 16 KiB of them the client is not watched any further. On a plain thread the
    /// client is not watched.
    ///
    /// # Cancellation
    /// The caller's cancellation shows inside as well.
    ///
    /// # Panics
    /// With the panic of `f`.
    ///
    /// ```
    /// use segue_http::{Request, Server};
    /// use std::io;
    /// use std::time::Duration;
    ///
    /// /// Answers after a minute, unless nobody waits for that any more.
    /// fn slow(request: &mut Request<'_>) -> io::Result<&'static str> {
    ///     request.body_mut().while_connected(|| segue_core::sleep(Duration::from_secs(60)))?;
    ///     Ok("done")
    /// }
    /// let server = Server::new(slow);
    /// # let _ = server;
    /// ```
    pub fn while_connected<T>(&mut self, f: impl FnOnce() -> T) -> T {
        if !in_fiber() {
            return f();
        }
        let (line, is_gone) = (self.line, &self.state.is_gone);
        let (gone, watched) = (CancelToken::new(), CancelToken::new());
        let begun = Cell::new(false);
        scope(|s| {
            let watcher = s.spawn_local(|| {
                // Where there is no stack for this fiber, this runs in front of `f`, which would
                // never begin.
                if begun.get() && watched.run(|| line.sees_end()) {
                    is_gone.set(true);
                    gone.cancel_with("the client has gone");
                }
            });
            begun.set(true);
            let result = gone.run(f);
            watched.cancel();
            // The wire is free again.
            let _ = shield(|| watcher.join());
            result
        })
    }

    /// The headers that followed a chunked body, after its end was read; they are not checked for
    /// sense, and never merged into the request's headers.
    ///
    /// ```
    /// use std::io::{self, Read};
    /// use segue_http::{Request, Server};
    ///
    /// let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
    ///     let body = request.body_mut();
    ///     io::copy(body, &mut io::sink())?;
    ///     Ok(format!("{:?}", body.trailers().get("digest")))
    /// });
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn trailers(&self) -> &HeaderMap {
        static NONE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        self.state.trailers.as_deref().unwrap_or_else(|| &NONE)
    }
}

/// # Cancellation
/// A server that is shut down lets its handlers finish, so a read of a body is not cancelled;
/// unless the server gives them a [grace](crate::Shutdown::shutdown_within), and that is over, or
/// the [time of the request](crate::Config::request_timeout) is.
///
/// # Errors
/// A [`BodyError`] inside an [`io::Error`], or the transport's error; every further read fails too.
/// A handler that returns the error, as `?` does, answers with [`BodyError::status`]. The
/// connection ends after the response.
impl io::Read for Body<'_> {
    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        self.state.read(&mut *self.line.wire()?, dst)
    }
}

segue_core::impl_debug!([] Body<'_>, |it| remaining: it.remaining());

enum Decoder {
    /// Bytes still to come.
    Length(u64),
    Chunked(Chunked),
    /// A response that ends with its connection: bytes that may still come.
    UntilClose(u64),
    /// One that has ended with its connection.
    Closed,
}

/// How far the body of one request has been read. Outlives the handler's [`Body`].
pub(crate) struct State {
    decoder: Decoder,
    /// The client waits for the interim response.
    expects_continue: bool,
    /// The rest of the body time-out.
    budget: Duration,
    /// Reading failed; there is no way to find the next request.
    failed: Option<BodyError>,
    /// Only bytes that have arrived may be read.
    no_wait: bool,
    max_head_bytes: usize,
    /// The most bytes that the body may have.
    max_bytes: u64,
    /// How many bytes have been read, framing not counted.
    taken: u64,
    /// The client has gone, and a handler has asked for that.
    is_gone: Cell<bool>,
    /// Those of a body that has ended with some.
    trailers: Option<Box<HeaderMap>>,
}

impl State {
    pub(crate) fn new(head: &Head, config: &Config) -> State {
        State { expects_continue: head.expects_continue, ..State::of(head.framing, config) }
    }

    /// The body of a response, for a client. One that is too long fails in its reads.
    pub(crate) fn of_response(framing: Framing, config: &Config) -> State {
        let too_long = matches!(framing, Framing::Length(length) if length > config.max_body_bytes);
        State { failed: too_long.then_some(BodyError::TooLarge), ..State::of(framing, config) }
    }

    fn of(framing: Framing, config: &Config) -> State {
        State {
            decoder: match framing {
                Framing::Length(length) => Decoder::Length(length),
                Framing::Chunked => {
                    Decoder::Chunked(Chunked::new(config.max_body_bytes, config.max_head_bytes, config.max_headers))
                }
                Framing::UntilClose => Decoder::UntilClose(config.max_body_bytes),
            },
            expects_continue: false,
            budget: config.body_timeout,
            failed: None,
            no_wait: false,
            max_head_bytes: config.max_head_bytes,
            max_bytes: config.max_body_bytes,
            taken: 0,
            is_gone: Cell::new(false),
            trailers: None,
        }
    }

    /// The error so far.
    pub(crate) fn failure(&self) -> Option<BodyError> {
        self.failed
    }

    /// How many bytes have been read.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether the client has gone, as far as a handler has asked.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.get()
    }

    /// Whether the body is known to be longer than its limit.
    fn is_too_large(&self) -> bool {
        match &self.decoder {
            Decoder::Length(left) => self.taken.saturating_add(*left) > self.max_bytes,
            Decoder::Chunked(chunked) => chunked.is_too_large(),
            // Counts its own.
            Decoder::UntilClose(_) | Decoder::Closed => false,
        }
    }

    /// Whether the whole body has been read, so that the next request follows.
    pub(crate) fn is_complete(&self) -> bool {
        match &self.decoder {
            Decoder::Length(left) => *left == 0,
            Decoder::Chunked(chunked) => chunked.is_done(),
            Decoder::UntilClose(_) => false,
            Decoder::Closed => true,
        }
    }

    /// How many bytes are still to be read, if that is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        match self.decoder {
            Decoder::Length(left) => Some(left),
            _ => self.is_complete().then_some(0),
        }
    }

    /// Discards the bytes that have arrived, without waiting. Says whether discarding up to `limit`
    /// more could reach the body's end.
    pub(crate) fn discard_arrived(&mut self, wire: &mut Wire<dyn Transport>, limit: u64) -> bool {
        if self.expects_continue && !self.is_complete() {
            // Nobody knows whether this client is going to send the body.
            return false;
        }
        self.no_wait = true;
        // An error is a failure that is kept, or says that the rest has not arrived.
        let _ = self.discard(wire, u64::MAX);
        self.no_wait = false;
        match self.decoder {
            Decoder::Length(left) => left <= limit,
            _ => self.failed.is_none(),
        }
    }

    /// Reads to the end and forgets the bytes; an error if there are more than `limit` bytes.
    #[cold]
    #[inline(never)] // Its caller is to need little of the stack.
    pub(crate) fn discard(&mut self, wire: &mut Wire<dyn Transport>, limit: u64) -> io::Result<()> {
        let mut scratch = [0; 1024];
        let mut left = limit;
        while !self.is_complete() {
            let count = self.read(wire, &mut scratch)? as u64;
            left = left.checked_sub(count).ok_or(BodyError::TooLarge)?;
        }
        Ok(())
    }

    fn read(&mut self, wire: &mut Wire<dyn Transport>, dst: &mut [u8]) -> io::Result<usize> {
        if dst.is_empty() || self.is_complete() {
            return Ok(0);
        }
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        if self.is_too_large() {
            return Err(self.fail(BodyError::TooLarge));
        }
        if self.expects_continue {
            self.expects_continue = false;
            wire.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        loop {
            // Framing first: the framing may end the body.
            let ready = match &mut self.decoder {
                Decoder::Length(left) => *left,
                // One byte beyond the limit shows that there is one.
                Decoder::UntilClose(left) => (*left).max(1),
                Decoder::Closed => return Ok(0),
                Decoder::Chunked(chunked) => {
                    let (used, event) = chunked.advance(wire.arrived());
                    wire.consume(used);
                    match event {
                        Event::Data(left) => left,
                        Event::NeedMore => 0,
                        Event::Done(trailers) => {
                            self.trailers = (!trailers.is_empty()).then(|| Box::new(trailers));
                            return Ok(0);
                        }
                        Event::Failed(error) => return Err(self.fail(error)),
                    }
                }
            };
            let want = usize::try_from(ready).unwrap_or(usize::MAX).min(dst.len());
            let arrived = wire.arrived();
            if want == 0 || arrived.is_empty() && want < SMALL {
                // The end of the connection may be that of the body, which the next round finds.
                self.wait(wire, None)?;
                continue;
            }
            let count = if arrived.is_empty() {
                self.wait(wire, Some(&mut dst[..want]))?
            } else {
                let count = want.min(arrived.len());
                dst[..count].copy_from_slice(&arrived[..count]);
                wire.consume(count);
                count
            };
            self.taken += count as u64;
            match &mut self.decoder {
                Decoder::Length(left) => *left -= count as u64,
                Decoder::Chunked(chunked) => chunked.took(count as u64),
                Decoder::UntilClose(left) => match left.checked_sub(count as u64) {
                    Some(less) => *left = less,
                    None => return Err(self.fail(BodyError::TooLarge)),
                },
                Decoder::Closed => {}
            }
            return Ok(count);
        }
    }

    /// Waits for more of the body: straight into `dst`, or into the connection's buffer.
    fn wait(&mut self, wire: &mut Wire<dyn Transport>, dst: Option<&mut [u8]>) -> io::Result<usize> {
        if self.no_wait {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let started = (self.budget != Duration::MAX).then(|| wire.transport.now());
        let result = match dst {
            Some(dst) => wire.read_past(dst, self.budget),
            None => {
                // Trailers are parsed in one piece, so the buffer may have to hold more than usual.
                let room = MEDIUM.max(wire.arrived().len() * 2).min(MEDIUM.max(self.max_head_bytes));
                wire.fill(self.budget, room)
            }
        };
        if let Some(started) = started {
            let waited = wire.transport.now().saturating_duration_since(started);
            self.budget = self.budget.saturating_sub(waited);
        }
        match result {
            Ok(0) if matches!(self.decoder, Decoder::UntilClose(_)) => {
                self.decoder = Decoder::Closed;
                Ok(0)
            }
            Ok(0) => Err(self.fail(BodyError::Truncated)),
            Ok(count) => Ok(count),
            // TLS without its close.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(self.fail(BodyError::Truncated)),
            Err(error) if is_timeout(&error) => Err(self.fail(BodyError::TimedOut)),
            // Nothing is lost: the next read goes on.
            Err(error) if Cancelled::caused(&error) => Err(error),
            Err(error) => {
                self.failed = Some(BodyError::Truncated);
                Err(error)
            }
        }
    }

    fn fail(&mut self, error: BodyError) -> io::Error {
        self.failed = Some(error);
        error.into()
    }
}
