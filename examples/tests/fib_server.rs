//! The Fibonacci server as its users meet it: the built program in a process of its own, clients on
//! plain sockets.
#![cfg(unix)]

#[path = "common/fib_process.rs"]
mod fib_process;

use fib_process::{Client, Process, Server, get};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A number whose computation takes one worker about two seconds, in this profile and on this
/// machine.
fn long_number() -> u32 {
    static LONG: OnceLock<u32> = OnceLock::new();
    *LONG.get_or_init(|| {
        let server = Server::start(&["--pool-workers", "1"]);
        let mut client = server.connect();
        let takes_long = |n: &u32| {
            let start = Instant::now();
            assert_eq!(client.get(&format!("/fib/{n}")).status, 200);
            start.elapsed() > Duration::from_millis(100)
        };
        // Each further one takes 1.6 times as long, six of them 18 times.
        (20..=45).find(takes_long).unwrap_or(45) + 6
    })
}

/// Has the server begin to compute `/fib/N`. Returns the client that waits for it.
fn begin(server: &Server, n: u32) -> Client {
    let mut long = server.connect();
    let mut other = server.connect();
    // Both are being served; then what is sent first arrives first.
    assert_eq!((long.get("/healthz").status, other.get("/healthz").status), (200, 200));
    long.send(&get(&format!("/fib/{n}")));
    assert_eq!(other.get("/healthz").status, 200);
    long
}

#[test]
fn numbers_and_pages() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for (n, number) in [("0", 0), ("1", 1), ("2", 1), ("10", 55), ("20", 6_765), ("25", 75_025), ("30", 832_040)] {
        let reply = client.get(&format!("/fib/{n}"));
        assert_eq!((reply.status, reply.body), (200, format!("{number}\n")), "fib({n})");
    }
    let page = client.get("/");
    assert_eq!((page.status, page.body.len()), (200, 2048));
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    assert_eq!(client.get("/healthz").status, 200);

    client.send(&get("/fib/30").replace("GET", "HEAD"));
    assert_eq!(client.receive_head().header("content-length"), Some("7"));
    assert_eq!(client.get("/fib/3").body, "2\n", "a HEAD request's answer has no body");
}

#[test]
fn refused_numbers_paths_and_methods_keep_the_connection() {
    let server = Server::start(&["--max-n", "12"]);
    let mut client = server.connect();
    for n in ["abc", "-1", "3.5", "", "94", "+1", "99999999999999999999", "1/", "0x1", "%31", "4294967297"] {
        let reply = client.get(&format!("/fib/{n}"));
        assert_eq!(reply.status, 400, "/fib/{n}");
        reply.says("from 0 to 93");
        assert!(!reply.closes());
    }
    for n in [13, 45, 93] {
        let reply = client.get(&format!("/fib/{n}"));
        assert_eq!(reply.status, 422, "/fib/{n}");
        reply.says("12");
    }
    assert_eq!(client.get("/fib/12").body, "144\n");
    for path in ["/nope", "/fib", "/fibs/1", "/healthz/", "//"] {
        let reply = client.get(path);
        assert_eq!(reply.status, 404, "{path}");
        reply.says("/fib/30");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        client.send(&format!("{method} /fib/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"));
        let reply = client.receive();
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")), "{method}");
        reply.says("GET");
    }
    assert_eq!(client.get("/fib/7").body, "13\n");
}

#[test]
fn the_default_limit_is_45() {
    let server = Server::start(&[]);
    let reply = server.connect().get("/fib/46");
    assert_eq!(reply.status, 422);
    reply.says("45");
}

