//! One connection: reads requests, has them handled, writes the responses, and ends properly. Run
//! by the server, a fiber for each connection.
//!
//! # Two contexts
//!
//! A connection is *at rest* while waiting for the next request, or lingering: the gate or a
//! shutdown ends a connection then, by a cancellation. A connection is *at work* from the head of a
//! request until the response is sent: a shutdown asks that work to finish, and cancels the rest
//! when a grace is over.
//!
//! | | base | at rest | at work |
//! | --- | --- | --- | --- |
//! | one of a server's | the requests of the server and of its call | the token of its place, alone | the base |
//! | served by its caller | the caller's | the base | the requests of the server, alone |
//!
//! # Requests that come together
//!
//! Their responses are gathered in the output. From the second on they are handled in a scope,
//! which has the flusher of `line.rs`.

use std::cell::RefMut;
use std::io;
use std::time::{Duration, Instant};

use http::header::{self, HeaderMap};
use http::uri::Scheme;
use http::{Method, StatusCode, Version};
use segue_core::unwind::{__rust_begin_short_backtrace, contain};
use segue_core::{CancelToken, Cancelled, is_cancelled, is_finishing, trim_stack};

use crate::config::Config;
use crate::connection::gate::Place;
use crate::connection::record::Progress;
use crate::connection::respond::Responder;
use crate::message::body::{Body, State};
use crate::message::exchange::Observe;
use crate::message::framing::{self, Reject};
use crate::message::head::{self, Head};
use crate::message::response::{IntoResponse, Request, Response, internal_error};
use crate::wire::buffers::{AT_ONCE, MEDIUM, SMALL, Wire, is_timeout};
use crate::wire::facts::Connection;
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// An unread body is discarded up to this size; with more to come the connection ends.
const MAX_DISCARD: u64 = 64 << 10;
/// The most bytes that are discarded while a connection ends.
const MAX_LINGER: usize = 256 << 10;
/// Empty lines before a request that are skipped.
const MAX_EMPTY_LINES: usize = 4;
/// A connection that has been idle for so long gives back the stack memory that its requests
/// needed: clients that send one request after the other do not pay for that.
const REST: Duration = Duration::from_secs(1);

/// A server's handler, its result converted.
pub(crate) type Handle<'h> = dyn Fn(&mut Request<'_>) -> Response + Send + Sync + 'h;

/// The state that a connection shares with its server.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'s> {
    pub(crate) config: &'s Config,
    /// The token that asks the requests to finish, and cancels the rest.
    pub(crate) requests: &'s CancelToken,
    pub(crate) handle: &'s Handle<'s>,
    /// Is told of each exchange, if there is one.
    pub(crate) observe: Option<&'s Observe<'s>>,
}

/// Serves a connection to its end. An error is the transport's or a response's that could not be
/// completed.
pub(crate) fn run<T: Transport + 'static>(
    transport: T,
    shared: &Shared<'_>,
    place: Option<&Place<'_>>,
) -> io::Result<()> {
    let line = Line::new(Wire::new(transport, shared.config.write_timeout));
    let mut connection = Served::new(&line, shared, place);
    if !connection.handshake()? {
        return Ok(());
    }
    loop {
        match connection.next().inspect_err(|_| connection.wire().say_end())? {
            Next::Request(head) => {
                connection.used = true;
                if !connection.exchange_all(head).inspect_err(|_| connection.linger_after_cut())? {
                    break;
                }
            }
            Next::Reject(reject) => {
                // The input begins with the request that is refused.
                let is_head = connection.wire().arrived().starts_with(b"HEAD ");
                connection.at_work(|connection| connection.reject(reject, is_head))?;
                break;
            }
            Next::End => {
                connection.wire().say_end();
                return Ok(());
            }
        }
    }
    connection.linger();
    connection.failed.map_or(Ok(()), Err)
}

enum Next {
    Request(Box<Head>),
    Reject(Reject),
    End,
}

