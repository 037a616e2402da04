//! The end of the server: by its handle, by cancellation, whatever its connections do.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{echo, plain, replies};
use super::{PATIENCE, ShutDown, connect, get, listen, read_all, read_response, with_server};
use segue_core::{Either, after, finishing_source, is_cancelled, is_finishing};
use segue_http::{Payload, Request, Response, Server};
use segue_io::{Backend, DriverPark};

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
        // Its waits are not cancelled either. This one has begun when the server is shut down.
        segue_core::scope(|s| s.spawn(|| gate.lock().unwrap().recv().unwrap()).join()).unwrap();
        segue_core::check()?;
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
fn a_response_that_streams_without_an_end_is_told_of_the_shutdown() {
    for backend in [Backend::Auto, Backend::Native] {
        let server = Server::new(|_: &mut Request<'_>| {
            Response::new(Payload::writer(|out| {
                let begun = Instant::now();
                while let Either::Left(()) = after(Duration::from_millis(5)).or(finishing_source()).wait()? {
                    assert!(begun.elapsed() < PATIENCE, "nobody tells it");
                    out.write_all(b"tick")?;
                    out.flush()?;
                }
                assert!(is_finishing() && !is_cancelled());
                out.write_all(b"goodbye")
            }))
        });
        let (listener, address) = listen();
        let shutdown = server.shutdown_handle();
        let client = thread::spawn(move || {
            let mut stream = connect(address);
            stream.write_all(get("/").as_bytes()).unwrap();
            let mut begun = Vec::new();
            while !begun.ends_with(b"tick") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                begun.push(byte[0]);
            }
            shutdown.shutdown();
            begun.extend(read_all(&stream));
            let reply = replies(&begun, &[]).remove(0);
            assert!(reply.complete && reply.text().ends_with("tickgoodbye"), "{}", reply.text());
        });
        let serve = || server.serve(listener);
        segue_sched::Runtime::new().workers(1).park(move || DriverPark::with(backend)).run(serve).unwrap().unwrap();
        client.join().unwrap();
    }
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
                // By time: on a machine that has other things to do each yield takes some of that.
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_micros(10 * round) {
                    thread::yield_now();
                }
            }
            clients
        })
        .into_iter()
        .for_each(|client| client.join().unwrap());
    }
}
