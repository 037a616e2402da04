//! One lease, from its arrival to its end.
//!
//! Used by the fibers that take leases, which start one for each.
//!
//! **The commit point** is the engine's `finish`, which stores the record unless there is one.
//! Before that a crash leaves the job to another worker; after that all others lose.
//!
//! | how the job ends | the lease |
//! | --- | --- |
//! | with an output or an error | is finished, with this record |
//! | with an error or a panic, after the submitter's cancellation | is finished as cancelled |
//! | the same, after its limit | is finished as timed out |
//! | the same, while the worker aborts | is given back, with its attempt |
//! | with a panic, and attempts are left | is put back, for later |
//! | with a panic in its last attempt; with arguments that can't be read | is given up |
//! | not at all: the worker dies | comes to another worker after the ack wait |
//!
//! A lease beyond the last attempt is given up without a run: each run before has killed its
//! worker, or was not heard of. A job that may have a record already, since it was leased before or
//! has a key, is not run if there is one. A record of another worker that gave up may lack its dead
//! letter, so that job is given up again; so is one with a record that can't be read.
//!
//! **Cancellation.** The end of this worker cancels the function, and not the engine's operation
//! behind: an output that is there is stored, in a few seconds.
//!
//! **The race to fear**: this worker was stopped for longer than the ack wait, and goes on while
//! another one runs the job, or has finished it. Both finish; one record is the first.

use super::handler::{Handler, Ran};
use crate::current;
use crate::engine::{Engine, EngineError, Lease, Outcome, Record, id, retry};
use crate::options::Log;
use segue::sync::Semaphore;
use segue::{CancelToken, deadline, spawn, timeout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The longest delay of a further attempt.
const LATEST: Duration = Duration::from_secs(30);
/// How long a worker that aborts tries to end a lease.
const LAST_TRY: Duration = Duration::from_secs(5);

/// All that the jobs of one worker share.
pub(crate) struct Work {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) log: Log,
    pub(crate) retry_after: Duration,
    /// Of jobs that run.
    pub(crate) slots: Semaphore,
    /// Cancels all jobs.
    pub(crate) abort: CancelToken,
    pub(crate) counts: Counts,
}

/// How leases have ended.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) executions: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) later: AtomicU64,
    pub(crate) put_back: AtomicU64,
    pub(crate) given_up: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The end that a lease comes to.
enum End {
    Finished(Record),
    GivenUp(String),
    /// A worker died between this record and its letter.
    Buried(Record, String),
    /// After this panic there is another attempt.
    Again(String),
}

pub(super) fn attempt(work: &Arc<Work>, handler: &Handler, lease: &Arc<Lease>) {
    let (job, engine) = (&lease.job, &work.engine);
    let running = engine.signals().run(&job.id);
    let ended = match work.abort.run(|| end(work, handler, lease, &running.token)) {
        Ok(End::Finished(record)) => finish(work, lease, &record),
        Ok(End::GivenUp(reason)) => {
            let outcome = Outcome::GaveUp(reason.clone());
            give_up(work, lease, &Record { kind: job.kind.clone(), attempt: lease.attempt, outcome }, &reason)
        }
        Ok(End::Buried(record, reason)) => give_up(work, lease, &record, &reason),
        Ok(End::Again(panic)) => {
            let times = 1 << (lease.attempt - 1).min(16);
            let delay = work.retry_after.saturating_mul(times).min(LATEST);
            let of = job.attempts;
            work.log.say(&format!("{} {}: attempt {} of {of}: {panic}", job.kind, job.id, lease.attempt));
            count(&work.counts.put_back);
            engine.put_back(lease, delay)
        }
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => {}
        Err(EngineError::Cancelled(_)) => {
            count(&work.counts.put_back);
            let _comes_back_later = timeout(LAST_TRY, || engine.give_back(lease));
        }
        Err(error) => work.log.say(&format!("{} {}: {error}", job.kind, job.id)),
    }
}

