//! The exchanges that an observer is told of: each once, with its facts and its end.

use crate::common;

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::time::Duration;

use common::*;
use segue_http::{BodyWriter, Config, End, Exchange, Payload, Request, Response, Server};

const GET: &str = "GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n";

/// Request line, status, bytes of both bodies, seconds, end.
type Seen = (String, u16, u64, u64, u64, End);

fn seen(exchange: &Exchange<'_>) -> Seen {
    let line = match (exchange.method(), exchange.uri(), exchange.version()) {
        (Some(method), Some(uri), Some(version)) => format!("{method} {uri} {version:?}"),
        (None, None, None) => String::new(),
        other => panic!("all or nothing: {other:?}"),
    };
    let seconds = exchange.duration().as_secs();
    (line, exchange.status().as_u16(), exchange.received(), exchange.sent(), seconds, exchange.end())
}

fn answer(request: &mut Request<'_>) -> io::Result<Response> {
    let streamed = |write: fn(&mut BodyWriter<'_>) -> io::Result<()>| Ok(Response::new(Payload::writer(write)));
    // The observer is told of the target that was asked for.
    let path = std::mem::take(request.uri_mut()).path().to_owned();
    match &*path {
        "/panic" => panic!("a planned panic"),
        "/stream" => streamed(|out| out.write_all(b"abc")),
        "/fail" => streamed(|out| out.write_all(b"abc").and(Err(io::Error::other("planned")))),
        "/streampanic" => streamed(|_| panic!("a planned panic")),
        "/reader" => {
            struct Panics;
            impl Read for Panics {
                fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                    panic!("a planned panic")
                }
            }
            Ok(Response::new(Payload::reader(Panics)))
        }
        "/large" => Ok(Response::new(vec![b'x'; 100_000].into())),
        "/unread" => Ok(Response::new("unread".into())),
        _ => {
            let mut body = String::new();
            request.body_mut().read_to_string(&mut body)?;
            Ok(Response::new(format!("[{body}]").into()))
        }
    }
}

fn observe(config: Config, script: Script) -> (Vec<Seen>, String) {
    let (all, log) = (Mutex::new(Vec::new()), script.log());
    let server = Server::new(answer).config(config).observe(|exchange| all.lock().unwrap().push(seen(exchange)));
    let _ = server.serve_connection(script);
    drop(server);
    (all.into_inner().unwrap(), log.text())
}

#[test]
fn an_observer_is_told_of_each_exchange_and_its_end() {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    let post = |path: &str, rest: &str| format!("POST {path} HTTP/1.1\r\nHost: h\r\n{rest}");
    let line = |line: &str| format!("{line} HTTP/1.1");
    for (request, expected) in [
        (get("/a?b"), (line("GET /a?b"), 200, 0, 2, 0, End::Complete)),
        ("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n".into(), (line("HEAD /"), 200, 0, 0, 0, End::Complete)),
        ("GET / HTTP/1.0\r\n\r\n".into(), ("GET / HTTP/1.0".into(), 200, 0, 2, 0, End::Complete)),
        (post("/", "Content-Length: 5\r\n\r\nhello"), (line("POST /"), 200, 5, 7, 0, End::Complete)),
        (
            post("/", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
            (line("POST /"), 200, 5, 7, 0, End::Complete),
        ),
        (post("/unread", "Content-Length: 5\r\n\r\nhello"), (line("POST /unread"), 200, 5, 6, 0, End::Complete)),
        (post("/", "Content-Length: 9\r\n\r\nhello"), (line("POST /"), 400, 5, 21, 0, End::Complete)),
        // The framing of chunks included: 3 CRLF abc CRLF, 0 CRLF CRLF.
        (get("/stream"), (line("GET /stream"), 200, 0, 13, 0, End::Complete)),
        (get("/fail"), (line("GET /fail"), 200, 0, 8, 0, End::Failed)),
        (get("/streampanic"), (line("GET /streampanic"), 200, 0, 0, 0, End::Panicked)),
        (get("/reader"), (line("GET /reader"), 200, 0, 0, 0, End::Panicked)),
        (get("/panic"), (line("GET /panic"), 500, 0, 21, 0, End::Panicked)),
        ("GET / HTTP/1.1\r\n\r\n".into(), (String::new(), 400, 0, 26, 0, End::Complete)),
        ("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n".into(), (String::new(), 501, 0, 33, 0, End::Complete)),
        (post("/", "Content-Length: 99999999\r\n\r\n"), (line("POST /"), 413, 0, 20, 0, End::Complete)),
    ] {
        let (all, text) = observe(plain(), Script::new([send(&request), Step::End]));
        assert_eq!(all, [expected], "{request}\n{text}");
    }
}

#[test]
fn a_connection_without_a_request_is_no_exchange() {
    for steps in [vec![], vec![Step::End], vec![Step::Break], vec![send("GET"), Step::Break]] {
        assert_eq!(observe(plain(), Script::new(steps)).0, []);
    }
    // But this one is refused.
    let (all, _) = observe(plain(), Script::new([send("GET / HT")]));
    assert_eq!((all.len(), all[0].1, all[0].5), (1, 408, End::Complete));
}

#[test]
fn requests_that_come_together_are_exchanges_in_their_order() {
    let steps = [send(GET.repeat(3) + "GET /stream HTTP/1.1\r\nHost: h\r\n\r\nBAD\r\n\r\n"), Step::End];
    let (all, _) = observe(plain(), Script::new(steps));
    let told: Vec<_> = all.iter().map(|(_, status, _, sent, _, end)| (*status, *sent, *end)).collect();
    let fine = |sent| (200, sent, End::Complete);
    assert_eq!(told[..4], [fine(2), fine(2), fine(2), fine(13)]);
    assert_eq!((told.len(), told[4].0), (5, 400));
}

#[test]
fn the_time_of_an_exchange_is_that_of_its_body_too() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n";
    let (all, _) = observe(plain(), Script::new([pause(4), send(head), pause(3), send("hi"), pause(5), Step::End]));
    assert_eq!((all[0].4, all[0].5), (3, End::Complete));
}

