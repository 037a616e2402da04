//! Whether a connection may be used again: after unread bodies, cancellation and failure.

use std::io::{self, Read, Write};
use std::time::Duration;

use segue_core::{CancelToken, Cancelled};
use segue_http::Payload;
use segue_http::client::{Connection, Error};
use segue_io::net::UnixStream;

use super::common::{Step, pause, send};
use super::{assert_error, connect, exchange, get};

fn answer(size: usize) -> Step {
    send(format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n{}", "x".repeat(size)))
}

fn chunks(count: usize) -> Step {
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1 << 10)).repeat(count);
    send(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"))
}

#[test]
fn a_little_of_an_unread_body_is_discarded() {
    for unread in [answer(64 << 10), chunks(64)] {
        let (mut connection, _) = connect([unread, answer(3)]);
        connection.request(get("/")).unwrap();
        assert!(connection.is_reusable());
        assert_eq!(exchange(&mut connection, get("/")).unwrap().1, b"xxx");
    }
}

#[test]
fn much_of_an_unread_body_ends_the_connection() {
    let (mut connection, log) = connect([answer((64 << 10) + 1), answer(3)]);
    connection.request(get("/")).unwrap();
    assert!(!connection.is_reusable());
    assert_error(connection.send(get("/")), Error::NotReusable);
    assert_eq!(log.writes().len(), 1);
    // Here nobody knows before.
    let (mut connection, log) = connect([chunks(65), answer(3)]);
    connection.request(get("/")).unwrap();
    assert!(connection.is_reusable());
    assert_error(connection.send(get("/")), Error::NotReusable);
    assert!(!connection.is_reusable());
    assert_eq!(log.writes().len(), 1);
}

#[test]
fn a_large_body_of_which_little_is_left_is_discarded() {
    let (mut connection, _) = connect([answer(100_000), answer(3)]);
    let mut body = connection.request(get("/")).unwrap().into_body();
    assert_eq!(body.remaining(), Some(100_000));
    body.read_exact(&mut [0; 50_000]).unwrap();
    assert_eq!(body.remaining(), Some(50_000));
    assert!(connection.is_reusable());
    assert_eq!(exchange(&mut connection, get("/")).unwrap().1, b"xxx");
}

fn cancelled<T>(f: impl FnOnce() -> io::Result<T>) -> bool {
    let token = CancelToken::new();
    token.cancel();
    token.run(f).is_err_and(|error| Cancelled::caused(&error))
}

#[test]
fn a_cancelled_exchange_ends_the_connection() {
    // While the head is awaited.
    let (mut connection, _) = connect([answer(3)]);
    assert!(cancelled(|| exchange(&mut connection, get("/"))));
    assert!(!connection.is_reusable());
    assert_error(connection.send(get("/")), Error::NotReusable);
    assert_error(connection.receive().map(drop), Error::NotReusable);
    // In the body.
    let (mut connection, _) = connect([send("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"), send("xxx")]);
    let mut body = connection.request(get("/")).unwrap().into_body();
    assert!(cancelled(|| body.read_exact(&mut [0; 3])));
    // Nothing of the body is lost.
    assert_eq!(io::read_to_string(&mut body).unwrap(), "xxx");
    assert!(connection.is_reusable());
    // While a request is sent.
    let (mut connection, _) = connect([answer(3)]);
    connection.send(get("/")).unwrap();
    assert!(cancelled(|| connection.flush()));
    assert!(!connection.is_reusable());
    // While an unread body is discarded.
    let (mut connection, _) = connect([send("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"), send("xxx")]);
    connection.request(get("/")).unwrap();
    assert!(cancelled(|| connection.send(get("/"))));
    assert!(!connection.is_reusable());
}

#[test]
fn a_time_limit_of_the_caller_is_a_cancellation_and_not_a_time_out_of_the_connection() {
    // Connections wait in the backlog, and nobody answers.
    let listener = segue_io::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = segue_io::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut connection = Connection::new(stream);
    let limited = segue_core::timeout(Duration::from_millis(5), || connection.request(get("/")).map(drop));
    assert!(limited.is_err_and(|error| Cancelled::caused(&error) && Error::of(&error).is_none()));
    assert!(!connection.is_reusable());
}

#[test]
fn a_broken_connection_is_not_reusable() {
    let (mut connection, _) = connect([send("HTTP/1.1 200"), Step::Break]);
    assert_eq!(exchange(&mut connection, get("/")).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(!connection.is_reusable());
}

#[test]
fn bytes_that_no_request_has_asked_for_end_the_connection() {
    let twice = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".repeat(2);
    let (mut connection, log) = connect([send(twice)]);
    connection.request(get("/")).unwrap();
    assert_error(connection.send(get("/")), Error::Malformed("bytes that no request has asked for"));
    assert!(!connection.is_reusable());
    assert_eq!(log.writes().len(), 1);
}

#[test]
fn a_server_that_has_ended_an_idle_connection_is_found_by_the_next_request() {
    let (mut connection, _) = connect([answer(1), pause(1), Step::End]);
    exchange(&mut connection, get("/")).unwrap();
    assert!(connection.is_reusable());
    assert_error(exchange(&mut connection, get("/")), Error::Closed);
}

/// Over sockets, where the client can look without waiting.
#[test]
fn a_response_that_nobody_has_asked_for_is_not_the_answer_to_the_next_request() {
    let answer = |text: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    let (here, mut there) = UnixStream::pair().unwrap();
    let mut connection = Connection::new(here);
    there.write_all(answer("first").as_bytes()).unwrap();
    let first = connection.request(get("/")).unwrap();
    assert_eq!(io::read_to_string(first.into_body()).unwrap(), "first");
    there.write_all(answer("stray").as_bytes()).unwrap();
    assert!(matches!(Error::of(&connection.send(get("/")).unwrap_err()), Some(Error::Malformed(_))));
    assert!(!connection.is_reusable());
    // The server has gone meanwhile.
    let (here, mut there) = UnixStream::pair().unwrap();
    let mut connection = Connection::new(here);
    there.write_all(answer("first").as_bytes()).unwrap();
    let first = connection.request(get("/")).unwrap();
    assert_eq!(io::read_to_string(first.into_body()).unwrap(), "first");
    drop(there);
    assert_error(connection.send(get("/")), Error::NotReusable);
}

/// The reader of an upload has an error of a kind that sockets have, too.
#[test]
fn an_error_of_the_bodys_reader_is_not_taken_for_the_servers() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    let (mut connection, log) = connect([pause(1_000)]);
    let request = http::Request::post("/").header("host", "a").body(Payload::reader(Broken)).unwrap();
    assert_eq!(connection.request(request).map(drop).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    assert!(!connection.is_reusable() && log.waited().is_zero());
}
