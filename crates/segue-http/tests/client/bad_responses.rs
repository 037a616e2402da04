//! Responses that a client refuses, each with its reason, and the connection with them.

use segue_http::client::Error;
use segue_http::{BodyError, Config};

use super::common::{Step, pause, send};
use super::{assert_error, body_error, connect, exchange, get, limited};

const STATUS_LINE: Error = Error::Malformed("malformed status line");
const VERSION: Error = Error::Malformed("neither HTTP/1.1 nor HTTP/1.0");
const LENGTH: Error = Error::Malformed("malformed Content-Length");
const NAME: Error = Error::Malformed("malformed header name");
const VALUE: Error = Error::Malformed("malformed header value");
const FEED: Error = Error::Malformed("a line does not end in CR LF");
const CODING: Error = Error::Malformed("chunked is not the last Transfer-Encoding, or stands twice");

#[test]
fn a_malformed_or_ambiguous_head_is_refused() {
    let cases = [
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", Error::Malformed("an empty line where a response was expected")),
        ("200 OK\r\n\r\n", VERSION),
        ("HTTP/2.0 200 OK\r\n\r\n", VERSION),
        ("HTTP/1.2 200 OK\r\n\r\n", VERSION),
        ("http/1.1 200 OK\r\n\r\n", VERSION),
        ("HTTP/1.1 20 OK\r\n\r\n", STATUS_LINE),
        ("HTTP/1.1 2000 OK\r\n\r\n", STATUS_LINE),
        ("HTTP/1.1 abc OK\r\n\r\n", STATUS_LINE),
        ("HTTP/1.1 099 OK\r\n\r\n", Error::Malformed("malformed status")),
        ("HTTP/1.1 200 O\0K\r\n\r\n", STATUS_LINE),
        ("HTTP/1.1 200 OK\n\n", FEED),
        ("HTTP/1.1 200 OK\r\na: b\n\r\n", FEED),
        ("HTTP/1.1 200 OK\r\na : b\r\n\r\n", NAME),
        ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", NAME),
        ("HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n", NAME),
        ("HTTP/1.1 200 OK\r\na: b\0c\r\n\r\n", VALUE),
        ("HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n", VALUE),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx",
            Error::Malformed("more than one Content-Length"),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: +1\r\n\r\nx", LENGTH),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1,1\r\n\r\nx", LENGTH),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0x1\r\n\r\nx", LENGTH),
        ("HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n", LENGTH),
        ("HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551616\r\n\r\n", LENGTH),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            Error::Malformed("both Transfer-Encoding and Content-Length"),
        ),
        (
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            Error::Malformed("Transfer-Encoding in an HTTP/1.0 message"),
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", CODING),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n", CODING),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", CODING),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            Error::Malformed("the only supported Transfer-Encoding is chunked"),
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
            Error::Malformed("a change of protocols that no request has asked for"),
        ),
        ("HTTP/1.1 200 OK\r\na: b\r\n", Error::Truncated),
        ("HTTP/1.1 100 Continue\r\n\r\n", Error::Closed),
        ("H", Error::Truncated),
        ("", Error::Closed),
    ];
    for (text, expected) in cases {
        let (mut connection, _) = connect([send(text), Step::End]);
        let error = exchange(&mut connection, get("/")).unwrap_err();
        assert_eq!(Error::of(&error), Some(expected), "{text:?}");
        assert!(!connection.is_reusable(), "{text:?}");
        assert_error(connection.send(get("/")), Error::NotReusable);
    }
}

