//! The headers of messages, and the server's errors.
//!
//! Used by the engine and its leases. The id, the name and the version of a job are in its subject,
//! the arguments are the payload, and the rest is in headers, each of which may be missing: a
//! program in another language submits by a plain publish.

use crate::engine::{DeadLetter, EngineError, Envelope, Kind, Lease, id};
use async_nats::HeaderMap;
use async_nats::jetstream::context::{ConsumerInfoErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, ErrorCode};
use std::error::Error;
use std::fmt::Display;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

const FORMAT: &str = "Segue-Format";
const ATTEMPTS: &str = "Segue-Attempts";
const LIMIT: &str = "Segue-Limit-Ms";
const ATTEMPTS_BEFORE: &str = "Segue-Attempts-Before";
const REASON: &str = "Segue-Reason";
const TRACE: &str = "traceparent";
const MESSAGE_ID: &str = "Nats-Msg-Id";
const LAST_OF_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence";

/// The longest reason in a header.
const LONGEST_REASON: usize = 2000;

/// How a publish to a stream has ended.
pub(super) enum Published {
    /// The stream has the message.
    Stored,
    /// There is another message of its subject.
    NotFirst,
    /// There is no such stream.
    NoStream,
}

/// Headers of a message that is stored only if the last of its subject has this sequence, where 0
/// is none.
pub(super) fn after(sequence: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(LAST_OF_SUBJECT, sequence.to_string());
    headers
}

/// Of a new job. One with a key is known by its subject: the server's memory of message ids would
/// drop the key's next job, too.
pub(super) fn headers(job: &Envelope) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if id::is_keyed(&job.id) {
        headers = after(0);
    } else {
        headers.insert(MESSAGE_ID, job.id.as_str());
    }
    add_settings(&mut headers, job);
    headers
}

/// Of a job that takes the place of this lease, whose attempt does not count.
pub(super) fn headers_again(lease: &Lease, sequence: u64) -> HeaderMap {
    let mut headers = after(sequence);
    let limit = lease.job.limit.map(|limit| limit.saturating_sub(lease.age));
    add_settings(&mut headers, &Envelope { limit, ..lease.job.clone() });
    headers.insert(ATTEMPTS_BEFORE, lease.attempt.saturating_sub(1).to_string());
    headers
}

fn add_settings(headers: &mut HeaderMap, job: &Envelope) {
    headers.insert(FORMAT, job.format.as_str());
    headers.insert(ATTEMPTS, job.attempts.to_string());
    if let Some(limit) = job.limit {
        headers.insert(LIMIT, limit.as_millis().to_string());
    }
    if let Some(trace) = &job.trace {
        headers.insert(TRACE, trace.as_str());
    }
}

/// Whether this message says that there is none any more.
pub(super) fn is_marker(headers: &HeaderMap) -> bool {
    headers.get("KV-Operation").is_some()
}

pub(super) fn add_reason(headers: &mut HeaderMap, lease: &Lease, reason: &str) {
    let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST_REASON).collect();
    headers.insert(FORMAT, lease.job.format.as_str());
    headers.insert(ATTEMPTS, lease.attempt.to_string());
    headers.insert(REASON, reason);
}

fn header(headers: Option<&HeaderMap>, name: &'static str) -> Option<String> {
    headers?.get(name).map(|value| value.as_str().to_owned())
}

fn number<T: FromStr>(headers: Option<&HeaderMap>, name: &'static str) -> Option<T> {
    header(headers, name)?.parse().ok()
}

/// The kind and the id that a subject ends with.
fn named(subject: &str) -> Option<(Kind, String)> {
    let mut tokens = subject.rsplitn(4, '.');
    let (id, version, name) = (tokens.next()?, tokens.next()?, tokens.next()?);
    Some((Kind::new(name, version.parse().ok()?), id.to_owned()))
}

/// The lease of a message that a consumer has delivered.
pub(super) fn lease(message: async_nats::Message) -> Option<Lease> {
    let (kind, id) = named(&message.subject)?;
    let ticket = message.reply?.to_string();
    let (delivered, published) = delivery(&ticket)?;
    let headers = message.headers.as_ref();
    let attempt = delivered + number::<u64>(headers, ATTEMPTS_BEFORE).unwrap_or(0);
    let job = Envelope {
        id,
        kind,
        format: header(headers, FORMAT).unwrap_or_else(|| "json".to_owned()),
        attempts: number(headers, ATTEMPTS).unwrap_or(3).max(1),
        limit: number(headers, LIMIT).map(Duration::from_millis),
        trace: header(headers, TRACE),
        arguments: message.payload.to_vec(),
    };
    // A clock that is behind the server's makes no job younger than new.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Some(Lease { job, attempt, age: now.saturating_sub(published), ticket })
}

/// The number of the delivery, and when the server got the message: of the subject to acknowledge
/// to, `$JS.ACK.[domain.account.]stream.consumer.delivered.sequence.sequence.time.pending[.token]`.
fn delivery(reply: &str) -> Option<(u64, Duration)> {
    Some((token(reply, 2)?, Duration::from_nanos(token(reply, 5)?)))
}

