//! How waits end early: by time-outs and by cancellation, and what is left then.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, is_ring, on_one_worker, pair, until, until_watched};
use segue_core::{Cancelled, scope, shield};
use segue_io::Backend;
use segue_io::net::{TcpListener, TcpStream};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn is_cancelled<T>(result: io::Result<T>) -> bool {
    result.err().is_some_and(|error| Cancelled::caused(&error))
}

/// Writes until nothing more fits for a moment.
fn fill(stream: &TcpStream) -> usize {
    let mut written = 0;
    stream.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
    loop {
        match (&*stream).write(&[7; 64 << 10]) {
            Ok(count) => written += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                stream.set_write_timeout(None).unwrap();
                return written;
            }
        }
    }
}

#[test]
fn a_read_ends_at_its_time_out_and_not_before() {
    everywhere(|| {
        let (client, mut server) = pair();
        let time = Duration::from_millis(3);
        server.set_read_timeout(Some(time)).unwrap();
        let begun = Instant::now();
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= time);
        assert_eq!(server.peek(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        // It has left nothing behind: the next one waits anew, and gets what comes.
        server.set_read_timeout(None).unwrap();
        scope(|s| {
            s.spawn(|| (&client).write_all(b"x").unwrap());
            assert_eq!(server.read(&mut [0; 4]).unwrap(), 1);
        });
    });
}

#[test]
fn a_read_with_less_than_a_microsecond_is_one_attempt() {
    everywhere(|| {
        let (client, mut server) = pair();
        let at_once = Some(Duration::from_nanos(1));
        server.set_read_timeout(at_once).unwrap();
        for _ in 0..3 {
            assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        }
        (&client).write_all(b"xy").unwrap();
        server.set_read_timeout(None).unwrap();
        server.peek(&mut [0]).unwrap();
        server.set_read_timeout(at_once).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 1);
        assert_eq!(server.read(&mut [0]).unwrap(), 1);
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        drop(client);
        server.set_read_timeout(None).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_time_out_counts_from_its_own_read_after_many_others() {
    everywhere(|| {
        let (client, mut server) = pair();
        let time = Duration::from_millis(20);
        server.set_read_timeout(Some(time)).unwrap();
        scope(|s| {
            s.spawn(|| {
                for byte in 0..100 {
                    (&client).write_all(&[byte]).unwrap();
                    segue_core::yield_now().unwrap();
                }
            });
            // On a machine that is busy elsewhere a read may end early; it has taken nothing then.
            let mut left = 100;
            while left > 0 {
                match server.read(&mut [0; 4]) {
                    Ok(count) => left -= count,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
                }
            }
        });
        let begun = Instant::now();
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= time);
    });
}

#[test]
fn readers_of_one_stream_end_at_their_own_time_outs() {
    everywhere(|| {
        let (_client, server) = pair();
        // The limit of one of them at a time has the stream's timer.
        scope(|s| {
            for time in [5, 1, 3, 2] {
                let server = &server;
                s.spawn(move || {
                    let time = Duration::from_millis(time);
                    server.set_read_timeout(Some(time)).unwrap();
                    let begun = Instant::now();
                    let ended = (&mut &*server).read(&mut [0]).unwrap_err();
                    assert_eq!(ended.kind(), ErrorKind::TimedOut);
                    assert!(begun.elapsed() >= Duration::from_millis(1));
                });
            }
        });
    });
}

#[test]
fn a_write_ends_at_its_time_out_and_loses_nothing() {
    everywhere(|| {
        let (client, server) = pair();
        let written = fill(&client);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(io::copy(&mut &server, &mut io::sink()).unwrap(), written as u64);
    });
}

#[test]
fn a_time_out_of_one_direction_is_none_of_the_other() {
    everywhere(|| {
        let (mut client, server) = pair();
        server.set_write_timeout(Some(Duration::from_nanos(1))).unwrap();
        scope(|s| {
            let reader = s.spawn(|| (&server).read(&mut [0]).unwrap());
            until_watched(&server);
            client.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap(), 1);
        });
    });
}

#[test]
fn a_cancelled_caller_finds_every_op_failed_also_where_it_need_not_wait() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (mut client, mut server) = pair();
        client.write_all(b"ready").unwrap();
        server.peek(&mut [0]).unwrap();
        let _waiting = TcpStream::connect(addr).unwrap();
        scope(|s| {
            s.cancel();
            assert!(is_cancelled(server.read(&mut [0; 8])));
            assert!(is_cancelled(server.peek(&mut [0; 8])));
            assert!(is_cancelled(client.write(b"more")));
            assert!(is_cancelled(listener.accept()));
            assert!(is_cancelled(TcpStream::connect(addr)));
            let mut incoming = listener.incoming();
            assert!(is_cancelled(incoming.next().unwrap()));
            assert!(incoming.next().is_none(), "a loop that passes over errors must end");
            // What never waits goes on, and a shield holds it off.
            client.set_nodelay(true).unwrap();
            assert_eq!(shield(|| server.read(&mut [0; 8])).unwrap(), 5);
        });
        listener.accept().unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0, "a cancelled write wrote");
    });
}

