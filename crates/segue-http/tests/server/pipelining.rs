//! Requests that come together, and handlers that wait behind a finished response.

use super::common::{self, Event, Script, Step, echo, plain, replies, send};
use super::memory::{Memory, until_taken};
use super::{PATIENCE, get};
use segue_core::{Outcome, Trigger, WaitsFor, now, scope, sleep};
use segue_http::{IntoResponse, Payload, Request, Response, Server};
use segue_io::net::UnixStream;
use segue_io::{Backend, DriverPark};
use segue_sched::{Explore, Runtime, Sim};
use std::io::{self, Read, Write};
use std::time::Duration;

/// Of the simulated clock.
const MOMENT: Duration = Duration::from_millis(500);

fn simulated<T>(f: impl FnOnce() -> T) -> T {
    Sim::new(7).run(f).unwrap_or_else(|deadlock| panic!("{deadlock}"))
}

#[test]
fn a_finished_response_is_sent_when_the_handler_behind_it_waits() {
    // Each waits until the client has taken all responses before it.
    let paths = ["/quick", "/waits", "/quick", "/quick", "/writes", "/waits", "/reads", "/quick", "/waits"];
    let requests: String = paths.iter().map(|path| get(path)).collect();
    let stream = Memory::new(requests);
    let taken = stream.taken.clone();
    simulated(|| {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let server = Server::new(|request: &mut Request<'_>| -> Response {
            let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let before = format!("[{}]", number.wrapping_sub(1));
            let answer = format!("[{number}]");
            let taken = taken.clone();
            match request.uri().path() {
                "/waits" => {
                    until_taken(&taken, &before).unwrap();
                    answer.into_response()
                }
                "/writes" => Response::new(Payload::writer(move |out| {
                    // Its own beginning is nothing that is finished.
                    out.write_all(b"begun")?;
                    until_taken(&taken, &before)?;
                    out.write_all(answer.as_bytes())?;
                    out.flush()
                })),
                "/reads" => {
                    let reader = Waits { before, taken, answer: io::Cursor::new(answer) };
                    Response::new(Payload::reader(reader))
                }
                _ => answer.into_response(),
            }
        });
        server.config(plain()).serve_connection(stream).unwrap();
    });
    let output = taken.lock().state().clone();
    let texts: Vec<String> = replies(&output, &[]).iter().map(|reply| reply.text().to_owned()).collect();
    assert_eq!(texts, ["[0]", "[1]", "[2]", "[3]", "begun[4]", "[5]", "[6]", "[7]", "[8]"]);
}

/// A response that is read, and waits first.
struct Waits {
    before: String,
    taken: super::memory::Taken,
    answer: io::Cursor<String>,
}

impl Read for Waits {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.answer.position() == 0 {
            until_taken(&self.taken, &self.before)?;
        }
        self.answer.read(buf)
    }
}

#[test]
fn responses_of_handlers_that_do_not_wait_go_out_in_one_write_from_a_fiber_too() {
    let requests: String = (0..20).map(|n| get(&format!("/{n}"))).collect();
    let handlers: [fn(&mut Request<'_>) -> Response; 2] = [
        |request| echo(request).into_response(),
        |request| {
            let path = request.uri().to_string();
            Response::new(Payload::writer(move |out| write!(out, "{path}")))
        },
    ];
    for handler in handlers {
        let (writes, count) = simulated(|| {
            let log = common::serve(plain(), [send(requests.clone()), Step::End], handler);
            (log.writes().len(), log.responses().len())
        });
        assert_eq!((writes, count), (1, 20));
    }
}

#[test]
fn a_handler_that_ends_while_a_slow_client_takes_what_was_finished_waits_for_its_turn() {
    let stream =
        Memory { pace: (Duration::from_secs(1), 50), ..Memory::new([get("/a"), get("/b"), get("/c")].concat()) };
    let taken = stream.taken.clone();
    let ended = simulated(|| {
        let start = now();
        let server = Server::new(|request: &mut Request<'_>| {
            if request.uri().path() == "/b" {
                // The flusher is in the middle of its write when this is over.
                sleep(MOMENT).unwrap();
            }
            echo(request)
        });
        server.config(plain().linger_timeout(Duration::ZERO)).serve_connection(stream).unwrap();
        now() - start
    });
    let output = taken.lock().state().clone();
    let texts: Vec<String> = replies(&output, &[]).iter().map(|reply| reply.text().to_owned()).collect();
    assert_eq!(texts, ["GET /a ", "GET /b ", "GET /c "]);
    assert!(ended >= Duration::from_secs(output.len() as u64 / 50));
}

#[test]
fn a_handler_that_reads_as_it_unwinds_while_a_slow_client_takes_what_was_finished_is_answered_for() {
    struct ReadsTheRest<'a, 'b>(&'a mut Request<'b>);
    impl Drop for ReadsTheRest<'_, '_> {
        fn drop(&mut self) {
            let read = self.0.body_mut().read(&mut [0; 4]);
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        }
    }
    let post = "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nrest";
    let stream = Memory { pace: (Duration::from_secs(1), 50), ..Memory::new([&get("/a"), post].concat()) };
    let taken = stream.taken.clone();
    let ended = simulated(|| {
        let server = Server::new(|request: &mut Request<'_>| {
            if request.uri().path() == "/b" {
                let _rest = ReadsTheRest(request);
                sleep(MOMENT).unwrap();
                panic!("while the flusher writes");
            }
            echo(request)
        });
        server.config(plain().linger_timeout(Duration::ZERO)).serve_connection(stream)
    });
    let output = taken.lock().state().clone();
    let statuses: Vec<u16> = replies(&output, &[]).iter().map(|reply| reply.status).collect();
    assert_eq!((statuses, ended.is_ok()), (vec![200, 500], true));
}

