//! What streams do: everywhere the same.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, on_one_worker, pair, until_watched};
use segue_core::scope;
use segue_io::Backend;
use segue_io::net::{TcpListener, TcpStream};
use std::io::{BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of which each place has its own.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn an_echo_comes_back() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        scope(|s| {
            s.spawn(|| {
                let (stream, _) = listener.accept().unwrap();
                std::io::copy(&mut &stream, &mut &stream).unwrap();
            });
            let mut stream = TcpStream::connect(addr).unwrap();
            for round in 0..100_u8 {
                stream.write_all(&[round; 10]).unwrap();
                let mut back = [0; 10];
                stream.read_exact(&mut back).unwrap();
                assert_eq!(back, [round; 10]);
            }
        });
    });
}

#[test]
fn many_connections_are_served_at_once() {
    const CLIENTS: usize = 100;
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        scope(|s| {
            s.spawn(|| {
                scope(|s| {
                    for stream in listener.incoming().take(CLIENTS) {
                        let stream = stream.unwrap();
                        s.spawn(move || std::io::copy(&mut &stream, &mut &stream).unwrap());
                    }
                });
            });
            let mut clients: Vec<_> = (0..CLIENTS).map(|_| TcpStream::connect(addr).unwrap()).collect();
            for _ in 0..5 {
                for (number, client) in clients.iter_mut().enumerate() {
                    client.write_all(&[number as u8]).unwrap();
                }
                for (number, client) in clients.iter_mut().enumerate().rev() {
                    let mut back = [0];
                    client.read_exact(&mut back).unwrap();
                    assert_eq!(back, [number as u8]);
                }
            }
        });
    });
}

#[test]
fn a_write_that_does_not_fit_goes_on_as_the_reader_reads() {
    everywhere(|| {
        let (client, server) = pair();
        // Small on this side only: with a small window on the other, the kernel makes pauses of its
        // own.
        socket2::SockRef::from(&client).set_send_buffer_size(4096).unwrap();
        let sent = pattern(1 << 20);
        let mut partial = 0;
        let mut got = Vec::new();
        scope(|s| {
            s.spawn(|| {
                let mut rest = &sent[..];
                while !rest.is_empty() {
                    let taken = (&client).write(rest).unwrap();
                    partial += usize::from(taken < rest.len());
                    rest = &rest[taken..];
                }
                client.shutdown(Shutdown::Write).unwrap();
            });
            (&server).read_to_end(&mut got).unwrap();
        });
        assert!(partial > 1, "every write fitted: nothing is tested");
        assert!(got == sent);
    });
}

#[test]
fn a_half_that_is_closed_leaves_the_other_open() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        server.write_all(b"answer").unwrap();
        drop(server);
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "questionanswer");
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "the end stays the end");
    });
}

#[test]
fn an_end_that_comes_together_with_data_is_not_waited_for() {
    everywhere(|| {
        let (client, server) = pair();
        scope(|s| {
            s.spawn(|| {
                let mut buf = [0; 16];
                assert_eq!((&server).read(&mut buf).unwrap(), 3);
                assert_eq!((&server).read(&mut buf).unwrap(), 0);
            });
            until_watched(&server);
            (&client).write_all(b"abc").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
    });
}

#[test]
fn data_behind_urgent_data_is_not_waited_for() {
    everywhere(|| {
        let (client, server) = pair();
        scope(|s| {
            s.spawn(|| {
                let mut buf = [0; 16];
                let mut got = Vec::new();
                while got.len() < 4 {
                    let count = (&server).read(&mut buf).unwrap();
                    got.extend_from_slice(&buf[..count]);
                }
                assert_eq!(got, b"abcd");
            });
            until_watched(&server);
            (&client).write_all(b"ab").unwrap();
            socket2::SockRef::from(&client).send_out_of_band(b"!").unwrap();
            (&client).write_all(b"cd").unwrap();
        });
    });
}

#[test]
fn a_read_into_nothing_does_not_wait() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        client.write_all(b"x").unwrap();
        // Finds the socket drained, which an empty buffer must not wait for.
        assert_eq!(server.read(&mut [0; 2]).unwrap(), 1);
        assert_eq!(server.read(&mut []).unwrap(), 0);
    });
}

