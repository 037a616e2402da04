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
//! | the same, while the worker aborts | is put back, at once |
//! | with a panic, and attempts are left | is put back, for later |
//! | with a panic in its last attempt; with arguments that can't be read | is given up |
//! | not at all: the worker dies | comes to another worker after the ack wait |
//!
//! A lease beyond the last attempt is given up without a run: each run before has killed its
//! worker, or was not heard of. A job that may have a record already, since it was leased before or
//! has a key, is not run if there is one.
//!
//! **The race to fear**: this worker was stopped for longer than the ack wait, and goes on while
//! another one runs the job, or has finished it. Both finish; one record is the first.

use super::{Handler, Ran, Server, count};
use crate::current;
use crate::engine::{EngineError, Lease, Outcome, Record, id};
use crate::pool::retry;
use segue::{deadline, spawn};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest delay of a further attempt.
const LATEST: Duration = Duration::from_secs(30);

pub(super) fn attempt(server: &Arc<Server>, handler: &Handler, lease: &Arc<Lease>) {
    let job = &lease.job;
    // While the worker aborts, no end of a job is worth a wait for an engine that is away.
    let ended = server.abort.run(|| end(server, handler, lease));
    match ended {
        Ok(()) => {}
        Err(EngineError::Cancelled(_)) => {
            count(&server.counts.put_back);
            let _comes_back_later = server.engine.put_back(lease, Duration::ZERO);
        }
        Err(error) => server.log.say(&format!("{} {}: {error}", job.kind, job.id)),
    }
}

fn end(server: &Arc<Server>, handler: &Handler, lease: &Arc<Lease>) -> Result<(), EngineError> {
    let (job, engine) = (&lease.job, &server.engine);
    let running = engine.signals().run(&job.id);
    if lease.attempt > 1 || id::is_keyed(&job.id) {
        if let Some(record) = retry(|| engine.read(&job.id))? {
            return finish(server, lease, &record);
        }
    }
    if lease.attempt > job.attempts {
        return give_up(server, lease, "its workers have died or were silent");
    }
    let _slot = server.slots.acquire().map_err(|_| EngineError::Cancelled(segue::Cancelled::new()))?;
    let until = job.limit.map(|limit| segue::now().checked_add(limit.saturating_sub(lease.age)));
    let until = until.unwrap_or(None);
    let is_late = || until.is_some_and(|until| until <= segue::now());
    let record = |outcome| Record { kind: job.kind.clone(), attempt: lease.attempt, outcome };
    if running.token.is_cancelled() {
        return finish(server, lease, &record(Outcome::Cancelled));
    }
    if is_late() {
        return finish(server, lease, &record(Outcome::TimedOut));
    }
    count(&server.counts.executions);
    let ran = run(server, handler, lease, &running.token, until);
    // An output counts, however late; an error or a panic may be that of a cancelled wait.
    let failed = match ran {
        Ok(Ran::Done(output)) => return finish(server, lease, &record(Outcome::Done(output))),
        Ok(Ran::Failed(message)) => Ok(message),
        Ok(Ran::Unreadable(why)) => return give_up(server, lease, &why),
        Err(panic) => Err(panic),
    };
    if running.token.is_cancelled() {
        return finish(server, lease, &record(Outcome::Cancelled));
    }
    segue::check()?;
    if is_late() {
        return finish(server, lease, &record(Outcome::TimedOut));
    }
    match failed {
        Ok(message) => finish(server, lease, &record(Outcome::Failed(message))),
        Err(panic) if lease.attempt >= job.attempts => give_up(server, lease, &panic),
        Err(panic) => {
            let times = 1 << (lease.attempt - 1).min(16);
            let delay = server.retry_after.saturating_mul(times).min(LATEST);
            let of = job.attempts;
            server.log.say(&format!("{} {}: attempt {} of {of}: {panic}", job.kind, job.id, lease.attempt));
            count(&server.counts.put_back);
            engine.put_back(lease, delay)
        }
    }
}

/// Runs the function in a fiber of its own, which may panic.
fn run(
    server: &Arc<Server>,
    handler: &Handler,
    lease: &Arc<Lease>,
    token: &segue::CancelToken,
    until: Option<Instant>,
) -> Result<Ran, String> {
    let (lease, abort, token, run) = (Arc::clone(lease), server.abort.clone(), token.clone(), handler.run);
    let fiber = spawn(move || {
        current::begin(&lease);
        abort.run(|| token.run(|| deadline(until, || run(&lease.job))))
    });
    // The job is told; the lease ends with its function.
    segue::shield(|| fiber.join()).map_err(|error| error.to_string())
}

fn finish(server: &Server, lease: &Lease, record: &Record) -> Result<(), EngineError> {
    let job = &lease.job;
    let is_first = match retry(|| server.engine.finish(&job.id, record, Some(lease))) {
        Err(EngineError::Refused(why)) => {
            let outcome = Outcome::Failed(format!("the result can't be stored: {why}"));
            let other = Record { kind: record.kind.clone(), attempt: record.attempt, outcome };
            retry(|| server.engine.finish(&job.id, &other, Some(lease)))?
        }
        other => other?,
    };
    count(if is_first { &server.counts.finished } else { &server.counts.later });
    Ok(())
}

fn give_up(server: &Server, lease: &Lease, reason: &str) -> Result<(), EngineError> {
    let job = &lease.job;
    server.log.say(&format!("{} {}: given up after attempt {}: {reason}", job.kind, job.id, lease.attempt));
    let outcome = Outcome::GaveUp(reason.to_owned());
    let record = Record { kind: job.kind.clone(), attempt: lease.attempt, outcome };
    let is_first = retry(|| server.engine.give_up(lease, &record, reason))?;
    count(if is_first { &server.counts.given_up } else { &server.counts.later });
    Ok(())
}
