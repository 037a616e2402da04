//! One connection: reads requests, has them handled, writes the responses, and ends properly. Run
//! by the server, a fiber for each connection.
//!
//! # Requests that come together
//!
//! Their responses are gathered in the output. From the second on they are handled in a scope,
//! which has the flusher of `line.rs`.

use std::cell::RefMut;
use std::io;
use std::time::Duration;

use http::header::{self, HeaderMap};
use http::{Method, StatusCode, Version};
use segue_core::unwind::{__rust_begin_short_backtrace, contain};
use segue_core::{CancelToken, is_cancelled, is_finishing};

use crate::config::Config;
use crate::connection::contexts::Contexts;
use crate::connection::ending::Ending;
use crate::connection::gate::Place;
use crate::connection::incoming::{Incoming, Next};
use crate::connection::record::Progress;
use crate::connection::respond::Responder;
use crate::message::body::{Body, State};
use crate::message::exchange::Observe;
use crate::message::framing::{self, Reject};
use crate::message::head::Head;
use crate::message::response::{IntoResponse, Request, Response, internal_error};
use crate::wire::buffers::Wire;
use crate::wire::facts::Connection;
use crate::wire::line::Line;
use crate::wire::transport::Transport;

/// An unread body is discarded up to this size; with more to come the connection ends.
const MAX_DISCARD: u64 = 64 << 10;

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
    let contexts = Contexts::new(place, shared.requests);
    let ending = Ending { line: &line, contexts, time: shared.config.linger_timeout };
    let mut connection = Served::new(&line, shared, contexts);
    if !connection.incoming.handshake()? {
        return Ok(());
    }
    loop {
        match connection.incoming.next().inspect_err(|_| connection.wire().say_end())? {
            Next::Request(head) => {
                let exchanged = connection.exchange_all(head).inspect_err(|_| ending.linger_after_cut())?;
                if !exchanged.inspect_err(|_| connection.wire().say_end())? {
                    break;
                }
            }
            Next::Reject(reject) => {
                // The input begins with the request that is refused.
                let is_head = connection.wire().arrived().starts_with(b"HEAD ");
                contexts.at_work(|| connection.reject(reject, is_head))?;
                break;
            }
            Next::End => {
                connection.wire().say_end();
                return Ok(());
            }
        }
    }
    ending.linger();
    connection.failed.map_or(Ok(()), Err)
}

struct Served<'c> {
    line: &'c Line<dyn Transport>,
    shared: &'c Shared<'c>,
    contexts: Contexts<'c>,
    incoming: Incoming<'c>,
    /// The facts of the connection, known at its first request.
    facts: Option<Connection>,
    /// The error of the protocol that has followed an upgrade.
    failed: Option<io::Error>,
    /// The response of an upgrade that is to be sent.
    switching: Option<Response>,
}

impl<'c> Served<'c> {
    fn new(line: &'c Line<dyn Transport>, shared: &'c Shared<'c>, contexts: Contexts<'c>) -> Served<'c> {
        let incoming = Incoming::new(line, shared.config, contexts);
        Served { line, shared, contexts, incoming, facts: None, failed: None, switching: None }
    }

    fn wire(&self) -> RefMut<'c, Wire<dyn Transport>> {
        self.line.wire_here()
    }

    fn responder(&self) -> Responder<'c> {
        Responder { line: self.line, config: self.shared.config }
    }

    /// The facts of the connection, for the extensions of its requests.
    fn facts(&mut self) -> Connection {
        let wire = self.line;
        self.facts
            .get_or_insert_with(|| wire.wire().map(|wire| wire.transport.connection()).unwrap_or_default())
            .clone()
    }

    /// Handles a request, and those that have arrived at the same time. Returns whether another one
    /// may follow; if not, the connection has ended. An error inside: the responses are finished,
    /// and could not be sent.
    fn exchange_all(&mut self, head: Box<Head>) -> io::Result<io::Result<bool>> {
        let contexts = self.contexts;
        contexts.at_work(|| {
            if !self.exchange(head)? {
                return Ok(Ok(false));
            }
            {
                let mut wire = self.wire();
                if wire.arrived().is_empty() {
                    return Ok(wire.flush().map(|()| true));
                }
                // On a plain thread nothing could run meanwhile.
                if wire.out.is_empty() || !segue_core::in_fiber() {
                    return Ok(Ok(true));
                }
            }
            self.exchange_behind().map(Ok)
        })
    }

    /// As [`exchange_all`](Self::exchange_all), behind a finished response that is not sent.
    #[inline(never)] // Its caller is to need little of the stack.
    fn exchange_behind(&mut self) -> io::Result<bool> {
        segue_core::scope(|scope| {
            loop {
                let Some(Next::Request(head)) = self.incoming.arrived() else {
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
            && !self.incoming.last
            && !self.contexts.is_wanted()
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

    /// After the response: makes way for the next request, or sends the output. Returns whether
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
            self.contexts.rest(true);
            let discarded = self.contexts.at_rest(|| state.discard(&mut self.wire(), MAX_DISCARD).is_ok());
            if self.contexts.rise() && discarded {
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

/// Whether `Connection` has this token.
fn says(headers: &HeaderMap, token: &[u8]) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|value| framing::has_token(value.as_bytes(), token))
}
