//! Readers and values of programs that break the rules of their traits, or panic when dropped.

use crate::common;

use std::io::{self, Read};

use common::*;
use segue_http::{Payload, Request, Response};

/// Panics in its drop, of which nothing else is to know.
#[derive(Clone)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("a planned panic in a drop");
        }
    }
}

struct Armed(&'static [u8], #[allow(dead_code)] Bomb);

impl Read for Armed {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

fn bomb(request: &mut Request<'_>) -> Response {
    match request.uri().path() {
        "/reader" => Response::new(Payload::sized_reader(4, Armed(b"boom", Bomb))),
        "/upgrade" => {
            let bomb = Bomb;
            Response::new(Payload::upgrade(move |_| {
                drop(bomb);
                Ok(())
            }))
        }
        "/extension" => {
            request.extensions_mut().insert(Bomb);
            Response::new("boom".into())
        }
        "/response" => {
            let mut response = Response::new("boom".into());
            response.extensions_mut().insert(Bomb);
            response
        }
        _ => Response::new("plain".into()),
    }
}

#[test]
fn a_panic_in_a_drop_harms_no_response() {
    for (request, status) in [
        ("GET /reader", 200),
        ("HEAD /reader", 200),
        ("GET /upgrade", 500),
        ("GET /extension", 200),
        ("GET /response", 200),
    ] {
        let all = format!("{}{request} HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2));
        let log = serve(plain(), [send(&all), Step::End], bomb);
        let heads = if request.starts_with("HEAD") { vec![2] } else { Vec::new() };
        let replies: Vec<_> = common::replies(&log.output(), &heads).iter().map(|reply| reply.status).collect();
        assert_eq!(replies, [200, 200, status], "{request}: {}", log.text());
    }
}

/// Says that it has read more than it was lent.
struct Boaster;

impl Read for Boaster {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(buf.len() + 100)
    }
}

#[test]
fn a_reader_that_boasts_ends_the_connection() {
    let requests = "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let log = serve(plain(), [send(requests), Step::End], |_| Response::new(Payload::sized_reader(100_000, Boaster)));
    assert_eq!(log.text().matches("HTTP/1.1").count(), 1, "the next response is not in this one's place");
}
