//! Connections that leave HTTP: the bytes behind the request, refusals, time limits, the end.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/served.rs"]
mod serving;

mod served;

use std::io::{self, Read, Write};
use std::time::Duration;

use common::{Event, Script, Step, pause, plain, send, serve};
use segue_http::{Payload, Request, Response, Server, Upgraded};

const ASK: &str = "GET /up HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n";
const HEAD: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: echo\r\nconnection: upgrade\r\n\r\n";

fn upgrade(talk: impl FnOnce(Upgraded<'_>) -> io::Result<()> + 'static) -> Response {
    http::Response::builder().header("upgrade", "echo").body(Payload::upgrade(talk)).unwrap()
}

fn echo_all(mut stream: Upgraded<'_>) -> io::Result<()> {
    let mut bytes = vec![0; 10_000];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            count => stream.write_all(&bytes[..count])?,
        }
    }
}

/// Upgrades `/up` to an echo, and answers all else with its path.
fn handler(request: &mut Request<'_>) -> Response {
    use segue_http::IntoResponse;
    match request.uri().path() {
        "/up" => upgrade(echo_all),
        path => path.to_string().into_response(),
    }
}

#[test]
fn bytes_behind_the_head_are_the_first_of_the_stream() {
    for length in [0, 1, 400, 511, 512, 513, 3_000, 4_096, 100_000] {
        let bytes: Vec<u8> = (0..length).map(|n: u32| (n * 31 % 251) as u8).collect();
        let whole = [ASK.as_bytes(), &bytes].concat();
        let expected = [HEAD.as_bytes(), &bytes].concat();
        let mut ways = vec![
            vec![send(&whole)],
            vec![send(ASK), send(&bytes)],
            vec![send(&whole[..ASK.len() - 1]), send(&whole[ASK.len() - 1..])],
        ];
        if length < 5_000 {
            ways.push(whole.chunks(1).map(send).collect());
            ways.push(whole.chunks(7).map(send).collect());
        }
        for mut steps in ways {
            steps.push(Step::End);
            let log = serve(plain(), steps, handler);
            assert!(log.output() == expected, "{length}");
            assert!(matches!(log.events().last(), Some(Event::Read(4096..))), "the end lingers");
            assert!(log.events().contains(&Event::ShutdownWrite));
        }
    }
}

#[test]
fn requests_before_an_upgrade_are_answered_and_those_behind_are_bytes() {
    let behind = "GET /behind HTTP/1.1\r\nHost: h\r\n\r\n";
    let before = "GET /before HTTP/1.1\r\nHost: h\r\n\r\n";
    let all = [before, before, ASK, behind].concat();
    for piece in [1, 10, all.len()] {
        let steps = all.as_bytes().chunks(piece).map(send).chain([Step::End]);
        let text = serve(plain(), steps, handler).text();
        let (answers, rest) = text.split_once(HEAD).unwrap();
        assert_eq!(common::replies(answers.as_bytes(), &[]).len(), 2);
        assert_eq!(rest, behind);
    }
}

#[test]
fn an_upgrade_that_the_client_cannot_have_is_refused() {
    let post = "POST /up HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n";
    let cases = [
        ("GET /up HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n".to_string(), 426),
        ("GET /up HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\n\r\n".to_string(), 426),
        ("GET /up HTTP/1.1\r\nHost: h\r\nConnection: upgraded\r\nUpgrade: echo\r\n\r\n".to_string(), 426),
        (format!("{post}Content-Length: 100000\r\n\r\n"), 413),
        (format!("{post}Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"), 413),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\nbad"), 413),
        (format!("{post}Content-Length: 5\r\n\r\nab"), 413),
    ];
    for (request, status) in cases {
        let log = serve(plain(), [send(&request), Step::End], handler);
        let replies = log.responses();
        assert_eq!(replies.len(), 1, "{request}");
        assert_eq!((replies[0].status, replies[0].header("connection")), (status, Some("close")), "{request}");
        assert_eq!(replies[0].header("upgrade"), Some("echo"));
    }
    // The handler has forgotten to name the protocol.
    let log = serve(plain(), [send(ASK), Step::End], |_| Response::new(Payload::upgrade(echo_all)));
    assert_eq!(log.responses()[0].status, 500);
}

