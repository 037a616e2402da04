//! The end of a server that has a thousand idle connections of each kind, again and again: in a
//! tenth of a second, with each request that was begun answered.
//!
//! The variables are for long runs:
//!
//! | variable | default | meaning |
//! | --- | --- | --- |
//! | `SEGUE_SHUTDOWNS` | 3 | how often each test ends a server |
//! | `SEGUE_SHUTDOWN_MS` | 10,000 | the time within which a server has to end, in ms |
//!
//! The default of the time is no measurement: the close time-out of the WebSockets is an hour, so a
//! server that waits for a silent client does not end by then. `cargo test --release -p segue-http
//! --all-features --test shutdowns -- --nocapture` prints the times.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/served.rs"]
mod serving;

mod simulated;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::plain;
use segue_core::after;
use segue_http::websocket::Options;
use segue_http::{IntoResponse, Request, Response, Server, Shutdown, event_stream};
use segue_io::Backend;
use segue_io::net::TcpListener;
use serving::{PATIENCE, Place, connect, read_all, read_until};

/// Idle connections: of these each third one is a WebSocket, and each third one a stream of events.
const IDLE: usize = 1_000;
/// Connections whose request is begun, and not complete, when the server is shut down.
const BEGUN: usize = 20;
/// Clients that ask all the time.
const BUSY: usize = 4;

const UPGRADE: &str = "GET /socket HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Requests that a handler was called for.
#[derive(Default)]
struct Handled {
    begun: AtomicUsize,
    asked: AtomicUsize,
}

fn handle(request: &mut Request<'_>, handled: &Handled) -> Response {
    match request.uri().path() {
        "/socket" => Options::new().close_timeout(Duration::from_secs(3600)).accept(request, |socket| {
            while let Some(message) = socket.recv()? {
                socket.send(message)?;
            }
            Ok(())
        }),
        "/events" => event_stream(|events| events.wait_for(after(Duration::MAX)).map(drop)),
        "/begun" => {
            handled.begun.fetch_add(1, Ordering::Relaxed);
            let mut text = String::new();
            request.body_mut().read_to_string(&mut text).map(|_| text).into_response()
        }
        "/asked" => {
            handled.asked.fetch_add(1, Ordering::Relaxed);
            "answer".into_response()
        }
        _ => "idle".into_response(),
    }
}

fn idle(address: SocketAddr, number: usize) -> TcpStream {
    let mut stream = connect(address);
    let (request, end): (_, &[u8]) = match number % 3 {
        0 => ("GET /idle HTTP/1.1\r\nHost: h\r\n\r\n", b"idle"),
        1 => ("GET /events HTTP/1.1\r\nHost: h\r\n\r\n", b"\r\n\r\n"),
        _ => (UPGRADE, b"\r\n\r\n"),
    };
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = Vec::new();
    // By pieces: a thousand times a hundred bytes take long one by one.
    while !reply.ends_with(end) {
        let mut piece = [0; 512];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&reply));
        reply.extend_from_slice(&piece[..count]);
    }
    stream
}

/// Asks again and again until the connection ends. Returns how many answers were complete.
fn ask(mut stream: TcpStream) -> io::Result<usize> {
    let mut answers = 0;
    loop {
        if stream.write_all(b"GET /asked HTTP/1.1\r\nHost: h\r\n\r\n").is_err() {
            return Ok(answers);
        }
        let mut reply = Vec::new();
        while !reply.ends_with(b"answer") {
            let mut piece = [0; 512];
            match stream.read(&mut piece) {
                // A request that the server has not looked at is not begun.
                Ok(0) if reply.is_empty() => return Ok(answers),
                Err(_) if reply.is_empty() => return Ok(answers),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => reply.extend_from_slice(&piece[..read?]),
            }
        }
        answers += 1;
    }
}

/// Fills a server, ends the server, and looks at each connection. Returns how long the end took.
fn end_once(place: Place) -> Duration {
    let handled = Handled::default();
    let server = Server::new(|request: &mut Request<'_>| handle(request, &handled)).config(plain());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = server.shutdown_handle();
    let (took, streams, begun, answers) = thread::scope(|s| {
        let _end = Ends(shutdown.clone());
        let serving = s.spawn(|| {
            place.serve(&server, listener).unwrap();
            Instant::now()
        });
        let streams: Vec<_> = (0..IDLE).map(|number| idle(address, number)).collect();
        let begun: Vec<_> = (0..BEGUN)
            .map(|_| {
                let mut stream = connect(address);
                stream.write_all(b"POST /begun HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbo").unwrap();
                stream
            })
            .collect();
        let busy: Vec<_> = (0..BUSY).map(|_| connect(address)).collect();
        let busy: Vec<_> = busy.into_iter().map(|stream| s.spawn(move || ask(stream))).collect();
        let waits = Instant::now();
        while handled.begun.load(Ordering::Relaxed) < BEGUN || handled.asked.load(Ordering::Relaxed) < 10 * BUSY {
            assert!(waits.elapsed() < PATIENCE);
            thread::yield_now();
        }
        let start = Instant::now();
        shutdown.shutdown();
        for mut stream in &begun {
            stream.write_all(b"dy").unwrap();
        }
        let took = serving.join().unwrap().duration_since(start);
        let answers: usize = busy.into_iter().map(|client| client.join().unwrap().unwrap()).sum();
        (took, streams, begun, answers)
    });
    for stream in &begun {
        let text = String::from_utf8(read_all(stream)).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nbody"), "{text}");
        assert!(text.contains("connection: close\r\n"), "{text}");
    }
    assert_eq!(answers, handled.asked.load(Ordering::Relaxed), "of the requests that were begun each has its answer");
    for (number, stream) in streams.iter().enumerate() {
        let rest = read_all(stream);
        match number % 3 {
            0 => assert_eq!(rest, b""),
            // The last chunk.
            1 => assert!(rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest)),
            _ => assert_eq!(rest, [0x88, 2, 0x03, 0xe9], "a close with 1001"),
        }
    }
    took
}

/// Ends the server of a test that fails, so that the test does not hang.
struct Ends(Shutdown);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

#[test]
fn a_thousand_idle_connections_do_not_hold_a_shutdown_up_and_what_was_begun_is_answered() {
    let (rounds, limit) = (variable("SEGUE_SHUTDOWNS", 3), variable("SEGUE_SHUTDOWN_MS", 10_000));
    for backend in [Backend::Auto, Backend::Native] {
        let mut times: Vec<_> = (0..rounds.max(1)).map(|_| end_once(Place::Fibers(backend))).collect();
        times.sort_unstable();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        println!(
            "{backend:?}: {} times; median {:?}, 99 of 100 {:?}, longest {:?}",
            times.len(),
            at(50),
            at(99),
            at(100)
        );
        assert!(at(100) <= Duration::from_millis(limit), "{:?} is longer than {limit} ms", at(100));
    }
}

#[test]
fn a_goodbye_that_waits_already_ends_with_the_shutdown() {
    for place in serving::PLACES {
        let server = Server::new(|request: &mut Request<'_>| {
            let options = Options::new().close_timeout(Duration::from_secs(3600));
            options.accept(request, |socket| socket.close(1000, "enough"))
        });
        serving::with_server(place, server, |address, shutdown| {
            let mut stream = connect(address);
            stream.write_all(UPGRADE.as_bytes()).unwrap();
            read_until(&stream, b"enough");
            shutdown.shutdown();
            assert_eq!(read_all(&stream), b"");
        });
    }
}
