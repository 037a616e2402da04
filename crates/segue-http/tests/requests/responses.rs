//! What is sent: lengths, HEAD, statuses without a body, streams, headers, panics.

use crate::common;

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::*;
use http::{Method, StatusCode};
use segue_http::{BodyError, Html, IntoResponse, Payload, Request, Response, Server};

fn get(method: &str, version: &str) -> Step {
    send(format!("{method} / HTTP/{version}\r\nHost: h\r\n\r\n"))
}

/// One response to a GET, over HTTP/1.1.
fn answer<R: IntoResponse>(handler: impl Fn(&mut Request<'_>) -> R + Send + Sync) -> Reply {
    let log = serve(plain(), [get("GET", "1.1"), Step::End], handler);
    let replies = log.responses();
    assert_eq!(replies.len(), 1);
    replies.into_iter().next().unwrap()
}

#[test]
fn what_handlers_may_return() {
    let text = Some("text/plain; charset=utf-8");
    let binary = Some("application/octet-stream");
    let check = |reply: Reply, status: u16, content_type: Option<&str>, body: &str| {
        let length = body.len().to_string();
        assert_eq!((reply.status, reply.header("content-type"), reply.text()), (status, content_type, body));
        assert_eq!(reply.header("content-length"), Some(&*length));
    };
    check(answer(|_| "a"), 200, text, "a");
    check(answer(|_| String::from("b")), 200, text, "b");
    check(answer(|_| vec![b'c']), 200, binary, "c");
    check(answer(|_| &b"d"[..]), 200, binary, "d");
    check(answer(|_| bytes::Bytes::from_static(b"e")), 200, binary, "e");
    check(answer(|_| StatusCode::NOT_FOUND), 404, None, "");
    check(answer(|_| (StatusCode::CREATED, "f")), 201, text, "f");
    check(answer(|_| Ok::<_, io::Error>("g")), 200, text, "g");
    check(answer(|_| Err::<(), _>(StatusCode::GONE).map(|()| "")), 410, None, "");
    check(answer(|_| Err::<&str, _>(io::Error::other("secret"))), 500, text, "internal server error");
    check(answer(|_| Err::<&str, io::Error>(BodyError::TooLarge.into())), 413, text, "the body is too long");
    check(answer(|_| http::Response::builder().status(299).body("h")), 299, None, "h");
    check(answer(|_| http::Response::builder().header("bad\n", "x").body("h")), 500, text, "internal server error");
    check(answer(|_| http::Response::new(())), 200, None, "");
}

#[test]
fn the_response_to_head_has_the_length_and_no_body() {
    let log = serve(plain(), [get("HEAD", "1.1"), get("GET", "1.1"), Step::End], |_| "hello");
    let replies = replies(&log.output(), &[0]);
    assert_eq!(replies.len(), 2);
    assert_eq!((replies[0].header("content-length"), replies[0].text()), (Some("5"), ""));
    assert_eq!(replies[1].text(), "hello");
}

#[test]
fn the_response_to_head_may_give_a_length_without_making_the_body() {
    let log = serve(plain(), [get("HEAD", "1.1"), Step::End], |_| {
        http::Response::builder().header("content-length", "1000").body(()).into_response()
    });
    assert_eq!(replies(&log.output(), &[0])[0].header("content-length"), Some("1000"));
}

#[test]
fn the_response_to_head_does_not_run_the_writer() {
    let log = serve(plain(), [get("HEAD", "1.1"), get("HEAD", "1.1"), Step::End], |_| {
        http::Response::new(Payload::writer(|_| panic!("not to be called")))
    });
    let replies = replies(&log.output(), &[0, 1]);
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0].header("transfer-encoding"), Some("chunked"));
}

#[test]
fn statuses_without_a_body_have_none() {
    for status in [204, 304] {
        let log = serve(plain(), [get("GET", "1.1"), get("GET", "1.1"), Step::End], move |_| {
            http::Response::builder().status(status).header("x", "y").body("not sent").into_response()
        });
        let replies = log.responses();
        assert_eq!(replies.len(), 2, "{status}");
        assert_eq!((replies[0].header("content-length"), replies[0].header("x")), (None, Some("y")));
    }
}

#[test]
fn an_informational_status_is_an_error_of_the_handler() {
    assert_eq!(answer(|_| StatusCode::CONTINUE).status, 500);
    assert_eq!(answer(|_| StatusCode::SWITCHING_PROTOCOLS).status, 500);
}

#[test]
fn headers_that_frame_the_message_are_not_the_handlers() {
    let reply = answer(|_| {
        http::Response::builder()
            .header("Content-Length", "1")
            .header("Transfer-Encoding", "chunked")
            .header("Connection", "keep-alive")
            .header("Set-Cookie", "a")
            .header("Set-Cookie", "b")
            .body("hello")
            .into_response()
    });
    let names: Vec<&str> = reply.headers.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["set-cookie", "set-cookie", "content-length"]);
    assert_eq!(reply.text(), "hello");
}