#[test]
fn a_body_that_was_not_read_is_no_part_of_the_stream() {
    let post = "POST /up HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n";
    for body in ["Content-Length: 5\r\n\r\nabcde", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n"] {
        let all = format!("{post}{body}behind");
        for piece in [1, all.len()] {
            let steps = all.as_bytes().chunks(piece).map(send).chain([Step::End]);
            assert_eq!(serve(plain(), steps, handler).text(), format!("{HEAD}behind"));
        }
    }
}

#[test]
fn an_error_or_a_panic_ends_the_connection() {
    let script = Script::new([send(ASK), send("more"), Step::End]);
    let log = script.log();
    let server = Server::new(|_| upgrade(|_| Err(io::Error::other("planned")))).config(plain());
    let error = server.serve_connection(script).unwrap_err();
    assert_eq!((error.to_string().as_str(), log.text().as_str()), ("planned", HEAD));
    // The client may still read: the connection is not reset.
    assert!(log.events().contains(&Event::ShutdownWrite));

    let script = Script::new([send(ASK), Step::End]);
    let log = script.log();
    let server = Server::new(|_| upgrade(|_| panic!("a planned panic"))).config(plain());
    server.serve_connection(script).unwrap_err();
    assert_eq!(log.text(), HEAD);
}

#[test]
fn reads_wait_without_a_limit_until_one_is_set() {
    let log = serve(plain(), [send(ASK), pause(100_000), send("late"), Step::End], handler);
    assert_eq!(log.text(), format!("{HEAD}late"));

    let log = serve(plain(), [send(ASK), pause(3), send("a"), pause(100), send("b"), Step::End], |_| {
        upgrade(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(5)));
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte)?, 1);
            assert_eq!(stream.read(&mut byte).unwrap_err().kind(), io::ErrorKind::TimedOut);
            // The stream can still be read.
            stream.set_read_timeout(None);
            assert_eq!(stream.read(&mut byte)?, 1);
            stream.write_all(&byte)
        })
    });
    assert_eq!((log.text(), log.waited().as_secs()), (format!("{HEAD}b"), 103));
}

#[test]
fn a_stream_that_waits_has_no_buffer() {
    let steps = [send(ASK), pause(1), send("x"), pause(1), send([b'y'; 600]), pause(1), send("z"), Step::End];
    let log = serve(plain(), steps, handler);
    let events = log.events();
    let upgraded = events.iter().position(|event| *event == Event::Write(HEAD.into())).unwrap();
    let end = events.iter().position(|event| *event == Event::ShutdownWrite).unwrap();
    let mut waits = 0;
    for pair in events[upgraded..end].windows(2) {
        match pair {
            // The first read behind output, and behind one that found nothing at once, waits.
            [Event::Write(_), Event::Read(room)] if *room == 512 => waits += 1,
            _ => {}
        }
    }
    assert!(waits >= 3, "{events:?}");
    // More is read into a buffer, once the first bytes show that there is more.
    assert!(events[upgraded..end].contains(&Event::Read((4 << 10) - 512)), "{events:?}");
}

#[test]
fn a_client_that_takes_too_little_ends_the_connection() {
    // Each write takes a moment, and one byte is taken.
    let mut script = Script::new([send(ASK)]);
    (script.write_size, script.write_time) = (1, Duration::from_secs(1));
    let log = script.log();
    let config = plain().write_timeout(Duration::from_secs(300)).linger_timeout(Duration::ZERO);
    let server = Server::new(|_| upgrade(|mut stream| stream.write_all(&[b'x'; 10_000]))).config(config);
    let error = server.serve_connection(script).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let waited = log.waited().as_secs();
    assert!((300..1_000).contains(&waited), "{waited}");

    // Nothing is taken.
    let mut script = Script::new([send(ASK)]);
    script.write_time = Duration::from_secs(100);
    let log = script.log();
    let config = plain().linger_timeout(Duration::ZERO);
    let error = Server::new(handler).config(config).serve_connection(script).unwrap_err();
    assert_eq!((error.kind(), log.waited().as_secs()), (io::ErrorKind::TimedOut, 30));
}
