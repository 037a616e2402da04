//! Cases of the seam: the operations of an engine by themselves.

use crate::jobs::fresh;
use crate::suite::{Make, quick};
use crate::until;
use segue::{CancelToken, timeout};
use segue_remote::engine::{Engine, EngineError, Envelope, Kind, Lease, Leases, Outcome, Record};
use std::time::{Duration, Instant};

/// A kind that no worker of the tests takes.
fn kind() -> Kind {
    Kind::new(&fresh("raw"), 1)
}

fn envelope(engine: &dyn Engine, kind: &Kind) -> Envelope {
    Envelope {
        id: format!("{}-{}", engine.prefix(), fresh("raw")),
        kind: kind.clone(),
        format: "json".to_owned(),
        attempts: 2,
        limit: Some(Duration::from_secs(60)),
        trace: Some("00-trace-01".to_owned()),
        arguments: b"[1]".to_vec(),
    }
}

fn record(job: &Envelope, attempt: u64, outcome: Outcome) -> Record {
    Record { kind: job.kind.clone(), attempt, outcome }
}

fn next(leases: &mut Box<dyn Leases>) -> Lease {
    timeout(Duration::from_secs(30), || leases.next(1)).expect("there is a job")
}

fn nothing_comes(leases: &mut Box<dyn Leases>, within: Duration) {
    let lease = timeout(within, || leases.next(1));
    assert!(matches!(lease, Err(EngineError::Cancelled(_))), "{lease:?}");
}

pub fn a_job_goes_through(make: Make) {
    let made = make(quick());
    let (engine, kind) = (made.pool.engine(), kind());
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    assert!(engine.is_queued(&kind, &job.id).unwrap());
    assert_eq!(engine.read(&job.id), Ok(None));
    let mut leases = engine.lease(&kind).unwrap();
    let lease = next(&mut leases);
    assert_eq!((&lease.job, lease.attempt), (&job, 1));
    assert!(engine.is_queued(&kind, &job.id).unwrap(), "a job that runs is in the queue");
    let done = record(&job, 1, Outcome::Done(b"2".to_vec()));
    assert_eq!(engine.finish(&job.id, &done, Some(&lease)), Ok(true));
    assert_eq!(engine.read(&job.id), Ok(Some(done)));
    until("the job has left the queue", || !engine.is_queued(&kind, &job.id).unwrap());
}

pub fn the_first_record_counts(make: Make) {
    let made = make(quick());
    let (engine, kind) = (made.pool.engine(), kind());
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    let lease = next(&mut engine.lease(&kind).unwrap());
    let outcomes = [Outcome::Failed("a".to_owned()), Outcome::Cancelled, Outcome::Done(Vec::new())];
    let firsts: Vec<bool> = outcomes
        .iter()
        .map(|outcome| engine.finish(&job.id, &record(&job, 1, outcome.clone()), Some(&lease)).unwrap())
        .collect();
    assert_eq!(firsts, [true, false, false]);
    assert_eq!(engine.read(&job.id).unwrap().unwrap().outcome, outcomes[0]);
}

pub fn a_silent_worker_loses_its_job(make: Make) {
    let made = make(quick().ack_wait(Duration::from_millis(200)));
    let (engine, kind) = (made.pool.engine(), kind());
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    let (mut one, mut other) = (engine.lease(&kind).unwrap(), engine.lease(&kind).unwrap());
    let (first, second) = (next(&mut one), next(&mut other));
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(first.job, second.job);
    // The second is faster; the first goes on later.
    let (done, late) = (record(&job, 2, Outcome::Done(b"2".to_vec())), record(&job, 1, Outcome::Done(b"1".to_vec())));
    assert_eq!(engine.finish(&job.id, &done, Some(&second)), Ok(true));
    assert_eq!(engine.finish(&job.id, &late, Some(&first)), Ok(false));
    assert_eq!(engine.read(&job.id), Ok(Some(done)));
}

