//! The server behind TLS, over real sockets: its duties, and clients that mean harm.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use segue_http::{Config, Connection, Payload, Request, Server, Transport, tls};

use crate::common::{echo, plain, replies};
use crate::{PATIENCE, ask, client, dial, get, pattern, server_config, with_server};

#[test]
fn requests_are_answered_one_after_the_other_and_together() {
    let server = Server::new(|request: &mut Request<'_>| {
        let facts = request.extensions().get::<Connection>().unwrap();
        let session = facts.get::<tls::Session>().unwrap();
        assert!(facts.is_secure() && facts.peer_addr().is_some() && facts.local_addr().is_some());
        assert_eq!(session.server_name(), Some("localhost"));
        assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
        echo(request)
    });
    with_server(server.config(plain()), server_config(), |address| {
        let mut stream = client(address);
        for n in 0..20 {
            assert!(ask(&mut stream, &format!("/{n}")).unwrap().ends_with(&format!("GET /{n} ")));
        }
        let all: String = (0..500).map(|n| get(&format!("/{n}"))).collect();
        stream.write_all(all.as_bytes()).unwrap();
        for n in 0..500 {
            if n == 0 {
                stream.flush().unwrap();
            }
            assert!(crate::read_response(&mut stream).ends_with(&format!("GET /{n} ")));
        }
    });
}

#[test]
fn large_bodies_go_both_ways() {
    let body = pattern(1_500_000);
    let server = Server::new(|request: &mut Request<'_>| -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        request.body_mut().read_to_end(&mut body)?;
        Ok(body)
    });
    with_server(server.config(plain()), server_config(), |address| {
        let mut stream = client(address);
        for close in [false, true] {
            let last = if close { "Connection: close\r\n" } else { "" };
            let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{last}Content-Length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&body).unwrap();
        }
        stream.flush().unwrap();
        let mut all = Vec::new();
        // To its end, of which the server says so.
        stream.read_to_end(&mut all).unwrap();
        let replies = replies(&all, &[]);
        assert!(replies.len() == 2 && replies.iter().all(|reply| reply.body == body));
    });
}

#[test]
fn clients_that_stop_in_the_handshake_hold_up_nobody() {
    let count = if cfg!(debug_assertions) { 300 } else { 1_000 };
    with_server(Server::new(echo).config(plain()), server_config(), |address| {
        // The first bytes of a hello.
        let stopped: Vec<_> = (0..count)
            .map(|n| {
                let mut stream = dial(address);
                stream.write_all(&[22, 3, 1, 2, 0, 1, 0][..n % 8]).unwrap();
                stream
            })
            .collect();
        for _ in 0..10 {
            assert!(ask(&mut client(address), "/here").unwrap().ends_with("GET /here "));
        }
        // And a shutdown does not wait for them.
        stopped
    });
}

#[test]
fn half_a_hello_is_ended_by_the_time_limit() {
    let config = plain().handshake_timeout(Duration::from_millis(700));
    with_server(Server::new(echo).config(config), server_config(), |address| {
        for sent in [&[][..], &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]] {
            let mut stream = dial(address);
            stream.write_all(sent).unwrap();
            let begun = Instant::now();
            assert!(ask(&mut client(address), "/").unwrap().ends_with("GET / "));
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            assert!(all.is_empty() && begun.elapsed() < PATIENCE);
        }
    });
}

#[test]
fn strangers_to_the_protocol_get_an_alert() {
    // HTTP in the open; a version of long ago; no version at all; an alert; data before its time.
    let hello = |version: [u8; 2]| {
        let mut body = vec![1, 0, 0, 43, version[0], version[1]];
        body.extend([7; 32]);
        body.extend([0, 0, 4, 0, 0x2f, 0, 0x35, 1, 0]);
        let mut record = vec![22, 3, 0, 0, body.len() as u8];
        record.extend(body);
        record
    };
    let strangers = [
        get("/").into_bytes(),
        hello([3, 0]),
        hello([2, 0]),
        vec![0; 100],
        vec![255; 100],
        vec![23, 3, 3, 0, 5, 1, 2, 3, 4, 5],
        vec![22, 3, 1, 255, 255, 1],
    ];
    with_server(Server::new(echo).config(plain()), server_config(), |address| {
        for stranger in strangers {
            let mut stream = dial(address);
            stream.write_all(&stranger).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert!(all.len() == 7 && all[0] == 21 && all[5] == 2, "{stranger:?}: {all:?}");
            assert!(ask(&mut client(address), "/").unwrap().ends_with("GET / "));
        }
    });
}

