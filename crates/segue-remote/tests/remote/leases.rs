//! Leases of a server: of workers that compute, wait, end early, or miss a hint.

use crate::faults::options;
use crate::jobs::{Add, Outlasts, RunsOn, SecondTime, Spins, Takes, counted, fresh, with_all};
use crate::server::{Proxy, Server, Stop};
use crate::until;
use segue::{CancelToken, timeout};
use segue_remote::engine::{Envelope, Kind};
use segue_remote::{Pool, SubmitOptions, Worker};
use std::time::Duration;

fn add(id: &str) -> Envelope {
    Envelope {
        id: id.to_owned(),
        kind: Kind::new("add", 1),
        format: "json".to_owned(),
        attempts: 3,
        limit: None,
        trace: None,
        arguments: b"{\"a\":1,\"b\":1}".to_vec(),
    }
}

#[test]
fn a_job_that_computes_keeps_its_lease() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("computes", 600)).unwrap();
    let (fibers, token) = (segue::runtime().workers(1).pool().unwrap(), CancelToken::new());
    let (works, runs) = (Worker::new(pool.clone()).register::<Spins>().at_most(1), token.clone());
    let worker = fibers.spawn(move || runs.run(|| works.run()));
    let tag = fresh("computes");
    let promise = pool.submit_with(Spins { ms: 2400, tag: tag.clone() }, SubmitOptions::new().attempts(1));
    until("it runs", || counted(&tag) == 1);
    let mut leases = pool.engine().lease(&Kind::new("spins", 1)).unwrap();
    let other = timeout(Duration::from_millis(1800), || leases.next(1));
    assert!(other.is_err(), "{other:?}");
    assert_eq!(promise.take(), Ok(Ok(2400)));
    token.ask_to_finish();
    let summary = worker.join().unwrap().unwrap();
    assert_eq!((summary.executions, summary.finished), (1, 1));
}

#[test]
fn jobs_that_wait_in_a_worker_are_not_given_up() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("inbox", 600)).unwrap();
    let (asks, tag) = ([Kind::new("takes", 1), Kind::new("add", 1)], fresh("inbox"));
    let worker = Stop::of(Worker::new(pool.clone()).register::<Takes>().register::<Add>().at_most(3));
    for kind in asks {
        let consumer = format!("CONSUMER.INFO.SEGUE_inbox_JOBS.{}_v1", kind.name);
        until("the worker has asked", || server.ask(&consumer, "")["num_waiting"] == 1);
    }
    let once = || SubmitOptions::new().attempts(1);
    let slow: Vec<_> = (0..3).map(|_| pool.submit_with(Takes { ms: 2500, tag: tag.clone() }, once())).collect();
    until("all slots are taken", || counted(&tag) == 3);
    let quick: Vec<_> = (0..3).map(|n| pool.submit_with(Add { a: n, b: 1 }, once())).collect();
    until("they are here", || server.ask("CONSUMER.INFO.SEGUE_inbox_JOBS.add_v1", "")["num_ack_pending"] == 3);
    // To another worker a second delivery would be an attempt too many.
    let other = Stop::of(Worker::new(pool.clone()).register::<Add>());
    assert!(slow.into_iter().all(|promise| promise.take() == Ok(Ok(2500))));
    for (n, promise) in (0..).zip(quick) {
        assert_eq!(promise.take(), Ok(Ok(n + 1)));
    }
    assert_eq!((worker.finish().executions, other.finish().executions), (6, 0));
}

#[test]
fn a_job_that_was_cancelled_while_it_waited_in_a_worker_does_not_begin() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("waited", 500)).unwrap();
    let (first, others) = (fresh("waited"), fresh("waited"));
    let _worker = Stop::of(Worker::new(pool.clone()).register::<Takes>().register::<Outlasts>().at_most(3));
    for name in ["takes", "outlasts"] {
        let consumer = format!("CONSUMER.INFO.SEGUE_waited_JOBS.{name}_v1");
        until("the worker has asked", || server.ask(&consumer, "")["num_waiting"] == 1);
    }
    let slow: Vec<_> = (0..3).map(|_| pool.submit(Outlasts { ms: 4500, tag: first.clone() })).collect();
    until("all slots are taken", || counted(&first) == 3);
    let dropped: Vec<_> = (0..3).map(|_| pool.submit(Takes { ms: 0, tag: others.clone() })).collect();
    until("they are here", || server.ask("CONSUMER.INFO.SEGUE_waited_JOBS.takes_v1", "")["num_ack_pending"] == 3);
    drop(dropped);
    assert!(slow.into_iter().all(|promise| promise.take() == Ok(Ok(4500))));
    assert_eq!(pool.submit(Takes { ms: 1, tag: fresh("later") }).take(), Ok(Ok(1)));
    assert_eq!(counted(&others), 0);
}

