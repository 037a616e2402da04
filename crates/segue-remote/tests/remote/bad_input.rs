//! What others do to a pool at a server: wrong bytes, wrong settings, streams that are deleted.

use crate::faults::options;
use crate::jobs::{Add, Greet9, Length, Letters, RunsOn, Takes, counted, fresh, with_all};
use crate::server::{Server, Stop};
use crate::until;
use segue_remote::engine::{Kind, Outcome, Record};
use segue_remote::{Pool, RemoteError, SubmitOptions, Worker};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn arguments_and_results_over_the_servers_limit_are_errors() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("large", 5000)).unwrap();
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    let mega = 1 << 20;
    let length = |bytes| pool.submit(Length { text: "a".repeat(bytes) }).take().unwrap();
    assert_eq!(length(mega - 2000), Ok(mega - 2000));
    let Err(RemoteError::Refused(why)) = length(mega) else { panic!("it is too large") };
    assert!(why.contains("max"), "{why}");
    let letters = |number| pool.submit(Letters { number }).take().unwrap();
    assert_eq!(letters(mega - 2000).map(|text| text.len()), Ok(mega - 2000));
    let Err(RemoteError::Failed(why)) = letters(mega) else { panic!("it is too large") };
    assert!(why.contains("can't be stored"), "{why}");
}

#[test]
fn a_version_that_no_worker_has_is_an_error_after_a_while() {
    let Some(server) = Server::start() else { return };
    let options = options("version", 5000).unknown_after(Duration::from_millis(300));
    let pool = Pool::nats(&server.url(), options).unwrap();
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    let unknown = RemoteError::NoSuchJob { name: "greet".to_owned(), version: 9 };
    assert_eq!(pool.submit(Greet9 {}).take(), Ok(Err(unknown.clone())));
    assert_eq!(pool.submit_with(Greet9 {}, SubmitOptions::new().key("k")).take(), Ok(Err(unknown)));
    assert_eq!(pool.submit(Add { a: 1, b: 1 }).take(), Ok(Ok(2)));
}

#[test]
fn a_first_worker_that_comes_late_has_the_jobs_that_wait() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("late", 5000)).unwrap();
    let promise = pool.submit(Add { a: 1, b: 1 });
    until("a reading has passed", || segue::timeout(Duration::from_millis(300), || promise.wait().is_err()));
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    assert_eq!(promise.take(), Ok(Ok(2)));
}

#[test]
fn jobs_of_other_programs_are_run_and_wrong_ones_are_dead_letters() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("foreign", 5000)).unwrap();
    let worker = Stop::of(with_all(Worker::new(pool.clone())));
    assert_eq!(pool.submit(Add { a: 1, b: 1 }).take(), Ok(Ok(2)));
    let engine = pool.engine();
    // A plain publish, without a header.
    server.publish("segue.foreign.job.add.1.mine-1", "{\"a\":20,\"b\":1}");
    until("it is done", || engine.read("mine-1").unwrap().is_some());
    assert_eq!(engine.read("mine-1").unwrap().unwrap().outcome, Outcome::Done(b"21".to_vec()));
    for (id, payload) in [("bad-1", ""), ("bad-2", "{\"a\":1}"), ("bad-3", "\u{1}\u{2}"), ("bad-4", "[[[[")] {
        server.publish(&format!("segue.foreign.job.add.1.{id}"), payload);
        until("it is given up", || engine.read(id).unwrap().is_some());
        // The letter follows the record.
        until("its letter is there", || pool.dead_letters(10).unwrap().iter().any(|letter| letter.id == id));
    }
    let letters = pool.dead_letters(10).unwrap();
    let ids: Vec<&str> = letters.iter().map(|letter| letter.id.as_str()).collect();
    assert_eq!(ids, ["bad-1", "bad-2", "bad-3", "bad-4"]);
    assert!(letters.iter().all(|letter| letter.reason.contains("do not parse") && letter.attempts == 1));

    // One job twice, as by a submitter that has no message ids: one result.
    let tag = fresh("twice");
    for _ in 0..2 {
        server.publish("segue.foreign.job.takes.1.twice-1", &format!("{{\"ms\":20,\"tag\":\"{tag}\"}}"));
    }
    until("it is done", || engine.read("twice-1").unwrap().is_some());
    until("both have left", || !engine.is_queued(&Kind::new("takes", 1), "twice-1").unwrap());
    let summary = worker.finish();
    assert_eq!((summary.finished, summary.given_up), (3, 4), "{summary:?}");
    assert_eq!(summary.later, 1);
}

#[test]
fn two_submits_of_one_message_are_one_job() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("once", 5000)).unwrap();
    let (tag, key) = (fresh("once"), SubmitOptions::new().key("key"));
    let jobs = [1, 2, 3].map(|ms| pool.submit_with(Takes { ms, tag: tag.clone() }, key.clone()));
    assert_eq!(server.ask("STREAM.INFO.SEGUE_once_JOBS", "")["state"]["messages"], 1);
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    let results = jobs.map(|promise| promise.take().unwrap());
    assert_eq!(results, [Ok(1), Ok(1), Ok(1)]);
    assert_eq!(counted(&tag), 1);
}

