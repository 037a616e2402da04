//! What holds for a connection over several requests: keep-alive, pipelining, writes, buffers.

use crate::common;

use std::io::{self, Read};

use common::*;
use segue_http::{IntoResponse, Request, Server};

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn one_response_is_one_write() {
    let log = serve(plain(), [send(GET), Step::End], |_| "hello");
    let expected = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(log.writes(), [expected.as_bytes()]);
}

#[test]
fn a_connection_serves_requests_until_the_client_ends_it() {
    let log = serve(plain(), [send(GET), send(GET), send(GET), Step::End], echo);
    assert_eq!(log.writes().len(), 3);
    for reply in log.responses() {
        assert_eq!((reply.status, reply.text(), reply.header("connection")), (200, "GET /a ", None));
    }
    assert!(!log.events().contains(&Event::ShutdownWrite));
}

#[test]
fn the_client_can_ask_for_the_end() {
    for value in ["close", "Close", "foo, close", "keep-alive,CLOSE"] {
        let first = format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: {value}\r\n\r\n");
        let log = serve(plain(), [send(first), send(GET), Step::End], echo);
        let replies = log.responses();
        assert_eq!(replies.len(), 1, "{value}");
        assert_eq!(replies[0].header("connection"), Some("close"));
    }
    let log =
        serve(plain(), [send("GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n"), send(GET), Step::End], echo);
    assert_eq!(log.responses().len(), 2);
}

#[test]
fn the_handler_can_ask_for_the_end() {
    let log = serve(plain(), [send([GET, GET].concat()), Step::End], |_| {
        http::Response::builder().header("Connection", "close").body("x").into_response()
    });
    let replies = log.responses();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].header("connection"), Some("close"));
    // The second request may be on its way: closing must not reset the connection.
    assert!(log.events().contains(&Event::ShutdownWrite));
}

#[test]
fn http_1_0_ends_after_a_response_unless_asked() {
    let log = serve(plain(), [send("GET / HTTP/1.0\r\n\r\n"), send(GET), Step::End], echo);
    let replies = log.responses();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].header("connection"), Some("close"));

    let asked = "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    let log = serve(plain(), [send(asked), send(asked), Step::End], echo);
    let replies = log.responses();
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[1].header("connection"), Some("keep-alive"));
}

