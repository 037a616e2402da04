//! The local engine under simulated time and many schedules: its times are exact, and no order of
//! fibers loses a job.

use crate::jobs::{Add, Fails, OwnId, RunsOn, Takes, counted, fresh};
use segue::testing::{Explore, Leaks, Sim};
use segue::{now, sleep};
use segue_remote::engine::{Envelope, Kind, Outcome, Record};
use segue_remote::{Options, Pool, RemoteError, SubmitOptions};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn quiet() -> Options {
    Options::default().log(|_| {})
}

#[test]
fn a_limit_is_exact_and_cancels_the_job() {
    let ran = Sim::new(1).run(|| {
        let (pool, tag, began) = (Pool::local_here(quiet()), fresh("limit"), now());
        let job = RunsOn { tag: tag.clone() };
        let promise = pool.submit_with(job, SubmitOptions::new().limit(60 * SECOND));
        assert_eq!(promise.take(), Ok(Err(RemoteError::TimedOut)));
        assert_eq!(now() - began, 60 * SECOND);
        sleep(Duration::from_millis(1)).unwrap();
        assert_eq!(counted(&format!("{tag} ended")), 1);
    });
    ran.unwrap();
}

#[test]
fn a_job_that_is_longer_than_the_ack_wait_runs_once() {
    let ran = Sim::new(1).run(|| {
        let (pool, tag) = (Pool::local_here(quiet().ack_wait(SECOND)), fresh("long"));
        assert_eq!(pool.submit(Takes { ms: 3_600_000, tag: tag.clone() }).take(), Ok(Ok(3_600_000)));
        assert_eq!(counted(&tag), 1);
    });
    ran.unwrap();
}

#[test]
fn a_silent_worker_loses_its_job_at_the_ack_wait_and_its_result_comes_second() {
    let ran = Sim::new(1).run(|| {
        let pool = Pool::local_here(quiet().ack_wait(30 * SECOND));
        let (engine, kind, began) = (pool.engine(), Kind::new("raw", 1), now());
        let job = Envelope {
            id: "raw-1".to_owned(),
            kind: kind.clone(),
            format: "json".to_owned(),
            attempts: 3,
            limit: None,
            trace: None,
            arguments: Vec::new(),
        };
        engine.enqueue(&job).unwrap();
        let mut leases = engine.lease(&kind).unwrap();
        let silent = leases.next(1).unwrap();
        sleep(20 * SECOND).unwrap();
        engine.extend(&silent).unwrap();
        let second = leases.next(1).unwrap();
        assert_eq!((now() - began, second.attempt, second.age), (50 * SECOND, 2, 50 * SECOND));
        let record = |attempt| Record { kind: kind.clone(), attempt, outcome: Outcome::Done(Vec::new()) };
        // A lease that is over extends nothing, puts nothing back, and does not count.
        engine.extend(&silent).unwrap();
        engine.put_back(&silent, Duration::ZERO).unwrap();
        assert_eq!(engine.finish("raw-1", &record(2), Some(&second)), Ok(true));
        assert_eq!(engine.finish("raw-1", &record(1), Some(&silent)), Ok(false));
        assert_eq!(engine.read("raw-1"), Ok(Some(record(2))));
    });
    ran.unwrap();
}

#[test]
fn results_are_kept_for_their_time_and_no_longer() {
    let ran = Sim::new(1).run(|| {
        let pool = Pool::local_here(quiet().keep_results(3600 * SECOND));
        let submitted = pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().key("k"));
        assert_eq!(submitted.take(), Ok(Ok(2)));
        sleep(3599 * SECOND).unwrap();
        assert_eq!(pool.result::<Add>("k").take(), Ok(Ok(2)));
        sleep(SECOND).unwrap();
        assert_eq!(pool.result::<Add>("k").take(), Ok(Err(RemoteError::TooOld)));
    });
    ran.unwrap();
}

#[test]
fn a_cancellation_that_was_early_is_not_that_of_a_later_job_of_its_key() {
    let ran = Sim::new(1).run(|| {
        let pool = Pool::local_here(quiet().keep_results(SECOND));
        let add = || pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().key("k")).take();
        assert_eq!(pool.cancel::<Add>("k"), Ok(true));
        assert_eq!(add(), Ok(Err(RemoteError::Cancelled)));
        sleep(2 * SECOND).unwrap();
        assert_eq!(add(), Ok(Ok(2)));
        assert_eq!(pool.cancel::<Add>("k"), Ok(false));
        sleep(2 * SECOND).unwrap();
        assert_eq!(add(), Ok(Ok(2)));
    });
    ran.unwrap();
}