pub fn a_lease_that_is_extended_stays(make: Make) {
    let made = make(quick().ack_wait(Duration::from_millis(400)));
    let (engine, kind) = (made.pool.engine(), kind());
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    let mut leases = engine.lease(&kind).unwrap();
    let lease = next(&mut leases);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1200) {
        engine.extend(&lease).unwrap();
        nothing_comes(&mut leases, Duration::from_millis(50));
    }
    // Not any more.
    assert_eq!(next(&mut leases).attempt, 2);
}

pub fn what_is_put_back_comes_again(make: Make) {
    let made = make(quick().ack_wait(Duration::from_secs(60)));
    let (engine, kind) = (made.pool.engine(), kind());
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    let mut leases = engine.lease(&kind).unwrap();
    engine.put_back(&next(&mut leases), Duration::ZERO).unwrap();
    let second = next(&mut leases);
    assert_eq!(second.attempt, 2);
    let began = Instant::now();
    engine.put_back(&second, Duration::from_millis(300)).unwrap();
    assert_eq!(next(&mut leases).attempt, 3);
    assert!(began.elapsed() >= Duration::from_millis(290), "{:?}", began.elapsed());
}

pub fn a_job_is_given_up_once(make: Make) {
    let made = make(quick().ack_wait(Duration::from_millis(100)));
    let (engine, kind) = (made.pool.engine(), kind());
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    let (mut one, mut other) = (engine.lease(&kind).unwrap(), engine.lease(&kind).unwrap());
    let (first, second) = (next(&mut one), next(&mut other));
    for lease in [&first, &second] {
        let record = record(&job, lease.attempt, Outcome::GaveUp("two\nlines".to_owned()));
        engine.give_up(lease, &record, "two\nlines").unwrap();
    }
    let letters = engine.dead_letters(10).unwrap();
    let [letter] = letters.as_slice() else { panic!("not one letter: {letters:?}") };
    assert_eq!((&letter.id, &letter.kind, &letter.arguments), (&job.id, &kind, &job.arguments));
    assert!(letter.attempts == 1 && letter.reason.starts_with("two"), "{letter:?}");
    assert_eq!(engine.read(&job.id).unwrap().unwrap().attempt, 1);

    // A job that has another record is no dead letter.
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    let lease = next(&mut one);
    let done = record(&job, 1, Outcome::Done(Vec::new()));
    assert_eq!(engine.finish(&job.id, &done, None), Ok(true));
    let given_up = record(&job, 1, Outcome::GaveUp("late".to_owned()));
    assert_eq!(engine.give_up(&lease, &given_up, "late"), Ok(false));
    assert_eq!(engine.dead_letters(10).unwrap(), letters);
    assert_eq!(engine.dead_letters(0).unwrap(), []);
}

pub fn one_id_is_in_the_queue_once(make: Make) {
    let made = make(quick());
    let (engine, kind) = (made.pool.engine(), kind());
    let plain = envelope(engine, &kind);
    let keyed = Envelope { id: format!("{}/key", kind.name), ..plain.clone() };
    for job in [plain, keyed] {
        (0..3).for_each(|_| engine.enqueue(&job).unwrap());
        let mut leases = engine.lease(&kind).unwrap();
        let lease = next(&mut leases);
        nothing_comes(&mut leases, Duration::from_millis(50));
        assert_eq!(engine.finish(&job.id, &record(&job, 1, Outcome::Done(Vec::new())), Some(&lease)), Ok(true));
    }
}

pub fn versions_share_a_key(make: Make) {
    let made = make(quick());
    let (engine, kind) = (made.pool.engine(), kind());
    let old = Envelope { id: format!("{}/key", kind.name), ..envelope(engine, &kind) };
    let new = Envelope { kind: Kind::new(&kind.name, 2), ..old.clone() };
    engine.enqueue(&old).unwrap();
    assert!(engine.is_queued(&new.kind, &new.id).unwrap(), "the key is in the queue");
    engine.enqueue(&new).unwrap();
    nothing_comes(&mut engine.lease(&new.kind).unwrap(), Duration::from_millis(50));
    assert_eq!(engine.finish(&new.id, &record(&new, 0, Outcome::Cancelled), None), Ok(true));
    assert!(!engine.is_queued(&kind, &old.id).unwrap());
}

