//! The limit of a request's body, as its handler sets that.

use crate::common;

use std::io::Read;

use common::*;
use segue_http::{BodyError, Request};

const NEXT: &str = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n";

/// A body of ten bytes, and another request behind it.
fn bodies() -> [(&'static str, String); 2] {
    let head = "POST / HTTP/1.1\r\nHost: h\r\n";
    let chunks = "4\r\n0123\r\n6\r\n456789\r\n0\r\n\r\n";
    [
        ("a length", format!("{head}Content-Length: 10\r\n\r\n0123456789{NEXT}")),
        ("chunks", format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}{NEXT}")),
    ]
}

fn statuses(log: &Log) -> Vec<u16> {
    log.responses().iter().map(|reply| reply.status).collect()
}

#[test]
fn a_handler_sets_a_larger_or_a_smaller_limit_than_the_servers() {
    for (kind, request) in bodies() {
        for (servers, handlers, expected) in [
            (5, None, vec![413]),
            (5, Some(9), vec![413]),
            (5, Some(10), vec![200, 200]),
            (5, Some(u64::MAX), vec![200, 200]),
            (100, None, vec![200, 200]),
            (100, Some(10), vec![200, 200]),
            (100, Some(9), vec![413]),
            (100, Some(0), vec![413]),
            (0, Some(10), vec![200, 200]),
        ] {
            let log = serve(plain().max_body_bytes(servers), [send(&request), Step::End], |request| {
                if let Some(limit) = handlers.filter(|_| request.uri().path() == "/") {
                    request.body_mut().limit(limit);
                }
                echo(request)
            });
            assert_eq!(statuses(&log), expected, "{kind}: {servers}, {handlers:?}");
            let last = log.responses().pop().unwrap();
            assert_eq!(last.header("connection"), (expected == [413]).then_some("close"), "{kind}");
        }
    }
}

#[test]
fn a_handler_that_reads_nothing_of_a_body_that_is_too_large_answers_as_ever() {
    for (kind, request) in bodies() {
        let log = serve(plain().max_body_bytes(5), [send(&request), Step::End], |_| http::StatusCode::UNAUTHORIZED);
        assert_eq!(statuses(&log), [401], "{kind}");
        assert_eq!(log.responses()[0].header("connection"), Some("close"), "{kind}");
    }
}

#[test]
fn a_limit_counts_from_the_beginning_of_the_body_whenever_it_is_set() {
    for (kind, request) in bodies() {
        for (limit, fits) in [(10, true), (9, false), (4, false), (3, false)] {
            let log = serve(plain(), [send(&request), Step::End], |request: &mut Request<'_>| {
                if request.uri().path() == "/next" {
                    return "next".to_owned();
                }
                let body = request.body_mut();
                body.read_exact(&mut [0; 4]).unwrap();
                let mut rest = String::new();
                match body.limit(limit).read_to_string(&mut rest) {
                    Ok(_) => rest,
                    Err(error) => format!("{:?}", error.get_ref().and_then(|e| e.downcast_ref::<BodyError>())),
                }
            });
            // A chunked body of which one chunk fits is a byte too long only in the next chunk.
            let expected = if fits { "456789" } else { "Some(TooLarge)" };
            assert_eq!(log.responses()[0].text(), expected, "{kind}: {limit}");
        }
    }
}

#[test]
fn a_client_is_not_told_to_send_a_body_that_is_too_large() {
    let ask = |framing: &str| format!("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n{framing}\r\n\r\n");
    let limited = |limit: u64| {
        let steps = [send(ask("Content-Length: 10")), send("0123456789"), Step::End];
        serve(plain(), steps, move |request| {
            request.body_mut().limit(limit);
            echo(request)
        })
    };
    assert_eq!(statuses(&limited(9)), [413]);
    assert_eq!(statuses(&limited(10)), [100, 200]);
}
