//! The counts of one thread, which are added up in the end: latencies, and errors by kind. Used by
//! the fibers of connections and by the report.

use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use segue_http::BodyError;
use segue_http::client::Error;

/// The longest latency that is told apart, in nanoseconds: ten minutes.
const LONGEST: u64 = 600_000_000_000;
/// Digits of a latency that are right.
const DIGITS: u8 = 3;

/// Why a request has no right reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There was no connection, for the time of a pause.
    Connect,
    /// The connection ended before the reply.
    Closed,
    Timeout,
    /// The reply was no HTTP, or ambiguous.
    Malformed,
    Status,
    Body,
    /// The reply was not there when the program ended.
    Unanswered,
    /// The request was due, and no connection was free before the end.
    Unsent,
}

impl Kind {
    /// All of them, with their names.
    pub const ALL: [(Kind, &'static str); 8] = [
        (Kind::Connect, "connect"),
        (Kind::Closed, "closed"),
        (Kind::Timeout, "timeout"),
        (Kind::Malformed, "malformed"),
        (Kind::Status, "status"),
        (Kind::Body, "body"),
        (Kind::Unanswered, "unanswered"),
        (Kind::Unsent, "unsent"),
    ];

    /// The kind of an error of the transport or the client.
    pub(crate) fn of(error: &io::Error) -> Kind {
        let body = error.get_ref().and_then(|inner| inner.downcast_ref());
        match (Error::of(error), body) {
            (Some(Error::TimedOut), _) | (_, Some(BodyError::TimedOut)) => Kind::Timeout,
            (Some(Error::Closed | Error::Truncated | Error::NotReusable), _) => Kind::Closed,
            (_, Some(BodyError::Truncated)) => Kind::Closed,
            (Some(_), _) | (_, Some(_)) => Kind::Malformed,
            _ if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => Kind::Timeout,
            _ => Kind::Closed,
        }
    }
}

/// Latencies and errors.
pub struct Tally {
    latencies: Histogram<u64>,
    errors: [u64; Kind::ALL.len()],
}

/// The result of all threads.
pub struct Outcome {
    pub tally: Tally,
    /// How long requests were sent.
    pub time: Duration,
    /// How long it took before to open all connections.
    pub opening: Duration,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let latencies = Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are right");
        Tally { latencies, errors: [0; Kind::ALL.len()] }
    }

    /// Counts a right reply.
    pub(crate) fn right(&mut self, latency: Duration) {
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn wrong(&mut self, kind: Kind, count: u64) {
        self.errors[kind as usize] += count;
    }

    pub(crate) fn add(&mut self, other: &Tally) {
        self.latencies.add(&other.latencies).expect("the bounds are the same");
        self.errors.iter_mut().zip(other.errors).for_each(|(sum, count)| *sum += count);
    }

    /// Right replies.
    pub(crate) fn replies(&self) -> u64 {
        self.latencies.len()
    }

    pub(crate) fn errors(&self, kind: Kind) -> u64 {
        self.errors[kind as usize]
    }

    pub(crate) fn all_errors(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Replies that were there, and not right.
    pub(crate) fn wrong_replies(&self) -> u64 {
        [Kind::Malformed, Kind::Status, Kind::Body].map(|kind| self.errors(kind)).iter().sum()
    }

    /// The latency of so many right replies of 100.
    pub(crate) fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_percentile(percent))
    }

    pub(crate) fn longest(&self) -> Duration {
        Duration::from_nanos(self.latencies.max())
    }

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_nanos(self.latencies.mean() as u64)
    }

    /// How many right replies took longer.
    pub(crate) fn over(&self, latency: Duration) -> u64 {
        let limit = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.replies() - self.latencies.count_between(0, limit)
    }
}
