//! The time limit of a whole request, by the clock of a simulation.

use super::common::{echo, plain};
use super::get;
use super::memory::Memory;
use segue_core::{Cancelled, after, now, shield, sleep};
use segue_http::{Config, End, IntoResponse, Payload, Request, Response, Server};
use segue_sched::Sim;
use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::time::Duration;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Ten seconds for each request, and nothing else ends anything.
fn config() -> Config {
    let never = Duration::MAX;
    let config = plain().head_timeout(never).body_timeout(never).first_byte_timeout(never);
    config
        .idle_timeout(Duration::from_nanos(1))
        .write_timeout(never)
        .linger_timeout(Duration::ZERO)
        .request_timeout(seconds(10))
}

fn handler(request: &mut Request<'_>) -> Response {
    let never = || after(Duration::MAX).wait().map_err(io::Error::from);
    match request.uri().path() {
        "/waits" => never().map(|()| "never").into_response(),
        "/six" => sleep(seconds(6)).map_err(io::Error::from).map(|()| "six").into_response(),
        "/deaf" => {
            shield(|| sleep(seconds(20))).unwrap();
            "late".into_response()
        }
        "/body" => {
            let error = request.body_mut().read_to_end(&mut Vec::new()).unwrap_err();
            assert!(Cancelled::caused(&error), "{error}");
            (http::StatusCode::IM_A_TEAPOT, "not told").into_response()
        }
        "/panics" => {
            never().unwrap_err();
            panic!("a planned panic")
        }
        "/stream" => Response::new(Payload::writer(move |out| {
            out.write_all(b"begun")?;
            out.flush()?;
            let cancelled = never().unwrap_err();
            // Whether the writer says so or not.
            let error = out.write_all(b"more").and_then(|()| out.flush()).unwrap_err();
            assert!(Cancelled::caused(&cancelled) && Cancelled::caused(&error));
            Err(io::Error::other("cut"))
        })),
        "/stream/unsent" => Response::new(Payload::writer(move |out| {
            out.write_all(b"begun")?;
            never()
        })),
        "/stream/swallows" => Response::new(Payload::writer(move |out| {
            out.write_all(b"begun")?;
            let _ = never();
            Ok(())
        })),
        // As long as is allowed: either may win.
        "/ten" => sleep(seconds(10)).map_err(io::Error::from).map(|()| "ten").into_response(),
        "/stream/ten" => Response::new(Payload::writer(|out| {
            for _ in 0..5 {
                out.write_all(b"tick")?;
                out.flush()?;
                sleep(seconds(2))?;
            }
            out.write_all(b"end")
        })),
        "/large" => vec![b'x'; 100_000].into_response(),
        _ => echo(request).into_response(),
    }
}

/// Serves a client, and returns the seconds, the output, and the statuses and ends.
fn outcome(stream: Memory) -> (u64, String, Vec<(u16, End)>) {
    outcome_of(3, stream, seconds(1_000_000))
}

/// As `outcome`, by another seed, and with the end of a grace of the server.
fn outcome_of(seed: u64, stream: Memory, grace: Duration) -> (u64, String, Vec<(u16, End)>) {
    let (taken, seen) = (stream.taken.clone(), Mutex::new(Vec::new()));
    let time = Sim::new(seed)
        .run(|| {
            let start = now();
            let observe = |exchange: &segue_http::Exchange<'_>| {
                seen.lock().unwrap().push((exchange.status().as_u16(), exchange.end()));
            };
            let server = Server::new(handler).config(config()).observe(observe);
            segue_core::scope(|s| {
                let shutdown = server.shutdown_handle();
                drop(s.spawn_daemon(move || sleep(grace).map(|()| shutdown.shutdown_within(Duration::ZERO))));
                let _ = server.serve_connection(stream);
            });
            (now() - start).as_secs()
        })
        .unwrap_or_else(|deadlock| panic!("{deadlock}"));
    let text = String::from_utf8_lossy(taken.lock().state()).into_owned();
    (time, text, seen.into_inner().unwrap())
}

const UNAVAILABLE: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n\
                           content-length: 30\r\nconnection: close\r\n\r\nthe request has taken too long";

