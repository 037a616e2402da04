//! The client against the server of this crate, over TCP on loopback.

use std::io::{self, Read, Write};
use std::thread;
use std::time::Duration;

use segue_http::client::Connection;
use segue_http::{Payload, Request, Response, Server};

/// A read that takes as long hangs.
const HANG: Duration = Duration::from_secs(20);

/// Runs `test` with a connection to a server that answers with the request's body, in chunks where
/// the path says so.
fn with_server(test: impl FnOnce(&mut Connection<std::net::TcpStream>)) {
    let listener = segue_io::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(|request: &mut Request<'_>| -> io::Result<Response> {
        let mut body = Vec::new();
        request.body_mut().read_to_end(&mut body)?;
        Ok(Response::new(match request.uri().path() {
            "/chunks" => Payload::writer(move |out| {
                for piece in body.chunks(1_000) {
                    out.write_all(piece)?;
                    out.flush()?;
                }
                Ok(())
            }),
            _ => Payload::from(body),
        }))
    });
    let shutdown = server.shutdown_handle();
    thread::scope(|scope| {
        scope.spawn(|| server.serve(listener).unwrap());
        let end = Ends(shutdown);
        let stream = std::net::TcpStream::connect(address).unwrap();
        let config = segue_http::Config::new().idle_timeout(HANG);
        test(&mut Connection::with_config(stream, config));
        drop(end);
    });
}

/// The server ends with the test, also with one that fails.
struct Ends(segue_http::Shutdown);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

fn post(path: &str, body: Payload) -> http::Request<Payload> {
    http::Request::post(path).header("host", "localhost").body(body).unwrap()
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn bodies_of_all_sizes_and_framings_come_back() {
    with_server(|connection| {
        for size in [0, 1, 1_000, 4_096, 16_384, 16_385, 70_000, 1_000_000] {
            for path in ["/", "/chunks"] {
                let streamed = io::Cursor::new(pattern(size));
                for body in [Payload::from(pattern(size)), Payload::reader(streamed)] {
                    let mut back = Vec::new();
                    connection.request(post(path, body)).unwrap().into_body().read_to_end(&mut back).unwrap();
                    assert!(back == pattern(size), "{size} {path}");
                    assert!(connection.is_reusable());
                }
            }
        }
    });
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    with_server(|connection| {
        for number in 0..100 {
            connection.send(post("/", format!("{number}").into())).unwrap();
        }
        for number in 0..100 {
            let body = connection.receive().unwrap().into_body();
            assert_eq!(io::read_to_string(body).unwrap(), format!("{number}"));
        }
        assert!(connection.is_reusable());
    });
}

#[test]
fn a_server_that_refuses_a_body_is_heard() {
    with_server(|connection| {
        let response = connection.request(post("/", Payload::from(vec![0; 9 << 20]))).unwrap();
        assert_eq!(response.status(), 413);
        assert!(!connection.is_reusable());
    });
}
