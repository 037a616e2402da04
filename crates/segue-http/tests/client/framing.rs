//! How a client finds the end of a response, however its bytes are cut.

use super::common::{Step, send};
use super::{Outcome, connect, exchange, get};

/// Responses, the method that they answer, their outcome, and whether the connection is reusable.
const RESPONSES: [(&str, &str, u16, &str, usize, bool); 17] = [
    ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", 200, "hello", 0, true),
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", 0, true),
    ("GET", "HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx", 200, "x", 0, true),
    ("GET", "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno", 404, "no", 0, false),
    ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: a, Close\r\n\r\nok", 200, "ok", 0, false),
    ("GET", "HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end", 0, false),
    ("GET", "HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end", 0, false),
    ("GET", "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nold", 200, "old", 0, false),
    ("GET", "HTTP/1.0 200 OK\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\nold", 200, "old", 0, true),
    (
        "GET",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n",
        200,
        "hello!",
        0,
        true,
    ),
    (
        "GET",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nsum: 1\r\nmore: 2\r\n\r\n",
        200,
        "ab",
        2,
        true,
    ),
    ("GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", 0, true),
    ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 100\r\n\r\n", 304, "", 0, true),
    ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", 200, "", 0, true),
    ("HEAD", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", 200, "", 0, true),
    ("HEAD", "HTTP/1.1 200 OK\r\n\r\n", 200, "", 0, true),
    (
        "GET",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\ny",
        200,
        "y",
        0,
        true,
    ),
];

fn check(steps: Vec<Step>, (method, text, status, body, trailers, reusable): (&str, &str, u16, &str, usize, bool)) {
    let (mut connection, _) = connect(steps);
    let mut request = get("/");
    *request.method_mut() = method.parse().unwrap();
    let outcome: Outcome = exchange(&mut connection, request).unwrap();
    assert_eq!(outcome, (status, body.as_bytes().to_vec(), trailers), "{text:?}");
    assert_eq!(connection.is_reusable(), reusable, "{text:?}");
}

#[test]
fn a_response_ends_where_its_head_says() {
    for case in RESPONSES {
        check(vec![send(case.1), Step::End], case);
    }
}

#[test]
fn a_response_is_the_same_however_its_bytes_are_cut() {
    for case in RESPONSES {
        let bytes = case.1.as_bytes();
        for cut in 1..bytes.len() {
            check(vec![send(&bytes[..cut]), send(&bytes[cut..]), Step::End], case);
        }
        check(bytes.iter().map(|byte| send([*byte])).chain([Step::End]).collect(), case);
    }
}

#[test]
fn a_connection_answers_one_request_after_the_other() {
    let kept = RESPONSES.iter().filter(|case| case.5 && case.0 == "GET");
    let (mut connection, log) = connect(kept.clone().map(|case| send(case.1)));
    for (number, case) in kept.enumerate() {
        let outcome = exchange(&mut connection, get(&format!("/{number}"))).unwrap();
        assert_eq!(outcome, (case.2, case.3.as_bytes().to_vec(), case.4));
        assert_eq!(log.writes().len(), number + 1);
        assert_eq!(log.writes()[number], format!("GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n").into_bytes());
    }
}
