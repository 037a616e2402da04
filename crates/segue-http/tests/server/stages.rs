//! The two stages of a shutdown, by the clock of a simulation: connections at rest end, requests
//! are asked to finish, and what does not is cancelled after a grace.

use super::common::{echo, plain};
use super::get;
use super::memory::{Accepts, Memory};
use segue_core::{
    Cancelled, Either, Outcome, Scope, Trigger, WaitsFor, after, finishing_source, is_finishing, now, scope, shield,
    sleep,
};
use segue_http::{Config, IntoResponse, Listener, Payload, Request, Response, Server, Shutdown};
use segue_sched::{Explore, Sim};
use std::io::{self, Write};
use std::sync::Mutex;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn simulated<T>(f: impl FnOnce() -> T) -> T {
    Sim::new(7).run(f).unwrap_or_else(|deadlock| panic!("{deadlock}"))
}

/// The shortest limit of a wait is a nanosecond.
fn whole(time: Duration) -> Duration {
    seconds(time.as_secs())
}

/// Nothing but the shutdown ends anything.
fn config() -> Config {
    let never = Duration::MAX;
    let config = plain().head_timeout(never).body_timeout(never).first_byte_timeout(never).idle_timeout(never);
    config.write_timeout(never).linger_timeout(HOUR)
}

/// The endless ones end when they are told, or never.
fn handler(request: &mut Request<'_>) -> Response {
    let never = || after(Duration::MAX).wait().map_err(io::Error::from);
    match request.uri().path() {
        "/deaf" => never().map(|()| "never").into_response(),
        "/told" => finishing_source().wait().map_err(io::Error::from).map(|()| "told").into_response(),
        "/stream/deaf" => Response::new(Payload::writer(move |out| {
            out.write_all(b"begun")?;
            out.flush()?;
            never()
        })),
        "/stream/told" => Response::new(Payload::writer(|out| {
            while let Either::Left(()) = after(seconds(3)).or(finishing_source()).wait()? {
                out.write_all(b"tick")?;
                out.flush()?;
            }
            assert!(is_finishing());
            out.write_all(b"goodbye")
        })),
        "/large" => vec![b'x'; 100_000].into_response(),
        _ => echo(request).into_response(),
    }
}

/// A connection in a state; whether it ends by itself when it is told; what its output ends with.
fn states() -> Vec<(&'static str, Memory, bool, &'static str)> {
    let asks = |path: &str| Memory::new(get(path));
    let slow = Memory { pace: (HOUR, 1), ..asks("/large") };
    vec![
        ("silent", Memory::new(""), true, ""),
        ("idle", asks("/"), true, "GET / "),
        ("in a head", Memory::new("GET / HTTP/1.1\r\nHo"), true, ""),
        ("idle, and in the next head", Memory::new(get("/") + "GET /"), true, "GET / "),
        ("a handler that asks", asks("/told"), true, "connection: close\r\n\r\ntold"),
        ("a writer that asks", asks("/stream/told"), true, "4\r\ntick\r\n7\r\ngoodbye\r\n0\r\n\r\n"),
        ("a handler that does not", asks("/deaf"), false, ""),
        ("a writer that does not", asks("/stream/deaf"), false, "5\r\nbegun\r\n"),
        (
            "a body that does not come",
            Memory::new("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx"),
            false,
            "",
        ),
        ("a client that takes nothing", slow, false, ""),
        ("a refused request that lingers", Memory::new("BAD\r\n\r\n"), true, ""),
    ]
}

/// Serves a connection, does this after ten seconds, and answers when that has ended, and how.
fn ends(stream: Memory, end: impl FnOnce(&Shutdown)) -> (Duration, io::Result<()>) {
    simulated(|| {
        let start = now();
        let server = Server::new(handler).config(config());
        let result = scope(|s| {
            let serving = s.spawn(|| server.serve(Accepts(Mutex::new(vec![stream]))));
            sleep(seconds(10)).unwrap();
            end(&server.shutdown_handle());
            serving.join().unwrap()
        });
        (whole(now() - start), result)
    })
}

#[test]
fn a_shutdown_tells_all_and_its_grace_cancels_the_rest() {
    for (state, stream, ends_when_told, output) in states() {
        let taken = stream.taken.clone();
        let (time, result) = ends(stream, |shutdown| shutdown.shutdown_within(seconds(5)));
        assert_eq!((time, result.is_ok()), (seconds(if ends_when_told { 10 } else { 15 }), true), "{state}");
        let taken = taken.lock().state().clone();
        let text = String::from_utf8_lossy(&taken);
        assert!(text.ends_with(output), "{state}: {text}");
    }
}

