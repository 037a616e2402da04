//! The clients of the workload `unblock`: a program of its own, since `segue-unblock` defines
//! functions of the C library in every program that it is linked into, and the rivals of the other
//! workloads are to have the C library's.
//!
//! ```text
//! unblock-clients unblock|streams|threads ADDRESS CONNECTIONS
//! ```
//!
//! It speaks the protocol of `child.rs`, and is started by `workloads/unblock.rs`.
#![allow(unsafe_code)] // The scope is entered.

#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../src/child.rs"]
mod child;
#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../../src/measure.rs"]
mod measure;

use measure::{Run, Span, Stopwatch};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::Barrier;
use std::thread;

/// How long a message is, as in `echo`.
const MESSAGE: [u8; 64] = [b'm'; 64];

/// Connections that are made at a time: fewer than any server's backlog holds.
const GROUP: usize = 64;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("unblock-clients: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [who, address, connections] = &words[..] else { return Err("who, where, and how many?".to_owned()) };
    let connections = connections.parse().map_err(|_| "that is no number of connections")?;
    // Who is suspended in a defined call needs one more.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let clients = connect(address, connections).map_err(|error| error.to_string())?;
    let run: Run = match &who[..] {
        "unblock" => Box::new(move |n| Ok(unblock(&clients, n))),
        "threads" => Box::new(move |n| Ok(threads(&clients, n))),
        "streams" => {
            let own: Result<Vec<_>, _> = clients.into_iter().map(segue::net::TcpStream::from_std).collect();
            let own = own.map_err(|error| error.to_string())?;
            Box::new(move |n| Ok(streams(&own, n)))
        }
        other => return Err(format!("nobody is called {other:?}")),
    };
    child::serve(run)
}

/// Connects, and asks once on each connection.
fn connect(address: &str, count: usize) -> io::Result<Vec<TcpStream>> {
    let mut clients = Vec::new();
    while clients.len() < count {
        let first = clients.len();
        for _ in first..count.min(first + GROUP) {
            let client = TcpStream::connect(address)?;
            client.set_nodelay(true)?;
            clients.push(client);
        }
        clients[first..].iter().for_each(|client| ask(client, 1));
    }
    Ok(clients)
}

/// What each client does: so many messages, one after the other.
fn ask<S>(mut client: S, messages: u64)
where
    S: Read + Write,
{
    let mut echo = [0; MESSAGE.len()];
    for _ in 0..messages {
        client.write_all(&MESSAGE).and_then(|()| client.read_exact(&mut echo)).expect("the server echoes");
    }
    assert!(messages == 0 || echo == MESSAGE, "a wrong echo");
}

/// How many messages each of them sends, so that there are about `n`; and so many at least that it
/// does not show what the beginning and the end of a round cost, for threads above all.
fn share(n: u64, clients: usize) -> u64 {
    n.div_ceil(clients as u64).max(100)
}

fn segue_run(main: impl FnOnce() -> Span) -> Span {
    segue::runtime().workers(1).run(main).expect("segue starts")
}

fn unblock(clients: &[TcpStream], n: u64) -> Span {
    let each = share(n, clients.len());
    segue_run(|| {
        let watch = Stopwatch::start();
        segue::scope(|s| {
            for client in clients {
                // SAFETY: nothing of the thread's is held across a call.
                s.spawn(move || unsafe { segue_unblock::unblock(|| ask(client, each)) });
            }
        });
        watch.stop(each * clients.len() as u64)
    })
}

fn streams(clients: &[segue::net::TcpStream], n: u64) -> Span {
    let each = share(n, clients.len());
    segue_run(|| {
        let watch = Stopwatch::start();
        segue::scope(|s| {
            for client in clients {
                s.spawn(move || ask(client, each));
            }
        });
        watch.stop(each * clients.len() as u64)
    })
}

fn threads(clients: &[TcpStream], n: u64) -> Span {
    let each = share(n, clients.len());
    // They are there before the clock starts, and end after it has stopped.
    let [ready, begin, done] = [(); 3].map(|()| Barrier::new(clients.len() + 1));
    let (ready, begin, done) = (&ready, &begin, &done);
    thread::scope(|threads| {
        for client in clients {
            threads.spawn(move || {
                ready.wait();
                begin.wait();
                ask(client, each);
                done.wait();
            });
        }
        ready.wait();
        let watch = Stopwatch::start();
        begin.wait();
        done.wait();
        watch.stop(each * clients.len() as u64)
    })
}
