//! Server-sent events: their text, comments in silence, clients that leave, the shutdown.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/served.rs"]
mod serving;

use segue_core::after;
use segue_http::{Event, Events, Request, Server, event_stream};
use serving::*;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

fn ask(address: SocketAddr, more: &str) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: h\r\n{more}\r\n").as_bytes()).unwrap();
    stream
}

#[test]
fn an_event_has_a_line_for_each_part_and_none_by_injection() {
    let cases = [
        (Event::new(""), "data: \n\n"),
        (Event::new("a"), "data: a\n\n"),
        (Event::new(" a"), "data:  a\n\n"),
        (Event::new("a\nb\r\nc\rd\n"), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"),
        (Event::new("a\n\nid: 9"), "data: a\ndata: \ndata: id: 9\n\n"),
        (Event::new("a").name("n\r\ndata: x").id("7\0\nx"), "event: n\nid: 7\ndata: a\n\n"),
        (Event::new("a").id(""), "id: \ndata: a\n\n"),
        (Event::new("a").retry(Duration::from_millis(1_500)), "retry: 1500\ndata: a\n\n"),
    ];
    for (event, text) in cases {
        assert_eq!(event.to_string(), text);
    }
}

#[test]
fn a_stream_sends_each_event_at_once_and_goes_on_behind_the_last_id() {
    for place in PLACES {
        let server = Server::new(|request: &mut Request<'_>| {
            let last: u64 = Events::last_id(request).and_then(|id| id.parse().ok()).unwrap_or(0);
            event_stream(move |events| {
                for n in last + 1.. {
                    events.send(&Event::new(format!("event {n}")).id(n))?;
                    if events.wait_for(after(Duration::from_millis(1)))?.is_none() {
                        break;
                    }
                }
                events.send(&Event::new("over"))
            })
        });
        with_server(place, server, |address, shutdown| {
            let stream = ask(address, "");
            let head = String::from_utf8(read_until(&stream, b"\r\n\r\n")).unwrap();
            assert!(
                head.contains("content-type: text/event-stream\r\n") && head.contains("cache-control: no-cache\r\n")
            );
            read_until(&stream, b"id: 1\ndata: event 1\n\n");
            read_until(&stream, b"id: 3\ndata: event 3\n\n");
            let later = ask(address, "Last-Event-ID: 41\r\n");
            let text = String::from_utf8(read_until(&later, b"\ndata: event 42\n\n")).unwrap();
            assert!(!text.contains("event 41"));
            shutdown.shutdown();
            for stream in [stream, later] {
                let text = String::from_utf8(read_all(&stream)).unwrap();
                assert!(text.ends_with("data: over\n\n\r\n0\r\n\r\n"), "{text}");
            }
        });
    }
}

#[test]
fn idle_streams_get_comments_and_do_not_hold_a_shutdown_up() {
    for place in PLACES {
        let server = Server::new(|_| {
            event_stream(|events| {
                events.keep_alive(Duration::from_millis(5));
                while let Some(()) = events.wait_for(after(Duration::MAX))? {}
                Ok(())
            })
        });
        with_server(place, server, |address, shutdown| {
            let streams: Vec<_> = (0..100).map(|_| ask(address, "")).collect();
            for stream in &streams {
                read_until(stream, b"\r\n3\r\n:\n\n\r\n3\r\n:\n\n\r\n");
            }
            let begun = Instant::now();
            shutdown.shutdown();
            for stream in &streams {
                assert!(read_all(stream).ends_with(b"0\r\n\r\n"), "the body has its end");
            }
            assert!(begun.elapsed() < PATIENCE);
        });
    }
}

#[test]
fn a_client_that_has_left_is_noticed_by_a_comment() {
    for place in PLACES {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let server = Server::new(|_| {
            let tell = tell.lock().unwrap().clone();
            event_stream(move |events| {
                events.keep_alive(Duration::from_millis(1));
                let ended = events.wait_for(after(Duration::MAX));
                tell.send(ended.is_err()).unwrap();
                ended.map(drop)
            })
        });
        with_server(place, server, |address, _| {
            let stream = ask(address, "");
            read_until(&stream, b":\n\n");
            drop(stream);
            assert_eq!(told.recv_timeout(PATIENCE), Ok(true));
        });
    }
}

#[test]
fn an_old_client_reads_events_until_the_end() {
    for place in PLACES {
        let server = Server::new(|_| event_stream(|events| events.send(&Event::new("only"))));
        with_server(place, server, |address, _| {
            let mut stream = connect(address);
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            assert!(read_all(&stream).ends_with(b"\r\n\r\ndata: only\n\n"));
            let mut stream = connect(address);
            stream.write_all(b"HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
            assert!(read_all(&stream).ends_with(b"\r\n\r\n"));
        });
    }
}

/// The client begins to read when the first event was given up.
#[test]
fn an_event_that_the_program_gives_up_is_completed_before_the_next_one() {
    const LONG: usize = 16_000_000;
    for place in PLACES {
        let (given_up, gives_up) = mpsc::sync_channel(1);
        let server = Server::new(move |_: &mut Request<'_>| {
            let given_up = given_up.clone();
            event_stream(move |events| {
                let long = Event::new("x".repeat(LONG));
                let error = segue_core::timeout(Duration::from_millis(50), || events.send(&long)).unwrap_err();
                assert!(segue_core::Cancelled::caused(&error), "{error}");
                given_up.send(()).unwrap();
                events.send(&Event::new("next"))
            })
        });
        with_server(place, server, |address, _| {
            let stream = ask(address, "Connection: close\r\n");
            gives_up.recv_timeout(PATIENCE).unwrap();
            let all = read_all(&stream);
            let body = &common::replies(&all, &[])[0].body;
            let text = std::str::from_utf8(body).unwrap();
            assert!(text == format!("data: {}\n\ndata: next\n\n", "x".repeat(LONG)), "{place:?}: {}", text.len());
        });
    }
}
