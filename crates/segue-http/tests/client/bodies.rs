//! The bodies of requests: bytes, readers and writers, and servers that do not read them.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use segue_http::Payload;
use segue_http::client::{Connection, Error};

use super::common::{Script, Step, send};
use super::{assert_error, connect};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

fn post(body: impl Into<Payload>) -> http::Request<Payload> {
    http::Request::post("/").header("host", "a").body(body.into()).unwrap()
}

#[test]
fn a_body_is_framed_by_its_length_or_in_chunks() {
    let head = "POST / HTTP/1.1\r\nhost: a\r\n";
    let long = "x".repeat(20_000);
    let cases = [
        (Payload::from("hello"), "content-length: 5\r\n\r\nhello".to_owned()),
        (Payload::empty(), "content-length: 0\r\n\r\n".to_owned()),
        (Payload::from(long.clone()), format!("content-length: 20000\r\n\r\n{long}")),
        (Payload::sized_reader(3, &b"abcdef"[..]), "content-length: 3\r\n\r\nabc".to_owned()),
        (Payload::reader(&b"abc"[..]), "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned()),
        (
            Payload::writer(|out| {
                out.write_all(b"one")?;
                out.flush()?;
                out.write_all(b"four")
            }),
            "transfer-encoding: chunked\r\n\r\n3\r\none\r\n4\r\nfour\r\n0\r\n\r\n".to_owned(),
        ),
        (Payload::writer(|_| Ok(())), "transfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
    ];
    for (body, expected) in cases {
        let (mut connection, log) = connect([send(OK)]);
        let request = post(body);
        assert_eq!(connection.request(request).unwrap().status(), 200);
        assert_eq!(log.text(), format!("{head}{expected}"));
        assert!(connection.is_reusable());
    }
}

#[test]
fn headers_that_frame_the_body_are_the_connections() {
    let (mut connection, log) = connect([send(OK)]);
    let request = http::Request::put("/").header("host", "a").header("content-length", "7");
    let request = request.header("transfer-encoding", "gzip").body("abc").unwrap();
    connection.request(request).unwrap();
    assert_eq!(log.text(), "PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc");
}

#[test]
fn a_body_that_fails_ends_the_connection_without_a_last_chunk() {
    let (mut connection, log) = connect([send(OK)]);
    let error = connection.request(post(Payload::writer(|out| {
        out.write_all(b"abc")?;
        out.flush()?;
        Err(io::Error::other("no more"))
    })));
    assert_eq!(error.unwrap_err().to_string(), "no more");
    assert!(!connection.is_reusable());
    assert!(log.text().ends_with("3\r\nabc\r\n"));
    let (mut connection, _) = connect([send(OK)]);
    let error = connection.request(post(Payload::sized_reader(9, &b"abc"[..]))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_error(connection.send(post("x")), Error::NotReusable);
}

#[test]
fn a_body_that_panics_ends_the_connection() {
    let (mut connection, _) = connect([send(OK)]);
    let request = post(Payload::writer(|_| panic!("planted")));
    catch_unwind(AssertUnwindSafe(|| connection.request(request).map(drop))).unwrap_err();
    assert!(!connection.is_reusable());
    assert_eq!(connection.waiting(), 0);
}

/// Once within a body, and once when a small request is sent.
#[test]
fn a_response_of_a_server_that_does_not_read_the_body_is_returned() {
    let early = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 4\r\n\r\nmuch";
    for (size, taken) in [(1 << 20, 100_000), (10, 0)] {
        let mut script = Script::new([send(early), Step::End]);
        script.write_limit = taken;
        let mut connection = Connection::new(script);
        let response = connection.request(post("x".repeat(size))).unwrap();
        assert_eq!(response.status(), 413);
        assert_eq!(io::read_to_string(response.into_body()).unwrap(), "much");
        assert!(!connection.is_reusable());
    }
    // Without a response, the error is that of the write.
    let mut script = Script::new([Step::End]);
    script.write_limit = 10;
    let mut connection = Connection::new(script);
    assert_eq!(connection.request(post("x")).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}