#[test]
fn responses_keep_their_order_whoever_sends_them_under_any_schedule() {
    Explore::random(150).check(|| {
        let draw = |most: u64| segue_core::random() % most;
        let count = 2 + draw(6);
        let pace = (Duration::from_millis(draw(3)), 1 + draw(200) as usize);
        let requests: String = (0..count).map(|n| get(&format!("/{n}/{}", draw(4)))).collect();
        let stream = Memory { pace, ..Memory::new(requests) };
        let taken = stream.taken.clone();
        let server = Server::new(|request: &mut Request<'_>| -> Response {
            let path = request.uri().path().to_owned();
            let wait = || sleep(Duration::from_millis(segue_core::random() % 4)).unwrap();
            match path.as_bytes().last() {
                Some(b'0') => path.into_response(),
                Some(b'1') => {
                    wait();
                    path.into_response()
                }
                Some(b'2') => Response::new(Payload::writer(move |out| {
                    for piece in path.as_bytes().chunks(2) {
                        out.write_all(piece)?;
                        wait();
                    }
                    Ok(())
                })),
                _ => Response::new(Payload::reader(io::Cursor::new(path))),
            }
        });
        server.config(plain().linger_timeout(Duration::ZERO)).serve_connection(stream).unwrap();
        let output = taken.lock().state().clone();
        let texts: Vec<String> = replies(&output, &[]).iter().map(|reply| reply.text().to_owned()).collect();
        assert_eq!(texts.len() as u64, count);
        assert!(texts.iter().enumerate().all(|(n, text)| text.starts_with(&format!("/{n}/"))), "{texts:?}");
    });
}

#[test]
fn a_finished_response_that_can_not_be_sent_ends_the_connection_after_the_handler() {
    let stream = Memory { breaks_after: 10, ..Memory::new([get("/a"), get("/b"), get("/c")].concat()) };
    let handled = std::sync::atomic::AtomicUsize::new(0);
    let error = simulated(|| {
        let server = Server::new(|request: &mut Request<'_>| {
            sleep(MOMENT).unwrap();
            handled.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            echo(request)
        });
        server.config(plain()).serve_connection(stream).unwrap_err()
    });
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(handled.into_inner() < 3, "it goes on without a connection");
}

#[test]
fn a_body_behind_a_finished_response_is_read_as_ever() {
    let post = "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\n";
    let steps = || [send([&get("/a"), post, "one"].concat()), send("two"), send(get("/c")), Step::End];
    let log = |serve: &dyn Fn() -> Vec<Event>| {
        let writes = serve().into_iter().filter_map(|event| match event {
            Event::Write(bytes) => Some(bytes),
            _ => None,
        });
        let output = writes.collect::<Vec<_>>().concat();
        replies(&output, &[]).iter().map(|reply| reply.text().to_owned()).collect::<Vec<_>>()
    };
    let serve = || {
        let script = Script::new(steps());
        let log = script.log();
        Server::new(echo).config(plain()).serve_connection(script).unwrap();
        log.events()
    };
    let here = log(&serve);
    assert_eq!(here, ["GET /a ", "POST /b onetwo", "GET /c "]);
    assert_eq!(simulated(|| log(&serve)), here);
}

#[test]
fn over_a_socket_the_client_may_read_the_first_response_before_it_lets_the_second_go_on() {
    for (backend, workers) in [(Backend::Auto, 1), (Backend::Native, 1), (Backend::Auto, 2), (Backend::Native, 2)] {
        let test = || {
            let (mut client, stream) = UnixStream::pair().unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            let event = Trigger::new();
            let server = Server::new(|request: &mut Request<'_>| {
                if request.uri().path() == "/second" {
                    assert_eq!(event.wait(WaitsFor::new("the client")), Outcome::Taken(0));
                }
                request.uri().path().to_owned()
            });
            scope(|s| {
                let serving = s.spawn(|| server.serve_connection(stream));
                client.write_all([get("/first"), get("/second")].concat().as_bytes()).unwrap();
                let mut first = Vec::new();
                let mut byte = [0];
                while !first.ends_with(b"/first") && client.read_exact(&mut byte).is_ok() {
                    first.push(byte[0]);
                }
                assert!(event.signal(0));
                assert!(first.ends_with(b"/first"), "the first response waits for the second handler");
                client.shutdown(std::net::Shutdown::Write).unwrap();
                let mut rest = String::new();
                client.read_to_string(&mut rest).unwrap();
                assert!(rest.ends_with("/second"));
                serving.join().unwrap().unwrap();
            });
        };
        Runtime::new().workers(workers).park(move || DriverPark::with(backend)).run(test).unwrap();
    }
}
