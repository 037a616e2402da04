//! The halves of a stream that own it, and copies in both directions between two streams:
//! everywhere the same.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, guarded, on_one_worker, pair, until_watched};
use segue_core::{CancelToken, Cancelled, now, scope, sleep, timeout};
use segue_io::Backend;
use segue_io::net::{TcpStream, UnixStream, copy_bidirectional};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem;
use std::net::Shutdown;
use std::time::Duration;

#[test]
fn one_half_reads_while_the_other_writes() {
    everywhere(|| {
        let (client, server) = pair();
        scope(|s| {
            s.spawn(|| std::io::copy(&mut &server, &mut &server).unwrap());
            let (mut reads, mut writes) = client.into_split();
            s.spawn(move || {
                for round in 0..100_u8 {
                    assert_eq!(writes.write_vectored(&[IoSlice::new(&[round]), IoSlice::new(&[7])]).unwrap(), 2);
                }
                writes.flush().unwrap();
                // Its end is the end of the stream.
            });
            // The echo has ended, but its half stays open.
            let mut got = [0; 200];
            reads.read_exact(&mut got).unwrap();
            assert!(got.chunks(2).enumerate().all(|(round, pair)| pair == [round as u8, 7]));
        });
    });
}

#[test]
fn the_end_of_the_write_half_is_the_end_of_the_stream() {
    everywhere(|| {
        let (client, mut server) = pair();
        let clone = client.try_clone().unwrap();
        let (mut reads, mut writes) = client.into_split();
        scope(|s| {
            let end = s.spawn(|| {
                let mut text = String::new();
                (&server).read_to_string(&mut text).unwrap();
                text
            });
            writes.write_all(b"all").unwrap();
            until_watched(&server);
            drop(writes);
            assert_eq!(end.join().unwrap(), "all");
        });
        // For other handles too; and to read goes on.
        assert_eq!((&clone).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
        server.write_all(b"back").unwrap();
        let mut buf = [0; 8];
        assert_eq!(reads.read_vectored(&mut [IoSliceMut::new(&mut buf)]).unwrap(), 4);
    });
}

#[test]
fn the_end_of_the_read_half_is_nothing() {
    everywhere(|| {
        let (client, mut server) = pair();
        let (reads, mut writes) = client.into_split();
        drop(reads);
        server.write_all(b"nobody reads it").unwrap();
        writes.write_all(b"x").unwrap();
        assert_eq!(server.read(&mut [0; 4]).unwrap(), 1);
    });
}

#[test]
fn halves_are_put_together_if_they_are_of_one_stream() {
    everywhere(|| {
        let (client, mut server) = pair();
        let ((reads, writes), (others, other_writes)) = (client.into_split(), pair().0.into_split());
        let error = reads.reunite(other_writes).unwrap_err();
        assert_eq!(error.to_string(), "these are the halves of two streams");
        let (reads, other_writes) = (error.0, error.1);
        let mut client = reads.reunite(writes).unwrap();
        client.write_all(b"x").unwrap();
        assert_eq!(server.read(&mut [0; 4]).unwrap(), 1);
        assert_eq!(others.as_stream().local_addr().unwrap(), other_writes.as_stream().local_addr().unwrap());
    });
}

#[test]
fn a_write_half_that_is_forgotten_ends_nothing() {
    everywhere(|| {
        let (here, there) = UnixStream::pair().unwrap();
        let (_reads, writes) = here.into_split();
        writes.forget();
        assert_eq!(there.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// A proxy's two connections, and their other ends: client, near, far, server.
fn proxied() -> (TcpStream, TcpStream, UnixStream, UnixStream) {
    let (client, near) = pair();
    let (far, server) = UnixStream::pair().unwrap();
    (client, near, far, server)
}

#[test]
fn the_end_of_one_side_is_passed_on_and_the_other_way_goes_on() {
    everywhere(|| {
        // Each side in its turn is the first to end.
        for client_first in [true, false] {
            let (client, near, far, server) = proxied();
            let copied = scope(|s| {
                let proxy = s.spawn(|| copy_bidirectional(&near, &far, None));
                if client_first {
                    talk(&client, &server)
                } else {
                    talk(&server, &client)
                }
                proxy.join().unwrap().unwrap()
            });
            assert_eq!(copied, if client_first { (300_000, 9) } else { (9, 300_000) });
        }
    });
}

/// One side asks, and ends; the other has the whole question, and answers long after that end.
fn talk(first: &dyn HalfClosed, last: &dyn HalfClosed) {
    let request = vec![1; 300_000];
    scope(|s| {
        s.spawn(|| first.send(&request));
        assert_eq!(last.all(), request);
    });
    last.send(b"an answer");
    assert_eq!(first.all(), b"an answer");
}

/// What both kinds of streams can do.
trait HalfClosed: Sync {
    fn send(&self, bytes: &[u8]);
    fn all(&self) -> Vec<u8>;
}

macro_rules! half_closed {
    ($($stream:ty),*) => {$(
        impl HalfClosed for $stream {
            fn send(&self, bytes: &[u8]) {
                (&*self).write_all(bytes).unwrap();
                self.shutdown(Shutdown::Write).unwrap();
            }

            fn all(&self) -> Vec<u8> {
                let mut all = Vec::new();
                (&*self).read_to_end(&mut all).unwrap();
                all
            }
        }
    )*};
}
half_closed!(TcpStream, UnixStream);

const IDLE: Duration = Duration::from_millis(50);

/// One side ticks and the other is silent, for longer than the limit; then both are. Answers
/// whether the ticks came in time: a machine that stands still is idle, too.
fn ticks_in_time() -> bool {
    let (client, near, far, server) = proxied();
    // A tick is not passed on that comes just when the limit has ended the copy.
    client.set_read_timeout(Some(10 * IDLE)).unwrap();
    scope(|s| {
        let start = now();
        let proxy = s.spawn(|| {
            let ended = copy_bidirectional(&near, &far, Some(IDLE)).unwrap_err();
            (ended, now())
        });
        let (mut before, mut last) = (start, start);
        for _ in 0..4 {
            sleep(Duration::from_millis(20)).unwrap();
            before = mem::replace(&mut last, now());
            let passed = (&server).write_all(b"tick").and_then(|()| (&client).read_exact(&mut [0; 4]));
            if proxy.is_finished() || passed.is_err() {
                assert!(now() - before >= IDLE, "it was not idle");
                return false;
            }
        }
        let (ended, at) = proxy.join().unwrap();
        if at - last < IDLE {
            assert!(at - before >= IDLE, "it was not idle when the last tick came");
            return false;
        }
        assert!(at - start >= IDLE + Duration::from_millis(80), "{:?}", at - start);
        assert_eq!((ended.copied, ended.error.kind()), ((0, 16), ErrorKind::TimedOut));
        assert!(ended.to_string().contains("50ms; 0 bytes had gone there, and 16 back"), "{ended}");
        assert!(!Cancelled::caused(&ended.error), "nobody has cancelled it");
        true
    })
}

#[test]
fn a_copy_is_idle_after_the_last_byte_of_either_side() {
    let test = || while !ticks_in_time() {};
    guarded("a plain thread", test);
    on_one_worker(Backend::Auto, test);
    on_one_worker(Backend::Native, test);
}

#[test]
fn a_side_that_takes_nothing_is_idle_and_what_it_has_not_taken_is_kept() {
    everywhere(|| {
        let (client, near, far, server) = proxied();
        let sent = scope(|s| {
            let sender = s.spawn(|| {
                let mut sent = 0_u64;
                while let Ok(count) = (&client).write(&[7; 10_000]) {
                    sent += count as u64;
                }
                sent
            });
            let ended = copy_bidirectional(&near, &far, Some(Duration::from_millis(20))).unwrap_err();
            assert_eq!(ended.error.kind(), ErrorKind::TimedOut);
            assert!(!ended.unsent.0.is_empty() && ended.unsent.1.is_empty());
            // Whatever was read is counted or in the error; the rest is still to be read.
            far.shutdown(Shutdown::Write).unwrap();
            assert_eq!(server.all().len() as u64, ended.copied.0);
            client.shutdown(Shutdown::Write).unwrap();
            let rest = near.all().len() as u64;
            (sender.join().unwrap(), ended.copied.0 + ended.unsent.0.len() as u64 + rest)
        });
        assert_eq!(sent.0, sent.1);
    });
}

#[test]
fn a_cancelled_copy_says_how_much_has_gone() {
    everywhere(|| {
        let (client, near, far, server) = proxied();
        let token = CancelToken::new();
        scope(|s| {
            let proxy = s.spawn(|| token.run(|| copy_bidirectional(&near, &far, Some(Duration::MAX))));
            (&client).write_all(b"hello").unwrap();
            (&server).read_exact(&mut [0; 5]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!((&server).read(&mut [0]).unwrap(), 0, "one way has ended");
            token.cancel();
            let ended = proxy.join().unwrap().unwrap_err();
            assert_eq!(ended.copied, (5, 0));
            assert!(Cancelled::caused(&ended.error));
        });
        // Before it has begun, and by a deadline: which is no idle limit.
        let ended = token.run(|| copy_bidirectional(&near, &far, None)).unwrap_err();
        assert!(Cancelled::caused(&ended.error) && ended.copied == (0, 0));
        let late = timeout(Duration::from_millis(1), || copy_bidirectional(&near, &far, Some(Duration::MAX)));
        assert!(Cancelled::caused(&late.unwrap_err().error));
    });
}

#[test]
fn a_side_that_breaks_ends_both_ways() {
    everywhere(|| {
        let (client, near, far, server) = proxied();
        scope(|s| {
            let proxy = s.spawn(|| copy_bidirectional(&near, &far, None));
            (&server).write_all(b"x").unwrap();
            (&client).read_exact(&mut [0]).unwrap();
            socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            let ended = proxy.join().unwrap().unwrap_err();
            assert_eq!((ended.error.kind(), ended.copied), (ErrorKind::ConnectionReset, (0, 1)));
        });
    });
}
