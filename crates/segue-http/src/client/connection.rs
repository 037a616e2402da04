//! A client's connection: requests are sent and their responses read, one after the other or
//! several at a time. Used by programs.
//!
//! # The life of a connection
//!
//! ```text
//!   Open --a request says close, or the server stops to read--> Closing
//!   Open, Closing --an exchange begins a step--> Over --the step is done--> Open or Closing
//!   Over: a step has failed, was cancelled, or has panicked; or the server's last response is here
//! ```
//!
//! Each step that may fail half-way, be cancelled, or run code of the program (a body's reader or
//! writer) takes the word first and leaves `Over` in its place: so no path out of a step leaves a
//! connection that looks usable.
//!
//! **A response's body** outlives the call that has found its head: its state is the connection's,
//! and its failure the connection's end. The next step discards the unread rest.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use segue_core::{Cancelled, Either, after};

use crate::client::encode;
use crate::client::error::Error;
use crate::client::head::{self, Head};
use crate::config::Config;
use crate::message::body::{Body, State};
use crate::message::response::Payload;
use crate::wire::buffers::{AT_ONCE, SMALL, Wire, is_timeout};
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// An unread body is discarded up to this size; with more to come the connection is not reused.
const MAX_DISCARD: u64 = 64 << 10;
/// Interim responses to one request.
const MAX_INTERIM: usize = 32;

/// A response: the `http` crate's, with a [`Body`](crate::Body) that reads from the connection.
pub type Response<'c> = http::Response<Body<'c>>;

/// The connection's state for the next step.
#[derive(Clone, Copy)]
enum Life {
    /// Requests may be sent.
    Open,
    /// No more requests; responses may still come.
    Closing,
    /// No more responses either, for this reason.
    Over(Error),
}

/// A request that waits for its response.
struct Sent {
    is_head: bool,
    close: bool,
}

/// A connection of a client, over any [`Transport`]: TCP, TLS, a Unix socket, or memory.
///
/// One request and its response are [`request`](Self::request). For pipelining, several requests
/// are [sent](Self::send), and then their responses [received](Self::receive), in the same order.
/// The connection is kept from one request to the next as long as it [is
/// reusable](Self::is_reusable). A response's body is read from the connection when the program
/// asks; of an unread body, up to 64 KiB are discarded before the next request or response.
///
/// The body of a request is a [`Payload`](crate::Payload): bytes, a reader, or a function that
/// writes. Bodies of unknown length are sent in chunks.
///
/// There are no redirects, no cookies and no pool: this is one connection.
///
/// # Limits
///
/// Those of a [`Config`], read for a client: [`max_head_bytes`](Config::max_head_bytes),
/// [`max_headers`](Config::max_headers) and [`max_body_bytes`](Config::max_body_bytes) hold for
/// responses (a body beyond the limit fails in its reads), [`idle_timeout`](Config::idle_timeout)
/// for the wait for a response's first byte, [`head_timeout`](Config::head_timeout) from there to
/// the end of the head, [`body_timeout`](Config::body_timeout) for all reads of its body,
/// [`write_timeout`](Config::write_timeout) and [`handshake_timeout`](Config::handshake_timeout) as
/// for a server. The others mean nothing here.
///
/// # Strictness
///
/// Responses are refused, and the connection with them, where two readers could find different ends
/// of a body: lines that end in a bare LF, folded headers, more than one `Content-Length` or one
/// that is not plain digits, `Content-Length` together with `Transfer-Encoding`, any coding but
/// `chunked`, bytes that no request has asked for. Interim responses are skipped.
///
/// ```
/// use std::io::{self, Read};
/// use segue_http::{Server, client::Connection};
/// use segue_io::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let server = Server::new(|_| "hello");
///
/// segue_core::try_scope(|s| -> io::Result<()> {
///     let serving = s.spawn(|| server.serve(listener));
///     let mut connection = Connection::new(TcpStream::connect(address)?);
///     let request = http::Request::get(format!("http://{address}/")).body(()).unwrap();
///     let response = connection.request(request)?;
///     assert_eq!(response.status(), 200);
///     assert_eq!(io::read_to_string(response.into_body())?, "hello");
///     assert!(connection.is_reusable());
///     server.shutdown_handle().shutdown();
///     serving.join().unwrap()
/// })?;
/// # Ok::<(), io::Error>(())
/// ```
pub struct Connection<T: Transport + 'static> {
    config: Config,
    life: Life,
    /// The transport has made itself ready.
    is_ready: bool,
    /// The requests without a response so far, in their order.
    sent: VecDeque<Sent>,
    /// The body of the latest response.
    current: Option<State>,
    line: Line<T>,
}