#[test]
fn a_request_that_takes_too_long_is_answered_with_503_while_nothing_is_sent() {
    for (path, time) in [("/waits", 10), ("/deaf", 20), ("/stream/unsent", 10)] {
        let (took, text, seen) = outcome(Memory::new(get(path) + &get("/next")));
        assert_eq!((took, &*text, &seen[..]), (time, UNAVAILABLE, &[(503, End::TimedOut)][..]), "{path}");
    }
    let body = "POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx";
    assert_eq!(outcome(Memory::new(body)), (10, UNAVAILABLE.into(), vec![(503, End::TimedOut)]));
}

#[test]
fn the_responses_before_one_that_takes_too_long_are_sent_in_full() {
    for path in ["/waits", "/stream/unsent", "/stream"] {
        let (took, text, seen) = outcome(Memory::new(get("/first") + &get(path)));
        assert_eq!((took, seen[0]), (10, (200, End::Complete)), "{path}");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("GET /first "), "{path}: {text}");
        assert!(text.ends_with(if path == "/stream" { "5\r\nbegun\r\n" } else { UNAVAILABLE }), "{path}: {text}");
    }
}

#[test]
fn a_response_that_the_next_ones_time_interrupts_is_completed() {
    let mut replaced = 0;
    for seed in 0..60 {
        for path in ["/stream", "/large"] {
            // Ten seconds are not enough for the first response.
            let slow = Memory { pace: (seconds(4), 30), ..Memory::new(get("/first") + &get(path)) };
            let (_, text, seen) = outcome_of(seed, slow, seconds(1_000_000));
            let replies = cut_replies(text.as_bytes());
            assert_eq!((replies[0], seen[0]), ((200, true), (200, End::Complete)), "{seed}, {path}: {text}");
            assert!(text.contains("GET /first ") && seen[1].1 == End::TimedOut, "{seed}, {path}: {text}");
            replaced += usize::from(seen[1].0 == 503 && replies[1] == (503, true));
        }
    }
    assert!(replaced > 10, "{replaced}");
}

#[test]
fn a_body_that_takes_too_long_is_cut() {
    let (took, text, seen) = outcome(Memory::new(get("/stream") + &get("/next")));
    assert_eq!((took, &seen[..]), (10, &[(200, End::TimedOut)][..]));
    assert!(text.ends_with("chunked\r\n\r\n5\r\nbegun\r\n"), "{text}");
    // A client that takes its time has no more of that.
    let slow = Memory { pace: (seconds(1), 1_000), ..Memory::new(get("/large") + &get("/next")) };
    let (took, text, seen) = outcome(slow);
    assert_eq!((took, &seen[..]), (10, &[(200, End::TimedOut)][..]));
    assert!((8_000..=10_000).contains(&text.len()) && text.ends_with('x'), "{}", text.len());
}

#[test]
fn a_response_that_is_complete_in_spite_of_the_time_is_sent() {
    let (_, text, seen) = outcome(Memory::new(get("/stream/swallows") + &get("/next")));
    assert_eq!(seen, [(200, End::Complete), (200, End::Complete)]);
    assert!(text.contains("5\r\nbegun\r\n0\r\n\r\n") && text.ends_with("GET /next "), "{text}");
}

#[test]
fn a_handler_that_panics_over_the_time_is_answered_with_500() {
    let (took, text, seen) = outcome(Memory::new(get("/panics")));
    assert_eq!((took, &seen[..]), (10, &[(500, End::Panicked)][..]));
    assert!(text.starts_with("HTTP/1.1 500 "), "{text}");
}

#[test]
fn each_request_has_the_full_time() {
    let (took, text, seen) = outcome(Memory::new(get("/six").repeat(3)));
    assert_eq!((took, &seen[..]), (18, &[(200, End::Complete); 3][..]));
    assert!(text.ends_with("six"));
}

#[test]
fn an_exchange_that_a_grace_ends_is_told_so() {
    let seen = Mutex::new(Vec::new());
    Sim::new(5)
        .run(|| {
            for path in ["/stream", "/waits"] {
                segue_core::scope(|s| {
                    let shutdown = segue_http::Shutdown::new();
                    let shut = shutdown.clone();
                    s.spawn(move || {
                        sleep(seconds(1)).unwrap();
                        shut.shutdown_within(seconds(1));
                    });
                    let observe = |exchange: &segue_http::Exchange<'_>| seen.lock().unwrap().push(exchange.end());
                    let server = Server::new(handler).config(config()).observe(observe).with_shutdown(&shutdown);
                    let _ = server.serve_connection(Memory::new(get(path)));
                });
            }
        })
        .unwrap_or_else(|deadlock| panic!("{deadlock}"));
    // The response in place of the second one can't be sent either.
    assert_eq!(*seen.lock().unwrap(), [End::Cancelled, End::Cancelled]);
}

