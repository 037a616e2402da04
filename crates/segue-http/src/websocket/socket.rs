//! A WebSocket: receives and sends messages, and answers pings and closes on the way. Used by the
//! functions that handlers give to `accept`.
//!
//! # Layers
//!
//! ```text
//!   WebSocket: waits, limits, goodbyes           frames of data, out (`outgoing.rs`)
//!      |                                              |
//!   tungstenite: frames in, control frames out        |
//!      |                                              |
//!   Pipe: time limits, one frame at a time, the rest of a frame of data first
//!      |
//!   Upgraded: the connection
//! ```
//!
//! **A read never waits while the program has another source**: the protocol is asked with a limit
//! that is over at once, and keeps the part of a frame that has arrived. The wait is one for
//! *readable*, the program's own source, the shutdown, or the next ping.
//!
//! # States
//!
//! | | meaning | receives | sends |
//! | --- | --- | --- | --- |
//! | open | | yes | yes |
//! | over | both have said goodbye, or one has failed | `None` | fails |
//! | broken | over, and a write has failed, or the client is dead: there is no goodbye | `None` | fails |
//!
//! **Cancellation**: of a wait and a read, no effect. Of a write: the rest is owed, and is sent
//! first by the next write, or by the next look at the input. A cancelled write is not broken: the
//! program may have set a time limit of its own.

use std::io;
use std::time::{Duration, Instant};

use segue_core::unwind::contain;
use segue_core::{Cancelled, Either, Source, Waitable, after, check, finishing_source, is_cancelled, is_finishing};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error, error::ProtocolError};

use crate::message::idle;
use crate::message::upgrade::Upgraded;
use crate::websocket::message::Message;
use crate::websocket::options::Limits;
use crate::websocket::pipe::Pipe;
use crate::wire::buffers::is_timeout;

/// The protocol's own buffer for input, while there is no large frame.
const BUFFER: usize = 128;
/// How long a client may be silent when the server says goodbye in a shutdown. A shutdown of many
/// WebSockets is to end within 100 ms.
const SILENCE: Duration = Duration::from_millis(25);
/// The longest reason of a close.
const MAX_REASON: usize = 123;

/// A WebSocket that was [accepted](super::accept).
///
/// Pings are answered, and closes, whenever the program receives. A program that does not receive
/// for long does not answer.
///
/// ```
/// use segue_http::websocket::WebSocket;
///
/// fn echo(socket: &mut WebSocket<'_>) -> std::io::Result<()> {
///     while let Some(message) = socket.recv()? {
///         socket.send(message)?;
///     }
///     Ok(())
/// }
/// # let _ = echo;
/// ```
pub struct WebSocket<'c> {
    protocol: WebSocketContext,
    pipe: Pipe<'c>,
    config: WebSocketConfig,
    limits: Limits,
    subprotocol: Option<String>,
    close_code: Option<u16>,
    /// See the table above.
    over: bool,
    /// The program's source is looked at first, next time.
    others_turn: bool,
}

