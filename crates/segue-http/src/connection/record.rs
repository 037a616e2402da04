//! Keeps the facts of one exchange on its way, and tells the server's observer at its end. Used by
//! the connection loop.

use std::io;
use std::time::Instant;

use http::{Method, StatusCode, Uri, Version};
use segue_core::is_cancelled;
use segue_core::unwind::contain;

use crate::message::body::State;
use crate::message::exchange::{Asked, End, Exchange, Observe, Panicked};
use crate::message::head::Head;
use crate::wire::buffers::{Wire, is_timeout};
use crate::wire::facts::Connection;
use crate::wire::transport::Transport;

/// How far an exchange has come.
pub(super) struct Progress<'c> {
    pub(super) status: StatusCode,
    /// The time of the whole request is limited.
    pub(super) is_timed: bool,
    /// That time is over.
    pub(super) is_over: bool,
    /// The handler has panicked.
    pub(super) panicked: bool,
    /// Where the response begins in the output, once there is one.
    pub(super) begun: Option<u64>,
    /// `None` if nobody observes.
    record: Option<Box<Record<'c>>>,
}

/// The request's side, for the observer.
struct Record<'c> {
    observe: &'c Observe<'c>,
    since: Instant,
    /// The request line, unless the head was not understood. The handler gets another copy, and may
    /// change that.
    line: Option<(Method, Uri, Version)>,
    /// The head, back from the handler.
    head: Option<Box<Head>>,
}

impl<'c> Progress<'c> {
    /// Of a request with this head, or of one whose head was not understood.
    pub(super) fn new(observe: Option<&'c Observe<'c>>, wire: &Wire<dyn Transport>, head: Option<&Head>) -> Self {
        let record = observe.map(|observe| {
            let line = head.map(Head::parts).map(|parts| (parts.method.clone(), parts.uri.clone(), parts.version));
            Box::new(Record { observe, since: wire.transport.now(), line, head: None })
        });
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Progress { status, is_timed: false, is_over: false, panicked: false, begun: None, record }
    }

    /// Takes the head after the handler: for the observer, or for the next request.
    pub(super) fn keep_or_leave(&mut self, head: Box<Head>) {
        match &mut self.record {
            Some(record) => record.head = Some(head),
            None => head.leave(),
        }
    }

    pub(super) fn is_observed(&self) -> bool {
        self.record.is_some()
    }

    /// What the observer will be told of the response, now that this is over; `None` if nobody
    /// observes. The wire is free afterwards.
    pub(super) fn end(
        self,
        state: Option<&State>,
        wire: &Wire<dyn Transport>,
        error: Option<&io::Error>,
    ) -> Option<Ended<'c>> {
        let record = self.record?;
        let reached = if error.is_none() { wire.position() } else { wire.sent };
        Some(Ended {
            status: self.status,
            received: state.map_or(0, State::taken),
            // Without a response the body of the one before is the last.
            sent: if self.begun.is_some() { reached.saturating_sub(wire.body_at) } else { 0 },
            until: wire.transport.now(),
            end: match error {
                _ if self.panicked => End::Panicked,
                _ if self.is_over => End::TimedOut,
                _ if state.is_some_and(State::is_gone) => End::Gone,
                None => End::Complete,
                Some(error) if Panicked::caused(error) => End::Panicked,
                Some(_) if is_cancelled() => End::Cancelled,
                Some(error) => match wire.broken() {
                    Some(kind) if is_timeout(&kind.into()) => End::TimedOut,
                    Some(_) => End::Gone,
                    None if self.status == StatusCode::SWITCHING_PROTOCOLS && is_end(error.kind()) => End::Gone,
                    None => End::Failed,
                },
            },
            record,
        })
    }
}

/// An exchange that is over, and that the observer has not been told of.
pub(super) struct Ended<'c> {
    record: Box<Record<'c>>,
    status: StatusCode,
    received: u64,
    sent: u64,
    until: Instant,
    end: End,
}

impl Ended<'_> {
    /// Tells the observer, which may panic.
    pub(super) fn tell(self, connection: &Connection) {
        let Record { observe, since, line, head } = *self.record;
        let asked = line.as_ref().zip(head.as_ref()).map(|((method, uri, version), head)| Asked {
            method,
            uri,
            version: *version,
            headers: &head.parts().headers,
            extensions: &head.parts().extensions,
        });
        let duration = self.until.saturating_duration_since(since);
        let Self { status, received, sent, end, .. } = self;
        let exchange = Exchange { asked, connection, status, received, sent, duration, end };
        // The panic has been reported.
        contain(|| observe(&exchange));
        if let Some(head) = head {
            head.leave();
        }
    }
}

/// Whether an error of the program that talks after an upgrade says that the client has left.
fn is_end(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
