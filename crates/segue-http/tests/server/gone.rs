//! Clients that go while a handler works, and handlers that ask for that.

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use super::common::plain;
use super::{PATIENCE, ShutDown, connect, get, listen, read_all, read_response};
use segue_core::{CancelToken, Outcome, Trigger, WaitsFor, after};
use segue_http::{End, IntoResponse, Request, Response, Server};
use segue_io::{Backend, DriverPark};

/// Runs `client` in its own thread while a server runs in fibers of one worker.
fn in_fibers<T: Send>(server: &Server<'_>, backend: Backend, client: impl FnOnce(SocketAddr) -> T + Send) -> T {
    let (listener, address) = listen();
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        let client = s.spawn(move || {
            let _end = ShutDown(shutdown);
            client(address)
        });
        let runtime = segue_sched::Runtime::new().workers(1).park(move || DriverPark::with(backend));
        runtime.run(|| server.serve(listener)).unwrap().unwrap();
        client.join().unwrap()
    })
}

const BACKENDS: [Backend; 2] = [Backend::Auto, Backend::Native];

/// How long a wait for something that has to come may take.
fn forever() -> Result<(), segue_core::Cancelled> {
    after(PATIENCE).wait()
}

#[test]
fn a_client_that_goes_cancels_a_handler_that_asks_for_that() {
    for backend in BACKENDS {
        for ending in ["closes", "ends its direction"] {
            let (said, seen) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
            let (begun, begins) = mpsc::channel();
            let (over, ends) = mpsc::channel();
            let (begun, over) = (Mutex::new(begun), Mutex::new(over));
            let server = Server::new(|request: &mut Request<'_>| {
                begun.lock().unwrap().send(()).unwrap();
                let waited = request.body_mut().while_connected(forever);
                said.lock().unwrap().push(waited.unwrap_err().to_string());
                // The rest of the handler is not cancelled.
                segue_core::check().unwrap();
                "done all the same"
            });
            let server = server.config(plain()).observe(|exchange| {
                seen.lock().unwrap().push(exchange.end());
                over.lock().unwrap().send(()).unwrap();
            });
            in_fibers(&server, backend, move |address| {
                let mut stream = connect(address);
                stream.write_all(get("/").as_bytes()).unwrap();
                begins.recv_timeout(PATIENCE).unwrap();
                if ending == "closes" {
                    drop(stream);
                } else {
                    stream.shutdown(Shutdown::Write).unwrap();
                    assert!(read_all(&stream).ends_with(b"done all the same"));
                }
                ends.recv_timeout(PATIENCE).unwrap();
            });
            drop(server);
            assert_eq!(said.into_inner().unwrap(), ["cancelled: the client has gone"]);
            assert_eq!(seen.into_inner().unwrap(), [End::Gone]);
        }
    }
}

#[test]
fn requests_that_come_meanwhile_are_not_lost_and_cancel_nothing() {
    for backend in BACKENDS {
        let (go, begun) = (Trigger::new(), Trigger::new());
        let server = Server::new(|request: &mut Request<'_>| -> Response {
            if request.uri().path() != "/slow" {
                return request.uri().path().to_owned().into_response();
            }
            let waited = request.body_mut().while_connected(|| {
                begun.signal(0);
                go.wait(WaitsFor::new("the client's word"))
            });
            assert!(matches!(waited, Outcome::Taken(_)), "a client that sends more is not gone");
            let mut body = String::new();
            std::io::Read::read_to_string(request.body_mut(), &mut body).unwrap();
            format!("slow {body}").into_response()
        });
        in_fibers(&server, backend, |address| {
            let mut stream = connect(address);
            // The response before is sent although the next handler waits.
            let slow = "POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n01";
            stream.write_all((get("/first") + slow).as_bytes()).unwrap();
            assert!(read_response(&stream).ends_with("/first"));
            assert!(matches!(begun.wait(WaitsFor::new("the handler")), Outcome::Taken(_)));
            stream.write_all(b"234567").unwrap();
            stream.write_all(b"89").unwrap();
            stream.write_all(get("/next").as_bytes()).unwrap();
            // More than is kept, so the rest waits in the kernel.
            let many = 1_000;
            stream.write_all(get("/many").repeat(many).as_bytes()).unwrap();
            go.signal(0);
            assert!(read_response(&stream).ends_with("slow 0123456789"));
            assert!(read_response(&stream).ends_with("/next"));
            for _ in 0..many {
                assert!(read_response(&stream).ends_with("/many"));
            }
        });
    }
}

