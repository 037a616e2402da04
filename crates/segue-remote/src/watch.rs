//! The wait for a record, and the end of a job by its submitter.
//!
//! Used by the pool, in a fiber for each job under way.
//!
//! **A hint may be lost, a read decides.** The fiber waits for a hint, at most for the interval of
//! reading; then it reads. A record ends the wait. Without a record, after an interval, the fiber
//! looks whether the queue has the job. If not, it reads once more: a record is stored before its
//! job leaves the queue, so a second miss says that nobody will store one.
//!
//! | event | effect |
//! | --- | --- |
//! | a record | the promise is filled |
//! | the promise is dropped | the job is withdrawn, if it is this submitter's own |
//! | the limit is over | the same, with another record; the record that was first counts |
//! | the limit is over, and the engine does not answer in a second | the promise has `TimedOut`, and the job is withdrawn later |
//! | neither record nor job | the promise has `TooOld` |
//! | a queued job that no worker knows, for too long | the job is withdrawn as `NoSuchJob` |
//!
//! **The race to fear** is a withdrawal beside a completion: both store a record, the engine takes
//! the first, and the submitter reads which.

use crate::engine::{Engine, EngineError, Expected, Kind, Outcome, Record, retry};
use crate::error::RemoteError;
use segue::core::{Source, Waitable};
use segue::{Cancelled, deadline, select, timeout};
use std::time::{Duration, Instant};

/// How long a submitter tries to tell the engine that it has gone.
const TRIES_TO_WITHDRAW: Duration = Duration::from_secs(60);

/// How long a wait goes on without a reading, and without a worker.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) reread_every: Duration,
    pub(crate) unknown_after: Duration,
}

/// How long a promise waits for that after its limit.
const TRIES_AT_LIMIT: Duration = Duration::from_secs(1);

/// How a wait has ended.
pub(crate) enum Waited {
    Record(Record),
    /// The promise was dropped.
    Nobody,
    /// The limit is over, and this record is not stored yet.
    Late(Record),
}

/// A job that has no record yet.
pub(crate) struct Wait<'a> {
    pub(crate) engine: &'a dyn Engine,
    pub(crate) patience: Patience,
    pub(crate) kind: &'a Kind,
    pub(crate) id: &'a str,
    /// Whether the job ends when nobody waits here.
    pub(crate) owns: bool,
    pub(crate) until: Option<Instant>,
}

enum Event {
    Hint,
    Dropped,
    Late,
    Interval,
}

impl Wait<'_> {
    /// Waits for the record, for the end of the promise, or for the limit.
    pub(crate) fn record<S: Source<Output = ()>>(
        &self,
        expected: &Expected,
        mut dropped: impl FnMut() -> Waitable<S>,
    ) -> Result<Waited, RemoteError> {
        let began = segue::now();
        loop {
            let event = self.event(expected, dropped()).map_err(|_| RemoteError::Cancelled)?;
            match event {
                Event::Dropped if !self.owns => return Ok(Waited::Nobody),
                Event::Dropped => {
                    let _too_late_or_unreachable = withdraw(self.engine, self.id, &self.end(Outcome::Cancelled));
                    return Ok(Waited::Nobody);
                }
                Event::Late if !self.owns => return Err(RemoteError::TimedOut),
                Event::Late => {
                    // Whichever record is the first, if the engine can be asked.
                    let record = self.end(Outcome::TimedOut);
                    return timeout(TRIES_AT_LIMIT, || match withdraw(self.engine, self.id, &record) {
                        Ok(true) => Err(RemoteError::TimedOut),
                        Ok(false) => {
                            let first = self.engine.read(self.id).ok().flatten();
                            // The worker may have heard of this very withdrawal, and was faster.
                            let first = first.filter(|first| first.outcome != Outcome::Cancelled);
                            first.map(Waited::Record).ok_or(RemoteError::TimedOut)
                        }
                        Err(_) => Ok(Waited::Late(record)),
                    });
                }
                Event::Hint | Event::Interval => {}
            }
            match deadline(self.until, || self.look(matches!(event, Event::Interval), began)) {
                Ok(Some(found)) => return found.map(Waited::Record),
                Ok(None) => {}
                Err(EngineError::Cancelled(_)) if self.until.is_some_and(|until| until <= segue::now()) => {}
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn event<S: Source<Output = ()>>(&self, expected: &Expected, dropped: Waitable<S>) -> Result<Event, Cancelled> {
        let next = segue::now() + self.patience.reread_every;
        let is_last = self.until.is_some_and(|until| until <= next);
        select! {
            biased;
            () = dropped => Event::Dropped,
            () = expected.notify.wait_source() => Event::Hint,
            deadline(if is_last { self.until } else { Some(next) }) =>
                if is_last { Event::Late } else { Event::Interval },
        }
    }

    /// Reads; after an interval, also whether there can be a record at all.
    #[allow(clippy::type_complexity, reason = "an answer, if there is one; its reading may fail")]
    fn look(&self, also_queue: bool, began: Instant) -> Result<Option<Result<Record, RemoteError>>, EngineError> {
        let engine = self.engine;
        if let Some(record) = engine.read(self.id)? {
            return Ok(Some(Ok(record)));
        }
        if !also_queue {
            return Ok(None);
        }
        if !engine.is_queued(self.kind, self.id)? {
            return Ok(Some(engine.read(self.id)?.ok_or(RemoteError::TooOld)));
        }
        let is_unknown = segue::now() - began >= self.patience.unknown_after && !engine.knows(self.kind)?;
        if is_unknown && self.owns {
            let record = self.end(Outcome::NoSuchJob);
            return Ok(engine.finish(self.id, &record, None)?.then_some(Ok(record)));
        }
        let Kind { name, version } = self.kind.clone();
        Ok(is_unknown.then_some(Err(RemoteError::NoSuchJob { name, version })))
    }

    fn end(&self, outcome: Outcome) -> Record {
        Record { kind: self.kind.clone(), attempt: 0, outcome }
    }
}

/// Ends a job from the submitter's side. Answers whether this record is the first.
pub(crate) fn withdraw(engine: &dyn Engine, id: &str, record: &Record) -> Result<bool, EngineError> {
    let until = segue::now().checked_add(TRIES_TO_WITHDRAW);
    deadline(until, || retry(|| engine.finish(id, record, None)))
}
