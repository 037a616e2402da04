//! Servers, workers and networks that die, are silent, and come back.

use crate::jobs::{Add, LeavesALine, Takes, counted, fresh, lines, with_all};
use crate::server::{Process, Proxy, Server, Stop};
use crate::until;
use segue_remote::{Options, Pool, SubmitOptions, Worker};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The settings of all these tests, in all their processes.
pub fn options(pool: &str, ack_wait: u64) -> Options {
    Options::new(pool)
        .ack_wait(Duration::from_millis(ack_wait))
        .reread_every(Duration::from_millis(200))
        .retry_after(Duration::from_millis(1))
        .connect(async_nats::ConnectOptions::new().reconnect_delay_callback(|_| Duration::from_millis(5)))
        .log(|line| println!("   {} {line}", std::process::id()))
}

/// Not a test: the worker that `Process` starts.
#[test]
#[ignore = "started by other tests, with variables that say where the pool is"]
fn child_worker() {
    let variable = |name: &str| std::env::var(name).expect("it is set by `Process`");
    let ack_wait = variable("SEGUE_REMOTE_ACK_WAIT").parse().unwrap();
    std::thread::spawn(|| {
        let _parent_has_ended = std::io::stdin().read(&mut [0]);
        std::process::exit(2);
    });
    let mut pool = None;
    until("there is a server", || {
        let options = options(&variable("SEGUE_REMOTE_POOL"), ack_wait);
        pool = Pool::nats(&variable("SEGUE_REMOTE_URL"), options).ok();
        pool.is_some()
    });
    with_all(Worker::new(pool.unwrap())).run().unwrap();
}

#[test]
fn a_server_that_is_killed_while_jobs_run_loses_none() {
    let Some(mut server) = Server::start() else { return };
    let pool = Pool::nats(&server.url(), options("killed", 2000)).unwrap();
    let worker = Stop::of(with_all(Worker::new(pool.clone())).at_most(4));
    let tag = fresh("killed");
    let mut promises = Vec::new();
    for _ in 0..2 {
        let begun = counted(&tag);
        // All of an earlier round may have run while the late submit waited.
        promises.extend((0..20).map(|n| (20 + n, pool.submit(Takes { ms: 20 + n, tag: tag.clone() }))));
        until("more jobs run", || counted(&tag) > begun + 2);
        server.kill();
        // Submitted while there is no server: the submit waits.
        let pool = pool.clone();
        let late = segue::spawn(move || pool.submit(Add { a: 1, b: 1 }));
        assert!(server.run());
        assert_eq!(late.join().unwrap().take(), Ok(Ok(2)));
    }
    for (ms, promise) in promises {
        assert_eq!(promise.take(), Ok(Ok(ms)));
    }
    let summary = worker.finish();
    assert!(summary.executions >= 42 && summary.given_up == 0, "{summary:?}");
}

#[test]
fn the_jobs_of_a_worker_that_is_killed_come_to_another() {
    let Some(server) = Server::start() else { return };
    let (pool, files) = (Pool::nats(&server.url(), options("dies", 500)).unwrap(), server.files());
    let mut one = Process::start(&server.url(), "dies", 500);
    let job = LeavesALine { number: 1, ms: 300, directory: files.to_str().unwrap().to_owned() };
    let promise = pool.submit(job);
    until("it runs", || lines(&files).len() == 1);
    one.kill();
    let _other = Process::start(&server.url(), "dies", 500);
    let (_, by) = promise.take().unwrap().unwrap();
    let lines = lines(&files);
    assert!(lines.len() == 2 && lines.contains(&(1, by)), "{lines:?} {by}");
}

#[test]
fn a_worker_that_was_stopped_for_longer_than_its_ack_wait_comes_second() {
    let Some(server) = Server::start() else { return };
    let (pool, files) = (Pool::nats(&server.url(), options("stopped", 500)).unwrap(), server.files());
    let mut one = Process::start(&server.url(), "stopped", 500);
    let job = LeavesALine { number: 1, ms: 200, directory: files.to_str().unwrap().to_owned() };
    let promise = pool.submit_with(job, SubmitOptions::new().key("stopped"));
    until("it runs", || lines(&files).len() == 1);
    one.signal("STOP");
    let mut other = Process::start(&server.url(), "stopped", 500);
    let (_, by) = promise.take().unwrap().unwrap();
    one.signal("CONT");
    // Both end when they are asked to, the first after its job.
    for process in [&mut one, &mut other] {
        process.signal("TERM");
        assert!(process.ends());
    }
    let lines = lines(&files);
    assert!(lines.len() == 2 && lines.iter().any(|(_, process)| *process != by), "{lines:?} {by}");
    assert_eq!(pool.result::<LeavesALine>("stopped").take(), Ok(Ok((1, by))));
}

