//! The limit on connections: who waits, and who makes room.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use super::accepting::failing;
use super::common::{echo, plain};
use super::{PATIENCE, ShutDown, connect, get, read_all, read_response, with_server};
use segue_http::{Request, Server};

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
    let (listener, address) = failing(Vec::new());
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
    let run = segue_sched::Runtime::new().workers(1).park(segue_io::DriverPark::new).run(|| {
        segue_core::scope(|s| {
            let accepts = &listener.accepts;
            s.spawn(move || {
                // The first one has been accepted when the server accepts again. The gate spares it
                // for 50 ms from then on.
                while accepts.load(Ordering::SeqCst) < 2 {
                    segue_core::yield_now().unwrap();
                }
                segue_core::sleep(Duration::from_millis(60)).unwrap();
                held.send(()).unwrap();
                // Nothing is served until there are two things to do.
                released.recv_timeout(PATIENCE).unwrap();
            });
            server.serve(&listener).unwrap();
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
