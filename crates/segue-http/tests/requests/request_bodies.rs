//! Bodies of requests: framing, trailers, `Expect: 100-continue`, and what a handler leaves unread.

use crate::common;

use std::io::{self, Read};

use common::*;
use segue_http::{BodyError, Request};

const NEXT: &str = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n";

fn post(lines: &str, body: &str) -> String {
    format!("POST /p HTTP/1.1\r\nHost: h\r\n{lines}\r\n{body}")
}

fn statuses(log: &Log) -> Vec<u16> {
    log.responses().iter().map(|reply| reply.status).collect()
}

#[test]
fn a_body_ends_where_its_length_says() {
    let log = serve(plain(), [send(post("Content-Length: 5\r\n", "hello") + NEXT), Step::End], echo);
    let replies = log.responses();
    assert_eq!(replies[0].text(), "POST /p hello");
    assert_eq!(replies[1].text(), "GET /next ");
}

#[test]
fn a_request_without_a_length_has_no_body() {
    let log = serve(plain(), [send(post("", "") + NEXT), Step::End], |request| {
        format!("{:?} {}", request.body().remaining(), echo(request).unwrap())
    });
    assert_eq!(log.responses()[0].text(), "Some(0) POST /p ");
    assert_eq!(log.responses().len(), 2);
}

#[test]
fn chunks_are_put_together() {
    let body = "3\r\nhel\r\n0002;x=\"y\"\r\nlo\r\nA\r\n0123456789\r\n0\r\n\r\n";
    let log = serve(plain(), [send(post("Transfer-Encoding: chunked\r\n", body) + NEXT), Step::End], echo);
    let replies = log.responses();
    assert_eq!(replies[0].text(), "POST /p hello0123456789");
    assert_eq!(replies[1].text(), "GET /next ");
}

#[test]
fn trailers_show_after_the_body_and_stay_out_of_the_headers() {
    let body = "1\r\na\r\n0\r\nDigest: abc\r\nHost: evil\r\n\r\n";
    let log = serve(plain(), [send(post("Transfer-Encoding: chunked\r\n", body) + NEXT), Step::End], |request| {
        let before = (request.body().trailers().len(), request.body().remaining());
        io::copy(request.body_mut(), &mut io::sink()).unwrap();
        let body = request.body();
        format!("{before:?} {:?} {:?} {:?}", body.trailers()["digest"], body.remaining(), request.headers()["host"])
    });
    assert_eq!(log.responses()[0].text(), "(0, None) \"abc\" Some(0) \"h\"");
}

#[test]
fn reading_after_the_end_gives_nothing_and_does_not_reach_the_next_request() {
    for request in [post("Content-Length: 1\r\n", "a"), post("Transfer-Encoding: chunked\r\n", "1\r\na\r\n0\r\n\r\n")] {
        let log = serve(plain(), [send(request + NEXT), Step::End], |request| {
            let mut counts = vec![];
            for _ in 0..4 {
                counts.push(request.body_mut().read(&mut [0; 100]).unwrap());
            }
            format!("{counts:?}")
        });
        let texts: Vec<_> = log.responses().iter().map(|reply| reply.text().to_string()).collect();
        assert_eq!(texts, ["[1, 0, 0, 0]", "[0, 0, 0, 0]"]);
    }
}

#[test]
fn the_interim_response_is_sent_when_the_handler_reads() {
    let request = post("Expect: 100-continue\r\nContent-Length: 5\r\n", "");
    let log = serve(plain(), [send(request), send("hello"), send(NEXT), Step::End], |request| {
        assert_eq!(request.body_mut().read(&mut []).unwrap(), 0);
        echo(request)
    });
    assert_eq!(log.writes()[0], b"HTTP/1.1 100 Continue\r\n\r\n");
    let replies = log.responses();
    assert_eq!(statuses(&log), [100, 200, 200]);
    assert_eq!(replies[1].text(), "POST /p hello");
}

#[test]
fn without_a_read_there_is_no_interim_response_and_the_connection_ends() {
    for framing in ["Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"] {
        let request = post(&format!("Expect: 100-Continue\r\n{framing}"), "");
        let log = serve(plain(), [send(request), send(NEXT), Step::End], |_| http::StatusCode::FORBIDDEN);
        assert_eq!(statuses(&log), [403]);
        assert_eq!(log.responses()[0].header("connection"), Some("close"));
    }
}

#[test]
fn no_interim_response_without_a_body_or_to_http_1_0_or_to_what_is_refused() {
    let log = serve(plain(), [send(post("Expect: 100-continue\r\n", "")), Step::End], echo);
    assert_eq!(statuses(&log), [200]);
    let old = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx";
    let log = serve(plain(), [send(old), Step::End], echo);
    assert_eq!(statuses(&log), [200]);
    let large = post("Expect: 100-continue\r\nContent-Length: 1000\r\n", "");
    let log = serve(plain().max_body_bytes(999), [send(large), Step::End], echo);
    assert_eq!(statuses(&log), [413]);
}