pub fn what_is_given_back_keeps_its_attempt(make: Make) {
    let made = make(quick().ack_wait(Duration::from_secs(60)));
    let (engine, kind) = (made.pool.engine(), kind());
    let plain = envelope(engine, &kind);
    let keyed = Envelope { id: format!("{}/key", kind.name), limit: None, ..plain.clone() };
    let mut leases = engine.lease(&kind).unwrap();
    for job in [plain, keyed] {
        engine.enqueue(&job).unwrap();
        for attempt in [1, 1, 1] {
            let lease = next(&mut leases);
            assert_eq!((&lease.job.id, lease.attempt), (&job.id, attempt));
            assert!(lease.job.limit <= job.limit && lease.job.trace == job.trace, "{lease:?}");
            engine.give_back(&lease).unwrap();
        }
        engine.put_back(&next(&mut leases), Duration::ZERO).unwrap();
        let second = next(&mut leases);
        assert_eq!(second.attempt, 2);
        engine.give_back(&second).unwrap();
        let again = next(&mut leases);
        assert_eq!(again.attempt, 2);
        assert_eq!(engine.finish(&job.id, &record(&job, 2, Outcome::Done(Vec::new())), Some(&again)), Ok(true));
        until("the job has left the queue", || !engine.is_queued(&kind, &job.id).unwrap());
        // A lease that is over puts nothing there again.
        engine.give_back(&again).unwrap();
        assert!(!engine.is_queued(&kind, &job.id).unwrap());
        nothing_comes(&mut leases, Duration::from_millis(50));
    }
}

pub fn a_withdrawn_job_is_leased_no_more(make: Make) {
    let made = make(quick());
    let (engine, kind) = (made.pool.engine(), kind());
    let (gone, stays) = (envelope(engine, &kind), envelope(engine, &kind));
    engine.enqueue(&gone).unwrap();
    engine.enqueue(&stays).unwrap();
    assert_eq!(engine.finish(&gone.id, &record(&gone, 0, Outcome::Cancelled), None), Ok(true));
    let mut leases = engine.lease(&kind).unwrap();
    assert_eq!(next(&mut leases).job.id, stays.id);
    assert!(!engine.is_queued(&kind, &gone.id).unwrap());
}

pub fn a_kind_is_known_once_it_is_leased(make: Make) {
    let made = make(quick());
    let (engine, kind) = (made.pool.engine(), kind());
    assert_eq!(engine.knows(&kind), Ok(false));
    drop(engine.lease(&kind).unwrap());
    assert_eq!(engine.knows(&kind), Ok(true));
}

pub fn a_full_queue_says_so(make: Make) {
    let made = make(quick().max_jobs(2));
    let (engine, kind) = (made.pool.engine(), kind());
    let jobs: Vec<Envelope> = (0..3).map(|_| envelope(engine, &kind)).collect();
    assert_eq!(
        jobs.iter().map(|job| engine.enqueue(job)).collect::<Vec<_>>(),
        [Ok(()), Ok(()), Err(EngineError::Full)]
    );
    let lease = next(&mut engine.lease(&kind).unwrap());
    engine.finish(&lease.job.id, &record(&lease.job, 1, Outcome::Done(Vec::new())), Some(&lease)).unwrap();
    until("there is room", || engine.enqueue(&jobs[2]).is_ok());
}

pub fn a_wait_for_a_lease_is_cancelled(make: Make) {
    let made = make(quick());
    let (engine, kind) = (made.pool.engine(), kind());
    let mut leases = engine.lease(&kind).unwrap();
    let token = CancelToken::new();
    token.cancel();
    assert!(matches!(token.run(|| leases.next(1)), Err(EngineError::Cancelled(_))));
    // No job is lost with such a wait.
    let job = envelope(engine, &kind);
    engine.enqueue(&job).unwrap();
    nothing_comes(&mut leases, Duration::ZERO);
    assert_eq!(next(&mut leases).job.id, job.id);
    assert!(matches!(token.run(|| engine.enqueue(&envelope(engine, &kind))), Err(EngineError::Cancelled(_))));
}