#[test]
fn streams_that_are_deleted_are_made_anew_and_what_was_there_is_too_old() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("deleted", 5000)).unwrap();
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    let add = |key: &str| pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().key(key)).take();
    assert_eq!(add("before"), Ok(Ok(2)));
    let delete = |stream: &str| assert_eq!(server.ask(&format!("STREAM.DELETE.{stream}"), "")["success"], true);

    // The bucket, while a job runs.
    let tag = fresh("deleted");
    let promise = pool.submit(Takes { ms: 200, tag: tag.clone() });
    until("it runs", || counted(&tag) == 1);
    delete("KV_SEGUE_deleted_RESULTS");
    assert_eq!(pool.result::<Add>("before").take(), Ok(Err(RemoteError::TooOld)));
    assert_eq!(promise.take(), Ok(Ok(200)));
    assert_eq!(add("after"), Ok(Ok(2)));

    // The queue, with a job that runs and its consumers.
    let tag = fresh("deleted");
    let promise = pool.submit(RunsOn { tag: tag.clone() });
    until("it runs", || counted(&format!("{tag} begun")) == 1);
    delete("SEGUE_deleted_JOBS");
    assert_eq!(promise.take(), Ok(Err(RemoteError::TooOld)));
    assert_eq!(add("more"), Ok(Ok(2)));
}

#[test]
fn a_record_is_found_without_a_hint() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("hintless", 60_000)).unwrap();
    let promise = pool.submit_with(Add { a: 1, b: 1 }, SubmitOptions::new().key("k"));
    // As by a worker whose hint was lost.
    let record = Record { kind: Kind::new("add", 1), attempt: 1, outcome: Outcome::Done(b"7".to_vec()) };
    server.publish("$KV.SEGUE_hintless_RESULTS.add/k", std::str::from_utf8(&record.to_bytes()).unwrap());
    assert_eq!(promise.take(), Ok(Ok(7)));
}

#[test]
fn a_record_that_is_none_is_refused() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("garbage", 60_000)).unwrap();
    for (key, bytes) in [("a", "garbage"), ("b", "{}\n"), ("c", "")] {
        server.publish(&format!("$KV.SEGUE_garbage_RESULTS.add/{key}"), bytes);
        assert!(matches!(pool.result::<Add>(key).take(), Ok(Err(RemoteError::Refused(_)))), "{bytes}");
    }
    let other = Record { kind: Kind::new("add", 2), attempt: 1, outcome: Outcome::Done(b"7".to_vec()) };
    server.publish("$KV.SEGUE_garbage_RESULTS.add/d", std::str::from_utf8(&other.to_bytes()).unwrap());
    let Ok(Err(RemoteError::Refused(why))) = pool.result::<Add>("d").take() else { panic!("of another version") };
    assert!(why.contains("add v2"), "{why}");
}

#[test]
fn a_pool_with_other_settings_is_refused_and_says_which() {
    let Some(server) = Server::start() else { return };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let make = |max_jobs| {
        let kept = Arc::clone(&kept);
        let options = options("settings", 5000).max_jobs(max_jobs);
        Pool::nats(&server.url(), options.log(move |line| kept.lock().unwrap().push(line.to_owned())))
    };
    let pool = make(10).unwrap();
    let Err(RemoteError::Refused(why)) = make(20) else { panic!("other settings") };
    assert!(why.contains("max_jobs 10") && why.contains("max_jobs 20"), "{why}");
    let same = make(10).unwrap();
    let lines = lines.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains("syncs to its disk every two minutes")), "{lines:?}");
    drop((pool, same));
    for (name, of) in [("", "name"), ("a.b", "name"), ("a b", "name")] {
        let Err(RemoteError::Refused(why)) = Pool::nats(&server.url(), options(name, 5000)) else { panic!("{name}") };
        assert!(why.contains(of), "{why}");
    }
}

#[test]
fn a_server_that_is_not_there_is_an_error() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let pool = Pool::nats(&format!("nats://127.0.0.1:{port}"), options("nowhere", 5000));
    assert!(matches!(pool, Err(RemoteError::Unavailable(_))), "{pool:?}");
    assert!(Pool::nats("no address", options("nowhere", 5000)).is_err());
}

#[test]
fn a_worker_that_died_before_its_dead_letter_leaves_that_to_the_next() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("letter", 5000)).unwrap();
    let (engine, kind) = (pool.engine(), Kind::new("add", 1));
    let mut leases = engine.lease(&kind).unwrap();
    server.publish("segue.letter.job.add.1.lost-1", "{\"a\":1,\"b\":1}");
    let lease = leases.next(1).unwrap();
    let record = Record { kind, attempt: 1, outcome: Outcome::GaveUp("planted".to_owned()) };
    server.publish("$KV.SEGUE_letter_RESULTS.lost-1", std::str::from_utf8(&record.to_bytes()).unwrap());
    engine.put_back(&lease, Duration::ZERO).unwrap();
    drop(leases);
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    until("it is a dead letter", || pool.dead_letters(10).unwrap().len() == 1);
    assert_eq!(pool.dead_letters(10).unwrap()[0].reason, "planted");
}