#[test]
fn a_worker_that_ends_early_takes_no_attempt() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("aborts", 5000)).unwrap();
    let (worker, tag) = (Stop::of(with_all(Worker::new(pool.clone()))), fresh("aborts"));
    let promise = pool.submit_with(SecondTime { tag: tag.clone() }, SubmitOptions::new().attempts(1));
    until("it runs", || counted(&tag) == 1);
    drop(worker);
    let _other = Stop::of(with_all(Worker::new(pool.clone())));
    assert_eq!(promise.take(), Ok(Ok(1)));

    // Nor does one with jobs that it has not begun.
    let (engine, kind) = (pool.engine(), Kind::new("raw", 1));
    let mut leases = engine.lease(&kind).unwrap();
    for n in 0..3 {
        engine.enqueue(&Envelope { kind: kind.clone(), ..add(&format!("raw-{n}")) }).unwrap();
    }
    let began = leases.next(3).unwrap();
    until("the others are here", || server.ask("CONSUMER.INFO.SEGUE_aborts_JOBS.raw_v1", "")["num_ack_pending"] == 3);
    drop(leases);
    let mut leases = engine.lease(&kind).unwrap();
    for _ in 0..2 {
        let lease = timeout(Duration::from_secs(30), || leases.next(1)).unwrap();
        assert!(lease.attempt == 1 && lease.job.id != began.job.id, "{lease:?}");
    }
}

#[test]
fn a_worker_that_ends_early_stores_the_results_that_there_are() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("outlasts", 5000)).unwrap();
    let (worker, tag) = (Stop::of(with_all(Worker::new(pool.clone()))), fresh("outlasts"));
    let promise = pool.submit(Outlasts { ms: 300, tag: tag.clone() });
    until("it runs", || counted(&tag) == 1);
    drop(worker);
    assert_eq!(timeout(Duration::from_secs(30), || promise.take()), Ok(Ok(300)));
    assert_eq!(counted(&tag), 1);
}

#[test]
fn a_cancellation_that_a_worker_has_missed_is_caught_up() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::to(server.port);
    let pool = Pool::nats(&server.url(), options("missed", 1500)).unwrap();
    let of_worker = Pool::nats(&proxy.url(), options("missed", 1500)).unwrap();
    let (_worker, tag) = (Stop::of(with_all(Worker::new(of_worker))), fresh("missed"));
    let promise = pool.submit(RunsOn { tag: tag.clone() });
    until("it runs", || counted(&format!("{tag} begun")) == 1);
    proxy.cut();
    drop(promise);
    until("it is withdrawn", || pool.engine().signals().counts().0 == 0);
    proxy.heal();
    until("it is cancelled", || counted(&format!("{tag} ended")) == 1);
}

#[test]
fn requests_that_are_refused_are_repeated_at_intervals() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("crowded", 5000)).unwrap();
    let config = r#"{"stream_name":"SEGUE_crowded_JOBS","config":{"durable_name":"raw_v1","ack_policy":"explicit",
        "max_waiting":1,"filter_subject":"segue.crowded.job.raw.1.*","deliver_policy":"all","replay_policy":"instant"}}"#;
    let made = server.ask("CONSUMER.DURABLE.CREATE.SEGUE_crowded_JOBS.raw_v1", config);
    assert_eq!(made["config"]["max_waiting"], 1, "{made}");
    let requests = server.counts("$JS.API.CONSUMER.MSG.NEXT.>", || {
        segue::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let mut leases = pool.engine().lease(&Kind::new("raw", 1)).unwrap();
                    drop(timeout(Duration::from_secs(1), || leases.next(1)));
                });
            }
        });
    });
    assert!((3..50).contains(&requests), "{requests} requests in a second");
}
