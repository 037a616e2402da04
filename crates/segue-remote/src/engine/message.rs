//! A job on its way, the record of its result, and the bytes of a record.
//!
//! Used by engines, which carry them, and by the pool and the workers, which make and read them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The name of a job and its version: jobs of one kind have a queue, and workers of their own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// The name: letters, digits, `-` and `_`.
    pub name: String,
    /// The version of the name's arguments, output and meaning.
    pub version: u32,
}

impl Kind {
    /// The kind of this name and version.
    #[must_use]
    pub fn new(name: &str, version: u32) -> Self {
        Self { name: name.to_owned(), version }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{}", self.name, self.version)
    }
}

/// A job on its way to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The id, which is the job's for ever: letters, digits, `-`, `_`, `=` and `/`.
    pub id: String,
    /// Which workers can run the job.
    pub kind: Kind,
    /// The name of the format of the arguments.
    pub format: String,
    /// How often a worker may try, 1 or more.
    pub attempts: u64,
    /// How long after its submission the job is of no use any more.
    pub limit: Option<Duration>,
    /// The caller's span, as a `traceparent` of the W3C's trace context.
    pub trace: Option<String>,
    /// The arguments, in that format.
    pub arguments: Vec<u8>,
}

/// A job that one worker has for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub job: Envelope,
    /// How often the job was leased, with this one.
    pub attempt: u64,
    /// How long ago the job was submitted, as far as the engine can tell.
    pub age: Duration,
    /// The engine's own mark of this lease.
    pub ticket: String,
}

/// A job that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id of the job.
    pub id: String,
    /// Which job.
    pub kind: Kind,
    /// How often the job was leased.
    pub attempts: u64,
    /// Why nobody tries again.
    pub reason: String,
    /// The job's arguments, as they were sent.
    pub arguments: Vec<u8>,
}

impl DeadLetter {
    /// The letter of this lease.
    #[must_use]
    pub fn new(lease: &Lease, reason: &str) -> Self {
        let Envelope { id, kind, arguments, .. } = lease.job.clone();
        Self { id, kind, attempts: lease.attempt, reason: reason.to_owned(), arguments }
    }
}

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The output, in the format of the job.
    Done(Vec<u8>),
    /// The job has answered with an error, of this message.
    Failed(String),
    /// There is no answer after the last attempt, for this reason.
    GaveUp(String),
    /// The submitter wants no result any more.
    Cancelled,
    /// The job's time was over.
    TimedOut,
    /// There was no worker for this kind.
    NoSuchJob,
}

/// The end of a job, as an engine stores it under the job's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which job.
    pub kind: Kind,
    /// The attempt that the outcome is of, or 0.
    pub attempt: u64,
    /// The outcome.
    pub outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
struct Head {
    job: String,
    version: u32,
    attempt: u64,
    outcome: Word,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Done,
    Failed,
    GaveUp,
    Cancelled,
    TimedOut,
    NoSuchJob,
}

impl Record {
    /// The record as bytes: a line of JSON, and then the output of the job.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let (outcome, message, output) = match &self.outcome {
            Outcome::Done(output) => (Word::Done, "", output.as_slice()),
            Outcome::Failed(message) => (Word::Failed, message.as_str(), &[][..]),
            Outcome::GaveUp(message) => (Word::GaveUp, message.as_str(), &[][..]),
            Outcome::Cancelled => (Word::Cancelled, "", &[][..]),
            Outcome::TimedOut => (Word::TimedOut, "", &[][..]),
            Outcome::NoSuchJob => (Word::NoSuchJob, "", &[][..]),
        };
        let Kind { name, version } = self.kind.clone();
        let head = Head { job: name, version, attempt: self.attempt, outcome, message: message.to_owned() };
        let mut bytes = serde_json::to_vec(&head).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(output);
        bytes
    }

    /// The record of these bytes, unless they are none. Never waits.
    ///
    /// # Errors
    /// A sentence that says where the bytes are wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("a record without its line of JSON")?;
        let head: Head = serde_json::from_slice(&bytes[..end]).map_err(|error| format!("a record's line: {error}"))?;
        let outcome = match head.outcome {
            Word::Done => Outcome::Done(bytes[end + 1..].to_vec()),
            Word::Failed => Outcome::Failed(head.message),
            Word::GaveUp => Outcome::GaveUp(head.message),
            Word::Cancelled => Outcome::Cancelled,
            Word::TimedOut => Outcome::TimedOut,
            Word::NoSuchJob => Outcome::NoSuchJob,
        };
        Ok(Self { kind: Kind { name: head.job, version: head.version }, attempt: head.attempt, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_the_same_after_its_bytes() {
        let outcomes = [
            Outcome::Done(b"1\n2".to_vec()),
            Outcome::Done(Vec::new()),
            Outcome::Failed("two\nlines".to_owned()),
            Outcome::GaveUp("panicked".to_owned()),
            Outcome::Cancelled,
            Outcome::TimedOut,
            Outcome::NoSuchJob,
        ];
        for outcome in outcomes {
            let record = Record { kind: Kind::new("fib", 2), attempt: 3, outcome };
            assert_eq!(Record::from_bytes(&record.to_bytes()), Ok(record));
        }
    }

    #[test]
    fn bytes_that_are_no_record_are_an_error() {
        for bytes in [&b""[..], b"{}", b"{}\n", b"\xff\n", b"{\"job\":\"fib\"}\n1"] {
            assert!(Record::from_bytes(bytes).is_err(), "{bytes:?}");
        }
    }
}
