//! JSON: bodies of every kind that is refused, the limits, and responses.

use std::collections::HashMap;
use std::io;

use http::StatusCode;
use segue_http::{Config, Json, Request, Router, Server};
use segue_sched::Sim;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::{Reply, Script, Step, plain, replies, send};
use crate::{ask_bytes, get, post};

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Note {
    title: String,
    stars: u8,
}

fn mirror() -> Router<'static> {
    Router::new().post("/", |request| -> io::Result<Json<Note>> { Ok(Json(Json::read(request)?)) })
}

const TYPE: &str = "application/json";
const WRONG: &str = "the body is not the JSON that was expected: ";

#[test]
fn a_value_is_read_and_sent() {
    let reply = ask_bytes(&mirror(), &post(TYPE, " {\"stars\": 5, \"title\": \"a\\u00e4\"}\r\n"));
    assert_eq!((reply.status, reply.header("content-type")), (200, Some(TYPE)));
    assert_eq!(reply.text(), "{\"title\":\"aä\",\"stars\":5}");
    let router = Router::new().get("/", |_| (StatusCode::CREATED, [("x-a", "1")], Json([1, 2])));
    let reply = get(&router, "/");
    assert_eq!((reply.status, reply.header("x-a"), reply.text()), (201, Some("1"), "[1,2]"));
}

#[test]
fn a_value_that_cannot_be_serialised_is_an_internal_error() {
    let router = Router::new().get("/", |_| Json(HashMap::from([((1, 2), 3)])));
    assert_eq!((get(&router, "/").status, get(&router, "/").text()), (500, "internal server error"));
}

#[test]
fn bodies_that_are_no_such_value_are_refused_with_their_place() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "line 1, column 0: EOF while parsing a value"),
        (b"  \n ", "line 2, column 1: EOF while parsing a value"),
        (b"{", "line 1, column 1: EOF while parsing an object"),
        (b"{\"title\": \"a\",\n \"stars\": 5", "line 2, column 11: EOF while parsing an object"),
        (b"{\"title\": \"a\",\n \"stars\": 5,}", "line 2, column 13: trailing comma"),
        (b"{\"title\": \"a\"}", "line 1, column 14: missing field `stars`"),
        (b"{\"title\": \"a\", \"stars\": 256}", "line 1, column 27: invalid value: integer `256`, expected u8"),
        (b"{\"title\": \"a\", \"stars\": -1}", "line 1, column 26: invalid value: integer `-1`, expected u8"),
        (b"{\"title\": 1, \"stars\": 5}", "line 1, column 11: invalid type: integer `1`, expected a string"),
        (b"{\"title\": \"a\", \"title\": \"b\", \"stars\": 5}", "line 1, column 22: duplicate field `title`"),
        (b"{\"title\": \"\\ud800\", \"stars\": 5}", "line 1, column 18: unexpected end of hex escape"),
        (b"{\"title\": \"a\nb\", \"stars\": 5}", "line 2, column 0: control character (\\u0000-\\u001F) found"),
        (b"{\"title\": \"a\", \"stars\": 5} x", "line 1, column 28: trailing characters"),
        (b"{\"title\": \"a\", \"stars\": 5}{}", "line 1, column 27: trailing characters"),
        (b"nul", "line 1, column 3: EOF while parsing a value"),
        (b"[1, 2", "line 1, column 2: invalid type: integer `1`, expected a string"),
        (b"\xef\xbb\xbf{}", "line 1, column 1: expected value"),
        (b"a=1&b=2", "line 1, column 1: expected value"),
    ];
    let router = mirror();
    for (body, expected) in cases {
        let reply = ask_bytes(&router, &post(TYPE, body));
        let shown = String::from_utf8_lossy(body);
        assert_eq!(reply.status, 400, "{shown}");
        let told = reply.text().strip_prefix(WRONG).unwrap_or_else(|| panic!("{shown}: {}", reply.text()));
        assert!(told.starts_with(expected), "{shown}: {told}");
    }
}

#[test]
fn a_body_that_is_not_utf8_is_refused_wherever_that_is() {
    let router = Router::new().post("/", |request| -> io::Result<String> {
        // This type skips all strings.
        let _: serde::de::IgnoredAny = Json::read(request)?;
        Ok("read".to_owned())
    });
    for (body, place) in [
        (&b"\"a\xffb\""[..], "line 1, column 3"),
        (b"{\n \"a\xc0\xae\": 1}", "line 2, column 4"),
        (b"[1]\n\n\xed\xa0\x80", "line 3, column 1"),
        (b"\xff\xfe[\0]\0", "line 1, column 1"),
    ] {
        let reply = ask_bytes(&router, &post(TYPE, body));
        assert_eq!((reply.status, reply.text()), (400, &*format!("the body is not UTF-8: {place}")));
    }
    assert_eq!(ask_bytes(&router, &post(TYPE, "\"ä\"")).text(), "read");
}

#[test]
fn a_message_quotes_little_of_the_body() {
    let body = format!("{{\"{}\": 1}}", "ä".repeat(10_000));
    let reply = ask_bytes(&mirror(), &post(TYPE, body));
    assert_eq!(reply.status, 400);
    assert!(reply.text().starts_with(&format!("{WRONG}line 1, column 20003: unknown field `ää")), "{}", reply.text());
    assert!(reply.text().ends_with("ä...") && reply.text().len() < 250, "{}", reply.text());
}