#[test]
fn an_accept_that_waits_is_cancelled() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        scope(|s| {
            let accept = s.spawn(|| is_cancelled(listener.accept()));
            until_watched(&listener);
            s.cancel();
            assert!(shield(|| accept.join()).unwrap());
        });
    });
}

#[test]
fn a_read_that_waits_is_cancelled_and_the_stream_goes_on() {
    everywhere(|| {
        let (mut client, server) = pair();
        scope(|s| {
            let read = s.spawn(|| is_cancelled((&server).read(&mut [0])));
            until_watched(&server);
            s.token().cancel();
            assert!(shield(|| read.join()).unwrap());
        });
        client.write_all(b"x").unwrap();
        assert_eq!((&server).read(&mut [0; 4]).unwrap(), 1);
    });
}

#[test]
fn a_write_that_waits_is_cancelled_and_what_was_reported_arrives() {
    everywhere(|| {
        let (client, server) = pair();
        let written = AtomicUsize::new(0);
        scope(|s| {
            s.spawn(|| {
                loop {
                    match (&client).write(&[1; 1 << 20]) {
                        Ok(count) => written.fetch_add(count, Ordering::Relaxed),
                        Err(error) => break assert!(Cancelled::caused(&error)),
                    };
                }
            });
            until_watched(&client);
            s.cancel();
        });
        client.shutdown(Shutdown::Write).unwrap();
        let arrived = io::copy(&mut &server, &mut io::sink()).unwrap();
        assert_eq!(arrived, written.into_inner() as u64);
    });
}

#[test]
fn a_connect_that_waits_is_cancelled() {
    // A listener whose queue is full answers nobody.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let addr = full.local_addr().unwrap().as_socket().unwrap();
    let _clients: Vec<_> = (0..4).map(|_| TcpStream::connect_timeout(&addr, Duration::from_millis(20))).collect();
    on_one_worker(Backend::Native, || {
        scope(|s| {
            let connect = s.spawn(|| is_cancelled(TcpStream::connect(addr)));
            segue_core::yield_now().unwrap();
            s.cancel();
            assert!(shield(|| connect.join()).unwrap());
        });
    });
}

#[test]
fn cancelled_accepts_lose_no_connection() {
    const ROUNDS: usize = 30;
    const CLIENTS: usize = 8;
    let cut = AtomicUsize::new(0);
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        for round in 0..ROUNDS {
            let mut clients = Vec::new();
            let accepted = AtomicUsize::new(0);
            scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        while listener.accept().is_ok() {
                            accepted.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                for number in 0..CLIENTS {
                    clients.push(shield(|| TcpStream::connect(addr)).unwrap());
                    if number == round % CLIENTS {
                        s.cancel();
                    }
                }
            });
            // What the cancelled ones did not take is still there.
            let rest = CLIENTS - accepted.into_inner();
            cut.fetch_add(rest, Ordering::Relaxed);
            for _ in 0..rest {
                listener.accept().unwrap();
            }
        }
    });
    assert!(cut.into_inner() > 0, "no accept was cut short: nothing is tested");
}