/// The statuses of an output that may end anywhere, and whether each response is complete. A head
/// that is cut is none.
fn cut_replies(mut output: &[u8]) -> Vec<(u16, bool)> {
    let mut found = Vec::new();
    loop {
        let mut slots = [httparse::EMPTY_HEADER; 16];
        let mut head = httparse::Response::new(&mut slots);
        let Ok(httparse::Status::Complete(size)) = head.parse(output) else {
            let begun = &output[..output.len().min(9)];
            assert!(b"HTTP/1.1 ".starts_with(begun), "{}", String::from_utf8_lossy(output));
            return found;
        };
        let status = head.code.unwrap();
        let length = head.headers.iter().find(|line| line.name == "content-length");
        let length = length.map(|line| std::str::from_utf8(line.value).unwrap().parse::<usize>().unwrap());
        output = &output[size..];
        let end = match length {
            Some(length) => Some(length).filter(|length| *length <= output.len()),
            None => chunks_end(output),
        };
        found.push((status, end.is_some()));
        match end {
            Some(end) => output = &output[end..],
            None => return found,
        }
    }
}

/// Where the last chunk ends.
fn chunks_end(output: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let Ok(httparse::Status::Complete((prefix, size))) = httparse::parse_chunk_size(&output[at..]) else {
            assert!(output.len() - at < 8, "{}", String::from_utf8_lossy(&output[at..]));
            return None;
        };
        at += prefix + size as usize + 2;
        if at > output.len() {
            return None;
        }
        assert_eq!(&output[at - 2..at], b"\r\n");
        if size == 0 {
            return Some(at);
        }
    }
}

#[test]
fn however_the_times_fall_the_output_and_the_observer_say_the_same() {
    let paths = ["/", "/six", "/ten", "/waits", "/stream/ten", "/stream/unsent", "/stream", "/large"];
    let mut ends = std::collections::HashMap::new();
    for seed in 0..600_u64 {
        let pick = |n: u64, of: u64| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (8 * n)) % of;
        let asked: Vec<_> = (0..1 + pick(0, 4)).map(|n| paths[pick(n + 1, 8) as usize]).collect();
        let paces = [
            (Duration::ZERO, usize::MAX),
            (seconds(1), 60),
            (seconds(2), 30_000),
            (seconds(1), 11_000),
            (seconds(10), 90),
        ];
        let stream = Memory::new(asked.iter().map(|path| get(path)).collect::<String>());
        let grace = if pick(6, 2) == 0 { seconds(1_000_000) } else { seconds(pick(7, 40)) };
        let (_, text, seen) = outcome_of(seed, Memory { pace: paces[pick(5, 5) as usize], ..stream }, grace);
        let case = format!("{seed}: {asked:?}, {seen:?}: {text:.500}");
        let replies = cut_replies(text.as_bytes());
        assert!(replies.len() <= seen.len() && seen.len() <= asked.len(), "{case}");
        for (n, (status, end)) in seen.iter().enumerate() {
            *ends.entry((*status, *end)).or_insert(0) += 1;
            let is_whole = replies.get(n) == Some(&(*status, true));
            match end {
                // Responses that were gathered, and then could not be sent in time.
                End::Complete => assert!(is_whole || grace < seconds(1_000), "{case}"),
                End::TimedOut => assert!(is_whole == (*status == 503) || grace < seconds(1_000), "{case}"),
                _ => assert!(!is_whole, "{case}"),
            }
            assert!(is_whole || n + 1 >= replies.len(), "nothing follows a gap: {case}");
        }
    }
    for end in [(200, End::Complete), (200, End::TimedOut), (503, End::TimedOut), (200, End::Cancelled)] {
        assert!(ends.get(&end).is_some_and(|count| *count > 10), "{ends:?}");
    }
}
