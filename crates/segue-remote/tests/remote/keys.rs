//! Keys at a server, records that others have written or deleted, and servers that are too old.

use crate::faults::options;
use crate::jobs::{Add, RunsOn, counted, fresh, with_all};
use crate::server::{Proxy, Server, Stop};
use crate::until;
use segue_remote::engine::Kind;
use segue_remote::{Pool, RemoteError, SubmitOptions, Worker};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_job_with_a_record_that_is_none_is_a_dead_letter() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("unreadable", 1000)).unwrap();
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    server.publish("$KV.SEGUE_unreadable_RESULTS.add/k", "garbage");
    server.publish("segue.unreadable.job.add.1.add/k", "{\"a\":1,\"b\":1}");
    until("there is a letter", || !pool.dead_letters(10).unwrap().is_empty());
    let letters = pool.dead_letters(10).unwrap();
    assert!(letters[0].id == "add/k" && letters[0].reason.contains("can't be read"), "{letters:?}");
    until("it has left", || !pool.engine().is_queued(&Kind::new("add", 1), "add/k").unwrap());
}

#[test]
fn a_key_that_somebody_has_deleted_is_free() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("marker", 1000)).unwrap();
    let _worker = Stop::of(with_all(Worker::new(pool.clone())));
    let add = |a| pool.submit_with(Add { a, b: 1 }, SubmitOptions::new().key("k")).take();
    assert_eq!(add(1), Ok(Ok(2)));
    // As the server's own tools delete a key.
    server.publish_with("$KV.SEGUE_marker_RESULTS.add/k", "KV-Operation", "DEL");
    assert_eq!(pool.result::<Add>("k").take(), Ok(Err(RemoteError::TooOld)));
    assert_eq!(add(5), Ok(Ok(6)));
    assert_eq!(add(1), Ok(Ok(6)));
}

#[test]
fn a_kind_without_workers_is_forgotten_after_a_week_and_ten_thousand_may_ask() {
    let Some(server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("retired", 1000)).unwrap();
    drop(pool.engine().lease(&Kind::new("raw", 1)).unwrap());
    let config = server.ask("CONSUMER.INFO.SEGUE_retired_JOBS.raw_v1", "")["config"].clone();
    assert_eq!(config["inactive_threshold"], 7 * 24 * 3600 * 1_000_000_000_u64);
    assert_eq!(config["max_waiting"], 10_000);
}

#[test]
fn a_limit_holds_while_the_server_is_away() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::to(server.port);
    let pool = Pool::nats(&proxy.url(), options("away", 1000)).unwrap();
    let tag = fresh("away");
    let _worker = Stop::of(with_all(Worker::new(Pool::nats(&server.url(), options("away", 1000)).unwrap())));
    let limit = SubmitOptions::new().limit(Duration::from_secs(1));
    let began = Instant::now();
    let promise = pool.submit_with(RunsOn { tag: tag.clone() }, limit);
    until("it runs", || counted(&format!("{tag} begun")) == 1);
    proxy.cut();
    assert_eq!(promise.take(), Ok(Err(RemoteError::TimedOut)));
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    proxy.heal();
    until("nothing is left", || pool.engine().signals().counts().0 == 0);
}

#[test]
fn a_server_that_is_too_old_is_refused_before_it_is_changed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, heard) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let hears = Arc::clone(&heard);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut answers = stream.try_clone().unwrap();
            let info = r#"INFO {"server_id":"a","version":"2.8.4","go":"go1.18","host":"127.0.0.1","port":4222,
                "headers":true,"max_payload":1048576,"proto":1,"jetstream":true}"#
                .replace('\n', "");
            let _gone = answers.write_all(format!("{info}\r\n").as_bytes());
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if line.starts_with("PING") {
                    let _gone = answers.write_all(b"PONG\r\n");
                }
                hears.lock().unwrap().push(line);
            }
        }
    });
    let pool = Pool::nats(&format!("nats://127.0.0.1:{port}"), options("old", 1000));
    let Err(RemoteError::Refused(why)) = pool else { panic!("{pool:?}") };
    assert!(why.contains("2.9.10"), "{why}");
    let heard = heard.lock().unwrap();
    assert!(!heard.iter().any(|line| line.contains("$JS.API")), "{heard:?}");
}
