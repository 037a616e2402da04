//! The server over real sockets: many connections, shutting down, limits on connections, accept
//! errors.

mod common;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{echo, plain, replies};
use segue_http::{Listener, Request, Server};
use segue_io::net::TcpListener;
use segue_sched::Sim;

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

/// Waits until nobody listens at `address` any more; answers whether that came about. The kernel
/// tells nobody, so it has to be asked again and again.
fn stops_listening(address: SocketAddr) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if TcpStream::connect(address).is_err() {
            return true;
        }
        thread::yield_now();
    }
    false
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
fn shutting_down_ends_idle_connections_and_returns() {
    let (listener, address) = listen();
    let server = Server::new(echo);
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let _end = ShutDown(shutdown.clone());
        let serving = s.spawn(|| server.serve(listener));
        let fresh = connect(address);
        let mut used = connect(address);
        used.write_all(get("/").as_bytes()).unwrap();
        read_response(&used);
        let mut begun = connect(address);
        begun.write_all(b"GET / HT").unwrap();
        // All three have been accepted once this one is answered.
        let mut last = connect(address);
        last.write_all(get("/").as_bytes()).unwrap();
        read_response(&last);
        let start = Instant::now();
        shutdown.shutdown();
        shutdown.shutdown();
        serving.join().unwrap().unwrap();
        assert!(start.elapsed() < PATIENCE);
        assert_eq!(read_all(&fresh), b"");
        assert_eq!(read_all(&used), b"");
        // With unread input the connection may be reset.
        let _ = begun.read_to_end(&mut vec![]);
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    });
    // Once shut down, for good.
    server.serve(listen().0).unwrap();
}

#[test]
fn shutting_down_finishes_the_requests_that_were_begun() {
    let (entered, begun) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let (entered, gate) = (Mutex::new(entered), Mutex::new(gate));
    let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
        entered.lock().unwrap().send(()).unwrap();
        gate.lock().unwrap().recv().unwrap();
        // Its waits are not cancelled either.
        segue_core::check()?;
        segue_core::sleep(Duration::from_millis(1))?;
        echo(request)
    });
    let (listener, address) = listen();
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let _end = ShutDown(shutdown.clone());
        let go = go;
        let serving = s.spawn(|| server.serve(listener));
        let mut stream = connect(address);
        stream.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbo").unwrap();
        begun.recv_timeout(PATIENCE).unwrap();
        shutdown.shutdown();
        assert!(shutdown.is_shut_down());
        // The server has seen it by then, and still waits for the request.
        assert!(stops_listening(address) && !serving.is_finished());
        go.send(()).unwrap();
        stream.write_all(b"dy").unwrap();
        let reply = replies(&read_all(&stream), &[]).remove(0);
        assert_eq!((reply.text(), reply.header("connection")), ("POST / body", Some("close")));
        drop(stream);
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn cancelling_the_caller_ends_the_server_too() {
    let (entered, begun) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let (entered, gate) = (Mutex::new(entered), Mutex::new(gate));
    let server = Server::new(|_: &mut Request<'_>| {
        entered.lock().unwrap().send(()).unwrap();
        gate.lock().unwrap().recv().unwrap();
        "finished"
    });
    let (listener, address) = listen();
    let result = segue_core::scope(|s| {
        let go = go;
        let serving = s.spawn(|| server.serve(listener));
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        begun.recv_timeout(PATIENCE).unwrap();
        s.cancel();
        // The listener goes first, while the request is still being handled.
        let stopped = stops_listening(address);
        go.send(()).unwrap();
        assert!(stopped, "the server still accepts");
        let reply = replies(&read_all(&stream), &[]).remove(0);
        assert_eq!((reply.text(), reply.header("connection")), ("finished", Some("close")));
        drop(stream);
        segue_core::shield(|| serving.join()).unwrap()
    });
    assert!(segue_core::Cancelled::caused(&result.unwrap_err()));
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
fn connections_above_the_limit_wait_while_all_others_are_busy() {
    let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // On plain threads each connection has one of its own. They leave three by three: so there are
    // three at a time, and no more.
    let meeting = Barrier::new(3);
    let server = Server::new(|request: &mut Request<'_>| {
        if request.uri().path() == "/meet" {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            meeting.wait();
            inside.fetch_sub(1, Ordering::SeqCst);
        }
        "done"
    });
    with_server(server.config(plain().max_connections(3)), |address| {
        thread::scope(|s| {
            for _ in 0..12 {
                s.spawn(|| {
                    let mut stream = connect(address);
                    stream.write_all(b"GET /meet HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
                    assert!(read_all(&stream).ends_with(b"done"));
                });
            }
        });
    });
    assert_eq!(most.into_inner(), 3);
}

#[test]
fn at_the_limit_the_longest_idle_connection_makes_room() {
    with_server(Server::new(echo).config(plain().max_connections(3)), |address| {
        let mut streams: Vec<_> = (0..3).map(|_| connect(address)).collect();
        let ask = |mut stream: &TcpStream| {
            stream.write_all(get("/").as_bytes()).unwrap();
            read_response(stream);
        };
        ask(&streams[0]);
        // That the first one is idle by now shows nowhere; it has long been when these are through.
        for _ in 0..200 {
            streams[1..].iter().for_each(ask);
        }
        let mut fourth = connect(address);
        fourth.write_all(get("/").as_bytes()).unwrap();
        read_response(&fourth);
        assert_eq!(read_all(&streams.remove(0)), b"", "the first one has ended, and without a word");
        streams.iter().for_each(ask);
    });
}

