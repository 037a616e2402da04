//! The server over real sockets: many connections, shutting down, limits on connections, accept
//! errors; and over memory, where time is simulated.

#[path = "../common/mod.rs"]
mod common;

mod accepting;
mod facts;
mod faults;
mod gone;
mod interrupted;
mod limits;
mod listeners;
mod memory;
mod pipelining;
mod shutdown;
mod stages;
mod time_limits;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{echo, plain, replies};
use segue_http::{Request, Server};
use segue_io::net::TcpListener;

/// Nothing here takes nearly as long; a hang is to fail and not to hang the run.
const PATIENCE: Duration = Duration::from_secs(20);

/// A listener on a free port, and its address.
fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Shuts the server down when a test ends early, so that it fails and does not hang.
struct ShutDown(segue_http::Shutdown);

impl Drop for ShutDown {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads one response with a length.
fn read_response(mut stream: &TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{:?}", String::from_utf8_lossy(&text));
        text.push(byte[0]);
        if text.ends_with(b"\r\n\r\n") {
            break;
        }
    }
    let head = String::from_utf8(text.clone()).unwrap();
    let length =
        head.split("content-length: ").nth(1).map_or(0, |rest| rest.split("\r\n").next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

fn read_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// Runs `client` while `server` serves, then shuts it down and waits for it.
fn with_server<T>(server: Server<'_>, client: impl FnOnce(SocketAddr) -> T) -> T {
    let (listener, address) = listen();
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let serving = s.spawn(move || server.serve(listener));
        // However the client ends, so that its panic is seen.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client(address)));
        shutdown.shutdown();
        serving.join().unwrap().unwrap();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[test]
fn many_connections_are_served_at_a_time() {
    with_server(Server::new(echo).config(plain()), |address| {
        let streams: Vec<_> = (0..50).map(|_| connect(address)).collect();
        for round in 0..3 {
            for (n, mut stream) in streams.iter().enumerate() {
                stream.write_all(get(&format!("/{n}/{round}")).as_bytes()).unwrap();
            }
            for (n, stream) in streams.iter().enumerate() {
                assert!(read_response(stream).ends_with(&format!("GET /{n}/{round} ")));
            }
        }
    });
}

#[test]
fn a_handler_borrows_from_its_surroundings() {
    let count = AtomicUsize::new(0);
    let server = Server::new(|_| count.fetch_add(1, Ordering::Relaxed).to_string());
    with_server(server, |address| {
        let mut stream = connect(address);
        for _ in 0..5 {
            stream.write_all(get("/").as_bytes()).unwrap();
            read_response(&stream);
        }
    });
    assert_eq!(count.into_inner(), 5);
}

#[test]
fn a_large_body_goes_both_ways() {
    let body: Vec<u8> = (0..3_000_000u32).map(|n| (n * 31 % 251) as u8).collect();
    let server = Server::new(|request: &mut Request<'_>| -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        request.body_mut().read_to_end(&mut body)?;
        Ok(body)
    });
    with_server(server.config(plain()), |address| {
        let mut stream = connect(address);
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        let reply = replies(&read_all(&stream), &[]).remove(0);
        assert!(reply.body == body);
    });
}

#[test]
fn a_panic_harms_nobody_else() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a planned panic of a panic's payload"));
        }
    }
    let server = Server::new(|request: &mut Request<'_>| {
        assert_ne!(request.uri().path(), "/panic", "a planned panic");
        if request.uri().path() == "/loud" {
            std::panic::resume_unwind(Box::new(Loud));
        }
        "fine"
    });
    with_server(server, |address| {
        let mut other = connect(address);
        other.write_all(get("/").as_bytes()).unwrap();
        read_response(&other);
        for path in ["/panic", "/loud"] {
            let mut victim = connect(address);
            victim.write_all(get(path).as_bytes()).unwrap();
            let answer = read_all(&victim);
            assert!(answer.starts_with(b"HTTP/1.1 500 "), "{}", String::from_utf8_lossy(&answer));
        }
        other.write_all(get("/").as_bytes()).unwrap();
        assert!(read_response(&other).ends_with("fine"));
    });
}

#[test]
fn clients_that_go_away_harm_nobody_else() {
    let server = Server::new(|request: &mut Request<'_>| echo(request).map(|_| vec![0; 10_000_000]));
    with_server(server, |address| {
        for start in ["", "GET / HT", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc", &get("/")] {
            let mut stream = connect(address);
            stream.write_all(start.as_bytes()).unwrap();
            drop(stream);
        }
        // In the middle of a response.
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
        drop(stream);
        let mut stream = connect(address);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        assert!(read_all(&stream).len() > 10_000_000);
    });
}

#[test]
fn a_refused_client_that_goes_on_sending_reads_its_answer() {
    with_server(Server::new(echo).config(plain()), |address| {
        for _ in 0..20 {
            let mut stream = connect(address);
            stream.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999\r\n\r\n").unwrap();
            // More than the server has read when it answers; a reset would lose the answer.
            let _ = stream.write_all(&[b'x'; 200_000]);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let reply = replies(&read_all(&stream), &[]).remove(0);
            assert_eq!(reply.status, 413);
        }
    });
}

#[test]
fn late_bytes_do_not_reset_the_last_answer() {
    // More than the client's receive buffer takes.
    let server = Server::new(|_: &mut Request<'_>| vec![b'x'; 3_000_000]);
    with_server(server, |address| {
        for head in ["GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"] {
            let mut stream = connect(address);
            stream.write_all(head.as_bytes()).unwrap();
            let mut answer = vec![0; 1];
            stream.read_exact(&mut answer).unwrap();
            // Until the whole answer is in the kernel and the server has ended its direction, which
            // nothing tells, and beyond.
            for _ in 0..100 {
                let _ = stream.write_all(b"late");
                let mut some = [0; 20_000];
                let count = stream.read(&mut some).unwrap();
                answer.extend_from_slice(&some[..count]);
            }
            stream.read_to_end(&mut answer).unwrap();
            assert_eq!(replies(&answer, &[])[0].body.len(), 3_000_000);
        }
    });
}

#[test]
fn a_connection_is_served_in_the_calling_thread_too() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::scope(|s| {
        s.spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let config = plain().idle_timeout(Duration::from_millis(50));
            Server::new(echo).config(config).serve_connection(stream).unwrap();
        });
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        // The response, then the end: std reports a time-out as WouldBlock.
        assert!(read_all(&stream).ends_with(b"GET / "));
    });
}