impl<T: Transport + 'static> Connection<T> {
    /// A connection over this stream, within the default limits. Nothing is sent yet.
    ///
    /// ```no_run
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// let connection = segue_http::client::Connection::new(stream);
    /// # let _ = connection;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(transport: T) -> Connection<T> {
        Connection::with_config(transport, Config::default())
    }

    /// A connection over this stream, within these limits.
    ///
    /// ```no_run
    /// use segue_http::{Config, client::Connection};
    ///
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// let connection = Connection::with_config(stream, Config::new().max_body_bytes(u64::MAX));
    /// # let _ = connection;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn with_config(transport: T, config: Config) -> Connection<T> {
        let line = Line::new(Wire::new(transport, config.write_timeout));
        Connection { config, life: Life::Open, is_ready: false, sent: VecDeque::new(), current: None, line }
    }

    /// Sends a request and waits for the head of its response.
    ///
    /// A server may answer before the whole body has been sent, and stop reading: its response is
    /// returned then, and the connection is not reusable.
    ///
    /// # Cancellation
    /// The exchange may already have happened; the connection is not reusable.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`receive`](Self::receive); [`Error::Request`] if an earlier
    /// request still waits for its response.
    ///
    /// ```no_run
    /// # use segue_http::client::Connection;
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// let mut connection = Connection::new(stream);
    /// let request = http::Request::post("http://localhost/upload").body("some text").unwrap();
    /// println!("{}", connection.request(request)?.status());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn request<B: Into<Payload>>(&mut self, request: http::Request<B>) -> io::Result<Response<'_>> {
        if !self.sent.is_empty() {
            return Err(Error::Request("an earlier request waits for its response: receive that first").into());
        }
        match self.send(request) {
            // The server may have said why before the end of the connection.
            Err(error) if !self.sent.is_empty() => self.receive().map_err(|_| error),
            Err(error) => Err(error),
            Ok(()) => self.receive(),
        }
    }

    /// Sends a request, or keeps a small one until [`receive`](Self::receive) or
    /// [`flush`](Self::flush): so requests that are pipelined go out together.
    ///
    /// The target is the path of the request's URI, and `Host` its authority if there is no such
    /// header. The headers that frame the body are the connection's. The unread rest of a response
    /// is discarded first, up to 64 KiB.
    ///
    /// While requests are sent no response is read: a server that answers much and is not read
    /// stops reading, in the end, and the write time-out ends the connection. So let few requests
    /// wait at a time.
    ///
    /// # Cancellation
    /// The request may already have been sent; the connection is not reusable.
    ///
    /// # Errors
    /// [`Error::Request`] says that nothing was sent, and leaves the connection as it was;
    /// [`Error::NotReusable`]; the transport's errors, and those of the body's reader or writer,
    /// after which the connection is not reusable.
    ///
    /// # Panics
    /// As the body's reader or writer does; the connection is not reusable then.
    ///
    /// ```no_run
    /// # use segue_http::client::Connection;
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// let mut connection = Connection::new(stream);
    /// for page in ["/one", "/two"] {
    ///     connection.send(http::Request::get(page).header("host", "localhost").body(()).unwrap())?;
    /// }
    /// while connection.waiting() > 0 {
    ///     println!("{}", std::io::read_to_string(connection.receive()?.into_body())?);
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send<B: Into<Payload>>(&mut self, request: http::Request<B>) -> io::Result<()> {
        let (parts, body) = request.into_parts();
        let payload = body.into();
        let is_secure = self.line().wire()?.transport.is_secure();
        let plan = encode::plan(&parts, payload.length(), is_secure)?;
        self.finish()?;
        match self.life {
            Life::Open => {}
            Life::Closing => return Err(Error::NotReusable.into()),
            Life::Over(_) => return Err(Error::NotReusable.into()),
        }
        self.life = Life::Over(Error::NotReusable);
        if self.sent.is_empty() && !self.line().wire()?.arrived().is_empty() {
            return Err(Error::Malformed("bytes that no request has asked for").into());
        }
        if !self.is_ready {
            self.line().wire()?.handshake(self.config.handshake_timeout)?;
            self.is_ready = true;
        } else if self.sent.is_empty() {
            self.check_silence()?;
        }
        encode::head(&mut self.line().wire()?.out, &parts, &plan);
        let result = encode::body(self.line(), payload);
        let is_open = !plan.close && result.is_ok();
        // The error of a body's own reader is none of the server's.
        let is_heard = match &result {
            Ok(()) => true,
            Err(_) => self.line().wire()?.broken().is_some_and(|kind| is_unread(&kind.into())),
        };
        if is_heard {
            self.sent.push_back(Sent { is_head: plan.is_head, close: plan.close });
            self.life = if is_open { Life::Open } else { Life::Closing };
        }
        result
    }

    /// An error if the server has said something since its last response, or has ended the
    /// connection: as far as a transport with a [source](Transport::readable_source) knows.
    fn check_silence(&self) -> io::Result<()> {
        let wire = &mut *self.line().wire()?;
        let is_silent = match wire.transport.readable_source() {
            None => true,
            Some(source) => matches!(source.or_else(after(Duration::ZERO)).wait()?, Either::Right(())),
        };
        if is_silent {
            return Ok(());
        }
        match wire.fill(AT_ONCE, SMALL) {
            Ok(0) => Err(Error::NotReusable.into()),
            Ok(_) => Err(Error::Malformed("bytes that no request has asked for").into()),
            // A stream of TLS has words of its own.
            Err(error) if is_timeout(&error) => Ok(()),
            Err(error) if Cancelled::caused(&error) => Err(error),
            Err(_) => Err(Error::NotReusable.into()),
        }
    }

    /// Sends the requests that are kept.
    ///
    /// # Cancellation
    /// They may already have been sent; the connection is not reusable.
    ///
    /// # Errors
    /// [`Error::NotReusable`], or the transport's.
    ///
    /// ```no_run
    /// # use segue_http::client::Connection;
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// let mut connection = Connection::new(stream);
    /// connection.send(http::Request::get("http://localhost/").body(()).unwrap())?;
    /// connection.flush()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn flush(&mut self) -> io::Result<()> {
        let life = self.begin()?;
        let result = self.line().wire()?.flush();
        self.life = match &result {
            Ok(()) => life,
            Err(error) if is_unread(error) => Life::Closing,
            Err(_) => self.life,
        };
        result
    }

    /// Waits for the head of the next response: that of the earliest request without one.
    ///
    /// # Cancellation
    /// The connection is not reusable; the server may have acted on the requests.
    ///
    /// # Errors
    /// An [`Error`], or the transport's. The connection is not reusable then, but after
    /// [`Error::NoRequest`].
    ///
    /// ```no_run
    /// # use segue_http::client::Connection;
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// let mut connection = Connection::new(stream);
    /// connection.send(http::Request::head("http://localhost/").body(()).unwrap())?;
    /// println!("{:?}", connection.receive()?.headers());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn receive(&mut self) -> io::Result<Response<'_>> {
        let Some(&Sent { is_head, close }) = self.sent.front() else {
            return Err(Error::NoRequest.into());
        };
        self.finish()?;
        let life = self.begin()?;
        let head = self.next_head(is_head)?;
        self.sent.pop_front();
        self.life = if head.keep_alive && !close { life } else { Life::Over(Error::Closed) };
        let state = self.current.insert(State::of_response(head.framing, &self.config));
        let mut response = http::Response::new(Body::new(&self.line, state));
        *response.status_mut() = head.status;
        *response.version_mut() = head.version;
        *response.headers_mut() = head.headers;
        Ok(response)
    }

    /// How many requests wait for their responses.
    ///
    /// ```no_run
    /// # use segue_http::client::Connection;
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// assert_eq!(Connection::new(stream).waiting(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.sent.len()
    }

    /// Whether another request may be sent, as far as is known: no exchange has failed, been
    /// cancelled, or been asked to be the last one, and there is not too much of a body left to
    /// discard. A server that has meanwhile ended the connection is found by the next exchange.
    ///
    /// ```no_run
    /// # use segue_http::client::Connection;
    /// let stream = std::net::TcpStream::connect("localhost:8080")?;
    /// assert!(Connection::new(stream).is_reusable());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        matches!(self.life, Life::Open) && self.current.as_ref().is_none_or(can_finish)
    }

    fn line(&self) -> &Line<dyn Transport> {
        &self.line
    }

    /// Takes the state for a step, and leaves the end in its place.
    fn begin(&mut self) -> io::Result<Life> {
        match std::mem::replace(&mut self.life, Life::Over(Error::NotReusable)) {
            Life::Over(reason) => {
                self.life = Life::Over(reason);
                Err(reason.into())
            }
            life => Ok(life),
        }
    }

    /// Discards the rest of the latest response.
    fn finish(&mut self) -> io::Result<()> {
        let Some(mut state) = self.current.take() else { return Ok(()) };
        if state.is_complete() {
            return Ok(());
        }
        let life = self.begin()?;
        if !can_finish(&state) {
            return Err(Error::NotReusable.into());
        }
        let result = state.discard(&mut *self.line().wire()?, MAX_DISCARD);
        result.map_err(|error| if Cancelled::caused(&error) { error } else { Error::NotReusable.into() })?;
        self.life = life;
        Ok(())
    }

    /// Waits for the head of a response that is not an interim one, and takes the head's bytes.
    fn next_head(&mut self, is_head: bool) -> io::Result<Head> {
        let mut unsent = None;
        let flushed = self.line().wire()?.flush();
        if let Err(error) = flushed {
            if !is_unread(&error) {
                return Err(error);
            }
            self.line().wire()?.forget_output();
            unsent = Some(error);
        }
        for _ in 0..=MAX_INTERIM {
            let head = self.one_head(is_head).map_err(|error| unsent.take().unwrap_or(error))?;
            if head.status == http::StatusCode::SWITCHING_PROTOCOLS {
                return Err(Error::Malformed("a change of protocols that no request has asked for").into());
            }
            if !head.status.is_informational() {
                // No request after one that the server has not read can be sent.
                return Ok(Head { keep_alive: head.keep_alive && unsent.is_none(), ..head });
            }
        }
        Err(Error::Malformed("too many interim responses").into())
    }

    /// Waits for the next head, and takes its bytes.
    fn one_head(&mut self, is_head: bool) -> io::Result<Head> {
        let config = &self.config;
        let wire = &mut *self.line().wire()?;
        let (mut parsed, mut searched) = (0, 0);
        let mut deadline = None;
        loop {
            let arrived = wire.arrived();
            let length = arrived.len();
            // Parsing again only when it may help keeps the work linear in a head that comes in
            // small pieces.
            let fresh = &arrived[usize::saturating_sub(searched, 2)..];
            let is_due = length >= parsed * 2 || length >= config.max_head_bytes;
            if is_due || fresh.windows(3).any(|three| three == b"\n\r\n") {
                if let Some(head) = head::parse(arrived, config, is_head)? {
                    wire.consume(head.size);
                    return Ok(head);
                }
                parsed = length;
            }
            searched = length;
            let time = if length == 0 { config.idle_timeout } else { rest(wire, config.head_timeout, &mut deadline) };
            let room = (length * 2).clamp(SMALL, config.max_head_bytes.max(SMALL));
            // Not every transport asks.
            segue_core::check()?;
            let error = match wire.fill(time, room) {
                Ok(1..) => continue,
                Ok(0) if length == 0 => Error::Closed,
                Ok(0) => Error::Truncated,
                Err(error) if is_timeout(&error) => Error::TimedOut,
                Err(error) => return Err(error),
            };
            // No more input comes. The head may be malformed all the same.
            head::parse(wire.arrived(), config, is_head)?;
            return Err(error.into());
        }
    }
}

segue_core::impl_debug!([T: Transport] Connection<T>, |it| waiting: it.sent.len(), is_reusable: it.is_reusable());

/// The rest of the time that a head may take, of which the first bytes are there.
fn rest(wire: &Wire<dyn Transport>, limit: Duration, deadline: &mut Option<Instant>) -> Duration {
    if limit == Duration::MAX {
        return limit;
    }
    let now = wire.transport.now();
    let end = *deadline.get_or_insert_with(|| now.checked_add(limit).unwrap_or(now));
    end.saturating_duration_since(now)
}

/// Whether the rest of this body may be discarded to reach the next response.
fn can_finish(state: &State) -> bool {
    state.failure().is_none() && state.remaining().is_none_or(|left| left <= MAX_DISCARD)
}

/// Whether this error of a write says that the server reads no more; its response may be here.
fn is_unread(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