#[test]
fn one_stream_is_read_and_written_at_once() {
    everywhere(|| {
        let (client, server) = pair();
        let sent = pattern(1 << 20);
        scope(|s| {
            s.spawn(|| std::io::copy(&mut &server, &mut &server).unwrap());
            s.spawn(|| {
                (&client).write_all(&sent).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            // The echo ends when its reader meets the end, but its half stays open: read by length.
            (&client).take(sent.len() as u64).read_to_end(&mut got).unwrap();
            assert!(got == sent);
        });
    });
}

#[test]
fn a_reader_goes_on_waiting_while_a_writer_waits_and_leaves() {
    const LEN: usize = 8 << 20;
    everywhere(|| {
        let (client, server) = pair();
        scope(|s| {
            let reader = s.spawn(|| (&server).read(&mut [0; 4]).unwrap());
            until_watched(&server);
            let writer = s.spawn(|| (&server).write_all(&vec![7; LEN]).unwrap());
            let mut buf = vec![0; LEN];
            (&client).read_exact(&mut buf).unwrap();
            writer.join().unwrap();
            (&client).write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap(), 1);
        });
    });
}

#[test]
fn clones_are_one_stream() {
    everywhere(|| {
        let (client, server) = pair();
        let mut lines = BufReader::new(server.try_clone().unwrap()).lines();
        scope(|s| {
            s.spawn(|| (&client).write_all(b"one\ntwo\n").unwrap());
            assert_eq!(lines.next().unwrap().unwrap(), "one");
        });
        server.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
        let clone = server.try_clone().unwrap();
        assert_eq!(clone.read_timeout().unwrap(), Some(Duration::from_secs(7)));
        drop(server);
        assert_eq!(lines.next().unwrap().unwrap(), "two");
        (&clone).write_all(b"back").unwrap();
    });
}

#[test]
fn two_readers_of_one_stream_share_what_comes() {
    everywhere(|| {
        let (client, server) = pair();
        let count = |stream: &TcpStream| std::io::copy(&mut &*stream, &mut std::io::sink()).unwrap();
        scope(|s| {
            let first = s.spawn(|| count(&server));
            let second = s.spawn(|| count(&server));
            for _ in 0..1000 {
                (&client).write_all(&[0; 100]).unwrap();
            }
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(first.join().unwrap() + second.join().unwrap(), 100_000);
        });
    });
}

#[test]
fn vectored_reads_and_writes_use_all_buffers() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let taken = client.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")]).unwrap();
        assert_eq!(taken, 5);
        let (mut first, mut second) = ([0; 3], [0; 3]);
        let mut bufs = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(server.read_vectored(&mut bufs).unwrap(), 5);
        assert_eq!((&first, &second[..2]), (b"abc", &b"de"[..]));
        // More than the kernel takes at a time.
        let many: Vec<_> = (0..3000).map(|_| IoSlice::new(b"x")).collect();
        let taken = client.write_vectored(&many).unwrap();
        assert!((1..=3000).contains(&taken), "{taken}");
    });
}

#[test]
fn however_many_empty_buffers_come_first_a_read_has_not_reached_the_end() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let mut bytes = vec![IoSlice::new(&[]); 3000];
        bytes.push(IoSlice::new(b"abc"));
        assert_eq!(client.write_vectored(&bytes).unwrap(), 3);
        let mut none = [[]; 3000];
        let mut last = [0; 4];
        let mut bufs: Vec<_> = none.iter_mut().map(|buf: &mut [u8; 0]| IoSliceMut::new(buf)).collect();
        assert_eq!(server.read_vectored(&mut bufs).unwrap(), 0, "there is no room");
        bufs.push(IoSliceMut::new(&mut last));
        assert_eq!(server.read_vectored(&mut bufs).unwrap(), 3);
        assert_eq!(&last[..3], b"abc");
    });
}

#[test]
fn a_peek_leaves_the_data() {
    everywhere(|| {
        let (client, server) = pair();
        scope(|s| {
            s.spawn(|| (&client).write_all(b"look").unwrap());
            let mut buf = [0; 8];
            let seen = server.peek(&mut buf).unwrap();
            assert!(b"look".starts_with(&buf[..seen]) && seen > 0);
            let mut all = [0; 4];
            (&server).read_exact(&mut all).unwrap();
            assert_eq!(&all, b"look");
        });
    });
}

#[test]
fn a_reset_by_the_peer_is_an_error_for_who_waits() {
    everywhere(|| {
        let (client, server) = pair();
        scope(|s| {
            let reader = s.spawn(|| (&server).read(&mut [0; 8]).unwrap_err().kind());
            until_watched(&server);
            socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
            drop(client);
            assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);
        });
        assert_eq!((&server).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_shutdown_wakes_who_waits() {
    everywhere(|| {
        let (client, server) = pair();
        scope(|s| {
            let reader = s.spawn(|| (&server).read(&mut [0; 8]).unwrap());
            until_watched(&server);
            server.shutdown(Shutdown::Read).unwrap();
            assert_eq!(reader.join().unwrap(), 0);
            let writer = s.spawn(|| {
                loop {
                    if let Err(error) = (&client).write(&[0; 1 << 20]) {
                        break error.kind();
                    }
                }
            });
            until_watched(&client);
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(writer.join().unwrap(), ErrorKind::BrokenPipe);
        });
    });
}

/// Room in a send buffer makes an edge only when a third of the buffer is free. Less of it is found
/// when the time is over.
#[test]
fn a_write_whose_time_is_over_takes_the_room_there_is() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(32 << 10).unwrap();
    socket.connect(&listener.local_addr().unwrap().into()).unwrap();
    let mut client = std::net::TcpStream::from(socket);
    let (stream, _) = listener.accept().unwrap();
    let mut stream = &stream;
    socket2::SockRef::from(stream).set_send_buffer_size(400_000).unwrap();
    let piece = [0; 10_000];
    on_one_worker(Backend::Native, || {
        // Until the buffers are full, also when the kernel has moved what it can from one to the
        // other.
        stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        for _ in 0..3 {
            while stream.write(&piece).is_ok() {}
        }
        stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let begun = AtomicBool::new(false);
        scope(|s| {
            let writing = s.spawn(|| {
                begun.store(true, Ordering::Relaxed);
                stream.write(&piece)
            });
            // There is one worker: once it has begun, and others run again, it waits.
            while !begun.load(Ordering::Relaxed) {
                segue_core::yield_now();
            }
            client.read_exact(&mut [0; 60_000]).unwrap();
            assert!(writing.join().unwrap().unwrap() > 0);
        });
    });
}