#[test]
fn a_date_is_sent_unless_the_handler_gave_one() {
    let log = serve(segue_http::Config::new(), [get("GET", "1.1"), Step::End], |_| "x");
    let reply = log.responses().remove(0);
    let date = httpdate::parse_http_date(reply.header("date").unwrap()).unwrap();
    let age = std::time::SystemTime::now().duration_since(date).unwrap();
    assert!(age.as_secs() < 60, "{age:?}");

    let log = serve(segue_http::Config::new(), [get("GET", "1.1"), Step::End], |_| {
        http::Response::builder().header("date", "mine").body(()).into_response()
    });
    let reply = log.responses().remove(0);
    assert_eq!(reply.headers.iter().filter(|(name, _)| name == "date").count(), 1);
    assert_eq!(reply.header("date"), Some("mine"));
}

/// Gives its bytes in pieces of this size.
struct Pieces(io::Cursor<Vec<u8>>, usize);

impl Read for Pieces {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let size = self.1.min(buf.len());
        self.0.read(&mut buf[..size])
    }
}

fn sample(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 31 % 251) as u8).collect()
}

#[test]
fn streams_arrive_as_they_were_written() {
    for size in [0, 1, 15, 16, 255, 4096, 16_383, 16_384, 16_385, 100_000, 300_000] {
        for piece in [1000, 16_384, usize::MAX] {
            for kind in 0..3 {
                let make = move |_: &mut Request<'_>| -> Response {
                    let bytes = sample(size);
                    http::Response::new(match kind {
                        0 => Payload::reader(Pieces(io::Cursor::new(bytes), piece)),
                        1 => Payload::sized_reader(size as u64, Pieces(io::Cursor::new(bytes), piece)),
                        _ => Payload::writer(move |out| bytes.chunks(piece).try_for_each(|piece| out.write_all(piece))),
                    })
                };
                let log = serve(plain(), [get("GET", "1.1"), get("GET", "1.1"), Step::End], make);
                let replies = log.responses();
                assert_eq!(replies.len(), 2);
                for reply in replies {
                    assert!(reply.complete && reply.body == sample(size), "{size} {piece} {kind}");
                    let framing = (reply.header("content-length").is_some(), reply.header("transfer-encoding"));
                    assert_eq!(framing, if kind == 1 { (true, None) } else { (false, Some("chunked")) });
                }
                // The same to HTTP/1.0, which does not know chunks.
                let log = serve(plain(), [get("GET", "1.0"), get("GET", "1.0"), Step::End], make);
                let replies = log.responses();
                assert_eq!(replies.len(), 1);
                assert!(replies[0].body == sample(size), "{size} {piece} {kind}");
                assert_eq!(replies[0].header("transfer-encoding"), None);
            }
        }
    }
}

#[test]
fn a_stream_to_http_1_0_ends_with_its_connection_even_if_asked_to_keep_it() {
    let request = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let log = serve(plain(), [send(request), send(request), Step::End], |_| {
        http::Response::new(Payload::reader(&b"streamed"[..]))
    });
    let replies = log.responses();
    assert_eq!(replies.len(), 1);
    assert_eq!((replies[0].text(), replies[0].header("connection")), ("streamed", Some("close")));
}

#[test]
fn small_writes_are_gathered_and_flushes_are_sent() {
    let log = serve(plain(), [get("GET", "1.1"), Step::End], |_| {
        http::Response::new(Payload::writer(|out| {
            write!(out, "one")?;
            write!(out, "two")?;
            out.flush()?;
            out.flush()?;
            write!(out, "three")
        }))
    });
    let writes: Vec<String> = log.writes().into_iter().map(|write| String::from_utf8(write).unwrap()).collect();
    assert_eq!(writes.len(), 2);
    assert!(writes[0].ends_with("\r\n\r\n6\r\nonetwo\r\n"));
    assert_eq!(writes[1], "5\r\nthree\r\n0\r\n\r\n");
}

#[test]
fn what_a_slow_reader_gave_is_sent_before_it_is_asked_again() {
    let log = serve(plain(), [get("GET", "1.1"), Step::End], |_| {
        http::Response::new(Payload::reader(Pieces(io::Cursor::new(vec![b'x'; 30]), 10)))
    });
    assert_eq!(log.writes().len(), 4);
}

#[test]
fn a_sized_reader_is_read_no_further_than_its_length() {
    let log = serve(plain(), [get("GET", "1.1"), Step::End], |_| {
        http::Response::new(Payload::sized_reader(100_000, io::repeat(b'x')))
    });
    assert_eq!(log.responses()[0].body, vec![b'x'; 100_000]);
}