#[test]
fn a_record_without_a_key_is_forgotten_once_it_is_read() {
    let ran = Sim::new(1).run(|| {
        let pool = Pool::local_here(quiet());
        let id = pool.submit(OwnId {}).take().unwrap().unwrap();
        sleep(SECOND).unwrap();
        assert_eq!(pool.engine().read(&id), Ok(None));
        let keyed = pool.submit_with(OwnId {}, SubmitOptions::new().key("k")).take().unwrap().unwrap();
        sleep(SECOND).unwrap();
        assert!(pool.engine().read(&keyed).unwrap().is_some());
        // A worker that comes late stores nothing where all is over.
        let (engine, kind) = (pool.engine(), Kind::new("raw", 1));
        let job = Envelope {
            id: "raw-1".to_owned(),
            kind: kind.clone(),
            format: "json".to_owned(),
            attempts: 3,
            limit: None,
            trace: None,
            arguments: Vec::new(),
        };
        engine.enqueue(&job).unwrap();
        let lease = engine.lease(&kind).unwrap().next(1).unwrap();
        let record = Record { kind, attempt: 1, outcome: Outcome::Done(Vec::new()) };
        assert_eq!(engine.finish("raw-1", &record, None), Ok(true));
        engine.forget("raw-1");
        assert_eq!(engine.finish("raw-1", &record, Some(&lease)), Ok(false));
        assert_eq!(engine.read("raw-1"), Ok(None));
    });
    ran.unwrap();
}

segue::core::fiber_local! {
    static OF_SUBMITTER: std::cell::RefCell<u64> = std::cell::RefCell::new(0), inherited;
}

#[segue_remote::job]
fn of_submitter() -> u64 {
    OF_SUBMITTER.with_borrow(|value| *value)
}

#[test]
fn fiber_locals_of_a_submitter_reach_no_job() {
    let ran = Sim::new(1).run(|| {
        let pool = Pool::local_here(quiet());
        OF_SUBMITTER.with_borrow_mut(|value| *value = 7);
        assert_eq!(pool.submit(OfSubmitter {}).take(), Ok(Ok(0)));
    });
    ran.unwrap();
}

#[test]
fn times_without_an_end_are_very_long() {
    let ran = Sim::new(1).run(|| {
        let (max, zero) = (Duration::MAX, Duration::ZERO);
        let endless = quiet().ack_wait(max).keep_results(max).reread_every(max).unknown_after(max).retry_after(max);
        for options in [endless, quiet().ack_wait(zero).keep_results(zero).reread_every(zero).retry_after(zero)] {
            let pool = Pool::local_here(options);
            let submitted = pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().limit(max));
            assert_eq!(submitted.take(), Ok(Ok(2)));
            let none = pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().limit(zero));
            assert_eq!(none.take(), Ok(Err(RemoteError::TimedOut)));
        }
    });
    ran.unwrap();
}

#[test]
fn under_all_schedules_each_job_has_one_result_and_nothing_is_left() {
    let explored = Explore::random(300).leaks(Leaks::Forbid).check(|| {
        let (pool, tag) = (Pool::local_here(quiet().max_jobs(2).reread_every(SECOND)), fresh("schedules"));
        let key = || SubmitOptions::new().key("k");
        segue::scope(|s| {
            let sum = s.spawn(|| pool.submit(Add { a: 1, b: 1 }).take());
            let failed = s.spawn(|| pool.submit(Fails { message: "no".to_owned() }).take());
            // Before, while or after it runs; or while it waits for room.
            s.spawn(|| drop(pool.submit(Takes { ms: 1, tag: tag.clone() })));
            let shared = s.spawn(|| pool.submit_with(Takes { ms: 2, tag: tag.clone() }, key()).take());
            let cancelled = s.spawn(|| pool.cancel::<Takes>("k"));
            assert_eq!(sum.join().unwrap(), Ok(Ok(2)));
            assert_eq!(failed.join().unwrap(), Ok(Err(RemoteError::Failed("no".to_owned()))));
            let expected = if cancelled.join().unwrap().unwrap() { Err(RemoteError::Cancelled) } else { Ok(2) };
            assert_eq!(shared.join().unwrap(), Ok(expected));
        });
        sleep(10 * SECOND).unwrap();
        assert_eq!(pool.engine().signals().counts(), (0, 0));
        drop(pool);
        sleep(SECOND).unwrap();
    });
    println!("{explored:?}");
}
