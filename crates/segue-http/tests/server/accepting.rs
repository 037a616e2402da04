//! Listeners that fail.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::common::echo;
use super::{PATIENCE, ShutDown, connect, get, listen, read_all, read_response};
use segue_http::{Listener, Server};
use segue_io::net::{TcpListener, UnixListener, UnixStream};
use segue_sched::Sim;

/// A listener that fails in these ways, last one first, before it accepts; and counts its calls.
pub struct Failing {
    inner: TcpListener,
    errors: Mutex<Vec<io::Error>>,
    pub accepts: AtomicUsize,
}

impl Listener for &Failing {
    type Stream = segue_io::net::TcpStream;

    fn accept(&self) -> io::Result<Self::Stream> {
        self.accepts.fetch_add(1, Ordering::SeqCst);
        let error = self.errors.lock().unwrap().pop();
        error.map_or_else(|| Listener::accept(&self.inner), Err)
    }
}

pub fn failing(errors: Vec<io::Error>) -> (Failing, SocketAddr) {
    let (inner, address) = listen();
    (Failing { inner, errors: Mutex::new(errors), accepts: AtomicUsize::new(0) }, address)
}

#[test]
fn errors_in_accepting_are_survived_with_pauses() {
    // Too many open files, in the process and in the system; a client that left.
    let codes = [24, 24, 23, 103, 103, 24];
    let (listener, address) = failing(codes.into_iter().map(io::Error::from_raw_os_error).collect());
    let server = Server::new(echo);
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let _end = ShutDown(shutdown.clone());
        let start = Instant::now();
        let serving = s.spawn(|| server.serve(&listener));
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        read_response(&stream);
        // The four errors of the system: 5, 10, 20 and 40 ms.
        assert!(start.elapsed() >= Duration::from_millis(75));
        shutdown.shutdown();
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn a_listener_that_fails_for_ever_does_not_spin_and_can_be_shut_down() {
    let errors = (0..100_000).map(|_| io::Error::from_raw_os_error(24)).collect();
    let (listener, _) = failing(errors);
    let server = Server::new(echo);
    let shutdown = server.shutdown_handle();
    // By the simulator's clock.
    Sim::new(0)
        .run(|| {
            segue_core::scope(|s| {
                let serving = s.spawn(|| server.serve(&listener));
                segue_core::sleep(Duration::from_secs(3600)).unwrap();
                shutdown.shutdown();
                serving.join().unwrap().unwrap();
            });
        })
        .unwrap();
    // 5, 10, 20 ms and so on, and then once a second.
    let accepts = listener.accepts.load(Ordering::SeqCst);
    assert!((3600..3610).contains(&accepts), "{accepts}");
}

/// A listener that accepts once.
struct Once(TcpListener, AtomicUsize);

impl Listener for Once {
    type Stream = segue_io::net::TcpStream;

    fn accept(&self) -> io::Result<Self::Stream> {
        match self.1.fetch_add(1, Ordering::SeqCst) {
            0 => Listener::accept(&self.0),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

#[test]
fn a_listener_that_is_no_listener_ends_the_server_and_its_connections() {
    let (listener, address) = listen();
    let server = Server::new(echo);
    thread::scope(|s| {
        let serving = s.spawn(|| server.serve(Once(listener, AtomicUsize::new(0))));
        let start = Instant::now();
        assert_eq!(read_all(&connect(address)), b"", "an idle connection ends");
        let error = serving.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(start.elapsed() < PATIENCE);
    });
}

#[test]
fn a_unix_listener_is_served_as_well() {
    let path = std::env::temp_dir().join(format!("segue-http-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let server = Server::new(echo);
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let _end = ShutDown(shutdown.clone());
        let serving = s.spawn(|| server.serve(listener));
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /here HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        io::Read::read_to_string(&mut stream, &mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("GET /here "), "{text}");
        shutdown.shutdown();
        serving.join().unwrap().unwrap();
    });
    std::fs::remove_file(path).unwrap();
}