/// The sequence in the queue of a lease's job.
pub(super) fn sequence(ticket: &str) -> u64 {
    token(ticket, 3).unwrap_or(0)
}

/// The token that is so many behind the stream.
fn token(reply: &str, behind: usize) -> Option<u64> {
    let tokens: Vec<&str> = reply.split('.').collect();
    let first = match tokens.as_slice() {
        ["$JS", "ACK", rest @ ..] if rest.len() == 7 => 2,
        ["$JS", "ACK", rest @ ..] if rest.len() >= 9 => 4,
        _ => return None,
    };
    tokens[first + behind].parse().ok()
}

pub(super) fn dead_letter(message: &StreamMessage) -> Option<DeadLetter> {
    let (subject, _sequence) = message.subject.rsplit_once('.')?;
    let (kind, id) = named(subject)?;
    let headers = Some(&message.headers);
    let (attempts, reason) = (number(headers, ATTEMPTS).unwrap_or(0), header(headers, REASON).unwrap_or_default());
    let job = Envelope {
        id,
        kind,
        format: String::new(),
        attempts,
        limit: None,
        trace: None,
        arguments: message.payload.to_vec(),
    };
    Some(DeadLetter::new(&Lease { job, attempt: attempts, age: Duration::ZERO, ticket: String::new() }, &reason))
}

/// What the server has said to a publish.
pub(super) fn published(answer: Result<PublishAck, PublishError>) -> Result<Published, EngineError> {
    let error = match answer {
        Ok(_) => return Ok(Published::Stored),
        Err(error) => error,
    };
    match error.kind() {
        PublishErrorKind::WrongLastSequence => Ok(Published::NotFirst),
        PublishErrorKind::StreamNotFound => Ok(Published::NoStream),
        PublishErrorKind::MaxPayloadExceeded => Err(EngineError::Refused(full(&error))),
        PublishErrorKind::Other => {
            let of_server = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
            match of_server.map(jetstream::Error::error_code) {
                Some(ErrorCode::STREAM_STORE_FAILED) if full(&error).contains("maximum") => Err(EngineError::Full),
                Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM) => Err(EngineError::Refused(full(&error))),
                _ => Err(unavailable(error)),
            }
        }
        _ => Err(unavailable(error)),
    }
}

pub(super) fn is_no_stream(error: &jetstream::Error) -> bool {
    error.error_code() == ErrorCode::STREAM_NOT_FOUND
}

pub(super) fn is_no_consumer(error: &ConsumerInfoErrorKind) -> bool {
    match error {
        ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound => true,
        ConsumerInfoErrorKind::JetStream(error) => {
            is_no_stream(error) || error.error_code() == ErrorCode::CONSUMER_NOT_FOUND
        }
        _ => false,
    }
}

/// The error with its causes.
fn full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// An error that may pass.
pub(super) fn unavailable(error: impl Display) -> EngineError {
    EngineError::Unavailable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_read_from_its_subject_in_both_forms() {
        for (reply, expected) in [
            ("$JS.ACK.S.C.3.7.9.1700000000000000001.0", Some((3, 1_700_000_000_000_000_001))),
            ("$JS.ACK._.hash.S.C.1.7.9.5.0", Some((1, 5))),
            ("$JS.ACK.hub.hash.S.C.1.7.9.5.0.token.more", Some((1, 5))),
            ("$JS.ACK.S.C.x.7.9.5.0", None),
            ("$JS.ACK.S.C", None),
            ("_INBOX.1", None),
        ] {
            let expected = expected.map(|(attempt, nanos)| (attempt, Duration::from_nanos(nanos)));
            assert_eq!(delivery(reply), expected, "{reply}");
        }
    }

    #[test]
    fn a_job_is_named_by_its_subject() {
        assert_eq!(named("segue.p.job.fib.2.ab-1"), Some((Kind::new("fib", 2), "ab-1".to_owned())));
        assert_eq!(named("segue.p.job.fib.2.fib/a=20b").map(|(_, id)| id), Some("fib/a=20b".to_owned()));
        for subject in ["segue.p.job.fib.two.1", "fib.2", ""] {
            assert_eq!(named(subject), None, "{subject}");
        }
    }

    #[test]
    fn a_clock_that_is_behind_makes_no_job_older_and_one_ahead_does() {
        let message = |published: u128| async_nats::Message {
            subject: "segue.p.job.fib.1.a-1".into(),
            reply: Some(format!("$JS.ACK.S.C.1.7.9.{published}.0").into()),
            payload: b"{}".to_vec().into(),
            headers: None,
            status: None,
            description: None,
            length: 0,
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        let hour = 3_600_000_000_000;
        assert_eq!(lease(message(now + hour)).unwrap().age, Duration::ZERO);
        let old = lease(message(now - hour)).unwrap();
        assert!(old.age >= Duration::from_secs(3600));
        assert_eq!((old.job.attempts, old.job.format.as_str(), old.job.limit), (3, "json", None));
    }
}