#[test]
fn what_is_no_proper_request_is_answered_and_ends_the_connection() {
    let server = Server::start(&[]);
    let with = |lines: &str| format!("GET / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
    let many_headers: String = (0..200).map(|n| format!("X-{n}: {n}\r\n")).collect();
    let cases = [
        (400, "Host", "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (400, "Content-Length", with("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n")),
        (400, "Content-Length", with("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n")),
        (400, "malformed", "this is no request\r\n\r\n".to_owned()),
        (400, "malformed", "GET / HTTP/1.1 now\r\nHost: localhost\r\n\r\n".to_owned()),
        (400, "malformed", with("No Colon\r\n")),
        (400, "malformed", with("Content-Length: three\r\n")),
        (431, "too long", with(&format!("X-Long: {}\r\n", "x".repeat(64 << 10)))),
        (414, "too long", format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(64 << 10))),
        (431, "too many", with(&many_headers)),
        // The answer is there without the body.
        (200, "ok", with("Content-Length: 100000000\r\n").replace("GET / ", "GET /healthz ")),
    ];
    for (status, what, request) in cases {
        let mut client = server.connect();
        client.send(&request);
        // It is not answered.
        let _ = client.0.get_mut().write_all(get("/fib/1").as_bytes());
        let reply = client.receive();
        assert_eq!(reply.status, status, "{what}, {reply:?}");
        reply.says(what);
        assert!(reply.closes(), "{reply:?}");
        client.expect_end();
    }
    assert_eq!(server.connect().get("/fib/6").body, "8\n");
}

#[test]
fn clients_that_leave_harm_nobody() {
    let server = Server::start(&["--pool-workers", "1"]);
    let mut witness = server.connect();
    assert_eq!(witness.get("/fib/5").body, "5\n");
    for round in 0..20 {
        // More answers than the sockets hold, so that the server is writing when their reader goes.
        let mut reader = server.connect();
        reader.send(&get("/").repeat(4_000));
        assert_eq!(reader.receive_head().status, 200);
        drop(reader);
        // Left while it waits for its number, within a head, and at once.
        server.connect().send(&get("/fib/27"));
        server.connect().send("GET /fib/1 HT");
        drop(server.connect());
        assert_eq!(witness.get("/fib/10").body, "55\n", "round {round}");
    }
    server.process.signal("TERM");
    let (status, _, errors) = server.process.end();
    assert!(status.success(), "{status}");
    assert_eq!(errors, "");
}

#[test]
fn one_connection_serves_many_requests_also_sent_in_one_go() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for _ in 0..100 {
        assert_eq!(client.get("/fib/9").body, "34\n");
    }
    client.send(&["/fib/10", "/", "/fib/abc", "/fib/22", "/fib/0"].map(get).concat());
    let replies = [(); 5].map(|()| client.receive());
    assert_eq!(replies.each_ref().map(|reply| reply.status), [200, 200, 400, 200, 200]);
    assert_eq!([&replies[0], &replies[3], &replies[4]].map(|reply| reply.body.trim()), ["55", "17711", "0"]);
    client.send("GET /fib/4 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(client.receive().body, "3\n");
    client.expect_end();
}

#[test]
fn hundreds_of_connections_are_served_at_once() {
    let server = Server::start(&[]);
    let mut clients = server.connect_many(320);
    for round in 0..3 {
        for client in &mut clients {
            client.send(&get("/fib/21"));
        }
        for client in &mut clients {
            assert_eq!(client.receive().body, "10946\n", "round {round}");
        }
    }
}

#[test]
fn a_long_computation_keeps_nobody_waiting_with_promises() {
    // Whether all were answered while the long one was computed, each on a connection of its own:
    // one after the other, and at once.
    let meanwhile = |n| {
        let server = Server::start(&["--compose", "promise", "--max-n", "93"]);
        let mut long = begin(&server, n);
        for _ in 0..100 {
            assert_eq!(server.connect().get("/fib/1").body, "1\n");
        }
        let mut clients = server.connect_many(100);
        clients.iter_mut().for_each(|client| client.send(&get("/fib/1")));
        clients.iter_mut().for_each(|client| assert_eq!(client.receive().body, "1\n"));
        !long.has_answer()
    };
    // On a busy machine the first may have been too short.
    assert!(meanwhile(long_number()) || meanwhile(long_number() + 3), "short requests waited for the long one");
}

#[test]
fn one_pool_worker_lets_everybody_in_during_a_long_computation() {
    let meanwhile = |n| {
        let server = Server::start(&["--pool-workers", "1", "--max-n", "93"]);
        let mut long = begin(&server, n);
        // A second long one, so that several computations share the worker when the short ones
        // come.
        let mut second = begin(&server, n);
        let mut clients = server.connect_many(100);
        for _ in 0..2 {
            clients.iter_mut().for_each(|client| client.send(&get("/fib/1")));
            clients.iter_mut().for_each(|client| assert_eq!(client.receive().body, "1\n"));
        }
        !long.has_answer() && !second.has_answer()
    };
    assert!(meanwhile(long_number()) || meanwhile(long_number() + 2), "short requests waited for a long one");
}

#[test]
fn a_long_computation_keeps_everybody_waiting_when_it_blocks_the_worker() {
    let is_first = || {
        let server = Server::start(&["--compose", "blocking", "--io-workers", "1", "--max-n", "93"]);
        let (mut long, mut other) = (server.connect(), server.connect());
        assert_eq!((long.get("/healthz").status, other.get("/healthz").status), (200, 200));
        long.send(&get(&format!("/fib/{}", long_number() - 2)));
        assert_eq!(other.get("/fib/1").body, "1\n");
        let is_first = long.has_answer();
        assert_eq!(long.receive().status, 200);
        is_first
    };
    // On a busy machine the server may find both requests at once, and take the other one first.
    assert!((0..5).any(|_| is_first()), "the long one is answered first");
}

#[test]
fn signals_let_requests_in_flight_finish() {
    for signal in ["TERM", "INT"] {
        let is_met = |n| {
            let server = Server::start(&["--max-n", "93"]);
            let mut idle = server.connect();
            assert_eq!(idle.get("/healthz").status, 200);
            let mut half = server.connect();
            half.send("GET /fib/1 HTTP/1.1\r\n");
            let mut long = begin(&server, n);
            server.process.signal(signal);
            idle.expect_end();
            half.expect_end();
            if long.has_answer() {
                return false;
            }
            assert!(TcpStream::connect(server.addr).is_err(), "a server that ends accepts nobody");
            let reply = long.receive();
            assert_eq!(reply.status, 200);
            assert!(reply.closes());
            let answered = Instant::now();
            // The client keeps its side open: the server does not wait for it for long.
            let (status, rest, errors) = server.process.end();
            assert_eq!((status.code(), rest.as_str(), errors.as_str()), (Some(0), "", ""), "{signal}");
            assert!(answered.elapsed() < Duration::from_secs(10), "{:?} after the last answer", answered.elapsed());
            true
        };
        // On a busy machine the first may have been too short.
        let numbers = [long_number() - 2, long_number(), long_number() + 2];
        assert!(numbers.into_iter().any(is_met), "the computation was too short to be met by a signal");
    }
}

#[test]
fn a_second_signal_ends_a_server_that_still_computes() {
    let server = Server::start(&["--max-n", "93"]);
    let mut idle = server.connect();
    assert_eq!(idle.get("/healthz").status, 200);
    let _endless = begin(&server, 93);
    server.process.signal("INT");
    // The server has heard it.
    idle.expect_end();
    server.process.signal("INT");
    let (status, _, _) = server.process.end();
    assert_eq!(status.signal(), Some(2), "{status}");
}

#[test]
fn what_cannot_start_says_so_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: &[(i32, &[&str], &str)] = &[
        (1, &["--addr", &taken], &taken),
        (1, &["--addr", "nowhere"], "nowhere"),
        (2, &["--addr"], "--addr"),
        (2, &["--nope"], "--nope"),
        (2, &["extra"], "extra"),
        (2, &["--io-workers", "0"], "1 to 1024"),
        (2, &["--pool-workers", "many"], "1 to 1024"),
        (2, &["--compose", "maybe"], "promise"),
        (2, &["--max-n", "94"], "0 to 93"),
    ];
    for (code, arguments, what) in cases {
        let process = Process::start(arguments);
        let (status, output, errors) = process.end();
        assert_eq!((status.code(), output.as_str()), (Some(*code), ""), "{arguments:?}: {errors}");
        assert_eq!(errors.lines().count(), 1, "{arguments:?}: {errors}");
        assert!(errors.contains(what), "{arguments:?}: {errors}");
    }
    let (status, _, errors) = Process::start(&["--help"]).end();
    assert!(status.success() && errors.is_empty());
}
