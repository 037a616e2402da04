//! Connecting, listening, options, and the way from and to std's types.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, on_one_worker, pair};
use segue_core::{Cancelled, scope, timeout};
use segue_io::Backend;
use segue_io::net::{TcpListener, TcpStream};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A listener whose queue is full: it answers nobody. With those who fill it.
fn mute() -> (socket2::Socket, SocketAddr, Vec<std::io::Result<TcpStream>>) {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let addr = full.local_addr().unwrap().as_socket().unwrap();
    let clients = (0..4).map(|_| TcpStream::connect_timeout(&addr, Duration::from_millis(20))).collect();
    (full, addr, clients)
}

/// An address where nobody listens; nobody gets its port while the socket lives.
fn nobody() -> (socket2::Socket, SocketAddr) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, addr)
}

#[test]
fn a_connect_to_nobody_is_refused() {
    everywhere(|| {
        let (_held, addr) = nobody();
        assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let timely = TcpStream::connect_timeout(&addr, Duration::from_secs(30));
        assert_eq!(timely.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_connect_tries_the_next_address_after_one_that_refuses() {
    everywhere(|| {
        let (_held, nobody) = nobody();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let stream = TcpStream::connect(&[nobody, there][..]).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), there);
        assert_eq!(TcpStream::connect(&[][..]).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_host_whose_first_address_does_not_answer_is_reached_by_the_next() {
    let (_full, mute, _clients) = mute();
    on_one_worker(Backend::Native, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let (_held, refuses) = nobody();
        let begun = Instant::now();
        // Those that are refused are passed over at once; the one that is silent has a head start.
        let stream = TcpStream::connect([refuses, mute, refuses, there]).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(250));
        assert_eq!(stream.peer_addr().unwrap(), there);
        let mut accepted = listener.accept().unwrap().0;
        accepted.write_all(b"x").unwrap();
        assert_eq!((&stream).read(&mut [0; 4]).unwrap(), 1);
        assert_eq!(TcpStream::connect([refuses, refuses]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_race_between_addresses_is_cancelled() {
    let (_full, mute, _clients) = mute();
    everywhere(|| {
        let late = timeout(Duration::from_millis(5), || TcpStream::connect([mute, mute]));
        let error = late.unwrap_err();
        assert!(Cancelled::caused(&error), "{error}");
    });
}

#[test]
fn nobody_listens_at_port_zero() {
    everywhere(|| {
        let zero = SocketAddr::from(([127, 0, 0, 1], 0));
        assert_eq!(TcpStream::connect(zero).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_connect_in_time_succeeds_and_one_without_time_is_an_error() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        TcpStream::connect_timeout(&addr, Duration::from_secs(30)).unwrap();
        assert_eq!(TcpStream::connect_timeout(&addr, Duration::ZERO).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_connect_that_is_not_answered_times_out() {
    everywhere(|| {
        let (_full, _, connects) = mute();
        let error = connects.into_iter().find_map(Result::err).expect("the queue has no end: nothing is tested");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn a_listener_binds_the_first_address_that_it_can() {
    everywhere(|| {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = holder.local_addr().unwrap();
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        assert_eq!(TcpListener::bind(taken).unwrap_err().kind(), ErrorKind::AddrInUse);
        let listener = TcpListener::bind(&[taken, free][..]).unwrap();
        assert_ne!(listener.local_addr().unwrap(), taken);
    });
}

#[test]
fn the_port_of_a_server_that_has_ended_is_free_at_once() {
    everywhere(|| {
        let again = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(addr).unwrap();
            // The side that closes first is the one whose port the kernel keeps for a minute.
            drop(listener.accept().unwrap());
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
            drop((client, listener));
            TcpListener::bind(addr)
        };
        // Another program may have taken it meanwhile, as it is free.
        assert!((0..3).any(|_| again().is_ok()));
    });
}

#[test]
fn version_six_addresses_work() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
}

#[test]
fn several_may_accept_from_one_listener() {
    const CLIENTS: usize = 60;
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let clone = listener.try_clone().unwrap();
        let addr = listener.local_addr().unwrap();
        scope(|s| {
            let acceptors = [&listener, &clone, &listener]
                .map(|listener| s.spawn(move || listener.incoming().take(CLIENTS / 3).filter(Result::is_ok).count()));
            for _ in 0..CLIENTS {
                TcpStream::connect(addr).unwrap();
            }
            assert_eq!(acceptors.map(|acceptor| acceptor.join().unwrap()), [CLIENTS / 3; 3]);
        });
    });
}

#[test]
fn options_are_kept() {
    let (client, server) = pair();
    client.set_nodelay(true).unwrap();
    assert!(client.nodelay().unwrap() && !server.nodelay().unwrap());
    client.set_ttl(33).unwrap();
    assert_eq!(client.ttl().unwrap(), 33);
    assert!(client.take_error().unwrap().is_none());
    for timeout in [Some(Duration::from_nanos(1)), Some(Duration::from_secs(1)), None] {
        client.set_read_timeout(timeout).unwrap();
        client.set_write_timeout(timeout).unwrap();
        assert_eq!((client.read_timeout().unwrap(), client.write_timeout().unwrap()), (timeout, timeout));
    }
    client.set_read_timeout(Some(Duration::MAX)).unwrap();
    assert!(client.read_timeout().unwrap() > Some(Duration::from_secs(1 << 30)));
    assert_eq!(client.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(client.set_write_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn streams_and_listeners_of_std_are_taken_over() {
    everywhere(|| {
        let listener = TcpListener::from_std(std::net::TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        scope(|s| {
            s.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                stream.write_all(b"hello").unwrap();
            });
            let stream = std::net::TcpStream::connect(addr).unwrap();
            let mut stream = TcpStream::try_from(stream).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hello");
        });
        let listener: std::net::TcpListener = listener.try_into().unwrap();
        let flags = rustix::fs::fcntl_getfl(&listener).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "std's accepts wait");
    });
}

#[test]
fn a_stream_that_waited_can_be_given_to_std() {
    everywhere(|| {
        let (mut client, server) = pair();
        common::enlist(&server);
        let mut server = server.into_std().unwrap();
        server.set_nonblocking(false).unwrap();
        client.write_all(b"!").unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"!");
    });
}
