//! Requests for a WebSocket: accepted, and refused for each reason.

use super::common::{Step, plain, send, serve};
use super::frames::{TEXT, last};
use super::{ASK, HEAD, echo};
use segue_http::websocket::Options;

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn status(request: &str, options: &Options) -> (u16, Vec<(String, String)>) {
    let log = serve(plain(), [send(request), Step::End], |request| echo(options, request));
    let head = log.text();
    let status = head[9..12].parse().unwrap();
    let headers = head.split("\r\n\r\n").next().unwrap().split("\r\n").skip(1);
    let pairs = headers.map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.into(), value.into()));
    (status, pairs.collect())
}

fn has(headers: &[(String, String)], name: &str, value: &str) -> bool {
    headers.iter().any(|(one, other)| one == name && other == value)
}

#[test]
fn a_request_without_something_is_refused() {
    let line = |from: &str, to: &str| {
        assert!(ASK.contains(from));
        ASK.replacen(from, to, 1)
    };
    let cases = [
        (line("GET", "POST"), 405, ("allow", "GET")),
        (line("GET", "HEAD"), 405, ("allow", "GET")),
        (line("HTTP/1.1", "HTTP/1.0"), 426, ("upgrade", "websocket")),
        (line("Upgrade: WebSocket\r\n", ""), 426, ("upgrade", "websocket")),
        (line("Upgrade: WebSocket", "Upgrade: h2c"), 426, ("upgrade", "websocket")),
        (line("keep-alive, Upgrade", "keep-alive"), 426, ("upgrade", "websocket")),
        (line("Version: 13", "Version: 8"), 426, ("sec-websocket-version", "13")),
        (line("Version: 13", "Version: 013"), 426, ("sec-websocket-version", "13")),
        (line("Version: 13\r\n", "Version: 13\r\nSec-WebSocket-Version: 13\r\n"), 426, ("upgrade", "websocket")),
        (line("Sec-WebSocket-Version: 13\r\n", ""), 426, ("sec-websocket-version", "13")),
        (line(KEY, ""), 400, ("content-type", "text/plain; charset=utf-8")),
        (line(KEY, &KEY.repeat(2)), 400, ("content-type", "text/plain; charset=utf-8")),
        (line("jZQ==", "jZQ="), 400, ("content-type", "text/plain; charset=utf-8")),
        (line("dGhl", "dG l"), 400, ("content-type", "text/plain; charset=utf-8")),
        (line("ZQ==", "ZQQQ"), 400, ("content-type", "text/plain; charset=utf-8")),
    ];
    for (request, expected, (name, value)) in cases {
        let (status, headers) = status(&request, &Options::new());
        assert_eq!(status, expected, "{request}");
        assert!(has(&headers, name, value), "{request}: {headers:?}");
    }
}

#[test]
fn an_accepted_request_gets_the_proof_and_nothing_else() {
    let log = serve(plain(), [send(ASK), Step::End], |request| echo(&Options::new(), request));
    assert_eq!(log.text(), HEAD);
    // Extensions are not taken.
    let with = ASK.replacen("Host: h\r\n", "Host: h\r\nSec-WebSocket-Extensions: permessage-deflate\r\n", 1);
    let log = serve(plain(), [send(with), Step::End], |request| echo(&Options::new(), request));
    assert_eq!(log.text(), HEAD);
    let lists = ASK.replacen("Upgrade: WebSocket", "Upgrade: h2c, WEBSOCKET", 1);
    assert_eq!(status(&lists, &Options::new()).0, 101);
}

#[test]
fn pages_of_other_sites_are_refused_by_default() {
    let with = |origin: &str| ASK.replacen("Host: h\r\n", &format!("Host: h:81\r\n{origin}\r\n"), 1);
    for (origin, expected) in [
        ("Origin: http://h:81", 101),
        ("Origin: https://H:81", 101),
        ("Origin: http://h", 403),
        ("Origin: http://evil", 403),
        ("Origin: http://h:81.evil", 403),
        ("Origin: null", 403),
        ("Origin: ", 403),
        ("Origin: http://h:81\r\nOrigin: http://evil", 403),
        ("X-Other: none", 101),
    ] {
        assert_eq!(status(&with(origin), &Options::new()).0, expected, "{origin}");
        assert_eq!(status(&with(origin), &Options::new().any_origin()).0, 101, "{origin}");
    }
}

#[test]
fn the_first_subprotocol_in_common_is_chosen() {
    let options = Options::new().protocol("two").protocol("one");
    for (asked, chosen) in [
        ("Sec-WebSocket-Protocol: one, two", Some("two")),
        ("Sec-WebSocket-Protocol: one\r\nSec-WebSocket-Protocol: three", Some("one")),
        ("Sec-WebSocket-Protocol: ONE, three", None),
        ("X-Other: one", None),
    ] {
        let request = ASK.replacen("Host: h\r\n", &format!("Host: h\r\n{asked}\r\n"), 1);
        let log = serve(plain(), [send(request), send(last(TEXT, "x")), Step::End], |request| {
            options.accept(request, |socket| {
                let name = socket.protocol().unwrap_or("none").to_string();
                socket.recv()?;
                socket.send(name)
            })
        });
        let text = log.text();
        assert_eq!(text.contains("sec-websocket-protocol: "), chosen.is_some(), "{asked}");
        assert!(text.contains(chosen.unwrap_or("none")), "{asked}");
    }
}