#[test]
fn a_handler_that_is_done_or_panics_is_watched_no_longer() {
    for backend in BACKENDS {
        let server = Server::new(|request: &mut Request<'_>| {
            let path = request.uri().path().to_owned();
            let body = request.body_mut();
            match &*path {
                "/panic" => body.while_connected(|| {
                    after(Duration::from_millis(1)).wait().unwrap();
                    panic!("a planned panic")
                }),
                "/waits" => body.while_connected(|| after(Duration::from_millis(1)).wait().unwrap()),
                // One inside of another, and one that has been cancelled already.
                "/cancelled" => {
                    let token = CancelToken::new();
                    token.cancel();
                    assert!(token.run(|| body.while_connected(segue_core::check)).is_err());
                }
                _ => body.while_connected(|| ()),
            }
            "fine"
        });
        in_fibers(&server, backend, |address| {
            let mut stream = connect(address);
            for path in ["/", "/waits", "/cancelled", "/waits", "/"] {
                stream.write_all(get(path).as_bytes()).unwrap();
                assert!(read_response(&stream).ends_with("fine"), "{path}");
            }
            stream.write_all((get("/waits") + &get("/waits") + &get("/panic")).as_bytes()).unwrap();
            let text = String::from_utf8(read_all(&stream)).unwrap();
            assert_eq!((text.matches("fine").count(), text.matches("500 Internal").count()), (2, 1), "{text}");
        });
    }
}

#[test]
fn on_a_plain_thread_the_client_is_not_watched() {
    let server = Server::new(|request: &mut Request<'_>| request.body_mut().while_connected(|| "fine"));
    super::with_server(server, |address| {
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        assert!(read_response(&stream).ends_with("fine"));
    });
}

#[test]
fn a_client_that_goes_cancels_no_handler_that_does_not_ask() {
    let (begun, begins) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let (over, ends) = mpsc::channel();
    let (begun, gate, over) = (Mutex::new(begun), Mutex::new(gate), Mutex::new(over));
    let server = Server::new(|_: &mut Request<'_>| {
        begun.lock().unwrap().send(()).unwrap();
        gate.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        over.lock().unwrap().send(segue_core::check().is_ok()).unwrap();
        "done"
    });
    super::with_server(server, |address| {
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        begins.recv_timeout(PATIENCE).unwrap();
        drop(stream);
        go.send(()).unwrap();
        assert!(ends.recv_timeout(PATIENCE).unwrap());
    });
}

#[test]
fn a_client_that_goes_at_any_moment_leaves_the_server_in_order() {
    for backend in BACKENDS {
        let server = Server::new(|request: &mut Request<'_>| {
            let pauses = request.uri().path().len() as u64;
            let waited = request.body_mut().while_connected(|| after(Duration::from_micros(50 * pauses)).wait());
            format!("{waited:?}")
        });
        in_fibers(&server, backend, |address| {
            for round in 0..100 {
                let mut leaves = connect(address);
                let path = "/".repeat(1 + round % 5);
                leaves.write_all(get(&path).repeat(1 + round % 3).as_bytes()).unwrap();
                // Now, or while an answer is on its way.
                if round % 2 == 0 {
                    let _ = leaves.shutdown(Shutdown::Both);
                }
                drop(leaves);
                let mut stays = connect(address);
                stays.write_all(get("/").as_bytes()).unwrap();
                assert!(read_response(&stays).ends_with("Ok(())"));
            }
        });
    }
}