#[test]
fn a_shutdown_without_a_grace_waits_for_whatever_goes_on() {
    for (state, stream, ends_when_told, _) in states() {
        let end = |shutdown: &Shutdown| {
            shutdown.shutdown();
            sleep(HOUR).unwrap();
            // A grace that comes later counts, and one that ends earlier counts more.
            shutdown.shutdown_within(seconds(60));
            shutdown.shutdown_within(seconds(20));
            shutdown.shutdown_within(seconds(40));
        };
        let (time, _) = ends(stream, end);
        let waited = if ends_when_told { Duration::ZERO } else { seconds(20) };
        assert_eq!(time, seconds(10) + HOUR + waited, "{state}");
    }
}

#[test]
fn a_client_that_takes_nothing_ends_by_its_own_limit_after_a_shutdown() {
    let stream = Memory { pace: (HOUR, 1), ..Memory::new(get("/large")) };
    let time = simulated(|| {
        let start = now();
        let server = Server::new(handler).config(config().write_timeout(seconds(30)));

        scope(|s| {
            let serving = s.spawn(|| server.serve(Accepts(Mutex::new(vec![stream]))));
            sleep(seconds(10)).unwrap();
            server.shutdown_handle().shutdown();
            serving.join().unwrap().unwrap();
        });
        now() - start
    });
    assert_eq!(time, seconds(30));
}

/// The grace of a scope, or of a runtime, is that of the servers in it.
#[test]
fn a_caller_that_is_asked_to_finish_shuts_down_and_its_grace_is_the_servers() {
    for (state, stream, ends_when_told, _) in states() {
        let (time, result) = simulated(|| {
            let start = now();
            let server = Server::new(handler).config(config());
            let result = scope(|s| {
                let serving = s.spawn(|| server.serve(Accepts(Mutex::new(vec![stream]))));
                sleep(seconds(10)).unwrap();
                s.cancel_soft(seconds(5));
                segue_core::shield(|| serving.join()).unwrap()
            });
            (whole(now() - start), result)
        });
        assert_eq!((time, result.is_ok()), (seconds(if ends_when_told { 10 } else { 15 }), true), "{state}");
    }
}

#[test]
fn a_caller_that_is_cancelled_asks_and_cancels_no_request() {
    for (state, stream, ends_when_told, _) in states() {
        let (time, result) = simulated(|| {
            let start = now();
            let server = Server::new(handler).config(config());
            let result = scope(|s| {
                let serving = s.spawn(|| server.serve(Accepts(Mutex::new(vec![stream]))));
                sleep(seconds(10)).unwrap();
                s.cancel();
                segue_core::shield(|| {
                    sleep(HOUR).unwrap();
                    server.shutdown_handle().shutdown_within(seconds(5));
                    serving.join().unwrap()
                })
            });
            (whole(now() - start), result)
        });
        let waited = if ends_when_told { Duration::ZERO } else { seconds(5) };
        assert_eq!(time, seconds(10) + HOUR + waited, "{state}");
        assert!(result.is_ok() || Cancelled::caused(&result.unwrap_err()), "{state}");
    }
}

/// A listener that takes its time to close.
struct ClosesSlowly<'t>(Accepts, &'t Trigger);

impl Listener for ClosesSlowly<'_> {
    type Stream = Memory;

    fn accept(&self) -> io::Result<Memory> {
        self.0.accept()
    }
}

impl Drop for ClosesSlowly<'_> {
    fn drop(&mut self) {
        assert!(self.1.signal(0));
        shield(|| sleep(seconds(1))).unwrap();
    }
}

#[test]
fn a_response_of_a_server_that_does_not_listen_any_more_says_that_it_is_the_last() {
    let ways: [fn(&Scope<'_, '_>, &Shutdown); 3] =
        [|caller, _| caller.cancel(), |caller, _| caller.cancel_soft(HOUR), |_, shutdown| shutdown.shutdown()];
    for end in ways {
        let stream = Memory::new(get("/"));
        let taken = stream.taken.clone();
        simulated(|| {
            let closes = Trigger::new();
            let server = Server::new(|_: &mut Request<'_>| {
                let ended = closes.wait(WaitsFor::new("the end of the listener"));
                assert!(matches!(ended, Outcome::Taken(_)), "a request of a server that ends is not cancelled");
                "last"
            });
            let server = server.config(config());
            scope(|s| {
                let serving = s.spawn(|| server.serve(ClosesSlowly(Accepts(Mutex::new(vec![stream])), &closes)));
                sleep(seconds(10)).unwrap();
                end(s, &server.shutdown_handle());
                let _ = shield(|| serving.join()).unwrap();
            });
        });
        let text = String::from_utf8(taken.lock().state().clone()).unwrap();
        assert!(text.ends_with("connection: close\r\n\r\nlast"), "{text}");
    }
}

