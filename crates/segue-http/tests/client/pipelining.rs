//! Several requests that are sent before their responses are read.

use std::io;

use segue_http::client::Error;

use super::common::{Step, send};
use super::{assert_error, connect, get};

fn answer(text: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

#[test]
fn requests_are_sent_together_and_their_responses_come_in_order() {
    let (mut connection, log) = connect([send(["a", "bb", "ccc"].map(answer).concat())]);
    for path in ["/1", "/2", "/3"] {
        connection.send(get(path)).unwrap();
    }
    assert_eq!(connection.waiting(), 3);
    assert!(log.writes().is_empty());
    connection.flush().unwrap();
    assert_eq!(log.writes().len(), 1);
    for body in ["a", "bb", "ccc"] {
        assert_eq!(io::read_to_string(connection.receive().unwrap().into_body()).unwrap(), body);
    }
    assert_error(connection.receive().map(drop), Error::NoRequest);
    assert!(connection.is_reusable());
}

#[test]
fn a_request_may_follow_while_others_wait() {
    let (mut connection, _) = connect(["a", "bb", "ccc"].map(|text| send(answer(text))));
    connection.send(get("/1")).unwrap();
    connection.send(get("/2")).unwrap();
    assert_eq!(io::read_to_string(connection.receive().unwrap().into_body()).unwrap(), "a");
    connection.send(get("/3")).unwrap();
    let error = connection.request(get("/4")).unwrap_err();
    assert!(matches!(Error::of(&error), Some(Error::Request(_))));
    for body in ["bb", "ccc"] {
        assert_eq!(io::read_to_string(connection.receive().unwrap().into_body()).unwrap(), body);
    }
}

#[test]
fn an_answer_to_head_has_no_body_wherever_the_request_stands() {
    let (mut connection, _) =
        connect([send([answer("a"), answer("hidden").replace("hidden", ""), answer("c")].concat())]);
    for method in ["GET", "HEAD", "GET"] {
        let mut request = get("/");
        *request.method_mut() = method.parse().unwrap();
        connection.send(request).unwrap();
    }
    for body in ["a", "", "c"] {
        assert_eq!(io::read_to_string(connection.receive().unwrap().into_body()).unwrap(), body);
    }
}

#[test]
fn requests_behind_the_servers_last_response_are_not_answered() {
    let last = answer("a").replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
    let (mut connection, _) = connect([send(last), Step::End]);
    connection.send(get("/1")).unwrap();
    connection.send(get("/2")).unwrap();
    assert_eq!(io::read_to_string(connection.receive().unwrap().into_body()).unwrap(), "a");
    assert_error(connection.receive().map(drop), Error::Closed);
    assert_eq!(connection.waiting(), 1);
}

#[test]
fn a_response_that_is_not_read_is_discarded_before_the_next() {
    let (mut connection, _) = connect([send([answer(&"x".repeat(60_000)), answer("b")].concat())]);
    connection.send(get("/1")).unwrap();
    connection.send(get("/2")).unwrap();
    connection.receive().unwrap();
    assert_eq!(io::read_to_string(connection.receive().unwrap().into_body()).unwrap(), "b");
}
