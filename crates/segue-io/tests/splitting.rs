//! The halves of a stream that own it: everywhere the same.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::{everywhere, pair, until_watched};
use segue_core::scope;
use segue_io::net::UnixStream;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};

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