#[test]
fn a_stream_that_fails_is_visibly_cut_short_and_ends_the_connection() {
    type Make = fn() -> Payload;
    let makes: [Make; 4] = [
        || Payload::sized_reader(10, &b"short"[..]),
        || Payload::reader((&b"some"[..]).chain(Failing)),
        || {
            Payload::writer(|out| {
                write!(out, "some")?;
                Err(io::Error::other("no more"))
            })
        },
        || {
            Payload::writer(|out| {
                write!(out, "some")?;
                panic!("a planned panic")
            })
        },
    ];
    for make in makes {
        let script = Script::new([send("GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2)), Step::End]);
        let log = script.log();
        let server = Server::new(move |_: &mut Request<'_>| http::Response::new(make())).config(plain());
        assert!(server.serve_connection(script).is_err());
        let replies = log.responses();
        assert_eq!(replies.len(), 1);
        assert!(!replies[0].complete);
        assert!(replies[0].text().starts_with("so") || replies[0].text() == "short");
    }
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("no more"))
    }
}

#[test]
fn a_panic_is_a_500_that_ends_its_connection_only() {
    let server = Server::new(|request: &mut Request<'_>| match request.method() {
        &Method::DELETE => panic!("a planned panic"),
        _ => "fine",
    })
    .config(plain());
    let script = Script::new([get("GET", "1.1"), get("DELETE", "1.1"), get("GET", "1.1"), Step::End]);
    let log = script.log();
    server.serve_connection(script).unwrap();
    let found: Vec<_> =
        log.responses().iter().map(|reply| (reply.status, reply.header("connection").map(String::from))).collect();
    assert_eq!(found, [(200, None), (500, Some("close".into()))]);
    let script = Script::new([get("GET", "1.1"), Step::End]);
    let log = script.log();
    server.serve_connection(script).unwrap();
    assert_eq!(log.responses()[0].text(), "fine");
}

#[test]
fn a_handler_cannot_leave_anything_behind_for_the_next_request() {
    let log = serve(plain(), [get("GET", "1.1"), get("GET", "1.1"), Step::End], |request| {
        let seen =
            format!("{:?} {:?}", request.headers().keys().collect::<Vec<_>>(), request.extensions().get::<u32>());
        request.headers_mut().insert("planted", "x".parse().unwrap());
        request.extensions_mut().insert(7u32);
        seen
    });
    let replies = log.responses();
    assert_eq!(replies[0].text(), replies[1].text());
}

/// Responses of a thread share the memory of their headers, and requests that of theirs: nothing
/// of one shows in another.
#[test]
fn memory_that_is_used_again_has_nothing_of_before() {
    let makers: [fn() -> Response; 6] = [
        || "text".into_response(),
        || b"bytes"[..].into_response(),
        || ([("content-type", "text/css"), ("x-one", "1")], "style").into_response(),
        || ([("x-two", "2")], "more").into_response(),
        || Html("<p>").into_response(),
        || StatusCode::NOT_FOUND.into_response(),
    ];
    let expected = [
        (Some("text/plain; charset=utf-8"), None, None),
        (Some("application/octet-stream"), None, None),
        (Some("text/css"), Some("1"), None),
        (Some("text/plain; charset=utf-8"), None, Some("2")),
        (Some("text/html; charset=utf-8"), None, None),
        (None, None, None),
    ];
    // Each one after each other one.
    for first in 0..makers.len() {
        for second in 0..makers.len() {
            let which = AtomicUsize::new(0);
            let requests = [
                send("GET /one HTTP/1.1\r\nHost: h\r\nX-Only-Here: a\r\nAccept: a\r\n\r\n"),
                send("GET /two HTTP/1.1\r\nhost: h\r\naccept: b\r\nAccept: c\r\n\r\n"),
                Step::End,
            ];
            let log = serve(plain(), requests, |request| {
                let headers = request.headers();
                let accepted: Vec<_> = headers.get_all("accept").iter().map(|value| value.to_str().unwrap()).collect();
                let own = request.extensions().get::<u8>();
                let count = which.fetch_add(1, Ordering::Relaxed);
                match request.uri().path() {
                    "/one" => assert_eq!((headers.len(), &*accepted, own), (3, &["a"][..], None)),
                    path => assert_eq!((path, headers.len(), &*accepted, own), ("/two", 3, &["b", "c"][..], None)),
                }
                request.extensions_mut().insert(7u8);
                makers[[first, second][count]]()
            });
            let replies = log.responses();
            assert_eq!(replies.len(), 2);
            for (reply, at) in replies.iter().zip([first, second]) {
                let found = (reply.header("content-type"), reply.header("x-one"), reply.header("x-two"));
                assert_eq!(found, expected[at], "{at} of {first}, {second}");
            }
        }
    }
}
