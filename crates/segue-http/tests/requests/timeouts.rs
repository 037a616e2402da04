//! Clients that are slow, on a clock that moves only while the server waits.

use crate::common;

use std::io::Read;
use std::time::Duration;

use common::*;
use segue_http::{Config, Request, Server};

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn config() -> Config {
    plain()
        .head_timeout(seconds(10))
        .body_timeout(seconds(20))
        .first_byte_timeout(seconds(30))
        .idle_timeout(seconds(40))
        .write_timeout(seconds(80))
        .linger_timeout(seconds(1))
}

#[test]
fn a_connection_that_never_sends_is_closed_without_a_word() {
    let log = serve(config(), [], echo);
    assert_eq!((log.text().as_str(), log.waited()), ("", seconds(30)));
    // The shorter one holds.
    let log = serve(config().idle_timeout(seconds(20)), [], echo);
    assert_eq!((log.text().as_str(), log.waited()), ("", seconds(20)));
}

#[test]
fn a_new_connection_waits_for_its_first_byte_in_one_read() {
    let reads = |log: &Log| log.events().iter().filter(|event| matches!(event, Event::Read(_))).count();
    assert_eq!(reads(&serve(config(), [], echo)), 1);
    // What has had a request gives back memory meanwhile.
    assert_eq!(reads(&serve(config(), [send(GET)], echo)), 1 + 2);
}

#[test]
#[should_panic = "the server would wait for ever"]
fn a_connection_without_a_time_out_has_none_also_after_a_while() {
    serve(config().idle_timeout(Duration::MAX), [send(GET)], echo);
}

#[test]
fn by_default_a_first_byte_has_less_time_than_a_next_one() {
    let first = serve(plain(), [], echo).waited();
    let next = serve(plain(), [send(GET)], echo).waited();
    assert!(first < next, "{first:?}, {next:?}");
}

#[test]
fn a_connection_that_falls_silent_after_a_response_is_closed_without_a_word() {
    let log = serve(config(), [pause(29), send(GET), pause(39), send(GET)], echo);
    assert_eq!((log.responses().len(), log.waited()), (2, seconds(29 + 39 + 40)));
}

#[test]
fn a_head_that_stops_short_is_answered_with_408() {
    let log = serve(config(), [send("GET / HTTP/1.1\r\nHost: h\r\n")], echo);
    assert_eq!(log.responses()[0].status, 408);
    assert_eq!(log.responses()[0].header("connection"), Some("close"));
    assert!(log.events().contains(&Event::ShutdownWrite));
    // The head's time, then the time that the closing connection lingers.
    assert_eq!(log.waited(), seconds(10 + 1));
}

#[test]
fn a_head_that_drips_is_cut_by_the_time_of_the_whole_head() {
    let drip = |every: u64| GET.bytes().flat_map(move |byte| [send([byte]), pause(every)]).collect::<Vec<_>>();
    let log = serve(config(), drip(1), echo);
    assert_eq!(log.responses()[0].status, 408);
    assert_eq!(log.waited(), seconds(10 + 1));
    // Fast enough: 28 bytes in 28 times 100 ms.
    let quick: Vec<_> = GET.bytes().flat_map(|byte| [send([byte]), Step::Pause(Duration::from_millis(100))]).collect();
    let log = serve(config(), quick, echo);
    assert_eq!(log.responses()[0].status, 200);
}

#[test]
fn each_head_has_the_full_time() {
    let (one, two) = GET.split_at(10);
    let log =
        serve(config(), [send(one), pause(9), send(two), pause(30), send(one), pause(9), send(two), Step::End], echo);
    assert_eq!(log.responses().iter().map(|reply| reply.status).collect::<Vec<_>>(), [200, 200]);
}

#[test]
fn a_malformed_head_is_told_so_even_if_it_stops_short() {
    let log = serve(config(), [send("GET / HTTP/1.1\r\nA: b\r"), send("c\r\nd")], echo);
    assert_eq!(log.responses()[0].status, 400);
}

#[test]
fn a_body_that_stops_short_is_answered_with_408() {
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        let request = format!("POST / HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\n5\r\n");
        let log = serve(config(), [send(request), send(GET)].into_iter().take(1), echo);
        let replies = log.responses();
        assert_eq!(replies.len(), 1);
        assert_eq!((replies[0].status, replies[0].header("connection")), (408, Some("close")));
        assert_eq!(log.waited(), seconds(20 + 1));
    }
}

#[test]
fn a_body_that_drips_is_cut_by_the_time_of_the_whole_body() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n";
    let drip = [send(head)].into_iter().chain((0..100).flat_map(|_| [pause(1), send("x")]));
    let log = serve(config(), drip, echo);
    assert_eq!(log.responses()[0].status, 408);
    assert_eq!(log.waited(), seconds(20 + 1));
}