fn end(work: &Arc<Work>, handler: &Handler, lease: &Arc<Lease>, token: &CancelToken) -> Result<End, EngineError> {
    let (job, engine) = (&lease.job, &work.engine);
    if lease.attempt > 1 || id::is_keyed(&job.id) {
        match retry(|| engine.read(&job.id)) {
            Ok(None) => {}
            Ok(Some(record)) => {
                return Ok(match record.outcome.clone() {
                    Outcome::GaveUp(reason) if lease.attempt > 1 => End::Buried(record, reason),
                    _ => End::Finished(record),
                });
            }
            Err(EngineError::Refused(why)) => return Ok(End::GivenUp(format!("its record can't be read: {why}"))),
            Err(error) => return Err(error),
        }
    }
    if lease.attempt > job.attempts {
        return Ok(End::GivenUp("its workers have died or were silent".to_owned()));
    }
    let _slot = work.slots.acquire().map_err(|_| EngineError::Cancelled(segue::Cancelled::new()))?;
    let until = job.limit.map(|limit| segue::now().checked_add(limit.saturating_sub(lease.age)));
    let until = until.unwrap_or(None);
    let is_late = || until.is_some_and(|until| until <= segue::now());
    let ends = |outcome| Ok(End::Finished(Record { kind: job.kind.clone(), attempt: lease.attempt, outcome }));
    if token.is_cancelled() {
        return ends(Outcome::Cancelled);
    }
    if is_late() {
        return ends(Outcome::TimedOut);
    }
    count(&work.counts.executions);
    // An output counts, however late; an error or a panic may be that of a cancelled wait.
    let failed = match run(work, handler, lease, token, until) {
        Ok(Ran::Done(output)) => return ends(Outcome::Done(output)),
        Ok(Ran::Failed(message)) => Ok(message),
        Ok(Ran::Unreadable(why)) => return Ok(End::GivenUp(why)),
        Err(panic) => Err(panic),
    };
    if token.is_cancelled() {
        return ends(Outcome::Cancelled);
    }
    segue::check()?;
    if is_late() {
        return ends(Outcome::TimedOut);
    }
    match failed {
        Ok(message) => ends(Outcome::Failed(message)),
        Err(panic) if lease.attempt >= job.attempts => Ok(End::GivenUp(panic)),
        Err(panic) => Ok(End::Again(panic)),
    }
}

/// Runs the function in a fiber of its own, which may panic.
fn run(
    work: &Arc<Work>,
    handler: &Handler,
    lease: &Arc<Lease>,
    token: &CancelToken,
    until: Option<Instant>,
) -> Result<Ran, String> {
    let (lease, abort, token, run) = (Arc::clone(lease), work.abort.clone(), token.clone(), handler.run);
    let fiber = spawn(move || {
        current::begin(&lease);
        abort.run(|| token.run(|| deadline(until, || run(&lease.job))))
    });
    // The job is told; the lease ends with its function.
    segue::shield(|| fiber.join()).map_err(|error| error.to_string())
}

/// Repeats an operation. A worker that aborts has little time, but keeps the results for all that.
fn insist<T>(work: &Work, mut f: impl FnMut() -> Result<T, EngineError>) -> Result<T, EngineError> {
    match work.abort.run(|| retry(&mut f)) {
        Err(EngineError::Cancelled(_)) => timeout(LAST_TRY, || retry(&mut f)),
        other => other,
    }
}

fn finish(work: &Work, lease: &Lease, record: &Record) -> Result<(), EngineError> {
    let job = &lease.job;
    let is_first = match insist(work, || work.engine.finish(&job.id, record, Some(lease))) {
        Err(EngineError::Refused(why)) => {
            let outcome = Outcome::Failed(format!("the result can't be stored: {why}"));
            let other = Record { kind: record.kind.clone(), attempt: record.attempt, outcome };
            insist(work, || work.engine.finish(&job.id, &other, Some(lease)))?
        }
        other => other?,
    };
    count(if is_first { &work.counts.finished } else { &work.counts.later });
    Ok(())
}

fn give_up(work: &Work, lease: &Lease, record: &Record, reason: &str) -> Result<(), EngineError> {
    let job = &lease.job;
    work.log.say(&format!("{} {}: given up after attempt {}: {reason}", job.kind, job.id, lease.attempt));
    let is_first = insist(work, || work.engine.give_up(lease, record, reason))?;
    count(if is_first { &work.counts.given_up } else { &work.counts.later });
    Ok(())
}