#[test]
fn a_little_that_is_left_unread_is_discarded() {
    let chunked = format!("8000\r\n{}\r\n0\r\n\r\n", "x".repeat(0x8000));
    for request in
        [post("Content-Length: 40000\r\n", &"x".repeat(40_000)), post("Transfer-Encoding: chunked\r\n", &chunked)]
    {
        let (first, second) = request.split_at(20_000);
        let log = serve(plain(), [send(first), send(second), send(NEXT), Step::End], |_: &mut Request<'_>| "ok");
        assert_eq!(statuses(&log), [200, 200]);
        // The client need not finish sending to have its answer.
        let answered = log.events().iter().position(|event| matches!(event, Event::Write(_))).unwrap();
        assert!(log.events()[answered..].iter().any(|event| matches!(event, Event::Read(_))));
    }
}

#[test]
fn much_that_is_left_unread_ends_the_connection() {
    let log = serve(plain(), [send(post("Content-Length: 1000000\r\n", "some")), send(NEXT), Step::End], |_| "no");
    assert_eq!(statuses(&log), [200]);
    assert_eq!(log.responses()[0].header("connection"), Some("close"));
    assert!(log.events().contains(&Event::ShutdownWrite));

    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    let chunks = std::iter::repeat_n(send(chunk), 100);
    let log = serve(plain(), [send(post("Transfer-Encoding: chunked\r\n", ""))].into_iter().chain(chunks), |_| "no");
    assert_eq!(statuses(&log), [200]);
    assert!(log.events().contains(&Event::ShutdownWrite));
    let reads = log.events().iter().filter(|event| matches!(event, Event::Read(_))).count();
    assert!(reads < 60, "the client's patience is not ours: {reads}");
}

#[test]
fn a_body_that_breaks_off_fails_the_read_and_ends_the_connection() {
    for (request, end) in [
        (post("Content-Length: 5\r\n", "hel"), Step::End),
        (post("Transfer-Encoding: chunked\r\n", "5\r\nhel"), Step::End),
        (post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"), Step::End),
        (post("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nX: y\r\n"), Step::End),
        (post("Content-Length: 5\r\n", "hel"), Step::Break),
    ] {
        let log = serve(plain(), [send(&request), end.clone()], |request| {
            let error = echo(request).unwrap_err();
            let again = request.body_mut().read(&mut [0]).unwrap_err();
            assert_eq!(again.get_ref().unwrap().downcast_ref(), Some(&BodyError::Truncated));
            format!("{:?}", error.kind())
        });
        let kind = if matches!(end, Step::End) { "UnexpectedEof" } else { "ConnectionReset" };
        assert_eq!(log.responses()[0].text(), kind, "{request:?}");
        assert_eq!(log.responses()[0].header("connection"), Some("close"));
    }
    let log = serve(plain(), [send(post("Content-Length: 5\r\n", "hel")), Step::End], echo);
    assert_eq!(statuses(&log), [400]);
}

#[test]
fn a_handler_may_answer_a_failed_body_as_it_likes_but_the_connection_ends() {
    let chunks = post("Transfer-Encoding: chunked\r\n", "a\r\n0123456789\r\n0\r\n\r\n") + NEXT;
    let log = serve(plain().max_body_bytes(5), [send(&chunks), Step::End], |request| {
        let error = echo(request).unwrap_err();
        let inner = error.get_ref().unwrap().downcast_ref::<BodyError>();
        assert_eq!(inner, Some(&BodyError::TooLarge));
        (http::StatusCode::IM_A_TEAPOT, "not today")
    });
    assert_eq!(statuses(&log), [418]);
    // One that panics over it is answered with what was wrong.
    let log = serve(plain().max_body_bytes(5), [send(&chunks), Step::End], |request| echo(request).unwrap());
    assert_eq!(statuses(&log), [413]);
    // One that does not read it is not concerned.
    let log = serve(plain().max_body_bytes(5), [send(&chunks), Step::End], |_| "fine");
    assert_eq!(statuses(&log), [200]);
    assert_eq!(log.responses()[0].header("connection"), Some("close"));
}

#[test]
fn header_values_are_kept_as_they_came() {
    let request = "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB:  two words \t\r\nC:\r\nD: \u{e9}\r\nA: 2\r\n\r\n";
    let short = "GET / HTTP/1.1\r\nHost: h\r\nB:  two words \t\r\nC:\r\n\r\n";
    let log = serve(plain(), [send(request), send(short), Step::End], |request| {
        let headers = request.headers();
        let all: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        all.join(" ")
    });
    let texts: Vec<_> = log.responses().iter().map(|reply| reply.text().to_string()).collect();
    assert_eq!(texts, ["host=h a=1 a=2 b=two words c= d=\u{e9}", "host=h b=two words c="]);
}
