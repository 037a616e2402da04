//! The heads of requests, and requests that a client does not send.

use http::{Method, Request, Version};
use segue_http::client::Error;

use super::common::send;
use super::{assert_error, connect, get};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

#[test]
fn the_target_is_the_path_and_the_host_the_authority() {
    let cases = [
        ("http://example.org/a?b=c", "GET /a?b=c HTTP/1.1\r\nhost: example.org\r\n\r\n"),
        ("http://example.org:8080", "GET / HTTP/1.1\r\nhost: example.org:8080\r\n\r\n"),
        ("http://user:word@example.org/", "GET / HTTP/1.1\r\nhost: example.org\r\n\r\n"),
        ("http://example.org?b=c", "GET /?b=c HTTP/1.1\r\nhost: example.org\r\n\r\n"),
        ("http://[::1]:80/", "GET / HTTP/1.1\r\nhost: [::1]:80\r\n\r\n"),
    ];
    for (uri, expected) in cases {
        let (mut connection, log) = connect([send(OK)]);
        connection.request(Request::get(uri).body(()).unwrap()).unwrap();
        assert_eq!(log.text(), expected);
    }
    let (mut connection, log) = connect([send(OK)]);
    let request = Request::options("*").header("host", "b").header("x-a", "1").header("x-a", "2").body(()).unwrap();
    connection.request(request).unwrap();
    assert_eq!(log.text(), "OPTIONS * HTTP/1.1\r\nhost: b\r\nx-a: 1\r\nx-a: 2\r\n\r\n");
}

#[test]
fn a_request_that_cannot_be_sent_is_refused_and_leaves_the_connection() {
    let change = |change: fn(&mut Request<()>)| {
        let mut request = get("/");
        change(&mut request);
        request
    };
    let cases = [
        change(|request| *request.method_mut() = Method::CONNECT),
        change(|request| *request.version_mut() = Version::HTTP_10),
        change(|request| *request.version_mut() = Version::HTTP_2),
        change(|request| *request.uri_mut() = "*".parse().unwrap()),
        change(|request| *request.uri_mut() = "example.org:80".parse().unwrap()),
        change(|request| *request.uri_mut() = "https://example.org/".parse().unwrap()),
        change(|request| request.headers_mut().clear()),
        change(|request| assert!(request.headers_mut().append("host", "b".parse().unwrap()))),
    ];
    let (mut connection, log) = connect([send(OK)]);
    for request in cases {
        let shown = format!("{request:?}");
        let error = connection.send(request).unwrap_err();
        assert!(matches!(Error::of(&error), Some(Error::Request(_))), "{shown}");
        assert!(connection.is_reusable());
    }
    assert_error(connection.receive().map(drop), Error::NoRequest);
    assert_eq!(connection.request(get("/")).unwrap().status(), 200);
    assert_eq!(log.text(), "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
}

#[test]
fn a_request_that_says_close_is_the_last_one() {
    let (mut connection, _) = connect([send(OK)]);
    let request = Request::get("/").header("host", "a").header("connection", "close").body(()).unwrap();
    assert_eq!(connection.request(request).unwrap().status(), 200);
    assert!(!connection.is_reusable());
    assert_error(connection.send(get("/")), Error::NotReusable);
}