/// Has `talk` use the WebSocket, and says goodbye.
pub(super) fn run(
    stream: Upgraded<'_>,
    limits: Limits,
    subprotocol: Option<String>,
    talk: impl FnOnce(&mut WebSocket<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut socket = WebSocket::new(stream, limits, subprotocol);
    let talked = contain(|| talk(&mut socket));
    let code = match talked {
        Some(Ok(())) if is_finishing() => CloseCode::Away,
        Some(Ok(())) => CloseCode::Normal,
        _ => CloseCode::Error,
    };
    // Nobody is left that could use the error.
    let _ = socket.say_goodbye(code, "");
    talked.unwrap_or_else(|| Err(io::Error::other("the function of a WebSocket panicked")))
}

/// The input, as far as it has arrived.
enum Look {
    Message(Message),
    /// A control frame: there may be more.
    Control,
    Nothing,
    Over,
}

/// The end of a wait.
enum Waited<T> {
    Again,
    Other(T),
    /// The transport can't be waited for together with others.
    Unsupported,
}

impl<'c> WebSocket<'c> {
    fn new(stream: Upgraded<'c>, limits: Limits, subprotocol: Option<String>) -> WebSocket<'c> {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(limits.max_message_bytes))
            .max_frame_size(Some(limits.max_frame_bytes));
        WebSocket {
            protocol: WebSocketContext::new(Role::Server, Some(config)),
            pipe: Pipe::new(stream),
            config,
            limits,
            subprotocol,
            close_code: None,
            over: false,
            others_turn: false,
        }
    }

    /// The next message, or `None` when the client has said goodbye, or the server in a shutdown.
    ///
    /// # Cancellation
    /// *No effect*: the part of a message that has arrived is kept. A server that is shut down does
    /// not cancel this, unless a [grace](crate::Shutdown::shutdown_within) is over.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the client violates the protocol or a limit, which the
    /// client is told; [`io::ErrorKind::TimedOut`] if a ping was not answered;
    /// [`io::ErrorKind::UnexpectedEof`] if the client has left without a goodbye; the transport's
    /// errors. Afterwards there are no more messages.
    ///
    /// ```
    /// use segue_http::websocket::WebSocket;
    ///
    /// fn count(socket: &mut WebSocket<'_>) -> std::io::Result<usize> {
    ///     let mut count = 0;
    ///     while socket.recv()?.is_some() {
    ///         count += 1;
    ///     }
    ///     Ok(count)
    /// }
    /// # let _ = count;
    /// ```
    pub fn recv(&mut self) -> io::Result<Option<Message>> {
        let mut never = after(Duration::MAX);
        let mut until = Some(self.pipe.stream.now());
        loop {
            check()?;
            match self.look(until)? {
                Look::Message(message) => return Ok(Some(message)),
                Look::Over => return Ok(None),
                Look::Control => continue,
                Look::Nothing => {}
            }
            until = match self.wait(&mut never)? {
                Waited::Again | Waited::Other(()) => Some(self.pipe.stream.now()),
                Waited::Unsupported => self.silent_until(),
            };
        }
    }

    /// As [`recv`](Self::recv), or the output of `source`, if that is ready first: of both a fair
    /// choice. So one fiber serves its client, and sends the messages of others.
    ///
    /// # Cancellation
    /// *No effect* on the WebSocket; for `source`, that of `source`.
    ///
    /// # Errors
    /// As for `recv`; [`io::ErrorKind::Unsupported`] if the transport has no
    /// [source](crate::Transport::readable_source).
    ///
    /// ```
    /// use segue_core::{Either, WaitQueue, WaitsFor};
    /// use segue_http::websocket::WebSocket;
    /// use std::collections::VecDeque;
    ///
    /// fn chat(socket: &mut WebSocket<'_>, outbox: &WaitQueue<VecDeque<String>, Option<String>>) -> std::io::Result<()> {
    ///     loop {
    ///         let next = outbox.source(WaitsFor::new("a line"), |lines| !lines.is_empty(), VecDeque::pop_front);
    ///         match socket.recv_or(next)? {
    ///             Either::Left(None) => return Ok(()),
    ///             Either::Left(Some(message)) => println!("{message:?}"),
    ///             Either::Right(line) => socket.send(line.unwrap_or_default())?,
    ///         }
    ///     }
    /// }
    /// # let _ = chat;
    /// ```
    pub fn recv_or<S: Source>(&mut self, mut source: S) -> io::Result<Either<Option<Message>, S::Output>> {
        loop {
            check()?;
            self.others_turn = !self.others_turn;
            if self.others_turn
                && let Some(output) = Waitable::new(&mut source).attempt()
            {
                return Ok(Either::Right(output));
            }
            match self.look(Some(self.pipe.stream.now()))? {
                Look::Message(message) => return Ok(Either::Left(Some(message))),
                Look::Over => return Ok(Either::Left(None)),
                Look::Control => continue,
                Look::Nothing => {}
            }
            match self.wait(&mut source)? {
                Waited::Again => {}
                Waited::Other(output) => return Ok(Either::Right(output)),
                Waited::Unsupported => return Err(io::ErrorKind::Unsupported.into()),
            }
        }
    }

    /// Sends a message, as one frame.
    ///
    /// # Cancellation
    /// *May already have happened*: a message of which nothing was sent is forgotten; of one that
    /// was sent in part the rest goes out before anything else, and at the latest before the
    /// goodbye.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] after a goodbye of either side; the transport's errors, a
    /// time-out included: see [`Config::write_timeout`](crate::Config::write_timeout).
    ///
    /// ```
    /// use segue_http::websocket::WebSocket;
    ///
    /// fn greet(socket: &mut WebSocket<'_>) -> std::io::Result<()> {
    ///     socket.send("hello")?;
    ///     socket.send(vec![1, 2, 3])
    /// }
    /// # let _ = greet;
    /// ```
    pub fn send(&mut self, message: impl Into<Message>) -> io::Result<()> {
        if self.over || self.pipe.broken || !self.protocol.can_write() {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the WebSocket is closed"));
        }
        let message = message.into();
        self.settle()?;
        check()?;
        self.pipe.outgoing.put(message);
        let sent = self.pipe.send_rest();
        if sent.is_err() {
            self.pipe.outgoing.retract();
        }
        sent
    }

    /// Says goodbye, with a code and a reason, of at most 123 bytes; and waits for the client's
    /// answer, for [`Options::close_timeout`](super::Options::close_timeout); in a shutdown, for
    /// 25 ms of silence. Messages that arrive meanwhile are discarded. No effect after a goodbye of
    /// either side.
    ///
    /// # Cancellation
    /// *May already have happened*: the goodbye was sent, and the answer is not waited for.
    ///
    /// # Errors
    /// The transport's. A client that does not answer is no error.
    ///
    /// # Panics
    /// If the code is not one to be sent: 1000 to 1003, 1007 to 1013, 3000 to 4999.
    ///
    /// ```
    /// use segue_http::websocket::WebSocket;
    ///
    /// fn refuse(socket: &mut WebSocket<'_>) -> std::io::Result<()> {
    ///     socket.close(1008, "not on Sundays")
    /// }
    /// # let _ = refuse;
    /// ```
    pub fn close(&mut self, code: u16, reason: &str) -> io::Result<()> {
        let code = CloseCode::from(code);
        assert!(code.is_allowed(), "{code} is no code that may be sent in a close");
        self.say_goodbye(code, reason)
    }

    /// The code of the client's goodbye, if the client has said goodbye with one.
    ///
    /// ```
    /// fn has_left(socket: &segue_http::websocket::WebSocket<'_>) -> bool {
    ///     socket.close_code() == Some(1001)
    /// }
    /// # let _ = has_left;
    /// ```
    #[must_use]
    pub fn close_code(&self) -> Option<u16> {
        self.close_code
    }

    /// The subprotocol, if there is one in common: see
    /// [`Options::protocol`](super::Options::protocol).
    ///
    /// ```
    /// fn is_second_version(socket: &segue_http::websocket::WebSocket<'_>) -> bool {
    ///     socket.protocol() == Some("chat.v2")
    /// }
    /// # let _ = is_second_version;
    /// ```
    #[must_use]
    pub fn protocol(&self) -> Option<&str> {
        self.subprotocol.as_deref()
    }

    /// Reads the next frames, waiting for their bytes until then at most. In a shutdown, says
    /// goodbye instead: also to a client that sends all the time.
    fn look(&mut self, until: Option<Instant>) -> io::Result<Look> {
        if is_finishing() {
            self.say_goodbye(CloseCode::Away, "")?;
        }
        if self.over || self.pipe.broken {
            return Ok(Look::Over);
        }
        if self.pipe.owes {
            self.settle()?;
        }
        self.pipe.begin(until);
        let error = match self.protocol.read(&mut self.pipe) {
            Ok(tungstenite::Message::Text(text)) => return Ok(Look::Message(text.as_str().into())),
            Ok(tungstenite::Message::Binary(bytes)) => return Ok(Look::Message(bytes.into())),
            Ok(tungstenite::Message::Close(frame)) => {
                self.close_code = frame.map(|frame| frame.code.into());
                self.over = true;
                // Sends the answer. A client that does not take that has said goodbye all the same.
                let _ = self.protocol.flush(&mut self.pipe);
                return Ok(Look::Over);
            }
            Ok(_) => return Ok(Look::Control),
            Err(error) => error,
        };
        match error {
            Error::Io(error) if is_timeout(&error) && !self.pipe.broken => Ok(Look::Nothing),
            Error::Io(error) => {
                self.pipe.broken |= !Cancelled::caused(&error);
                Err(error)
            }
            Error::ConnectionClosed | Error::AlreadyClosed => {
                self.over = true;
                Ok(Look::Over)
            }
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                (self.over, self.pipe.broken) = (true, true);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Error::Utf8(_) => Err(self.fail(CloseCode::Invalid, error)),
            Error::Capacity(_) => Err(self.fail(CloseCode::Size, error)),
            _ => Err(self.fail(CloseCode::Protocol, error)),
        }
    }

    /// Ends the WebSocket of a client that has violated the protocol. The server goes on to take in
    /// the client's bytes for a while, so that the client reads the code.
    fn fail(&mut self, code: CloseCode, error: Error) -> io::Error {
        let _ = self.protocol.close(&mut self.pipe, Some(goodbye(code, "")));
        self.over = true;
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    /// Waits until there may be something to read, or for `other`, or the shutdown; and sends pings
    /// meanwhile.
    fn wait<S: Source>(&mut self, other: &mut S) -> io::Result<Waited<S::Output>> {
        let now = self.pipe.stream.now();
        let time = self.silent_until().map_or(Duration::MAX, |until| until.saturating_duration_since(now));
        if time.is_zero() {
            self.ping()?;
            return Ok(Waited::Again);
        }
        if self.pipe.frames.grown && !self.pipe.frames.is_within() && self.protocol.can_write() {
            self.renew()?;
        }
        let Some(readable) = self.pipe.stream.readable_source() else { return Ok(Waited::Unsupported) };
        let mut wait = readable.or(other).or_else(finishing_source());
        Ok(match idle::wait_for(&mut wait, time)? {
            Some(Either::Left(Either::Left(ready))) => {
                ready?;
                Waited::Again
            }
            Some(Either::Left(Either::Right(output))) => Waited::Other(output),
            Some(Either::Right(())) | None => Waited::Again,
        })
    }

    /// Until when the client may be silent; `None` is for ever.
    fn silent_until(&self) -> Option<Instant> {
        let times = if self.pipe.pinged { 2 } else { 1 };
        self.pipe.heard.checked_add(self.limits.ping_interval.checked_mul(times)?)
    }

    fn ping(&mut self) -> io::Result<()> {
        if self.pipe.pinged {
            (self.over, self.pipe.broken) = (true, true);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the client of a WebSocket does not answer"));
        }
        self.pipe.pinged = true;
        let ping = tungstenite::Message::Ping(bytes::Bytes::new());
        self.protocol.write(&mut self.pipe, ping).and_then(|()| self.protocol.flush(&mut self.pipe)).map_err(into_io)
    }

    /// Puts a new protocol, between two messages, in place of one with buffers that have grown.
    #[cold]
    fn renew(&mut self) -> io::Result<()> {
        self.settle()?;
        self.protocol = WebSocketContext::new(Role::Server, Some(self.config));
        self.pipe.frames = Default::default();
        Ok(())
    }

    /// Sends the rest of a frame that was begun, and answers that are due.
    fn settle(&mut self) -> io::Result<()> {
        self.pipe.send_rest()?;
        self.protocol.flush(&mut self.pipe).map_err(into_io)?;
        self.pipe.owes = false;
        Ok(())
    }

    fn say_goodbye(&mut self, code: CloseCode, reason: &str) -> io::Result<()> {
        if self.over || self.pipe.broken {
            return Ok(());
        }
        let begun = self.pipe.stream.now();
        self.pipe.begin(begun.checked_add(self.limits.close_timeout));
        // The rest of a frame may have to go first, to a client that does not read.
        let sent = segue_core::timeout(self.limits.close_timeout, || {
            self.protocol.close(&mut self.pipe, Some(goodbye(code, reason)))
        });
        self.over = true;
        match sent.map_err(into_io) {
            Err(error) if Cancelled::caused(&error) && !is_cancelled() => Ok(()),
            sent => sent.and_then(|()| self.await_answer(begun, self.pipe.stream.now())),
        }
    }

    /// Waits for the client's answer to a goodbye, and discards the messages before the answer.
    ///
    /// In a shutdown no client that is silent after the goodbye holds the server up. A client that
    /// sends has its time, so that no reset overtakes the goodbye on its way to that client.
    fn await_answer(&mut self, begun: Instant, said: Instant) -> io::Result<()> {
        let close = begun.checked_add(self.limits.close_timeout);
        // A transport without a source waits in its reads.
        let mut is_blind = false;
        loop {
            let now = self.pipe.stream.now();
            let hurries = is_finishing();
            let silent = self.pipe.heard.max(said).checked_add(SILENCE).filter(|_| hurries);
            let end = close.into_iter().chain(silent).min();
            if end.is_some_and(|end| end <= now) {
                return Ok(());
            }
            self.pipe.begin(if is_blind { end } else { Some(now) });
            match self.protocol.read(&mut self.pipe) {
                Ok(tungstenite::Message::Close(frame)) => self.close_code = frame.map(|frame| frame.code.into()),
                Ok(_) => {}
                Err(Error::Io(error)) if !is_timeout(&error) => return Err(error),
                Err(Error::Io(_)) if !self.pipe.broken => is_blind = !self.await_input(end, hurries)?,
                Err(_) => return Ok(()),
            }
        }
    }

    /// Waits until there may be something to read, until then at most, or until the shutdown.
    /// Answers `false` at once if the transport has no source for that.
    fn await_input(&mut self, end: Option<Instant>, is_told: bool) -> io::Result<bool> {
        let now = self.pipe.stream.now();
        let left = end.map_or(Duration::MAX, |end| end.saturating_duration_since(now));
        let Some(readable) = self.pipe.stream.readable_source() else {
            return Ok(false);
        };
        match (is_told, readable.or(after(left))) {
            (true, wait) => drop(wait.wait()?),
            (false, wait) => drop(wait.or_else(finishing_source()).wait()?),
        }
        Ok(true)
    }
}

segue_core::impl_debug!([] WebSocket<'_>, |it| protocol: it.subprotocol);

fn goodbye(code: CloseCode, reason: &str) -> CloseFrame {
    CloseFrame { code, reason: reason[..reason.floor_char_boundary(MAX_REASON)].into() }
}

fn into_io(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        error => io::Error::new(io::ErrorKind::BrokenPipe, error),
    }
}