#[test]
fn clients_that_send_nothing_do_not_keep_the_places_from_everybody() {
    // The times are of no help here.
    let config = plain().max_connections(50).first_byte_timeout(Duration::MAX).idle_timeout(Duration::MAX);
    with_server(Server::new(echo).config(config), |address| {
        let silent: Vec<_> = (0..400).map(|_| connect(address)).collect();
        for n in 0..20 {
            let mut stream = connect(address);
            stream.write_all(get(&format!("/{n}")).as_bytes()).unwrap();
            assert!(read_response(&stream).ends_with(&format!("GET /{n} ")));
        }
        drop(silent);
    });
}

#[test]
fn a_connection_that_is_evicted_keeps_no_place_by_an_empty_line() {
    let config = plain().max_connections(1).first_byte_timeout(Duration::MAX).idle_timeout(Duration::MAX);
    let server = Server::new(echo).config(config);
    let (listener, address) = listen();
    let shutdown = server.shutdown_handle();
    let (held, holds) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let client = thread::spawn(move || {
        let _end = ShutDown(shutdown);
        let mut silent = connect(address);
        holds.recv_timeout(PATIENCE).unwrap();
        let mut newcomer = connect(address);
        newcomer.write_all(get("/").as_bytes()).unwrap();
        silent.write_all(b"\r\n").unwrap();
        // The server finds both at once.
        release.send(()).unwrap();
        assert!(read_response(&newcomer).ends_with("GET / "));
    });
    let run = segue_sched::Builder::new().workers(1).park(segue_io::DriverPark::new).run(|| {
        segue_core::scope(|s| {
            s.spawn(move || {
                // Meanwhile the first one is accepted.
                segue_core::sleep(Duration::from_millis(100)).unwrap();
                held.send(()).unwrap();
                // Nothing is served until there are two things to do.
                released.recv_timeout(PATIENCE).unwrap();
            });
            server.serve(listener).unwrap();
        });
    });
    run.unwrap();
    client.join().unwrap();
}

#[test]
fn clients_that_ask_all_the_time_lose_no_request_at_the_limit() {
    with_server(Server::new(echo).config(plain().max_connections(4)), |address| {
        thread::scope(|s| {
            for n in 0..12 {
                s.spawn(move || {
                    let mut stream = connect(address);
                    for round in 0..50 {
                        stream.write_all(get(&format!("/{n}/{round}")).as_bytes()).unwrap();
                        let response = read_response(&stream);
                        assert!(response.ends_with(&format!("GET /{n}/{round} ")));
                        if response.contains("connection: close") {
                            stream = connect(address);
                        }
                    }
                });
            }
        });
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
fn a_connection_that_lingers_does_not_hold_a_shutdown_up() {
    let (listener, address) = listen();
    let server = Server::new(echo).config(plain().linger_timeout(Duration::from_secs(3600)));
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let serving = s.spawn(|| server.serve(listener));
        let streams: Vec<_> =
            ["BAD\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"]
                .into_iter()
                .map(|request| {
                    let mut stream = connect(address);
                    stream.write_all(request.as_bytes()).unwrap();
                    // To its end: the server lingers.
                    assert!(!read_all(&stream).is_empty());
                    stream
                })
                .collect();
        let start = Instant::now();
        shutdown.shutdown();
        serving.join().unwrap().unwrap();
        assert!(start.elapsed() < PATIENCE);
        drop(streams);
    });
}

#[test]
fn a_server_at_its_limit_can_be_shut_down() {
    with_server(Server::new(echo).config(plain().max_connections(1)), |address| {
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        read_response(&stream);
        stream
    });
}

#[test]
fn shutting_down_meets_everything_else_at_any_time() {
    for round in 0..100 {
        with_server(Server::new(echo).config(plain().max_connections(4)), |address| {
            let clients: Vec<_> = (0..round % 7)
                .map(|n| {
                    thread::spawn(move || {
                        let Ok(mut stream) = TcpStream::connect(address) else { return };
                        for _ in 0..n {
                            let _ = stream.write_all(get("/").as_bytes());
                        }
                    })
                })
                .collect();
            if round % 3 == 0 {
                (0..20 * round).for_each(|_| thread::yield_now());
            }
            clients
        })
        .into_iter()
        .for_each(|client| client.join().unwrap());
    }
}

/// A listener that fails in these ways, last one first, before it accepts.
struct Failing {
    inner: TcpListener,
    errors: Mutex<Vec<io::Error>>,
    accepts: AtomicUsize,
}

impl Listener for &Failing {
    type Stream = segue_io::net::TcpStream;

    fn accept(&self) -> io::Result<Self::Stream> {
        self.accepts.fetch_add(1, Ordering::SeqCst);
        let error = self.errors.lock().unwrap().pop();
        error.map_or_else(|| Listener::accept(&self.inner), Err)
    }
}

fn failing(errors: Vec<io::Error>) -> (Failing, SocketAddr) {
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