#[test]
fn a_client_that_goes_or_takes_nothing_is_told_apart() {
    for path in ["/large", "/a"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut script = Script::new([send(&request), Step::End]);
        script.write_limit = 45;
        let (all, text) = observe(plain(), script);
        // Both heads take at least 40 of these bytes.
        assert_eq!((all.len(), all[0].5), (1, if path == "/a" { End::Complete } else { End::Gone }), "{text}");
        assert!(all[0].3 <= 5, "{all:?}");

        let mut script = Script::new([send(&request), Step::End]);
        script.write_time = Duration::from_secs(31);
        let (all, text) = observe(plain(), script);
        assert_eq!((all.len(), all[0].3, all[0].5), (1, 0, End::TimedOut), "{text}");
    }
}

#[test]
fn an_observer_that_panics_harms_nobody() {
    let script = Script::new([send(GET), send(GET), send("BAD\r\n\r\n"), Step::End]);
    let log = script.log();
    let server = Server::new(answer).config(plain()).observe(|_| panic!("a planned panic"));
    server.serve_connection(script).unwrap();
    assert_eq!(log.responses().iter().map(|reply| reply.status).collect::<Vec<_>>(), [200, 200, 400]);
}

#[test]
fn an_observer_finds_what_the_handler_has_left_and_the_facts_of_the_connection() {
    let found = Mutex::new(Vec::new());
    let server = Server::new(|request: &mut Request<'_>| {
        request.extensions_mut().insert(7u8);
        "fine"
    });
    let server = server.config(plain()).observe(|exchange| {
        let agent = exchange.headers().map(|headers| headers["user-agent"].clone());
        let left = exchange.extensions().and_then(|extensions| extensions.get::<u8>().copied());
        found.lock().unwrap().push((agent.unwrap(), left, exchange.connection().is_secure()));
    });
    let request = "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: test\r\n\r\n";
    server.serve_connection(Script::new([send(request.repeat(2)), Step::End])).unwrap();
    assert_eq!(*found.lock().unwrap(), vec![("test".parse().unwrap(), Some(7), false); 2]);
}

#[cfg(feature = "tracing")]
mod events {
    use super::*;
    use std::sync::Arc;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Keeps the events.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0 += &format!(" {}={value:?}", field.name());
        }
    }

    impl Subscriber for Kept {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut line = Line(format!("{} {}", event.metadata().level(), event.metadata().target()));
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn an_access_log_is_an_event_for_each_exchange() {
        let kept = Kept::default();
        let server = Server::new(answer).config(plain()).observe(segue_http::trace::access_log());
        let steps = [send("POST /a?secret HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"), send("BAD\r\n\r\n")];
        tracing::subscriber::with_default(kept.clone(), || server.serve_connection(Script::new(steps)).unwrap());
        let fields = "micros=0 end=\"complete\"";
        assert_eq!(
            *kept.0.lock().unwrap(),
            [
                format!(
                    "INFO segue_http::access method=\"POST\" path=\"/a\" version=\"HTTP/1.1\" peer=\"\" status=200 \
                     received=2 sent=4 {fields}"
                ),
                format!(
                    "INFO segue_http::access method=\"\" path=\"\" version=\"\" peer=\"\" status=400 received=0 sent=22 \
                     {fields}"
                ),
            ]
        );
    }
}
