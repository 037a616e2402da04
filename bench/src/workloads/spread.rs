//! `spread`: how evenly a scheduler uses its workers. The figure to look at is what the busiest
//! worker has, in shares: 1 is even, and as many as there are workers if it has everything.
//!
//! * *trickle*: 100 fibers or tasks come one a millisecond, wait until all are there, and then
//!   compute for 200 us each. An operation is a fiber; most of its time passes with waiting for the
//!   next one. A worker's share is that of the fibers that compute on it. On four workers also
//!   where there are fewer processors.
//! * *connections*: a server with two workers has 64 connections, over which it is asked for 10 us
//!   of computation each, 16 questions at a time. An operation is a question and its answer. A
//!   worker's share is that of the processor time that its thread has used meanwhile, as the
//!   operating system counts it.
//!
//! Timed: the trickle from the first spawn until all have computed; the questions, when all
//! connections are there and each was asked once. Not timed: starting the runtime. What is
//! computed is a loop over the clock, so a processor that has two workers gives each half as much:
//! shares of the time are then even by themselves, and only the counts of the trickle tell.

use super::{segue_run, tokio_runtime};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use segue::net::{TcpListener, TcpStream};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "spread", timed: "fibers that trickle in, connections: what the busiest worker has", variants };

/// So many trickle in.
const FIBERS: usize = 100;
/// And so many connections are there.
const CONNECTIONS: usize = 64;
/// How many of these are asked at a time.
const AT_A_TIME: usize = 16;

fn variants() -> Vec<Variant> {
    let trickle = |workers| {
        Variant::new(format!("trickle, {workers} workers"), "fiber", workers)
            .add(SEGUE, move |_| segue_run(workers, || fibers(workers)))
            .add("tokio", move |_| tokio(workers))
    };
    let connections = Variant::new("connections, 2 workers", "question", 2)
        .add(SEGUE, |n| connections(2, n))
        .absent("tokio", "this program has it without its network");
    vec![trickle(2), trickle(4), connections]
}

fn compute(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// On which threads computations were.
type Places = Mutex<Vec<ThreadId>>;

fn compute_here(places: &Places) {
    compute(Duration::from_micros(200));
    places.lock().expect("nobody panics").push(thread::current().id());
}

/// What each of the workers had; none for those that had nothing.
fn shares(places: &Places, workers: usize) -> Vec<f64> {
    let mut counts = HashMap::new();
    for place in &*places.lock().expect("nobody panics") {
        *counts.entry(*place).or_insert(0.0) += 1.0;
    }
    let mut shares: Vec<_> = counts.into_values().collect();
    shares.resize(workers, 0.0);
    shares
}

fn fibers(workers: usize) -> Span {
    let (places, gate) = (Arc::new(Places::default()), Arc::new(segue::sync::MVar::<()>::empty()));
    let watch = Stopwatch::start();
    let fibers: Vec<_> = (0..FIBERS)
        .map(|_| {
            let (places, gate) = (Arc::clone(&places), Arc::clone(&gate));
            let fiber = segue::spawn(move || {
                gate.read().expect("nobody cancels");
                compute_here(&places);
            });
            segue::sleep(Duration::from_millis(1)).expect("nobody cancels");
            fiber
        })
        .collect();
    gate.put(()).expect("nobody cancels");
    fibers.into_iter().for_each(|fiber| fiber.join().expect("no panic"));
    watch.stop(FIBERS as u64).with_shares(&shares(&places, workers))
}

/// It has no timers here: a thread spawns, which is outside, as the main task of a runtime with
/// several threads is.
fn tokio(workers: usize) -> Span {
    let runtime = tokio_runtime(workers);
    let (places, gate) = (Arc::new(Places::default()), Arc::new(tokio::sync::Semaphore::new(0)));
    let watch = Stopwatch::start();
    let tasks: Vec<_> = (0..FIBERS)
        .map(|_| {
            let (places, gate) = (Arc::clone(&places), Arc::clone(&gate));
            let task = runtime.spawn(async move {
                gate.acquire().await.expect("nobody closes it").forget();
                compute_here(&places);
            });
            thread::sleep(Duration::from_millis(1));
            task
        })
        .collect();
    gate.add_permits(FIBERS);
    tasks.into_iter().for_each(|task| runtime.block_on(task).expect("no panic"));
    watch.stop(FIBERS as u64).with_shares(&shares(&places, workers))
}

/// A byte for a byte.
fn answer(mut stream: TcpStream) {
    let mut byte = [0];
    while stream.read(&mut byte).is_ok_and(|read| read == 1) {
        compute(Duration::from_micros(10));
        if stream.write_all(&byte).is_err() {
            return;
        }
    }
}

fn connections(workers: usize, n: u64) -> Span {
    let name = "spread";
    let server = segue::runtime().name(name).workers(workers).pool().expect("segue starts");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    drop(server.spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            drop(segue::spawn(move || answer(stream)));
        }
    }));
    let mut clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let client = std::net::TcpStream::connect(address).expect("the server listens");
            client.set_nodelay(true).expect("it is a socket");
            client
        })
        .collect();
    let ask = |clients: &mut [std::net::TcpStream]| {
        clients.iter_mut().for_each(|client| client.write_all(&[1]).expect("the server answers"));
        clients.iter_mut().for_each(|client| client.read_exact(&mut [0]).expect("the server answers"));
    };
    ask(&mut clients);
    let before = processor_times(name);
    let watch = Stopwatch::start();
    let mut asked = 0;
    while asked < n {
        for some in clients.chunks_mut(AT_A_TIME) {
            ask(some);
        }
        asked += CONNECTIONS as u64;
    }
    let span = watch.stop(asked);
    let used: Vec<_> = processor_times(name).iter().zip(&before).map(|(after, before)| after - before).collect();
    assert_eq!(used.len(), workers, "each worker has a thread of that name");
    span.with_shares(&used)
}

/// The processor time that each worker of that name has used, in the order of their numbers. A
/// debug build also has a monitor.
fn processor_times(name: &str) -> Vec<f64> {
    let is_worker = |comm: &String| comm.starts_with(name) && !comm.contains("monitor");
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        let thread = thread.ok()?.path();
        let comm = std::fs::read_to_string(thread.join("comm")).ok().filter(is_worker)?;
        // Nanoseconds on a processor come first.
        let times = std::fs::read_to_string(thread.join("schedstat")).ok()?;
        Some((comm, times.split_whitespace().next()?.parse().ok()?))
    };
    let mut times: Vec<(String, f64)> =
        std::fs::read_dir("/proc/self/task").into_iter().flatten().filter_map(of_thread).collect();
    times.sort_by(|a, b| a.0.cmp(&b.0));
    times.into_iter().map(|(_, time)| time).collect()
}