#[test]
fn a_malformed_body_fails_in_its_reads_and_ends_the_connection() {
    let chunked = |rest: &str| format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{rest}");
    let cases = [
        (chunked("5\r\nhel"), BodyError::Truncated),
        (chunked("5\r\nhello\r\n"), BodyError::Truncated),
        (chunked("5\nhello\r\n0\r\n\r\n"), BodyError::Malformed),
        (chunked("-5\r\nhello\r\n0\r\n\r\n"), BodyError::Malformed),
        (chunked("5 \r\nhello\r\n0\r\n\r\n"), BodyError::Malformed),
        (chunked("5\r\nhello0\r\n\r\n"), BodyError::Malformed),
        (chunked("0\r\na b: c\r\n\r\n"), BodyError::Malformed),
        (chunked("0\r\na: b\n\r\n\r\n"), BodyError::Malformed),
        ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello".to_owned(), BodyError::Truncated),
        ("HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n".to_owned(), BodyError::TooLarge),
        (chunked("65\r\n"), BodyError::TooLarge),
        (format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(101)), BodyError::TooLarge),
    ];
    for (text, expected) in cases {
        let (mut connection, _) = limited(Config::new().max_body_bytes(100), [send(&text), Step::End]);
        let error = exchange(&mut connection, get("/")).unwrap_err();
        assert_eq!(body_error(&error), Some(expected), "{text:?}");
        assert!(!connection.is_reusable(), "{text:?}");
    }
}

#[test]
fn a_body_of_the_limit_is_read() {
    let text = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(100));
    let (mut connection, _) = limited(Config::new().max_body_bytes(100), [send(text), Step::End]);
    assert_eq!(exchange(&mut connection, get("/")).unwrap().1.len(), 100);
}

#[test]
fn a_head_beyond_a_limit_is_refused() {
    let long = format!("HTTP/1.1 200 OK\r\na: {}\r\n\r\n", "x".repeat(200));
    for text in [&long[..], &long[..150]] {
        let (mut connection, _) = limited(Config::new().max_head_bytes(100), [send(text), Step::End]);
        assert_error(exchange(&mut connection, get("/")), Error::HeadTooLarge);
    }
    for (allowed, count, fits) in [(3, 3, true), (3, 4, false), (50, 50, true), (50, 51, false)] {
        let text = format!("HTTP/1.1 200 OK\r\n{}content-length: 0\r\n\r\n", "a: b\r\n".repeat(count - 1));
        let (mut connection, _) = limited(Config::new().max_headers(allowed), [send(text)]);
        let result = exchange(&mut connection, get("/"));
        match fits {
            true => assert_eq!(result.unwrap().0, 200),
            false => assert_error(result, Error::TooManyHeaders),
        }
    }
}

#[test]
fn a_server_that_sends_interim_responses_without_end_is_refused() {
    let (mut connection, _) = connect([send("HTTP/1.1 100 Continue\r\n\r\n".repeat(100))]);
    assert_error(exchange(&mut connection, get("/")), Error::Malformed("too many interim responses"));
}

#[test]
fn a_response_that_comes_too_late_is_refused() {
    let config = || Config::new().idle_timeout(secs(20)).head_timeout(secs(5)).body_timeout(secs(7));
    // Nothing at all.
    let (mut connection, log) = limited(config(), []);
    assert_error(exchange(&mut connection, get("/")), Error::TimedOut);
    assert_eq!(log.waited(), secs(20));
    // A head in pieces.
    let pieces = "HTTP/1.1 200 OK\r\n\r\n".bytes().flat_map(|byte| [send([byte]), pause(1)]);
    let (mut connection, log) = limited(config(), pieces);
    assert_error(exchange(&mut connection, get("/")), Error::TimedOut);
    assert_eq!(log.waited(), secs(5));
    // A body in pieces.
    let head = send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n");
    let pieces = std::iter::once(head).chain((0..100).flat_map(|_| [send("x"), pause(1)]));
    let (mut connection, log) = limited(config(), pieces);
    let error = exchange(&mut connection, get("/")).unwrap_err();
    assert_eq!(body_error(&error), Some(BodyError::TimedOut));
    assert_eq!(log.waited(), secs(7));
    assert!(!connection.is_reusable());
}

fn secs(count: u64) -> std::time::Duration {
    std::time::Duration::from_secs(count)
}
