//! The faults that servers of the field have shown again and again, and handlers that misbehave.

use std::io::{self, Read, Write};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use super::common::{self, plain, replies};
use super::{PATIENCE, connect, get, listen, read_all, read_response, with_server};
use segue_core::after;
use segue_http::bytes::Bytes;
use segue_http::{Config, End, Payload, Request, Response, Server};
use segue_io::{Backend, DriverPark};

/// The header time-out that is silently off: in some servers because nobody has given a timer.
#[test]
fn a_head_that_drips_ends_with_408_by_the_defaults() {
    let head = "GET / HTTP/1.1\r\nHost: h\r\nX: ".bytes().chain(std::iter::repeat(b'x'));
    let drip = head.take(1_000).flat_map(|byte| [common::send([byte]), common::pause(1)]);
    let log = common::serve(Config::new(), drip, common::echo);
    assert_eq!(log.responses()[0].status, 408);
    assert_eq!(log.responses()[0].header("connection"), Some("close"));
    // The limit of a head, and the time to linger.
    assert!(log.waited() <= Duration::from_secs(15 + 1), "{:?}", log.waited());
}

#[test]
fn a_head_that_drips_over_a_socket_ends_with_408() {
    let config = Config::new().head_timeout(Duration::from_millis(100));
    with_server(Server::new(common::echo).config(config), |address| {
        let mut stream = connect(address);
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut answer = Vec::new();
        for byte in "GET / HTTP/1.1\r\nX: ".bytes().chain(std::iter::repeat(b'x')).take(10_000) {
            // The server may have closed the connection by then.
            let _ = stream.write_all(&[byte]);
            match stream.read_to_end(&mut answer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => break,
            }
        }
        assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
    });
}

/// The idle keep-alive connection that holds up shutdown.
#[test]
fn a_shutdown_returns_while_many_connections_are_idle() {
    let config = plain().idle_timeout(Duration::MAX).first_byte_timeout(Duration::MAX).linger_timeout(PATIENCE * 2);
    let (listener, address) = listen();
    let server = Server::new(common::echo).config(config);
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let client = s.spawn(move || {
            let _end = super::ShutDown(shutdown);
            let idle: Vec<_> = (0..200)
                .map(|n| {
                    let mut stream = connect(address);
                    if n % 4 > 0 {
                        stream.write_all(get("/").as_bytes()).unwrap();
                        read_response(&stream);
                    }
                    stream
                })
                .collect();
            idle
        });
        let runtime = segue_sched::Runtime::new().workers(2).park(segue_io::DriverPark::new);
        runtime.run(|| server.serve(listener)).unwrap().unwrap();
        // They are open until here.
        for stream in client.join().unwrap() {
            assert_eq!(read_all(&stream), b"");
        }
    });
}

#[test]
fn a_body_that_is_dropped_half_read_leaves_the_connection_in_order() {
    let server = Server::new(|request: &mut Request<'_>| -> io::Result<String> {
        let mut some = [0; 5];
        if request.uri().path() == "/half" {
            request.body_mut().read_exact(&mut some)?;
        }
        Ok(format!("{} {}", request.uri(), String::from_utf8_lossy(&some)))
    });
    with_server(server.config(plain()), |address| {
        let mut stream = connect(address);
        for framing in
            ["Content-Length: 10\r\n\r\n0123456789", "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n"]
        {
            let post = format!("POST /half HTTP/1.1\r\nHost: h\r\n{framing}");
            stream.write_all((post + &get("/next")).as_bytes()).unwrap();
            assert!(read_response(&stream).ends_with("/half 01234"));
            assert!(read_response(&stream).starts_with("HTTP/1.1 200 "));
        }
        // With much more to come the connection ends, and the answer arrives.
        write!(stream, "POST /half HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n").unwrap();
        let _ = stream.write_all(&[b'x'; 100_000]);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let reply = replies(&read_all(&stream), &[]).remove(0);
        assert_eq!((reply.text(), reply.header("connection")), ("/half xxxxx", Some("close")));
    });
}

#[test]
fn a_handler_that_never_returns_holds_up_nobody_but_its_client() {
    let server = Server::new(|request: &mut Request<'_>| -> io::Result<&str> {
        if request.uri().path() == "/never" {
            after(Duration::MAX).wait()?;
        }
        Ok("fine")
    });
    let limited = plain().request_timeout(Duration::from_millis(50));
    with_server(server.config(limited), |address| {
        let mut stuck = connect(address);
        stuck.write_all(get("/never").as_bytes()).unwrap();
        let mut other = connect(address);
        for _ in 0..3 {
            other.write_all(get("/").as_bytes()).unwrap();
            assert!(read_response(&other).ends_with("fine"));
        }
        let answer = read_all(&stuck);
        assert!(answer.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&answer));
    });
}

#[test]
fn a_response_that_takes_too_long_is_cut_so_that_its_client_notices() {
    for backend in [Backend::Auto, Backend::Native] {
        let (told, tells) = mpsc::channel();
        let told = Mutex::new(told);
        // Made before, as that takes time.
        let large = Bytes::from(vec![b'x'; 50_000_000]);
        let server = Server::new(|request: &mut Request<'_>| match request.uri().path() {
            "/large" => Response::new(large.clone().into()),
            _ => Response::new(Payload::writer(|out| {
                out.write_all(b"begun")?;
                out.flush()?;
                Ok(after(Duration::MAX).wait()?)
            })),
        });
        let server = server.config(plain().request_timeout(Duration::from_millis(200)));
        let server = server.observe(|exchange| told.lock().unwrap().send((exchange.sent(), exchange.end())).unwrap());
        let (listener, address) = listen();
        let shutdown = server.shutdown_handle();
        thread::scope(|s| {
            s.spawn(move || {
                let _end = super::ShutDown(shutdown);
                for path in ["/stream", "/large"] {
                    let mut stream = connect(address);
                    stream.write_all(get(path).as_bytes()).unwrap();
                    // The client of the large one takes nothing until the time is over.
                    let (sent, end) = tells.recv_timeout(PATIENCE).unwrap();
                    assert_eq!(end, End::TimedOut);
                    let mut taken = Vec::new();
                    // It may also be reset.
                    let _ = stream.read_to_end(&mut taken);
                    let reply = replies(&taken, &[]).remove(0);
                    assert_eq!((reply.status, reply.complete), (200, false), "{path}: {sent}");
                    assert!(reply.body.iter().all(|byte| b"beguntx".contains(byte)));
                }
            });
            let runtime = segue_sched::Runtime::new().workers(1).park(move || DriverPark::with(backend));
            runtime.run(|| server.serve(listener)).unwrap().unwrap();
        });
    }
}

#[test]
fn a_handler_that_spawns_and_returns_is_answered_at_once() {
    let (go, gate) = mpsc::channel::<()>();
    let (over, ends) = mpsc::channel();
    let work = Mutex::new(Some((gate, over)));
    let server = Server::new(|_: &mut Request<'_>| {
        if let Some((gate, over)) = work.lock().unwrap().take() {
            drop(segue_core::spawn(move || {
                gate.recv_timeout(PATIENCE).unwrap();
                // The request's own end, and its time, are none of this fiber's.
                over.send(segue_core::check().is_ok()).unwrap();
            }));
        }
        "begun"
    });
    let config = plain().request_timeout(Duration::from_secs(3600));
    with_server(server.config(config), |address| {
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        assert!(read_response(&stream).ends_with("begun"));
        drop(stream);
        go.send(()).unwrap();
        assert!(ends.recv_timeout(PATIENCE).unwrap());
    });
}
