//! Files that change while they are sent, and things that are no files.

use crate::common::{Step, plain, replies, send, serve};
use crate::{Scratch, ask, bytes, one_file};
use segue_http::{FileResponse, Payload, Request, Response};
use segue_io::fs::File;
use std::io::{self, ErrorKind, Write};

/// One that is copied behind its head, and one that is not.
const LENGTHS: [usize; 2] = [10_000, 1_000_000];

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn a_file_that_is_truncated_meanwhile_is_cut_and_ends_the_connection() {
    let dir = Scratch::new();
    for length in LENGTHS {
        for left in [0, 1, length / 2, length - 1] {
            let path = dir.file("file", bytes(length));
            let handler = |request: &mut Request<'_>| -> io::Result<Response> {
                let response = FileResponse::new(File::open(&path)?)?.respond(request);
                std::fs::File::options().write(true).open(&path)?.set_len(left as u64)?;
                Ok(response)
            };
            let log = serve(plain(), [send(GET), send(GET)], handler);
            let replies = replies(&log.output(), &[]);
            assert_eq!(replies.len(), 1);
            assert!(!replies[0].complete && replies[0].body == bytes(length)[..left], "{left} of {length}");
            assert_eq!(replies[0].header("content-length"), Some(&*length.to_string()));
        }
    }
}

#[test]
fn a_file_that_grows_meanwhile_is_sent_as_long_as_it_was() {
    let dir = Scratch::new();
    for length in LENGTHS {
        let path = dir.file("file", bytes(length));
        let handler = |request: &mut Request<'_>| -> io::Result<Response> {
            let response = FileResponse::new(File::open(&path)?)?.respond(request);
            std::fs::File::options().append(true).open(&path)?.write_all(b"more")?;
            Ok(response)
        };
        let log = serve(plain(), [send(GET), send(GET), Step::End], handler);
        let replies = replies(&log.output(), &[]);
        assert!(replies.len() == 2 && replies.iter().all(|reply| reply.complete));
        assert!(replies[0].body == bytes(length));
        assert_eq!(replies[1].body.len(), length + 4);
    }
}

#[test]
fn a_file_that_is_replaced_meanwhile_is_sent_as_it_was() {
    let dir = Scratch::new();
    for length in LENGTHS {
        let path = dir.file("file", bytes(length));
        let tag = ask(one_file(&path), "HEAD", "/", &[]).header("etag").unwrap().to_owned();
        let handler = |request: &mut Request<'_>| -> io::Result<Response> {
            let response = FileResponse::new(File::open(&path)?)?.respond(request);
            std::fs::rename(dir.file("other", vec![b'x'; length]), &path)?;
            Ok(response)
        };
        assert!(ask(handler, "GET", "/", &[]).body == bytes(length));
        // The rest of the old one can't be had, and the client learns of that.
        let reply = ask(one_file(&path), "GET", "/", &[("Range", "bytes=5000-"), ("If-Range", &tag)]);
        assert!(reply.status == 200 && reply.body == vec![b'x'; length]);
    }
}

#[test]
fn a_payload_has_its_range_whatever_that_is() {
    let dir = Scratch::new();
    let path = dir.file("file", b"hello");
    for (range, body, complete) in [
        (0..5, "hello", true),
        (1..3, "el", true),
        (3..3, "", true),
        #[allow(clippy::reversed_empty_ranges, reason = "a program may make one")]
        (4..2, "", true),
        (3..9, "lo", false),
        (7..9, "", false),
        (u64::MAX - 1..u64::MAX, "", false),
    ] {
        let handler = |_: &mut Request<'_>| -> io::Result<Response> {
            Ok(Response::new(Payload::file(File::open(&path)?, range.clone())))
        };
        let reply = ask(handler, "GET", "/", &[]);
        assert_eq!((reply.text(), reply.complete), (body, complete), "{range:?}");
    }
}

#[test]
fn things_that_are_no_regular_files_are_refused() {
    let dir = Scratch::new();
    for path in [dir.0.as_path(), "/dev/null".as_ref(), "/dev/zero".as_ref()] {
        let error = FileResponse::new(File::open(path).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}");
    }
}

#[test]
fn files_between_other_responses_keep_their_places() {
    let dir = Scratch::new();
    for length in LENGTHS {
        let path = dir.file("file", bytes(length));
        let file = one_file(&path);
        let handler = |request: &mut Request<'_>| match request.uri().path() {
            "/file" => file(request),
            _ => Ok(Response::new(Payload::from("other"))),
        };
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = "HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n".to_owned();
        let requests = [get("/"), get("/file"), get("/"), head, get("/file"), get("/")].concat();
        let log = serve(plain(), [send(requests), Step::End], handler);
        let replies = replies(&log.output(), &[3]);
        let lengths: Vec<_> = replies.iter().map(|reply| reply.body.len()).collect();
        assert_eq!(lengths, [5, length, 5, 0, length, 5]);
        assert!(replies.iter().all(|reply| reply.complete && reply.status == 200));
        assert!(replies[1].body == bytes(length));
    }
}

#[test]
fn a_short_file_and_its_head_are_one_write() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(16 << 10));
    let log = serve(plain(), [send(GET), Step::End], one_file(&path));
    assert_eq!(log.writes().len(), 1);
}

#[test]
fn an_older_client_gets_a_length_and_may_keep_its_connection() {
    let dir = Scratch::new();
    let path = dir.file("file", bytes(100_000));
    let request = "GET / HTTP/1.0\r\n";
    let log = serve(plain(), [send(format!("{request}\r\n")), send(GET)], one_file(&path));
    let replies = log.responses();
    assert_eq!((replies.len(), replies[0].header("connection")), (1, Some("close")));
    assert!(replies[0].complete && replies[0].body == bytes(100_000));
    let kept = format!("{request}Connection: keep-alive\r\nRange: bytes=5-6\r\n\r\n");
    let log = serve(plain(), [send(kept), send(GET), Step::End], one_file(&path));
    let replies = log.responses();
    assert_eq!((replies.len(), replies[0].header("connection")), (2, Some("keep-alive")));
    assert_eq!((replies[0].status, &*replies[0].body), (206, &[5, 6][..]));
}