#[test]
fn pipelined_requests_are_answered_in_order_with_one_write() {
    let requests: String = (0..20).map(|n| format!("GET /{n} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    let log = serve(plain(), [send(requests), Step::End], echo);
    assert_eq!(log.writes().len(), 1);
    let replies = log.responses();
    assert_eq!(replies.len(), 20);
    for (n, reply) in replies.iter().enumerate() {
        assert_eq!(reply.text(), format!("GET /{n} "));
    }
}

#[test]
fn a_response_is_sent_before_the_server_waits_for_the_rest_of_the_next_request() {
    let log = serve(plain(), [send([GET, "GET /b HTTP"].concat()), send("/1.1\r\nHost: h\r\n\r\n"), Step::End], echo);
    let kinds: Vec<bool> = log.events().iter().map(|event| matches!(event, Event::Write(_))).collect();
    assert_eq!(kinds, [false, true, false, true, false]);
}

#[test]
fn pipelined_responses_are_sent_when_they_become_much() {
    let requests = GET.repeat(100);
    let log = serve(plain(), [send(requests), Step::End], |_| vec![b'x'; 10_000]);
    assert_eq!(log.responses().len(), 100);
    assert!(log.writes().iter().all(|write| write.len() < 100_000));
    assert!(log.writes().len() < 30);
}

#[test]
fn a_large_body_is_written_with_its_head() {
    let log = serve(plain(), [send(GET), Step::End], |_| vec![b'x'; 1 << 20]);
    assert_eq!(log.writes().len(), 1);
    assert_eq!(log.responses()[0].body.len(), 1 << 20);
}

#[test]
fn partial_writes_are_continued() {
    let mut script = Script::new([send([GET, GET].concat()), Step::End]);
    script.write_size = 7;
    let log = script.log();
    Server::new(|_| vec![b'x'; 20_000]).config(plain()).serve_connection(script).unwrap();
    let replies = log.responses();
    assert_eq!(replies.len(), 2);
    assert!(replies.iter().all(|reply| reply.body == vec![b'x'; 20_000]));
}

#[test]
fn an_idle_connection_has_no_buffers() {
    let post = [b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n".to_vec(), vec![b'x'; 100_000]].concat();
    let big = [format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(10_000)).into_bytes()].concat();
    let log = serve(plain(), [send(GET), send(post), send(big), Step::End], |request| {
        // Byte by byte, so that it goes through the connection's buffer.
        let (mut count, mut byte) = (0, [0]);
        while request.body_mut().read(&mut byte).unwrap() > 0 {
            count += 1;
        }
        count.to_string()
    });
    assert_eq!(log.responses().iter().map(|reply| reply.text().to_string()).collect::<Vec<_>>(), ["0", "100000", "0"]);
    // A connection that waits for a request reads into what its fiber's stack has room for,
    // whatever came before.
    let events = log.events();
    let mut idle = vec![];
    for pair in events.windows(2) {
        if let (Event::Write(_), Event::Read(size)) = (&pair[0], &pair[1]) {
            idle.push(*size);
        }
    }
    assert_eq!(idle, [512, 512, 512]);
    assert!(events.iter().any(|event| matches!(event, Event::Read(size) if *size > 4096)));
}

#[test]
fn a_large_read_goes_past_the_buffer() {
    let post = [b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n".to_vec(), vec![b'x'; 100_000]].concat();
    let log = serve(plain(), [send(post), Step::End], |request| {
        let mut body = vec![0; 100_000];
        request.body_mut().read_exact(&mut body).map(|()| body)
    });
    assert_eq!(log.responses()[0].body, vec![b'x'; 100_000]);
    assert!(log.events().iter().any(|event| matches!(event, Event::Read(size) if *size > 90_000)));
}

#[test]
fn empty_lines_before_a_request_are_skipped_but_not_without_end() {
    let log = serve(plain(), [send(format!("\r\n\r\n{GET}\r\n{GET}")), Step::End], echo);
    assert_eq!(log.responses().len(), 2);
    let log = serve(plain(), [send(format!("{}{GET}", "\r\n".repeat(50))), Step::End], echo);
    assert_eq!(log.responses()[0].status, 400);
}

#[test]
fn a_client_that_goes_away_gets_nothing_and_harms_nobody() {
    for steps in [
        vec![],
        vec![Step::End],
        vec![Step::Break],
        vec![send("GET / HTT"), Step::End],
        vec![send("GET / HTT"), Step::Break],
        vec![send("\r\n"), Step::End],
    ] {
        let log = serve(plain(), steps.clone(), echo);
        assert_eq!(log.text(), "", "{steps:?}");
    }
    let script = Script::new([send("GET / HTT"), Step::Break]);
    let error = Server::new(echo).serve_connection(script).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn a_client_that_goes_away_during_a_response_ends_its_connection() {
    let mut script = Script::new([send([GET, GET].concat()), Step::End]);
    script.write_limit = 100;
    let log = script.log();
    let error = Server::new(|_: &mut Request<'_>| vec![0; 100_000]).serve_connection(script).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(log.output().len(), 100);
}

#[test]
fn a_server_that_is_shut_down_finishes_what_has_arrived_and_says_so() {
    let script = Script::new([send(GET), send([GET, GET].concat())]);
    let log = script.log();
    let shutdown = std::sync::OnceLock::new();
    let server = Server::new(|request: &mut Request<'_>| {
        let shutdown: &segue_http::Shutdown = shutdown.get().unwrap();
        shutdown.shutdown();
        request.uri().to_string()
    });
    shutdown.set(server.shutdown_handle()).unwrap();
    server.serve_connection(script).unwrap();
    let replies = log.responses();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].header("connection"), Some("close"));
}

#[test]
fn a_cancelled_connection_answers_the_request_that_was_begun() {
    for body in ["", "Content-Length: 4\r\n"] {
        let request = format!("POST / HTTP/1.1\r\nHost: h\r\n{body}\r\n");
        let script = Script::new([send(request), send("body"), send(GET), Step::End]);
        let log = script.log();
        let result = segue_core::scope(|scope| {
            let token = scope.token();
            Server::new(move |request: &mut Request<'_>| {
                token.cancel();
                echo(request)
            })
            .config(plain())
            .serve_connection(script)
        });
        assert!(segue_core::Cancelled::caused(&result.unwrap_err()));
        assert_eq!(log.responses().len(), 1);
        assert_eq!(log.responses()[0].text(), if body.is_empty() { "POST / " } else { "POST / body" });
    }
}
