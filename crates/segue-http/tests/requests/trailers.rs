//! Fields that follow the body of a response.

use crate::common;

use std::io::{self, Write};

use common::*;
use segue_http::{BodyWriter, Payload, Request, Response};

fn streamed(write: fn(&mut BodyWriter<'_>) -> io::Result<()>) -> impl Fn(&mut Request<'_>) -> Response + Send + Sync {
    move |_| Response::new(Payload::writer(write))
}

fn ask(version: &str) -> Step {
    send(format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n"))
}

fn write(out: &mut BodyWriter<'_>) -> io::Result<()> {
    out.trailer("Lines", "1")?;
    out.write_all(b"text")?;
    out.trailer("digest", "sha-256=x")?;
    out.trailer("digest", http::HeaderValue::from_static("md5=y"))
}

#[test]
fn trailers_follow_the_last_chunk_in_their_order() {
    let log = serve(plain(), [ask("1.1"), ask("1.1"), Step::End], streamed(write));
    let response = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\
                    lines: 1\r\ndigest: sha-256=x\r\ndigest: md5=y\r\n\r\n";
    assert_eq!(log.text(), response.repeat(2));
}

#[test]
fn trailers_are_dropped_where_there_are_no_chunks_or_no_end() {
    let log = serve(plain(), [ask("1.0"), Step::End], streamed(write));
    assert!(log.text().ends_with("\r\n\r\ntext"), "{}", log.text());
    let failing = |out: &mut BodyWriter<'_>| write(out).and(Err(io::Error::other("planned")));
    let log = serve(plain(), [ask("1.1"), Step::End], streamed(failing));
    assert!(log.text().ends_with("\r\n\r\n4\r\ntext\r\n"), "{}", log.text());
}

#[test]
fn a_field_that_may_not_be_a_trailer_is_refused_to_every_client() {
    for version in ["1.0", "1.1"] {
        let log = serve(
            plain(),
            [ask(version), Step::End],
            streamed(|out| {
                for (name, value) in [
                    ("content-length", "4"),
                    ("Transfer-Encoding", "chunked"),
                    ("host", "h"),
                    ("authorization", "x"),
                    ("set-cookie", "a=b"),
                    ("connection", "close"),
                    ("trailer", "x"),
                    ("content-type", "text/html"),
                    ("cache-control", "no-store"),
                    ("keep-alive", "1"),
                    // And malformed ones.
                    ("", "x"),
                    ("a b", "x"),
                    ("a:b", "x"),
                    ("fine", "x\r\ny: z"),
                    ("fine", "x\ny"),
                ] {
                    let refused = out.trailer(name, value).expect_err(name);
                    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{name}");
                }
                out.write_all(b"none")
            }),
        );
        assert!(log.text().contains("none") && !log.text().contains("fine"), "{}", log.text());
        assert!(version == "1.0" || log.text().ends_with("4\r\nnone\r\n0\r\n\r\n"), "{}", log.text());
    }
}