#[test]
fn a_large_read_is_limited_too() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    let drip = [send(head)].into_iter().chain((0..100).flat_map(|_| [pause(1), send("x")]));
    let log = serve(config(), drip, |request| request.body_mut().read_exact(&mut [0; 100_000]).map(|()| "all"));
    assert_eq!(log.responses()[0].status, 408);
    assert_eq!(log.waited(), seconds(20 + 1));
}

#[test]
fn discarding_is_limited_too() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n";
    let log = serve(config(), [send(head)], |_| "not interested");
    assert_eq!(log.responses().len(), 1);
    assert_eq!(log.waited(), seconds(20 + 1));
}

#[test]
fn a_client_that_takes_nothing_is_cut() {
    let mut script = Script::new([send(GET), Step::End]);
    script.write_time = seconds(81);
    let log = script.log();
    assert!(Server::new(echo).config(config()).serve_connection(script).is_err());
    assert_eq!((log.text().as_str(), log.waited()), ("", seconds(80)));
}

#[test]
fn a_client_that_takes_drops_is_cut() {
    let mut script = Script::new([send(GET), Step::End]);
    (script.write_size, script.write_time) = (10, seconds(20));
    let log = script.log();
    let result = Server::new(|_: &mut Request<'_>| vec![0; 1_000_000]).config(config()).serve_connection(script);
    assert!(result.is_err());
    // The first drop, then the time for the following 256 KiB.
    assert_eq!(log.waited(), seconds(20 + 80));
}

#[test]
fn a_client_that_takes_enough_is_not_cut() {
    let mut script = Script::new([send(GET), Step::End]);
    (script.write_size, script.write_time) = (150_000, seconds(30));
    let log = script.log();
    Server::new(|_: &mut Request<'_>| vec![0; 10_000_000]).config(config()).serve_connection(script).unwrap();
    assert_eq!(log.responses()[0].body.len(), 10_000_000);
}

#[test]
fn lingering_is_bounded_in_time_and_bytes() {
    let bad = || send("BAD\r\n\r\n");
    let log = serve(config(), [bad(), send("more"), Step::End], echo);
    assert_eq!(log.waited(), Duration::ZERO);
    // Forever a little: ends by the time.
    let drip = (0..100).flat_map(|_| [Step::Pause(Duration::from_millis(100)), send("x")]);
    let log = serve(config(), [bad()].into_iter().chain(drip), echo);
    assert_eq!(log.waited(), seconds(1));
    // Forever much: ends by the count.
    let flood = std::iter::repeat_n(send(vec![b'x'; 16 << 10]), 1000);
    let log = serve(config(), [bad()].into_iter().chain(flood), echo);
    let reads = log.events().iter().filter(|event| matches!(event, Event::Read(_))).count();
    assert!(reads < 40, "{reads}");
    // Not at all, if so configured.
    let log = serve(config().linger_timeout(Duration::ZERO), [bad(), send("more")], echo);
    assert_eq!(log.responses()[0].status, 400);
    assert!(!log.events().contains(&Event::ShutdownWrite));
}

#[test]
fn no_limits_means_no_limits() {
    let config = plain()
        .head_timeout(Duration::MAX)
        .body_timeout(Duration::MAX)
        .first_byte_timeout(Duration::MAX)
        .idle_timeout(Duration::MAX)
        .write_timeout(Duration::MAX)
        .linger_timeout(Duration::MAX);
    let year = 365 * 24 * 3600;
    let (one, two) = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n".split_at(7);
    let steps = [pause(year), send(one), pause(year), send(two), pause(year), send("x"), pause(year), Step::End];
    let mut script = Script::new(steps);
    script.write_time = seconds(year);
    let log = script.log();
    Server::new(echo).config(config).serve_connection(script).unwrap();
    assert_eq!(log.responses()[0].text(), "POST / x");
}

#[test]
fn a_request_is_answered_as_soon_as_it_is_complete() {
    let long = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(200));
    let chunks = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n";
    for request in [GET, &long, chunks] {
        let request = request.as_bytes();
        let halves = (1..request.len()).map(|cut| vec![send(&request[..cut]), send(&request[cut..])]);
        let pieces = (1..request.len()).map(|size| request.chunks(size).map(send).collect());
        for steps in halves.chain(pieces) {
            let log = serve(config(), steps, echo);
            // What is waited for is the next request.
            assert_eq!((log.responses()[0].status, log.waited()), (200, seconds(40)));
        }
    }
}
