//! Requests that are refused: each with its status, the end of the connection, and no second
//! response.

use crate::common;

use common::*;

/// Has a server serve the request, followed by a good one, and returns the one response's status.
/// A good request has two responses, and here the status 0.
fn refused(request: &str) -> u16 {
    let mut status = None;
    // The answer must not depend on how the request arrives.
    let bytes = request.as_bytes();
    let cuts = 1..bytes.len().min(300);
    let ways = [bytes.len(), 1].map(|size| bytes.chunks(size).map(send).collect::<Vec<Step>>());
    for mut steps in ways.into_iter().chain(cuts.map(|cut| vec![send(&bytes[..cut]), send(&bytes[cut..])])) {
        steps.extend([send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n"), pause(1), Step::End]);
        let log = serve(plain().max_head_bytes(1024).max_headers(10).max_body_bytes(100), steps, echo);
        let replies = log.responses();
        let this = match &replies[..] {
            [only] => {
                assert_eq!(only.header("connection"), Some("close"), "{request:?}");
                assert!(only.complete && !only.text().is_empty(), "an error says what is wrong");
                assert!(log.events().contains(&Event::ShutdownWrite), "closing must not reset: {request:?}");
                assert!(only.status >= 400);
                only.status
            }
            [first, second] => {
                assert_eq!((first.status, second.status), (200, 200), "{request:?}");
                0
            }
            others => panic!("{request:?}: {} responses", others.len()),
        };
        assert_eq!(*status.get_or_insert(this), this, "depends on how it arrives: {request:?}");
    }
    status.unwrap()
}

fn with(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: h\r\n{lines}\r\n")
}

#[test]
fn a_good_request_is_not_refused() {
    assert_eq!(refused(&with("")), 0);
    assert_eq!(refused(&(with("Content-Length: 3\r\n") + "abc")), 0);
    assert_eq!(refused(&(with("Content-Length: 003\r\n") + "abc")), 0);
    assert_eq!(refused(&(with("Transfer-Encoding: Chunked\r\n") + "3\r\nabc\r\n0\r\n\r\n")), 0);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 0);
    assert_eq!(refused("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_eq!(refused("GET /a?b=/c//d HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"), 0);
    assert_eq!(refused("BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
}

#[test]
fn malformed_request_lines() {
    for line in [
        "GET /",
        "GET",
        "GET  / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET / HTTP/1.1 x",
        " GET / HTTP/1.1",
        "GET\t/\tHTTP/1.1",
        "G(T / HTTP/1.1",
        "G\0T / HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /\u{1} HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1.x",
        "GET / HTTP/11",
        "GET / HTTQ/1.1",
        "\u{16}\u{3}\u{1}",
    ] {
        assert_eq!(refused(&format!("{line}\r\nHost: h\r\n\r\n")), 400, "{line:?}");
    }
}

#[test]
fn malformed_targets() {
    for target in [
        "a",
        "a/b",
        "h:80",
        "?x",
        "*",
        "/a#b",
        "ftp://h/",
        "http:///",
        "http://",
        "http://user@h/",
        "http://:80/",
        "javascript:1",
    ] {
        assert_eq!(refused(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")), 400, "{target:?}");
    }
}

#[test]
fn malformed_headers() {
    for line in [
        "X",
        "X y",
        ": x",
        "X : y",
        "X\t: y",
        " X: y",
        "X: a\r\n b",
        "X: a\r\n\tb",
        "X: a\0b",
        "X: a\rb",
        "X: a\u{7f}b",
        "X\u{e9}: a",
        "(X): y",
        "X: y\nZ: z",
        "X: y\n",
        "X: y\r\r",
    ] {
        assert_eq!(refused(&with(&format!("{line}\r\n"))), 400, "{line:?}");
    }
}

#[test]
fn bare_line_feeds() {
    assert_eq!(refused("GET / HTTP/1.1\nHost: h\n\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: h\n\r\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: h\r\n\n"), 400);
    assert_eq!(refused("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

#[test]
fn hosts() {
    assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400);
    assert_eq!(refused("GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"), 400);
    assert_eq!(refused("GET http://a/ HTTP/1.1\r\n\r\n"), 400);
}

#[test]
fn content_lengths() {
    for value in [
        "",
        "+5",
        "-5",
        "1e3",
        "0x5",
        "5 5",
        "5,5",
        "5, 6",
        "five",
        "5.0",
        "18446744073709551616",
        "99999999999999999999999999",
        "\u{0665}",
    ] {
        assert_eq!(refused(&(with(&format!("Content-Length: {value}\r\n")) + "abcde")), 400, "{value:?}");
    }
    assert_eq!(refused(&(with("Content-Length: 5\r\nContent-Length: 6\r\n") + "abcde")), 400);
    assert_eq!(refused(&(with("Content-Length: 5\r\nContent-Length: 5\r\n") + "abcde")), 400);
}

#[test]
fn transfer_encodings() {
    let body = "3\r\nabc\r\n0\r\n\r\n";
    for value in [
        "gzip",
        "chunked, gzip",
        "chunked, chunked",
        "identity",
        "xchunked",
        "",
        "chunked;q=1",
        "\"chunked\"",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nTransfer-Encoding: gzip",
    ] {
        assert_eq!(refused(&(with(&format!("Transfer-Encoding: {value}\r\n")) + body)), 400, "{value:?}");
    }
    for value in ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"] {
        assert_eq!(refused(&(with(&format!("Transfer-Encoding: {value}\r\n")) + body)), 501, "{value:?}");
    }
    assert_eq!(refused(&(with("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n") + body)), 400);
    assert_eq!(refused(&(with("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + body)), 400);
    assert_eq!(refused(&format!("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n{body}")), 400);
    assert_eq!(refused(&(with("Transfer-Encoding : chunked\r\n") + body)), 400);
    assert_eq!(refused(&(with("Transfer-Encoding:\u{b}chunked\r\n") + body)), 400);
}

#[test]
fn chunks() {
    for body in [
        "\r\n",
        "\r\n\r\n",
        ";x\r\n\r\n",
        " ;x\r\n\r\n",
        "1\r\na\r\n\r\n\r\n",
        "x\r\n",
        "-1\r\n",
        "+1\r\na\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        " 1\r\na\r\n0\r\n\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        "1\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        "1;\n\r\na\r\n0\r\n\r\n",
        "1;a\rb\r\na\r\n0\r\n\r\n",
        "1;a\0b\r\na\r\n0\r\n\r\n",
        "1\r\na\r\n0\r\n: x\r\n\r\n",
        "1\r\na\r\n0\r\nx : y\r\n\r\n",
        "1\r\na\r\n0\r\nx: y\nz: z\r\n\r\n",
        "1\r\na\r\n0\r\nx: y\r\n z\r\n\r\n",
        "00000000000000001\r\na\r\n0\r\n\r\n",
    ] {
        assert_eq!(refused(&(with("Transfer-Encoding: chunked\r\n") + body)), 400, "{body:?}");
    }
    for body in ["1;x=y\r\na\r\n0\r\n\r\n", "1 ;x\r\na\r\n0;z\r\n\r\n", "0001\r\na\r\n000\r\nX: y\r\n\r\n"] {
        assert_eq!(refused(&(with("Transfer-Encoding: chunked\r\n") + body)), 0, "{body:?}");
    }
}

#[test]
fn chunk_extensions_and_trailers_have_a_bound() {
    let chunked = with("Transfer-Encoding: chunked\r\n");
    let long = format!("{chunked}1;{}\r\na\r\n0\r\n\r\n", "x".repeat(5000));
    assert_eq!(refused(&long), 400);
    let many = format!("{chunked}{}0\r\n\r\n", format!("1;{}\r\na\r\n", "x".repeat(100)).repeat(50));
    assert_eq!(refused(&many), 400);
    let trailers = format!("{chunked}0\r\nX: {}\r\n\r\n", "x".repeat(2000));
    assert_eq!(refused(&trailers), 431);
    let trailers = format!("{chunked}0\r\n{}\r\n", "X: y\r\n".repeat(11));
    assert_eq!(refused(&trailers), 431);
    assert_eq!(refused(&format!("{chunked}0\r\n{}\r\n", "X: y\r\n".repeat(10))), 0);
}

#[test]
fn long_heads() {
    // 44 bytes of head besides the filling.
    let head = |filling: usize| format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(filling));
    let fits = 1024 - head(0).len();
    assert_eq!(refused(&head(fits)), 0);
    assert_eq!(refused(&head(fits + 1)), 431);
    assert_eq!(refused(&head(100_000)), 431);
    assert_eq!(refused(&format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(2000))), 414);
    assert_eq!(refused(&format!("{} / HTTP/1.1\r\nHost: h\r\n\r\n", "X".repeat(2000))), 501);
    assert_eq!(refused(&with(&"X: y\r\n".repeat(9))), 0);
    assert_eq!(refused(&with(&"X: y\r\n".repeat(10))), 431);
}

#[test]
fn more_headers_than_fit_on_the_stack() {
    let request = with(&(0..90).map(|n| format!("X-{n}: {n}\r\n")).collect::<String>());
    let log = serve(plain(), [send(&request), Step::End], |request| {
        format!("{} {:?}", request.headers().len(), request.headers()["x-89"])
    });
    assert_eq!(log.responses()[0].text(), "91 \"89\"");
    let log = serve(plain(), [send(with(&"X: y\r\n".repeat(100))), Step::End], echo);
    assert_eq!(log.responses()[0].status, 431);
}

#[test]
fn trailers_have_the_limit_of_headers() {
    let chunked = |lines: usize| with("Transfer-Encoding: chunked\r\n") + "0\r\n" + &"X: y\r\n".repeat(lines) + "\r\n";
    let status = |lines: usize| {
        let log = serve(plain().max_headers(90), [send(chunked(lines)), Step::End], echo);
        log.responses()[0].status
    };
    // More than are parsed on the stack.
    assert_eq!((status(90), status(91)), (200, 431));
}

#[test]
fn long_bodies() {
    assert_eq!(refused(&(with("Content-Length: 100\r\n") + &"x".repeat(100))), 0);
    assert_eq!(refused(&(with("Content-Length: 101\r\n") + &"x".repeat(101))), 413);
    assert_eq!(refused(&with("Content-Length: 18446744073709551615\r\n")), 413);
    // The answer has its text, whatever the body begins with.
    assert_eq!(refused(&(with("Content-Length: 101\r\n") + "HEAD / HTTP/1.1\r\n")), 413);
    let chunks =
        |count: usize| with("Transfer-Encoding: chunked\r\n") + &"a\r\n0123456789\r\n".repeat(count) + "0\r\n\r\n";
    assert_eq!(refused(&chunks(10)), 0);
    assert_eq!(refused(&chunks(11)), 413);
    assert_eq!(refused(&(with("Transfer-Encoding: chunked\r\n") + "ffffffffffffffff\r\n")), 413);
}

#[test]
fn versions() {
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        assert_eq!(refused(&format!("GET / {version}\r\nHost: h\r\n\r\n")), 0, "{version}");
    }
    for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/9.9"] {
        assert_eq!(refused(&format!("GET / {version}\r\nHost: h\r\n\r\n")), 505, "{version}");
    }
    assert_eq!(refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
}

#[test]
fn tunnels_and_expectations() {
    assert_eq!(refused("CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
    assert_eq!(refused(&(with("Expect: 200-ok\r\nContent-Length: 3\r\n") + "abc")), 417);
    // A version that does not know expectations is not held to them.
    let log = serve(plain(), [send("POST / HTTP/1.0\r\nExpect: x\r\n\r\n"), Step::End], echo);
    assert_eq!(log.responses()[0].status, 200);
}

#[test]
fn an_error_to_a_head_request_has_no_body() {
    let log = serve(plain(), [send("HEAD / HTTP/1.1\r\n\r\n"), Step::End], echo);
    assert!(log.text().starts_with("HTTP/1.1 400 "));
    assert!(log.text().ends_with("\r\n\r\n"));
}

#[test]
fn an_absolute_target_names_the_host() {
    let request = "GET http://real:81/a?b HTTP/1.1\r\nHost: other\r\n\r\n";
    let log = serve(plain(), [send(request), Step::End], |request| {
        format!(
            "{} {} {:?}",
            request.uri(),
            request.uri().path(),
            request.headers().get_all("host").iter().collect::<Vec<_>>()
        )
    });
    assert_eq!(log.responses()[0].text(), "http://real:81/a?b /a [\"real:81\"]");
}