#[test]
fn another_content_type_is_refused() {
    let router = mirror();
    for (content_type, status) in [
        (TYPE, 200),
        ("Application/JSON", 200),
        ("application/json; charset=utf-8", 200),
        ("application/json;charset=utf-8", 200),
        ("application/problem+json", 200),
        ("application/vnd.api+JSON; version=1", 200),
        ("text/json", 415),
        ("text/plain", 415),
        ("application/jsonp", 415),
        ("application/json-seq", 415),
        ("+json", 415),
        ("json", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
        ("ä+json", 415),
    ] {
        let reply = ask_bytes(&router, &post(content_type, "{\"title\": \"a\", \"stars\": 5}"));
        assert_eq!(reply.status, status, "{content_type}");
    }
    let reply = ask_bytes(&router, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}");
    assert_eq!((reply.status, reply.text()), (415, "the body has to be of the content type application/json"));
}

/// The reply to a body of `size` bytes, in chunks of `chunk` or with a declared length.
fn sized(size: usize, chunk: Option<usize>, limit: u64) -> Vec<Reply> {
    let body = format!("\"{}\"", "x".repeat(size - 2));
    let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Type: {TYPE}\r\n");
    let request = match chunk {
        None => format!("{head}Content-Length: {size}\r\n\r\n{body}"),
        Some(chunk) => {
            let chunks = body.as_bytes().chunks(chunk).map(|part| std::str::from_utf8(part).unwrap());
            let chunks: String = chunks.map(|part| format!("{:x}\r\n{part}\r\n", part.len())).collect();
            format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")
        }
    };
    let router = Router::new().post("/", |request| -> io::Result<String> {
        let text: String = Json::read(request)?;
        Ok(text.len().to_string())
    });
    let script = Script::new([send(request), Step::End]);
    let log = script.log();
    let server = Server::new(|request| router.handle(request)).config(plain().max_body_bytes(limit));
    let _ = server.serve_connection(script);
    log.responses()
}

#[test]
fn a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_too_large() {
    for limit in [2, 3, 100, 20_000, 100_000] {
        for chunk in [None, Some(1_000), Some(1), Some(1 << 20)] {
            if chunk == Some(1) && limit > 100 {
                continue;
            }
            let replies = sized(limit, chunk, limit as u64);
            assert_eq!((replies.len(), replies[0].status), (1, 200), "{limit} {chunk:?}");
            assert_eq!(replies[0].text(), (limit - 2).to_string());
            let replies = sized(limit + 1, chunk, limit as u64);
            assert_eq!((replies.len(), replies[0].status), (1, 413), "{limit} {chunk:?}");
            assert_eq!(replies[0].text(), "the body is too long");
            assert_eq!(replies[0].header("connection"), Some("close"));
        }
    }
}

#[test]
fn a_body_that_does_not_arrive_is_answered_as_such_and_not_as_malformed() {
    let whole = post(TYPE, "{\"title\": \"a\", \"stars\": 5}");
    let cut = &whole[..whole.len() - 1];
    let status = |steps: Vec<Step>| {
        let script = Script::new(steps);
        let log = script.log();
        let router = mirror();
        let _ = Server::new(|request| router.handle(request)).config(plain()).serve_connection(script);
        replies(&log.output(), &[]).first().map(|reply| (reply.status, reply.text().to_owned()))
    };
    let said = |status: u16, text: &str| Some((status, text.to_owned()));
    assert_eq!(status(vec![send(cut), Step::End]), said(400, "the body is cut short"));
    assert_eq!(status(vec![send(cut)]), said(408, "the body did not arrive in time"));
    // There is nobody to be told.
    assert!(status(vec![send(cut), Step::Break]).is_none_or(|(status, _)| status == 500));
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Type: {TYPE}\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}x\r\n0\r\n\r\n"
    );
    assert_eq!(status(vec![send(chunked), Step::End]), said(400, "the body is malformed"));
}

#[test]
fn a_declared_length_takes_no_memory_before_the_bytes_come() {
    // With a length of many gigabytes this would fail at once.
    let router = mirror();
    let head =
        format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Type: {TYPE}\r\nContent-Length: {}\r\n\r\n", u64::MAX / 2);
    let script = Script::new([send(head), Step::End]);
    let log = script.log();
    let config = Config::new().max_body_bytes(u64::MAX);
    let _ = Server::new(|request| router.handle(request)).config(config).serve_connection(script);
    assert_eq!(log.responses()[0].status, 400);
}

/// Runs a handler that reads any JSON with these bodies, in a fiber.
fn in_a_fiber(bodies: &[String]) -> Vec<u16> {
    let handler = |request: &mut Request<'_>| -> io::Result<String> {
        let value: Value = Json::read(request)?;
        Ok(value.is_array().to_string())
    };
    let requests: Vec<u8> = bodies.iter().flat_map(|body| post(TYPE, body)).collect();
    let served = || {
        let script = Script::new([send(&requests), Step::End]);
        let log = script.log();
        let _ = Server::new(handler).config(plain()).serve_connection(script);
        log.responses().iter().map(|reply| reply.status).collect()
    };
    Sim::new(7).run(served).unwrap_or_else(|deadlock| panic!("{deadlock}"))
}

#[test]
fn deep_nesting_is_refused_and_not_followed_in_a_fiber_too() {
    let nested = |open: &str, close: &str, depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
    let bodies = [
        nested("[", "]", 127),
        nested("{\"a\":", "}", 127),
        nested("[", "]", 128),
        nested("[", "]", 100_000),
        "[".repeat(1_000_000),
        nested("{\"a\":", "}", 100_000),
        "[1]".to_owned(),
    ];
    assert_eq!(in_a_fiber(&bodies), [200, 200, 400, 400, 400, 400, 200]);
}