struct Served<'c> {
    line: &'c Line<dyn Transport>,
    shared: &'c Shared<'c>,
    /// Its place among the server's connections, if there are others.
    place: Option<&'c Place<'c>>,
    /// The facts of the connection, known at its first request.
    facts: Option<Connection>,
    /// There was a request.
    used: bool,
    /// There will be no other one: the gate needs the place.
    last: bool,
    look: Look,
    /// The error of the protocol that has followed an upgrade.
    failed: Option<io::Error>,
    /// The response of an upgrade that is to be sent.
    switching: Option<Response>,
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

impl<'c> Served<'c> {
    fn new(line: &'c Line<dyn Transport>, shared: &'c Shared<'c>, place: Option<&'c Place<'c>>) -> Served<'c> {
        Served {
            line,
            shared,
            place,
            facts: None,
            used: false,
            last: false,
            look: Look::default(),
            failed: None,
            switching: None,
        }
    }

    fn wire(&self) -> RefMut<'c, Wire<dyn Transport>> {
        self.line.wire_here()
    }

    fn responder(&self) -> Responder<'c> {
        Responder { line: self.line, config: self.shared.config }
    }

    /// Runs `f` where the end of a server's idle connections cancels the waits.
    fn at_rest<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        match self.place {
            Some(place) => place.token().shield(|| f(self)),
            None => f(self),
        }
    }

    /// Runs `f` under the shutdown's request to finish, and its cancellation at the end of a grace.
    fn at_work<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        match self.place {
            Some(_) => f(self),
            None => self.shared.requests.shield(|| f(self)),
        }
    }

    /// The input, if there is a whole head or a malformed one.
    fn arrived(&mut self) -> Option<Next> {
        let config = self.shared.config;
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
    fn handshake(&mut self) -> io::Result<bool> {
        let limit = self.shared.config.handshake_timeout;
        if let Some(place) = self.place {
            place.rest(false);
        }
        let ready = self.at_rest(|connection| connection.wire().handshake(limit));
        let stays = self.place.is_none_or(Place::rise);
        if stays { ready.map(|()| true) } else { Ok(false) }
    }

    /// The facts of the connection, for the extensions of its requests.
    fn facts(&mut self) -> Connection {
        let wire = self.line;
        self.facts
            .get_or_insert_with(|| wire.wire().map(|wire| wire.transport.connection()).unwrap_or_default())
            .clone()
    }

    /// Waits for the next request's head.
    fn next(&mut self) -> io::Result<Next> {
        let config = self.shared.config;
        let mut deadline: Option<Instant> = None;
        loop {
            if let Some(next) = self.arrived() {
                return Ok(next);
            }
            if !self.wire().out.is_empty() {
                self.flush()?;
            }
            let length = self.wire().arrived().len();
            let time = if length == 0 {
                if let Some(place) = self.place.filter(|_| !self.last) {
                    place.rest(self.used);
                }
                if self.last {
                    AT_ONCE
                } else if self.used {
                    config.idle_timeout
                } else {
                    config.idle_timeout.min(config.first_byte_timeout)
                }
            } else {
                self.head_time(&mut deadline)
            };
            let room = (length * 2).clamp(SMALL, config.max_head_bytes.max(SMALL));
            let mut filled = self.fill(time, room);
            if length == 0 && !self.last && !self.place.is_none_or(Place::rise) {
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

    /// The rest of the time that the head may take, of which the first bytes are there.
    #[inline(never)] // No clock in the frames of an idle wait: they are to fit into a page.
    fn head_time(&self, deadline: &mut Option<Instant>) -> Duration {
        let limit = self.shared.config.head_timeout;
        if limit == Duration::MAX {
            return limit;
        }
        let now = self.wire().transport.now();
        let end = *deadline.get_or_insert_with(|| now.checked_add(limit).unwrap_or(now));
        end.saturating_duration_since(now)
    }

    #[inline(never)] // As `head_time`.
    fn flush(&mut self) -> io::Result<()> {
        self.at_work(|connection| connection.wire().flush())
    }

    /// Waits for input. A connection that has been idle for long trims its stack on the way.
    fn fill(&mut self, mut time: Duration, room: usize) -> io::Result<usize> {
        // The last request is one that was begun.
        if self.last {
            return self.fill_last(time, room);
        }
        let mut rests = self.used && time > REST && self.wire().arrived().is_empty();
        loop {
            let now = if rests { REST } else { time };
            match self.at_rest(|connection| connection.fill_here(now, room)) {
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
    fn fill_last(&mut self, time: Duration, room: usize) -> io::Result<usize> {
        self.at_work(|connection| connection.fill_here(time, room))
    }

    #[inline(never)] // Called at several places, which would each have its frame.
    fn fill_here(&mut self, time: Duration, room: usize) -> io::Result<usize> {
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
    fn parse(&mut self) -> Option<Next> {
        let wire = self.wire();
        let mut head = Head::spare();
        let reject = match head::parse(wire.arrived(), self.shared.config, &mut head) {
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

    /// Handles a request, and those that have arrived at the same time. Returns whether another one
    /// may follow; if not, the connection has ended.
    fn exchange_all(&mut self, head: Box<Head>) -> io::Result<bool> {
        self.at_work(|connection| {
            if !connection.exchange(head)? {
                return Ok(false);
            }
            // On a plain thread nothing could run meanwhile.
            if connection.wire().out.is_empty() || connection.wire().arrived().is_empty() || !segue_core::in_fiber() {
                return Ok(true);
            }
            connection.exchange_behind()
        })
    }

    /// As [`exchange_all`](Self::exchange_all), behind a finished response that is not sent.
    #[inline(never)] // Its caller is to need little of the stack.
    fn exchange_behind(&mut self) -> io::Result<bool> {
        segue_core::scope(|scope| {
            loop {
                let Some(Next::Request(head)) = self.arrived() else {
                    // The connection's loop finds this again.
                    return Ok(true);
                };
                self.line.ready_flusher(scope);
                if !self.exchange(head)? {
                    return Ok(false);
                }
            }
        })
    }

    /// Handles one request. Returns whether another one may follow; if not, the connection has
    /// ended.
    fn exchange(&mut self, head: Box<Head>) -> io::Result<bool> {
        let Shared { config, observe, .. } = *self.shared;
        self.wire().consume(head.size);
        let mut state = State::new(&head, config);
        let mut progress = Progress::new(observe, &self.wire(), Some(&head));
        let answered = if config.request_timeout == Duration::MAX {
            self.answer(head, &mut state, &mut progress)
        } else {
            self.answer_in_time(head, &mut state, &mut progress)
        };
        let result = match self.switching.take() {
            // The time of the request is over, as its response has begun.
            Some(response) => self.talk(response),
            None => answered.and_then(|keep_alive| self.conclude(keep_alive, &mut state, &progress)),
        };
        if progress.is_observed() {
            self.tell(progress, Some(&state), &result);
        }
        result
    }

    /// Has a request handled, and writes the response. Returns whether another one may follow.
    fn answer(&mut self, mut head: Box<Head>, state: &mut State, progress: &mut Progress<'c>) -> io::Result<bool> {
        let (is_head, version) = (head.parts().method == Method::HEAD, head.parts().version);
        let (mut response, mut keep_alive) = self.handle(&mut head, state, progress);
        if response.body().is_upgrade() {
            let asks = version == Version::HTTP_11 && says(&head.parts().headers, b"upgrade");
            response = self.upgrade(asks, state, response);
            keep_alive = false;
        }
        progress.keep_or_leave(head);
        if progress.is_timed && !progress.panicked && is_cancelled() {
            // A payload is foreign code.
            contain(|| drop(response));
            return Err(io::ErrorKind::TimedOut.into());
        }
        progress.status = response.status();
        progress.begun = Some(self.wire().position());
        if response.body().is_upgrade() {
            progress.status = StatusCode::SWITCHING_PROTOCOLS;
            self.switching = Some(response);
            return Ok(false);
        }
        let keep_alive = keep_alive
            && !is_finishing()
            && !self.last
            && !self.place.is_some_and(Place::is_wanted)
            && (state.is_complete() || state.discard_arrived(&mut self.wire(), MAX_DISCARD))
            && state.failure().is_none();
        self.responder().respond(response, is_head, version, keep_alive)
    }

    /// As [`answer`](Self::answer), within the time of a request. A response of which nothing was
    /// sent by then is replaced; another one is cut.
    #[inline(never)] // Most servers do without, and without its part of the stack.
    fn answer_in_time(&mut self, head: Box<Head>, state: &mut State, progress: &mut Progress<'c>) -> io::Result<bool> {
        let is_head = head.parts().method == Method::HEAD;
        progress.is_timed = true;
        let (answered, is_over) = segue_core::timeout(self.shared.config.request_timeout, || {
            let answered = self.answer(head, state, progress);
            let is_over = answered.is_err() && is_cancelled();
            (answered, is_over)
        });
        // A cancellation of the whole connection counts more.
        if !is_over || is_cancelled() {
            return answered;
        }
        progress.is_over = true;
        let is_unsent = {
            let mut wire = self.wire();
            let begun = *progress.begun.get_or_insert(wire.position());
            wire.take_back(begun)
        };
        if !is_unsent {
            return answered;
        }
        progress.status = StatusCode::SERVICE_UNAVAILABLE;
        let response = (progress.status, "the request has taken too long").into_response();
        self.responder().respond(response, is_head, Version::HTTP_11, false)
    }

    /// After the response: makes way for the next request, or sends what there is. Returns whether
    /// another one may follow.
    fn conclude(&mut self, keep_alive: bool, state: &mut State, progress: &Progress<'_>) -> io::Result<bool> {
        if keep_alive {
            if state.is_complete() {
                let mut wire = self.wire();
                if progress.is_observed() && wire.arrived().is_empty() {
                    // Would be sent next in any case; so the observer knows how that goes.
                    wire.flush()?;
                }
                wire.flush_if_much()?;
                wire.finished = wire.out.len();
                return Ok(true);
            }
            self.wire().flush()?;
            // The client has its response: the rest of the request has no right to hold up others.
            if let Some(place) = self.place {
                place.rest(true);
            }
            let discarded = self.at_rest(|connection| state.discard(&mut connection.wire(), MAX_DISCARD).is_ok());
            if self.place.is_none_or(Place::rise) && discarded {
                return Ok(true);
            }
        }
        self.wire().flush()?;
        Ok(false)
    }

    /// A response with a function that is to talk over the connection: see
    /// [`Payload::upgrade`](crate::Payload::upgrade). Answers in place of a response that cannot.
    #[cold]
    #[inline(never)] // Its caller is to need little of the stack.
    fn upgrade(&mut self, asks: bool, state: &mut State, response: Response) -> Response {
        let protocol = response.headers().get(header::UPGRADE).cloned();
        let mut refusal = match &protocol {
            None => internal_error(),
            Some(_) if !asks => StatusCode::UPGRADE_REQUIRED.into_response(),
            Some(_) if self.discard_body(state) => return response,
            Some(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        };
        // A payload is foreign code.
        contain(|| drop(response));
        refusal.headers_mut().extend(protocol.map(|protocol| (header::UPGRADE, protocol)));
        refusal
    }

    /// Has the function of an upgrade talk over the connection, which ends afterwards.
    #[cold]
    #[inline(never)] // As `upgrade`.
    fn talk(&mut self, response: Response) -> io::Result<bool> {
        self.failed = self.responder().switch(response)?.err();
        Ok(false)
    }

    /// Discards the rest of a request's body, if little. Answers whether the body has ended.
    fn discard_body(&self, state: &mut State) -> bool {
        let mut wire = self.wire();
        state.is_complete()
            || state.discard_arrived(&mut wire, MAX_DISCARD) && state.discard(&mut wire, MAX_DISCARD).is_ok()
    }

    /// Tells the observer of an exchange that is over.
    #[cold]
    #[inline(never)] // As `answer_in_time`.
    fn tell<T>(&mut self, progress: Progress<'_>, state: Option<&State>, result: &io::Result<T>) {
        let facts = self.facts();
        let error = result.as_ref().err().or(self.failed.as_ref());
        let ended = progress.end(state, &self.wire(), error);
        if let Some(ended) = ended {
            ended.tell(&facts);
        }
    }

    /// Calls the handler, and answers in place of a handler that panics. Returns also whether
    /// another request may follow, as far as request and handler say.
    fn handle(&mut self, head: &mut Head, state: &mut State, progress: &mut Progress<'_>) -> (Response, bool) {
        let mut request = head.request(self.facts(), Body::new(self.line, state));
        let handle = self.shared.handle;
        let handled = contain(|| __rust_begin_short_backtrace(|| handle(&mut request)));
        head.give_back(request.into_parts().0);
        match handled {
            // An informational response is not one that ends an exchange.
            Some(response) if !response.status().is_informational() || response.body().is_upgrade() => {
                (response, head.keep_alive)
            }
            handled => {
                progress.panicked = handled.is_none();
                (fault(handled.is_none(), state), handled.is_some() && head.keep_alive)
            }
        }
    }

    /// Answers with an error, after which the connection ends.
    fn reject(&mut self, reject: Reject, is_head: bool) -> io::Result<()> {
        let mut progress = Progress::new(self.shared.observe, &self.wire(), None);
        (progress.status, progress.begun) = (reject.status, Some(self.wire().position()));
        let response = (reject.status, reject.reason).into_response();
        let result = self.responder().respond(response, is_head, Version::HTTP_11, false);
        let result = result.and_then(|_| self.wire().flush());
        if progress.is_observed() {
            self.tell(progress, None, &result);
        }
        result
    }

    /// Ends the connection so that the client gets the last response: see
    /// [`Config::linger_timeout`].
    ///
    /// A newcomer that waits for a place ends this wait early, and so does a shutdown. The bytes
    /// that have arrived by then are discarded all the same.
    fn linger(&mut self) {
        let time = self.shared.config.linger_timeout;
        if time.is_zero() {
            return;
        }
        if let Some(place) = self.place {
            place.rest(false);
        }
        let end = self.wire().transport.now().checked_add(time);
        let mut left = MAX_LINGER;
        let over = self.at_rest(|connection| {
            // A secured stream says its end, and may have to wait for that.
            let shut = connection.wire().transport.shutdown_write();
            if let Err(error) = shut {
                return !Cancelled::caused(&error);
            }
            let rest = |now| end.map_or(time, |end| end.saturating_duration_since(now));
            !is_cancelled() && connection.discard(&mut left, rest)
        });
        if !over {
            self.at_work(|connection| {
                connection.wire().say_end();
                connection.discard(&mut left, |_| AT_ONCE);
            });
        }
    }

    /// As [`linger`](Self::linger), after a response that was cut: the client is to get the
    /// responses before it all the same. Not where the end of the connection would look like the
    /// end of the body, nor where nothing can be sent.
    #[cold]
    #[inline(never)] // Its caller is to need little of the stack.
    fn linger_after_cut(&mut self) {
        let can_tell = {
            let mut wire = self.wire();
            wire.drop_unfinished();
            wire.broken().is_none() && !wire.ends_with_close
        };
        if can_tell && !is_cancelled() && self.at_work(|connection| connection.wire().flush()).is_ok() {
            self.linger();
        }
    }

    /// Discards the client's bytes, each time waiting so long. Answers whether the connection is
    /// over, by its end or by a limit; else the caller was cancelled.
    fn discard(&mut self, left: &mut usize, time: impl Fn(Instant) -> Duration) -> bool {
        let wire = &mut *self.wire();
        while *left > 0 {
            wire.consume(wire.arrived().len());
            match wire.fill(time(wire.transport.now()), MEDIUM) {
                Ok(count @ 1..) => *left = left.saturating_sub(count),
                Ok(0) => return true,
                Err(error) => return !Cancelled::caused(&error),
            }
        }
        true
    }
}

/// The answer in place of the handler's.
#[cold]
#[inline(never)]
fn fault(panicked: bool, state: &State) -> Response {
    match state.failure() {
        Some(error) if panicked => error.into_response(),
        _ => internal_error(),
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

/// Whether `Connection` has this token.
fn says(headers: &HeaderMap, token: &[u8]) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| framing::has_token(value.as_bytes(), token))
}