#[test]
fn a_worker_finishes_its_jobs_on_sigterm_and_takes_no_more() {
    let Some(server) = Server::start() else { return };
    let (pool, files) = (Pool::nats(&server.url(), options("drains", 5000)).unwrap(), server.files());
    let mut worker = Process::start(&server.url(), "drains", 5000);
    let job = |number| LeavesALine { number, ms: 200, directory: files.to_str().unwrap().to_owned() };
    let promise = pool.submit(job(1));
    until("it runs", || lines(&files).len() == 1);
    worker.signal("TERM");
    assert!(worker.ends());
    let (_, by) = promise.take().unwrap().unwrap();
    let next = pool.submit(job(2));
    let _other = Process::start(&server.url(), "drains", 5000);
    assert_ne!(next.take().unwrap().unwrap().1, by);
    assert_eq!(lines(&files).len(), 2);
}

#[test]
fn a_network_that_is_cut_and_healed_loses_nothing() {
    let Some(server) = Server::start() else { return };
    let proxies = [Proxy::to(server.port), Proxy::to(server.port)];
    let pool = Pool::nats(&proxies[0].url(), options("cut", 1000)).unwrap();
    let worker = Stop::of(with_all(Worker::new(Pool::nats(&proxies[1].url(), options("cut", 1000)).unwrap())));
    for (round, proxy) in [0, 1, 0, 1].into_iter().zip(proxies.iter().cycle()) {
        let tag = fresh("cut");
        let promises: Vec<_> = (0..10).map(|n| pool.submit(Takes { ms: 10 * n, tag: tag.clone() })).collect();
        until("some run", || counted(&tag) > 2);
        proxy.cut();
        let late = segue::spawn({
            let pool = pool.clone();
            move || pool.submit(Add { a: round, b: 1 })
        });
        // Longer than the jobs, shorter than the ack wait.
        segue::sleep(Duration::from_millis(50)).unwrap();
        proxy.heal();
        for (n, promise) in (0..).zip(promises) {
            assert_eq!(promise.take(), Ok(Ok(10 * n)));
        }
        assert_eq!(late.join().unwrap().take(), Ok(Ok(round + 1)));
    }
    assert!(worker.finish().finished >= 40);
}

/// How often; `SEGUE_REMOTE_RECONNECTS` says another number.
const RECONNECTS: u64 = 1000;

#[test]
fn a_thousand_reconnects_leave_no_consumer_behind() {
    let Some(server) = Server::start() else { return };
    let proxy = Proxy::to(server.port);
    let connects = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&connects);
    let options = options("reconnects", 5000)
        .connect(async_nats::ConnectOptions::new().reconnect_delay_callback(|_| Duration::ZERO))
        .log(move |line| _ = counts.fetch_add(u64::from(line == "connected again"), Ordering::SeqCst));
    let pool = Pool::nats(&proxy.url(), options).unwrap();
    let worker = Stop::of(Worker::new(pool.clone()).register::<Add>());
    assert_eq!(pool.submit(Add { a: 0, b: 0 }).take(), Ok(Ok(0)));
    let often = std::env::var("SEGUE_REMOTE_RECONNECTS").map_or(RECONNECTS, |often| often.parse().unwrap());
    for n in 0..often {
        proxy.drop_all();
        until("it has connected again", || connects.load(Ordering::SeqCst) > n);
    }
    assert_eq!(pool.submit(Add { a: 1, b: 1 }).take(), Ok(Ok(2)));
    assert_eq!(server.consumers("SEGUE_reconnects_JOBS"), 1);
    assert_eq!(server.consumers("KV_SEGUE_reconnects_RESULTS"), 0);
    until("nothing is left", || pool.engine().signals().counts() == (0, 0));
    worker.finish();
}