#[test]
fn an_idle_connection_is_told_of_its_end() {
    let config = plain().idle_timeout(Duration::from_millis(50));
    with_server(Server::new(echo).config(config), server_config(), |address| {
        let mut stream = client(address);
        ask(&mut stream, "/").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_shutdown_ends_idle_connections_and_says_so() {
    let mut idle = with_server(Server::new(echo).config(plain()), server_config(), |address| {
        (0..20)
            .map(|_| {
                let mut stream = client(address);
                ask(&mut stream, "/").unwrap();
                stream
            })
            .collect::<Vec<_>>()
    });
    for stream in &mut idle {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_client_that_goes_without_a_word_is_no_error_between_requests() {
    for says_so in [true, false] {
        for request in ["", &get("/")] {
            let (one, other) = crate::pipe();
            let mut stream = crate::connect(one, crate::client_config());
            let (served, ()) = crate::beside(
                || Server::new(echo).config(plain()).serve_connection(crate::accept(other, server_config())),
                move || {
                    stream.handshake().unwrap();
                    stream.write_all(request.as_bytes()).unwrap();
                    stream.flush().unwrap();
                    if !request.is_empty() {
                        crate::read_response(&mut stream);
                    }
                    if says_so {
                        stream.shutdown_write().unwrap();
                    }
                },
            );
            served.unwrap();
        }
    }
}

#[test]
fn a_body_that_is_cut_off_is_one() {
    let server = Server::new(|request: &mut Request<'_>| -> io::Result<&str> {
        let error = request.body_mut().read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        Err(error)
    });
    let (one, other) = crate::pipe();
    let mut stream = crate::connect(one, crate::client_config());
    crate::beside(
        || drop(server.serve_connection(crate::accept(other, server_config()))),
        move || {
            stream.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nbody").unwrap();
            stream.flush().unwrap();
            stream.get_ref().cut();
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all);
            assert!(all.starts_with(b"HTTP/1.1 400 "), "{}", String::from_utf8_lossy(&all));
        },
    );
}

#[test]
fn a_panic_of_a_handler_is_answered() {
    let server = Server::new(|request: &mut Request<'_>| {
        assert_ne!(request.uri().path(), "/panic", "a planned panic");
        "fine"
    });
    with_server(server.config(Config::new()), server_config(), |address| {
        assert!(ask(&mut client(address), "/panic").unwrap().starts_with("HTTP/1.1 500 "));
        assert!(ask(&mut client(address), "/").unwrap().ends_with("fine"));
    });
}

#[test]
fn an_upgraded_connection_is_secured_too() {
    let server = Server::new(|_: &mut Request<'_>| {
        let payload = Payload::upgrade(|mut stream| {
            let mut got = Vec::new();
            while !got.ends_with(b"!") {
                stream.readable_source().unwrap().wait()??;
                let mut some = [0; 7];
                let count = stream.read(&mut some)?;
                got.extend_from_slice(&some[..count]);
            }
            stream.write_all(&got)
        });
        http::Response::builder().header("upgrade", "echo").body(payload).unwrap()
    });
    with_server(server.config(plain()), server_config(), |address| {
        let mut stream = client(address);
        let head = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
        // Read too much, together with the request; then in a record of its own.
        stream.write_all(format!("{head}one and ").as_bytes()).unwrap();
        stream.flush().unwrap();
        stream.write_all(b"the other one, in many pieces!").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        let text = String::from_utf8(all).unwrap();
        assert!(text.starts_with("HTTP/1.1 101 "), "{text}");
        assert!(text.ends_with("\r\n\r\none and the other one, in many pieces!"), "{text}");
    });
}

/// Their time is longer than the patience of this test.
#[test]
fn a_client_that_is_silent_in_the_handshake_gives_up_its_place() {
    let config = plain().handshake_timeout(PATIENCE * 10).max_connections(1);
    with_server(Server::new(echo).config(config), server_config(), |address| {
        let silent = dial(address);
        assert!(ask(&mut client(address), "/here").unwrap().ends_with("GET /here "));
        drop(silent);
    });
}

/// Each byte of a hello in a handshake record of its own.
#[test]
fn a_hello_in_fragments_is_not_read_byte_by_byte() {
    struct Counted(io::Cursor<Vec<u8>>, Rc<Cell<usize>>);
    impl Read for Counted {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.1.set(self.1.get() + 1);
            self.0.read(buf)
        }
    }
    impl Write for Counted {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Transport for Counted {
        fn set_read_timeout(&self, _: Option<Duration>) -> io::Result<()> {
            Ok(())
        }
        fn set_write_timeout(&self, _: Option<Duration>) -> io::Result<()> {
            Ok(())
        }
        fn shutdown_write(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    // A hello of 65,535 bytes is announced.
    let mut records = vec![22, 3, 1, 0, 4, 1, 0, 255, 255];
    while records.len() < 120_000 {
        records.extend([22, 3, 3, 0, 2, 0, 0]);
    }
    let reads = Rc::new(Cell::new(0));
    let acceptor = tls::Acceptor::new(server_config()).unwrap();
    let mut stream = acceptor.accept(Counted(io::Cursor::new(records), Rc::clone(&reads))).unwrap();
    stream.handshake().unwrap_err();
    assert!((1..200).contains(&reads.get()), "{}", reads.get());
}
