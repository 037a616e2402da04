//! Each reply is checked: those that are wrong are counted, by kind.

use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use segue_http::http::{Response, StatusCode};
use segue_http::{IntoResponse, Payload, Request};

use super::{Served, load, settled};

/// Counts requests, from one.
fn counter() -> impl Fn() -> usize {
    let count = AtomicUsize::new(0);
    move || count.fetch_add(1, Ordering::Relaxed) + 1
}

#[test]
fn a_wrong_status_and_a_wrong_body_are_counted() {
    let count = counter();
    // The first one is that from which the program learns.
    let server = Served::new(move |_| match count() {
        20 | 30 | 40 => StatusCode::IM_A_TEAPOT.into_response(),
        25 | 35 => "jello".into_response(),
        45 => "hello, hello".into_response(),
        _ => "hello".into_response(),
    });
    let (status, result) = server.load("--rate 200 --duration 500ms --connections 3");
    assert_eq!(status, Some(1));
    assert_eq!(result["errors"]["status"], 3);
    assert_eq!(result["errors"]["body"], 3);
    assert_eq!((&result["wrong"], settled(&result)), (&6.into(), 94));
}

#[test]
fn right_replies_may_differ_in_their_heads() {
    let count = counter();
    let server = Served::new(move |_| Response::builder().header("x-number", count()).body("hello").unwrap());
    for options in ["--pipeline 1", "--pipeline 4"] {
        let (status, result) = server.load(&format!("--rate 500 --duration 500ms --connections 2 {options}"));
        assert_eq!(status, Some(0));
        assert_eq!((&result["wrong"], settled(&result)), (&0.into(), 250));
    }
}

#[test]
fn replies_in_chunks_and_connections_that_end_are_right() {
    let count = counter();
    let server = Served::new(move |_| {
        let payload = Payload::writer(|out| std::io::Write::write_all(out, b"hello"));
        let response = Response::builder();
        match count() % 10 {
            0 => response.header("connection", "close"),
            _ => response,
        }
        .body(payload)
        .unwrap()
    });
    let (status, result) = server.load("--rate 200 --duration 500ms --connections 3");
    assert_eq!(status, Some(0));
    assert_eq!((&result["wrong"], settled(&result)), (&0.into(), 100));
}

#[test]
fn requests_have_the_method_the_headers_and_the_body() {
    let path = std::env::temp_dir().join(format!("segue-load-body-{}", std::process::id()));
    std::fs::write(&path, "some text").unwrap();
    let server = Served::new(|request: &mut Request<'_>| -> std::io::Result<String> {
        let mut body = String::new();
        request.body_mut().read_to_string(&mut body)?;
        let header = request.headers().get("x-a").map(|value| value.to_str().unwrap().to_owned());
        Ok(format!("{} {header:?} {body}", request.method()))
    });
    let expected = std::env::temp_dir().join(format!("segue-load-expected-{}", std::process::id()));
    std::fs::write(&expected, "PUT Some(\"1\") some text").unwrap();
    let options = format!(
        "--rate 100 --duration 100ms --method PUT --header x-a:1 --body {} --expect-body {}",
        path.display(),
        expected.display()
    );
    let (status, result) = server.load(&options);
    assert_eq!((status, settled(&result)), (Some(0), 10));
    std::fs::remove_file(path).unwrap();
    std::fs::remove_file(expected).unwrap();
}

#[test]
fn an_expectation_that_the_server_does_not_meet_is_told_at_once() {
    let server = Served::new(|_| StatusCode::NOT_FOUND);
    let output = load(&server.url(), "--rate 10");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("404 Not Found and not 200 OK: see --expect-status"), "{text}");
    let (status, result) = server.load("--rate 100 --duration 100ms --expect-status 404 --expect-length 0");
    assert_eq!((status, settled(&result)), (Some(0), 10));
    assert_eq!(load(&server.url(), "--rate 10 --expect-status 404 --expect-length 1").status.code(), Some(2));
}
