//! Responses that stand beside one that fails, requests whose rest never comes, waits that a
//! program cancels by itself: others get all that is theirs.

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use segue_core::{Cancelled, timeout};
use segue_http::{IntoResponse, Payload, Request, Response, Server};

use super::common::{plain, replies};
use super::{PATIENCE, connect, get, read_all, read_response, with_server};

const LONG: usize = 1_500_000;
/// More than the buffers of a socket and its peer take.
const MORE: usize = 16_000_000;

/// The client has not read anything when the next response fails.
#[test]
fn a_whole_response_is_not_lost_with_the_failure_of_the_next_one() {
    let server = Server::new(|request: &mut Request<'_>| match request.uri().path() {
        "/whole" => vec![b'a'; LONG].into_response(),
        "/fails" => Response::new(Payload::writer(|out| {
            out.write_all(b"begun")?;
            Err(io::Error::other("planned"))
        })),
        other => panic!("the connection is over, and not asked for {other}"),
    });
    with_server(server.config(plain().linger_timeout(PATIENCE)), |address| {
        let mut client = connect(address);
        client.write_all((get("/whole") + &get("/fails") + &get("/next")).as_bytes()).unwrap();
        let first = read_response(&client);
        assert_eq!(first.split_once("\r\n\r\n").unwrap().1.len(), LONG);
        let rest = String::from_utf8(read_all(&client)).unwrap();
        assert!(rest.ends_with("5\r\nbegun\r\n"), "{rest}");
    });
}

/// A limit of its own is far longer than the patience of this test.
#[test]
fn a_body_that_does_not_come_behind_its_response_holds_up_no_shutdown() {
    let body_timeout = PATIENCE * 10;
    with_server(Server::new(|_| "hello").config(plain().body_timeout(body_timeout)), |address| {
        let mut client = connect(address);
        client.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n").unwrap();
        assert!(read_response(&client).ends_with("hello"));
        // The server is shut down here, and returns.
    });
}

#[test]
fn nor_does_it_keep_its_place_from_another_client() {
    let config = plain().body_timeout(PATIENCE * 10).max_connections(1);
    with_server(Server::new(|_| "hello").config(config), |address| {
        let mut first = connect(address);
        first.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n").unwrap();
        assert!(read_response(&first).ends_with("hello"));
        let mut second = connect(address);
        second.write_all(get("/").as_bytes()).unwrap();
        assert!(read_response(&second).ends_with("hello"));
    });
}

#[test]
fn a_read_of_a_body_that_the_program_cancels_can_go_on() {
    let (waited, waits) = mpsc::sync_channel(1);
    let server = Server::new(move |request: &mut Request<'_>| -> io::Result<String> {
        let body = request.body_mut();
        let mut text = String::new();
        let error = timeout(Duration::from_millis(20), || body.read_to_string(&mut text)).unwrap_err();
        assert!(Cancelled::caused(&error), "{error}");
        waited.send(()).unwrap();
        body.read_to_string(&mut text)?;
        Ok(text)
    });
    with_server(server.config(plain()), |address| {
        let mut client = connect(address);
        for end in ["Content-Length: 6\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"] {
            client.write_all(format!("POST / HTTP/1.1\r\nHost: h\r\n{end}").as_bytes()).unwrap();
            waits.recv_timeout(PATIENCE).unwrap();
            let is_chunked = end.contains("chunked");
            client.write_all(if is_chunked { b"6\r\nabcdef\r\n0\r\n\r\n" } else { b"abcdef" }).unwrap();
            let reply = read_response(&client);
            assert!(reply.starts_with("HTTP/1.1 200") && reply.ends_with("abcdef"), "{reply}");
        }
    });
}

/// The client begins to read when the writer has given up several times.
#[test]
fn a_write_that_the_program_cancels_has_taken_nothing() {
    let (given_up, gives_up) = mpsc::sync_channel(1);
    let server = Server::new(move |_: &mut Request<'_>| {
        let given_up = given_up.clone();
        Response::new(Payload::writer(move |out| {
            let (mut sent, mut failures) = (0, 0);
            while sent < MORE {
                let piece = [b'0' + (sent / 1_000 % 10) as u8; 1_000];
                match timeout(Duration::from_millis(20), || out.write(&piece[sent % 1_000..])) {
                    Ok(count) => sent += count,
                    Err(error) if Cancelled::caused(&error) => {
                        failures += 1;
                        if failures == 3 {
                            given_up.send(()).unwrap();
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            assert!(failures >= 3);
            Ok(())
        }))
    });
    with_server(server.config(plain()), |address| {
        let mut client = connect(address);
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
        gives_up.recv_timeout(PATIENCE).unwrap();
        let all = read_all(&client);
        let reply = &replies(&all, &[])[0];
        let wrong = reply.body.iter().enumerate().find(|(at, byte)| **byte != b'0' + (at / 1_000 % 10) as u8);
        assert_eq!((reply.body.len(), wrong), (MORE, None));
    });
}
