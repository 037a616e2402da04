//! Conservation: under seeded schedules of faults each job has exactly one result or one dead
//! letter.
//!
//! By default the storms are short. `SEGUE_REMOTE_JOBS` says how many jobs one has, and
//! `SEGUE_REMOTE_SECONDS` for how long faults are planted:
//!
//! ```text
//! SEGUE_REMOTE_JOBS=100000 SEGUE_REMOTE_SECONDS=600 cargo test --release -p segue-remote \
//!     --features nats --test remote -- --exact storm::each_job_has_one_result_or_is_one_dead_letter --nocapture
//! ```

use crate::faults::options;
use crate::jobs::{LeavesALine, lines, with_all};
use crate::server::{Process, Proxy, Server, Stop};
use crate::until;
use fastrand::Rng;
use segue_remote::{Pool, RemoteError, SubmitOptions, Worker};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ACK_WAIT: u64 = 1500;

#[test]
fn without_faults_executions_are_acknowledgements() {
    let Some(server) = Server::start() else { return };
    let (pool, files) = (Pool::nats(&server.url(), options("calm", 5000)).unwrap(), server.files());
    let workers = [(); 2].map(|()| Stop::of(with_all(Worker::new(pool.clone()))));
    let directory = files.to_str().unwrap();
    // Without one that panics.
    let jobs = (0..400).filter(|number| number % 50 != 49);
    let jobs = jobs.map(|number| LeavesALine { number, ms: 1, directory: directory.to_owned() });
    let results: Vec<_> = pool.map(jobs, 50).collect();
    assert!(results.len() == 392 && results.iter().all(Result::is_ok));
    let info = || server.ask("CONSUMER.INFO.SEGUE_calm_JOBS.leaves_a_line_v1", "");
    until("all is acknowledged", || info()["num_ack_pending"] == 0);
    let info = info();
    assert_eq!((&info["delivered"]["consumer_seq"], &info["ack_floor"]["consumer_seq"]), (&392.into(), &392.into()));
    let summaries = workers.map(Stop::finish);
    let executions: u64 = summaries.iter().map(|summary| summary.executions).sum();
    let finished: u64 = summaries.iter().map(|summary| summary.finished).sum();
    assert_eq!((executions, finished, lines(&files).len()), (392, 392, 392));
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |number| number.parse().unwrap())
}

/// Plants faults until told to stop: one after the other, as the seed says.
fn plant(
    server: &mut Server,
    proxy: &Proxy,
    stop: &AtomicBool,
    rng: &mut Rng,
) -> (HashMap<&'static str, u64>, Vec<Process>) {
    let start = |server: &Server| Process::start(&server.url(), "storm", ACK_WAIT);
    let mut workers: Vec<Process> = (0..3).map(|_| start(server)).collect();
    let mut planted = HashMap::new();
    while !stop.load(Ordering::SeqCst) {
        let worker = rng.usize(0..workers.len());
        let fault =
            ["a server is killed", "a worker is killed", "a worker is stopped", "a network is cut"][rng.usize(0..4)];
        *planted.entry(fault).or_default() += 1;
        match fault {
            "a server is killed" => {
                server.kill();
                segue::sleep(Duration::from_millis(rng.u64(0..50))).unwrap();
                assert!(server.run());
            }
            "a worker is killed" => {
                workers[worker].kill();
                workers[worker] = start(server);
            }
            "a worker is stopped" => {
                workers[worker].signal("STOP");
                // Sometimes for longer than the ack wait.
                until("it was silent", {
                    let end = Instant::now() + Duration::from_millis(rng.u64(0..2 * ACK_WAIT));
                    move || Instant::now() > end
                });
                workers[worker].signal("CONT");
            }
            _ => {
                proxy.cut();
                segue::sleep(Duration::from_millis(rng.u64(0..50))).unwrap();
                proxy.heal();
            }
        }
        let end = Instant::now() + Duration::from_millis(rng.u64(0..500));
        until("the next fault is due", || Instant::now() > end || stop.load(Ordering::SeqCst));
    }
    (planted, workers)
}

#[test]
fn each_job_has_one_result_or_is_one_dead_letter() {
    let Some(mut server) = Server::start() else { return };
    let (jobs, seconds) = (number("SEGUE_REMOTE_JOBS", 400), number("SEGUE_REMOTE_SECONDS", 8));
    let mut rng = Rng::with_seed(number("SEGUE_REMOTE_SEED", 1));
    let (proxy, files) = (Proxy::to(server.port), server.files());
    let pool = Pool::nats(&proxy.url(), options("storm", ACK_WAIT)).unwrap();
    let (stop, began) = (AtomicBool::new(false), Instant::now());
    let at_once = 2000.min(jobs as usize / 4);
    let pace = Duration::from_secs(seconds) / u32::try_from(jobs).unwrap();
    let directory = files.to_str().unwrap().to_owned();

    let (results, (planted, _workers)) = segue::scope(|s| {
        let planting = s.spawn(|| plant(&mut server, &proxy, &stop, &mut rng));
        let mut flying = std::collections::VecDeque::new();
        let mut results = Vec::new();
        let taken = |number: u64, promise: segue::sync::Promise<_>| {
            let result = segue::timeout(Duration::from_secs(120), || promise.take());
            (
                number,
                result.unwrap_or_else(|error| panic!("no result of {number} after {:?}: {error}", began.elapsed())),
            )
        };
        for number in 0..jobs {
            // Jobs arrive for as long as faults do.
            let due = began + pace * u32::try_from(number).unwrap();
            segue::at(Some(due)).wait().unwrap();
            let options = SubmitOptions::new().attempts(if number % 50 == 49 { 2 } else { 1000 });
            let job = LeavesALine { number, ms: number % 20, directory: directory.clone() };
            let promise = pool.submit_with(job, options);
            if number % 40 == 13 {
                // Nobody wants this one; it has a result for all that.
                drop(promise);
                continue;
            }
            flying.push_back((number, promise));
            if flying.len() > at_once {
                let (number, promise) = flying.pop_front().unwrap();
                results.push(taken(number, promise));
            }
        }
        stop.store(true, Ordering::SeqCst);
        let planted = planting.join().unwrap();
        results.extend(flying.into_iter().map(|(number, promise)| taken(number, promise)));
        (results, planted)
    });

    let mut given_up = 0;
    for (number, result) in &results {
        match result {
            Ok((answer, _)) => assert!(answer == number && number % 50 != 49, "{number}"),
            Err(RemoteError::GaveUp { .. }) => {
                assert_eq!(number % 50, 49);
                given_up += 1;
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
    let dropped = (0..jobs).filter(|number| number % 40 == 13).count();
    assert_eq!(results.len() + dropped, jobs as usize);
    // A worker that dies between record and letter leaves the letter to the next one.
    until("all letters are there", || pool.dead_letters(usize::MAX).is_ok_and(|letters| letters.len() >= given_up));
    let letters = pool.dead_letters(usize::MAX).unwrap();
    let ids: HashSet<&str> = letters.iter().map(|letter| letter.id.as_str()).collect();
    assert_eq!((letters.len(), ids.len()), (given_up, given_up));
    let lines = lines(&files);
    let executed: HashSet<u64> = lines.iter().map(|(number, _)| *number).collect();
    assert!(results.iter().all(|(number, _)| executed.contains(number)), "a result without an execution");
    println!(
        "{jobs} jobs in {:?}: {} results, {given_up} dead letters, {dropped} dropped, {} executions; {planted:?}",
        began.elapsed(),
        results.len() - given_up,
        lines.len(),
    );
    assert!(planted.values().sum::<u64>() > 0);
}
