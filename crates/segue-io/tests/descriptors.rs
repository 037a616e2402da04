//! No descriptor is left behind. A file of its own, since it counts those of the process: one test
//! at a time.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::descriptors::{leaves_no_descriptor, open};
use common::{BACKENDS, enlist, everywhere, on_one_worker, pair, until_watched};
use segue_core::{scope, shield, timeout};
use segue_io::net::{TcpListener, TcpStream};
use std::io::{Read, Write};
use std::time::Duration;

#[test]
fn a_thousand_connections_leave_nothing_behind() {
    let test = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        scope(|s| {
            s.spawn(|| {
                for _ in 0..1000 {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    stream.write_all(&byte).unwrap();
                }
            });
            for _ in 0..1000 {
                let mut stream = TcpStream::connect(addr).unwrap();
                stream.write_all(b"x").unwrap();
                stream.read_exact(&mut [0]).unwrap();
            }
        });
    };
    leaves_no_descriptor(|| everywhere(test));
}

#[test]
fn ops_that_are_cancelled_leave_nothing_behind() {
    let test = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        for _ in 0..20 {
            scope(|s| {
                s.spawn(|| while listener.accept().is_ok() {});
                until_watched(&listener);
                s.spawn(|| TcpStream::connect(addr).is_ok());
                s.cancel();
                shield(|| TcpStream::connect(addr)).unwrap();
            });
        }
    };
    leaves_no_descriptor(|| everywhere(test));
}

#[test]
fn races_that_are_lost_or_cancelled_leave_nothing_behind() {
    leaves_no_descriptor(|| {
        // A listener whose queue is full answers nobody.
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        full.listen(0).unwrap();
        let mute = full.local_addr().unwrap().as_socket().unwrap();
        let soon = Duration::from_millis(20);
        let clients: Vec<_> = (0..4).map(|_| TcpStream::connect_timeout(&mute, soon)).collect();
        for backend in BACKENDS {
            on_one_worker(backend, || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let there = listener.local_addr().unwrap();
                drop(TcpStream::connect([mute, there]).unwrap());
                assert!(timeout(soon, || TcpStream::connect([mute, mute])).is_err());
            });
        }
        drop(clients);
    });
}

#[test]
fn drivers_and_the_streams_that_outlive_them_leave_nothing_behind() {
    let test = || {
        for backend in BACKENDS {
            for _ in 0..20 {
                let streams = on_one_worker(backend, || {
                    let streams = pair();
                    enlist(&streams.0);
                    streams
                });
                // The two of the streams are all that is left. Descriptors from before may have
                // gone.
                let with = open();
                drop(streams);
                assert!(with >= open() + 2, "a stream had gone before its drop: {with}, and {} then", open());
            }
        }
    };
    leaves_no_descriptor(test);
}
