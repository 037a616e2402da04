//! `http`: servers on one worker, asked over loopback by one thread that has some connections and
//! one request on each of them.
//!
//! * `16 connections`, `200 connections`: an operation is one request, of two headers, and its
//!   response, a text of 2,053 bytes. The client writes a request on each connection and then reads
//!   all responses, so the server finds as many at a time.
//! * `an idle connection`: no time, but the memory that the process has more than before for each
//!   of 400 connections that have had one request, two seconds after the last one. The kernel's is
//!   not in it.
//!
//! Timed: the processor time of the server's thread alone, as the kernel counts it. Not timed:
//! starting, connecting, the client.
//!
//! hyper runs on tokio's current-thread runtime, once as it is and once with a time-out for heads,
//! which Segue always has, as it has those of idle connections and of writes.

use super::segue_run;
use crate::measure::{SEGUE, Span, Variant, Workload};
use crate::servers::time_of;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "http", timed: "a server's processor time per request; an idle connection's memory", variants };

const REQUEST: &[u8] = b"GET /text HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n\r\n";
const TEXT: &[u8] = &[b'.'; 2053];
/// With both ends in this process, fewer than a process may have files by default.
const IDLE: usize = 400;

fn variants() -> Vec<Variant> {
    let asked = |connections: usize| {
        Variant::new(format!("{connections} connections"), "request", 1)
            .add(SEGUE, move |n| run(segue, move |client| client.ask(connections, n)))
            .add("hyper", move |n| run(|ready| hyper(ready, false), move |client| client.ask(connections, n)))
            .add("hyper, time-out", move |n| run(|ready| hyper(ready, true), move |client| client.ask(connections, n)))
    };
    vec![
        asked(16),
        asked(200),
        Variant::new("an idle connection", "idle connection", 1)
            .in_bytes()
            .add_apart(SEGUE, |_| run(segue, |client| client.rest()))
            .add_apart("hyper", |_| run(|ready| hyper(ready, false), |client| client.rest())),
    ]
}

/// What a server tells when it is there.
struct Ready {
    address: SocketAddr,
    /// The number of its thread.
    thread: i32,
    end: Box<dyn FnOnce() + Send>,
}

/// Runs a server on a thread of its own, and the client on this one.
fn run(server: impl FnOnce(Sender<Ready>) + Send, client: impl FnOnce(&Client) -> Span) -> Span {
    let (tell, ready) = channel();
    std::thread::scope(|threads| {
        threads.spawn(move || server(tell));
        let Ready { address, thread, end } = ready.recv().expect("the server starts");
        let span = client(&Client { address, thread });
        end();
        span
    })
}

fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn segue(ready: Sender<Ready>) {
    segue_run(1, move || {
        let listener = segue::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let server = segue_http::Server::new(|_| TEXT);
        let shutdown = server.shutdown_handle();
        let end = Box::new(move || shutdown.shutdown());
        ready.send(Ready { address, thread: this_thread(), end }).expect("the client waits");
        server.serve(listener).expect("it serves until it is shut down");
    });
}

fn hyper(ready: Sender<Ready>, time_out: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio starts");
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let end = Box::new(move || drop(end));
        ready.send(Ready { address, thread: this_thread(), end }).expect("the client waits");
        let accepting = pin!(async {
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                serve(stream, time_out);
            }
        });
        futures_util::future::select(accepting, ended).await;
    });
}

fn serve(stream: tokio::net::TcpStream, time_out: bool) {
    stream.set_nodelay(true).expect("an option");
    tokio::spawn(async move {
        let service = service_fn(|_| async {
            let response = http::Response::builder().header("content-type", "application/octet-stream");
            response.body(Full::new(Bytes::from_static(TEXT)))
        });
        let mut builder = http1::Builder::new();
        if time_out {
            builder.timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(15));
        }
        // The client leaves when it has enough.
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    });
}

struct Client {
    address: SocketAddr,
    thread: i32,
}

impl Client {
    fn connect(&self, count: usize) -> Vec<TcpStream> {
        let connect = |_| {
            let stream = TcpStream::connect(self.address).expect("the server listens");
            stream.set_nodelay(true).expect("an option");
            stream
        };
        (0..count).map(connect).collect()
    }

    /// One request, to learn how long a response is.
    fn probe(mut stream: &TcpStream) -> usize {
        stream.write_all(REQUEST).expect("the server is there");
        let mut response = Vec::new();
        while !response.ends_with(TEXT) {
            let mut piece = [0; 8192];
            let count = stream.read(&mut piece).expect("the server is there");
            assert_ne!(count, 0, "the server has ended the connection");
            response.extend_from_slice(&piece[..count]);
        }
        response.len()
    }

    fn ask(&self, connections: usize, n: u64) -> Span {
        let mut streams = self.connect(connections);
        let length = streams.iter().map(Self::probe).max().expect("a connection");
        let mut response = vec![0; length];
        let rounds = (n / connections as u64).max(1);
        let (cpu, wall) = (self.server_time(), Instant::now());
        for _ in 0..rounds {
            for stream in &mut streams {
                stream.write_all(REQUEST).expect("the server is there");
            }
            for stream in &mut streams {
                stream.read_exact(&mut response).expect("the server is there");
            }
        }
        Span {
            ops: rounds * connections as u64,
            wall: wall.elapsed(),
            cpu: self.server_time() - cpu,
            busiest: None,
            migrations: None,
            calls: None,
        }
    }

    fn rest(&self) -> Span {
        /// Before the first connections of this process.
        static BEFORE: OnceLock<u64> = OnceLock::new();
        Self::probe(&self.connect(1)[0]);
        let before = *BEFORE.get_or_init(resident);
        let start = Instant::now();
        let streams = self.connect(IDLE);
        for stream in &streams {
            Self::probe(stream);
        }
        // What an idle connection gives back after a while is not counted.
        std::thread::sleep(Duration::from_secs(2));
        Span::of_bytes(IDLE as u64, resident().saturating_sub(before), start.elapsed())
    }

    /// The time that the server's thread has run.
    fn server_time(&self) -> Duration {
        time_of(Path::new(&format!("/proc/self/task/{}", self.thread))).expect("Linux tells")
    }
}

/// The memory of this process that is there.
pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages: u64 = text.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a number");
    pages * rustix::param::page_size() as u64
}