#[test]
fn a_wake_that_races_with_a_cancellation_loses_no_byte() {
    const ROUNDS: usize = 200;
    everywhere(|| {
        let (client, server) = pair();
        let written = AtomicUsize::new(0);
        let mut got = 0;
        for _ in 0..ROUNDS {
            scope(|s| {
                let read = s.spawn(|| (&server).read(&mut [0; 4]));
                s.spawn(|| {
                    shield(|| (&client).write_all(b"x")).unwrap();
                    written.fetch_add(1, Ordering::Relaxed);
                });
                // On one worker both now run once: the read waits, and its wake is on the way when
                // it is cancelled.
                segue_core::yield_now().unwrap();
                s.cancel();
                match shield(|| read.join()) {
                    Ok(Ok(count)) => got += count,
                    Ok(Err(error)) => assert!(Cancelled::caused(&error)),
                    Err(_cancelled_before_it_began) => {}
                }
            });
        }
        client.shutdown(Shutdown::Write).unwrap();
        let rest = io::copy(&mut &server, &mut io::sink()).unwrap();
        assert!(written.load(Ordering::Relaxed) > 0, "every writer was cancelled before it began: nothing is tested");
        assert_eq!(got as u64 + rest, written.into_inner() as u64);
    });
}

#[test]
fn a_fiber_that_never_has_to_wait_lets_others_run() {
    for backend in common::BACKENDS {
        on_one_worker(backend, || {
            let (client, server) = pair();
            let done = AtomicBool::new(false);
            let turns = AtomicUsize::new(0);
            scope(|s| {
                s.spawn(|| {
                    until(|| {
                        turns.fetch_add(1, Ordering::Relaxed);
                        done.load(Ordering::Relaxed)
                    });
                });
                segue_core::yield_now().unwrap();
                let before = turns.load(Ordering::Relaxed);
                // One byte there, one byte out: always ready.
                for _ in 0..1000 {
                    (&client).write_all(b"x").unwrap();
                    (&server).read_exact(&mut [0]).unwrap();
                }
                let turns = turns.load(Ordering::Relaxed) - before;
                // In a ring each of them waits until the worker looks, after some turns.
                let most = if is_ring(backend) { 2_000 * 50 } else { 200 };
                assert!((10..most).contains(&turns), "2,000 ready ops gave up {turns} turns");
                done.store(true, Ordering::Relaxed);
            });
        });
    }
}

#[test]
fn a_stream_without_end_moves_no_more_than_half_a_mebibyte_in_a_turn() {
    for backend in common::BACKENDS {
        on_one_worker(backend, || {
            let (client, server) = pair();
            let source = client.into_std().unwrap();
            source.set_nonblocking(false).unwrap();
            let (moved, done) = (AtomicUsize::new(0), AtomicBool::new(false));
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        (&source).write_all(&[7; 64 * 1024]).unwrap();
                    }
                    source.shutdown(Shutdown::Write).unwrap();
                });
                scope(|s| {
                    s.spawn(|| {
                        let mut buffer = vec![0; 16 * 1024];
                        loop {
                            let count = (&server).read(&mut buffer).unwrap();
                            if count == 0 {
                                break;
                            }
                            moved.fetch_add(count, Ordering::Relaxed);
                        }
                    });
                    let (mut before, mut most) = (0, 0);
                    while before < 64 << 20 {
                        segue_core::yield_now().unwrap();
                        let now = moved.load(Ordering::Relaxed);
                        most = most.max(now - before);
                        before = now;
                    }
                    // The budget, and the read that goes over it.
                    assert!(most <= (512 + 16) * 1024, "{backend:?}: {most} bytes in one turn");
                    assert!(most > 0);
                    done.store(true, Ordering::Relaxed);
                });
            });
        });
    }
}