#[test]
fn a_connection_of_the_caller_is_shut_down_in_the_same_way() {
    for (state, stream, ends_when_told, output) in states() {
        let taken = stream.taken.clone();
        let time = simulated(|| {
            let start = now();
            let server = Server::new(handler).config(config());
            scope(|s| {
                let serving = s.spawn(|| server.serve_connection(stream));
                sleep(seconds(10)).unwrap();
                server.shutdown_handle().shutdown_within(seconds(5));
                let result = serving.join().unwrap();
                // That it was shut down is no error; a response that is cut short is.
                assert!(result.is_ok() || !ends_when_told, "{state}: {result:?}");
            });
            whole(now() - start)
        });
        assert_eq!(time, seconds(if ends_when_told { 10 } else { 15 }), "{state}");
        assert!(String::from_utf8_lossy(taken.lock().state()).ends_with(output), "{state}");
    }
}

#[test]
fn a_handle_that_was_made_before_ends_all_servers_that_have_it() {
    let shutdown = Shutdown::new();
    let answers = simulated(|| {
        let quits = Server::new(|request: &mut Request<'_>| {
            shutdown.shutdown_within(seconds(5));
            request.uri().to_string()
        });
        let [quits, other] = [quits, Server::new(handler)].map(|s| s.with_shutdown(&shutdown).config(config()));
        let (asks, waits) = (Memory::new(get("/quit")), Memory::new(get("/deaf")));
        let answer = asks.taken.clone();
        let start = now();
        scope(|s| {
            let serving = s.spawn(|| other.serve(Accepts(Mutex::new(vec![waits]))));
            sleep(seconds(1)).unwrap();
            quits.serve(Accepts(Mutex::new(vec![asks]))).unwrap();
            assert_eq!(whole(now() - start), seconds(1));
            serving.join().unwrap().unwrap();
        });
        assert_eq!(whole(now() - start), seconds(6));
        answer.lock().state().clone()
    });
    assert!(answers.ends_with(b"connection: close\r\n\r\n/quit"));
}

#[test]
fn a_cancelled_handler_learns_why() {
    let why = Mutex::new(String::new());
    simulated(|| {
        let server = Server::new(|_: &mut Request<'_>| {
            let cancelled = scope(|s| s.spawn(|| sleep(Duration::MAX)).join().unwrap()).unwrap_err();
            *why.lock().unwrap() = cancelled.to_string();
            // The end of the connection is an end of its waits, too.
            assert!(segue_core::check().is_err());
            "too late"
        });
        scope(|s| {
            let stream = Memory::new(get("/"));
            let serving = s.spawn(|| server.serve(Accepts(Mutex::new(vec![stream]))));
            sleep(seconds(10)).unwrap();
            server.shutdown_handle().shutdown_within(seconds(5));
            serving.join().unwrap().unwrap();
        });
    });
    assert!(why.lock().unwrap().contains("asked to finish, and not over after 5s"), "{why:?}");
}

#[test]
fn a_caller_that_is_cancelled_at_any_moment_ends_the_server_and_says_why() {
    let token = segue_core::CancelToken::new();
    token.cancel_with("no longer wanted");
    let serve = || Server::new(handler).config(config()).serve(Accepts(Mutex::new(vec![Memory::new(get("/told"))])));
    let error = simulated(|| token.run(serve)).unwrap_err();
    assert!(error.to_string().contains("no longer wanted"), "{error}");
    let late = simulated(|| segue_core::timeout(seconds(3), serve)).unwrap_err();
    assert!(Cancelled::caused(&late) && late.kind() == io::ErrorKind::TimedOut, "{late}");
    Explore::random(200).check(|| {
        scope(|s| {
            let serving = s.spawn(serve);
            for _ in 0..segue_core::random() % 8 {
                segue_core::yield_now().unwrap();
            }
            s.cancel();
            if let Ok(ended) = segue_core::shield(|| serving.join()) {
                assert!(Cancelled::caused(&ended.unwrap_err()));
            }
        });
    });
}
