//! Several listeners of one server.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::accepting::failing;
use super::common::{echo, plain};
use super::{PATIENCE, ShutDown, connect, get, listen, read_all, read_response};
use segue_http::{Listener, Listeners, Request, Server};
use segue_io::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use segue_io::{Backend, DriverPark};

/// Runs `client` in its own thread while a server has these listeners, in fibers, or in threads.
fn with_listeners(
    server: &Server<'_>,
    listeners: Listeners<'_>,
    backend: Option<Backend>,
    client: impl FnOnce() + Send,
) {
    let shutdown = server.shutdown_handle();
    thread::scope(|s| {
        s.spawn(move || {
            let _end = ShutDown(shutdown);
            client();
        });
        let serve = || server.serve_all(listeners);
        match backend {
            Some(backend) => {
                let runtime = segue_sched::Runtime::new().workers(2).park(move || DriverPark::with(backend));
                runtime.run(serve).unwrap().unwrap();
            }
            None => serve().unwrap(),
        }
    });
}

#[test]
fn listeners_of_different_kinds_are_served_by_one_server_and_end_with_it() {
    for (n, backend) in [None, Some(Backend::Auto), Some(Backend::Native)].into_iter().enumerate() {
        let path = std::env::temp_dir().join(format!("segue-http-several-{}-{n}", std::process::id()));
        let ((v4, address), unix) = (listen(), UnixListener::bind(&path).unwrap());
        let mut listeners = Listeners::new().with(v4).with(unix);
        let mut addresses = vec![address];
        // Not every machine has it.
        if let Ok(v6) = TcpListener::bind("[::1]:0") {
            addresses.push(v6.local_addr().unwrap());
            listeners = listeners.with(v6);
        }
        let server = Server::new(echo);
        with_listeners(&server, listeners, backend, || {
            for address in &addresses {
                let mut stream = connect(*address);
                stream.write_all(get("/tcp").as_bytes()).unwrap();
                assert!(read_response(&stream).ends_with("GET /tcp "));
            }
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"GET /unix HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.ends_with("GET /unix "), "{text}");
        });
        for address in addresses {
            assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_limit_of_connections_is_that_of_all_listeners_together() {
    let (one, two) = (listen(), listen());
    let server = Server::new(echo).config(plain().max_connections(1));
    with_listeners(&server, Listeners::new().with(one.0).with(two.0), Some(Backend::Auto), || {
        let mut last = None;
        for round in 0..4 {
            let mut stream = connect(if round % 2 == 0 { one.1 } else { two.1 });
            stream.write_all(get("/").as_bytes()).unwrap();
            assert!(read_response(&stream).ends_with("GET / "));
            // The one before has had to go.
            if let Some(before) = last.replace(stream) {
                assert_eq!(read_all(&before), b"");
            }
        }
    });
}

#[test]
fn clients_of_all_listeners_are_served_in_the_end_at_a_limit() {
    let all: Vec<_> = (0..3).map(|_| listen()).collect();
    let addresses: Vec<_> = all.iter().map(|(_, address)| *address).collect();
    let listeners = all.into_iter().fold(Listeners::new(), |all, (listener, _)| all.with(listener));
    let server = Server::new(echo).config(plain().max_connections(2));
    with_listeners(&server, listeners, Some(Backend::Auto), || {
        thread::scope(|s| {
            for n in 0..12 {
                let address = addresses[n % 3];
                s.spawn(move || {
                    for round in 0..20 {
                        let mut stream = connect(address);
                        let close = "Host: h\r\nConnection: close\r\n\r\n";
                        write!(stream, "GET /{n}/{round} HTTP/1.1\r\n{close}").unwrap();
                        let text = String::from_utf8(read_all(&stream)).unwrap();
                        assert!(text.ends_with(&format!("GET /{n}/{round} ")), "{text}");
                    }
                });
            }
        });
    });
}

#[test]
fn a_listener_that_fails_for_good_ends_the_server_with_its_error() {
    struct Broken(AtomicUsize);

    impl Listener for Broken {
        type Stream = TcpStream;

        fn accept(&self) -> io::Result<TcpStream> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(io::Error::new(io::ErrorKind::InvalidInput, "no listener at all"))
        }
    }

    for turn in 0..2 {
        let ((fine, address), broken) = (listen(), Broken(AtomicUsize::new(0)));
        let listeners = Listeners::new();
        let listeners = if turn == 0 { listeners.with(fine).with(broken) } else { listeners.with(broken).with(fine) };
        let error = Server::new(echo).serve_all(listeners).unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (io::ErrorKind::InvalidInput, "no listener at all"));
        assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
    }
}

#[test]
fn no_listener_is_an_error_and_a_server_that_was_shut_down_returns() {
    let server = Server::new(|_: &mut Request<'_>| "hello");
    assert_eq!(server.serve_all(Listeners::new()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    server.shutdown_handle().shutdown();
    server.serve_all(Listeners::new().with(listen().0).with(listen().0)).unwrap();
}

/// A listener may be borrowed.
#[test]
fn the_error_of_one_listener_that_can_go_on_holds_up_no_other() {
    let codes = std::iter::repeat_n(24, 1_000).map(io::Error::from_raw_os_error);
    let ((ill, _), (fine, address)) = (failing(codes.collect()), listen());
    let server = Server::new(echo);
    with_listeners(&server, Listeners::new().with(&ill).with(fine), None, || {
        let mut stream = connect(address);
        stream.write_all(get("/").as_bytes()).unwrap();
        assert!(read_response(&stream).ends_with("GET / "));
    });
}
