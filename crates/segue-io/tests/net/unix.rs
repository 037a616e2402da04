//! What Unix sockets do, of all three kinds: everywhere the same.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, until, until_watched};
use segue_core::{Cancelled, scope, shield, timeout};
use segue_io::net::{Socket, UnixDatagram, UnixListener, UnixSeqpacket, UnixSeqpacketListener, UnixStream};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A path of its own, which is removed in the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("segue-{}-{number}", std::process::id())))
    }

    /// The same as an abstract name.
    fn name(&self) -> SocketAddr {
        SocketAddr::from_abstract_name(self.0.as_os_str().as_encoded_bytes()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_stream_is_connected_by_a_path_and_by_an_abstract_name() {
    everywhere(|| {
        let place = Place::new();
        let listeners = [UnixListener::bind(&place.0).unwrap(), UnixListener::bind_addr(&place.name()).unwrap()];
        scope(|s| {
            for listener in &listeners {
                s.spawn(move || {
                    let (stream, peer) = listener.accept().unwrap();
                    assert!(peer.is_unnamed());
                    std::io::copy(&mut &stream, &mut &stream).unwrap();
                });
            }
            let streams = [UnixStream::connect(&place.0).unwrap(), UnixStream::connect_addr(&place.name()).unwrap()];
            assert_eq!(streams[0].peer_addr().unwrap().as_pathname(), Some(&*place.0));
            assert_eq!(streams[1].peer_addr().unwrap().as_abstract_name(), place.name().as_abstract_name());
            for mut stream in streams {
                stream.write_all(b"there and back").unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                assert_eq!(text, "there and back");
            }
        });
        assert_eq!(listeners[0].local_addr().unwrap().as_pathname(), Some(&*place.0));
        // The path stays.
        drop(listeners);
        assert_eq!(UnixListener::bind(&place.0).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(UnixStream::connect(&place.0).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_path_that_is_too_long_or_leads_nowhere_is_an_error() {
    everywhere(|| {
        let long = "x".repeat(108);
        assert_eq!(UnixListener::bind(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UnixStream::connect(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UnixDatagram::bind(&long).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UnixDatagram::unbound().unwrap().send_to(b"x", &long).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UnixStream::connect("with\0zero").unwrap_err().kind(), ErrorKind::InvalidInput);
        let nowhere = Place::new();
        assert_eq!(UnixStream::connect(&nowhere.0).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(UnixSeqpacket::connect(&nowhere.0).unwrap_err().kind(), ErrorKind::NotFound);
        // A listener of another kind.
        let _listener = UnixListener::bind(&nowhere.0).unwrap();
        assert!(UnixSeqpacket::connect(&nowhere.0).is_err());
    });
}

/// Std can't express such an address, and it must not harm who hears of it.
#[test]
fn a_peer_with_a_path_without_an_end_counts_as_unnamed() {
    // 108 bytes, of which a directory takes some.
    let dir = std::env::temp_dir().join(format!("segue-{}-long", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("x".repeat(107 - dir.as_os_str().len()));
    assert_eq!(path.as_os_str().len(), 108);
    let place = Place::new();
    let receiver = UnixDatagram::bind(&place.0).unwrap();
    let sender = bind_raw(&path).expect("the path was refused: nothing is tested");
    sender.connect(&place.0).unwrap();
    sender.send(b"x").unwrap();
    let (count, from) = receiver.recv_from(&mut [0; 4]).unwrap();
    assert!(count == 1 && from.is_unnamed());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Binds a path that fills the address, without a zero behind it.
fn bind_raw(path: &std::path::Path) -> Option<std::os::unix::net::UnixDatagram> {
    #![allow(unsafe_code, reason = "no library in use makes such an address")]
    let socket = std::os::unix::net::UnixDatagram::unbound().unwrap();
    let mut addr = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    for (to, from) in addr.sun_path.iter_mut().zip(path.as_os_str().as_encoded_bytes()) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the address is a `sockaddr_un`, as long as is said, for the length of the call.
    let bound = unsafe {
        libc::bind(std::os::fd::AsRawFd::as_raw_fd(&socket), (&raw const addr).cast(), size_of_val(&addr) as u32)
    };
    (bound == 0).then_some(socket)
}

/// A listener of which the queue is full, and those who fill it.
fn full(place: &Place) -> (UnixListener, Vec<UnixStream>) {
    let socket = Socket::unix_stream().unwrap();
    socket.bind(&SocketAddr::from_pathname(&place.0).unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut queued = Vec::new();
    loop {
        match timeout(Duration::from_millis(4), || UnixStream::connect(&place.0)) {
            Ok(stream) => queued.push(stream),
            Err(error) => {
                assert!(Cancelled::caused(&error), "{error}");
                return (listener, queued);
            }
        }
    }
}

#[test]
fn a_connect_waits_while_the_listeners_queue_is_full() {
    everywhere(|| {
        let place = Place::new();
        let (listener, queued) = full(&place);
        scope(|s| {
            let connects = s.spawn(|| UnixStream::connect(&place.0).unwrap());
            for _ in &queued {
                listener.accept().unwrap();
            }
            let mut stream = connects.join().unwrap();
            stream.write_all(b"at last").unwrap();
            assert_eq!(listener.accept().unwrap().0.read(&mut [0; 9]).unwrap(), 7);
        });
        assert_eq!(listener.try_accept().unwrap_err().kind(), ErrorKind::WouldBlock, "the one in vain has connected");
    });
}

#[test]
fn bytes_come_one_at_a_time_and_the_end_behind_them() {
    everywhere(|| {
        let (here, there) = UnixStream::pair().unwrap();
        scope(|s| {
            s.spawn(|| {
                for byte in b"slowly" {
                    (&here).write_all(&[*byte]).unwrap();
                    segue_core::yield_now().unwrap();
                }
                here.shutdown(Shutdown::Write).unwrap();
            });
            let mut text = String::new();
            (&there).read_to_string(&mut text).unwrap();
            assert_eq!(text, "slowly");
        });
        // The other direction is open; then it is not.
        (&there).write_all(b"x").unwrap();
        drop(there);
        assert_eq!((&here).read(&mut [0; 4]).unwrap(), 1);
        assert_eq!((&here).read(&mut [0; 4]).unwrap(), 0);
        assert_eq!((&here).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_peer_that_leaves_what_it_was_sent_resets_the_connection() {
    everywhere(|| {
        let (here, there) = UnixStream::pair().unwrap();
        (&here).write_all(b"unread").unwrap();
        scope(|s| {
            let reader = s.spawn(|| (&here).read(&mut [0; 4]).unwrap_err().kind());
            until_watched(&here);
            drop(there);
            assert_eq!(reader.join().unwrap(), ErrorKind::ConnectionReset);
        });
    });
}

#[test]
fn a_large_write_goes_on_as_the_reader_reads() {
    everywhere(|| {
        let (here, there) = UnixStream::pair().unwrap();
        let sent: Vec<u8> = (0..1_u32 << 20).map(|n| (n % 251) as u8).collect();
        let mut got = Vec::new();
        scope(|s| {
            s.spawn(|| {
                (&here).write_all(&sent).unwrap();
                here.shutdown(Shutdown::Write).unwrap();
            });
            (&there).read_to_end(&mut got).unwrap();
        });
        assert!(got == sent);
    });
}

#[test]
fn a_wait_that_is_cut_short_loses_nothing() {
    everywhere(|| {
        let (here, there) = UnixStream::pair().unwrap();
        scope(|s| {
            let read = s.spawn(|| (&there).read(&mut [0; 4]).unwrap_err());
            until_watched(&there);
            s.cancel();
            assert!(Cancelled::caused(&shield(|| read.join()).unwrap()));
        });
        there.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        assert_eq!((&there).read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
        there.set_read_timeout(None).unwrap();
        (&here).write_all(b"x").unwrap();
        assert_eq!((&there).read(&mut [0; 4]).unwrap(), 1);
    });
}

#[test]
fn datagrams_have_senders_and_stay_apart() {
    everywhere(|| {
        let (place, other) = (Place::new(), Place::new());
        let server = UnixDatagram::bind(&place.0).unwrap();
        let client = UnixDatagram::bind_addr(&other.name()).unwrap();
        scope(|s| {
            s.spawn(|| {
                for _ in 0..3 {
                    let mut buf = [0; 8];
                    let (count, from) = server.recv_from(&mut buf).unwrap();
                    server.send_to_addr(&buf[..count], &from).unwrap();
                }
            });
            for packet in [&b"one"[..], b"", b"longer than eight"] {
                client.send_to(packet, &place.0).unwrap();
                assert_eq!(client.recv(&mut [0; 32]).unwrap(), packet.len().min(8));
            }
        });
        UnixDatagram::unbound().unwrap().send_to(b"x", &place.0).unwrap();
        assert!(server.recv_from(&mut [0; 8]).unwrap().1.is_unnamed());
        drop(server);
        assert_eq!(client.send_to(b"x", &place.0).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// Fills the receiver's queue.
fn fill(send: impl Fn() -> std::io::Result<usize>) -> usize {
    let mut sent = 0;
    loop {
        match send() {
            Ok(_) => sent += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return sent;
            }
        }
    }
}

#[test]
fn a_datagram_waits_for_room_in_its_receivers_queue() {
    everywhere(|| {
        let place = Place::new();
        let receiver = UnixDatagram::bind(&place.0).unwrap();
        let addr = receiver.local_addr().unwrap();
        let (connected, free) = (UnixDatagram::unbound().unwrap(), UnixDatagram::unbound().unwrap());
        connected.connect(&place.0).unwrap();
        let sent = fill(|| free.try_send_to_addr(b"x", &addr));
        assert_eq!(connected.try_send(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
        free.set_write_timeout(Some(Duration::from_millis(3))).unwrap();
        assert_eq!(free.send_to(b"late", &place.0).unwrap_err().kind(), ErrorKind::TimedOut);
        free.set_write_timeout(None).unwrap();
        let begun = AtomicBool::new(false);
        scope(|s| {
            let cut = s.spawn(|| {
                begun.store(true, Ordering::Relaxed);
                free.send_to(b"cut", &place.0).unwrap_err()
            });
            until(|| begun.load(Ordering::Relaxed));
            s.cancel();
            assert!(Cancelled::caused(&shield(|| cut.join()).unwrap()));
        });
        scope(|s| {
            s.spawn(|| assert_eq!(free.send_to(b"free", &place.0).unwrap(), 4));
            s.spawn(|| assert_eq!(connected.send(b"connected").unwrap(), 9));
            let lens: usize = (0..sent + 2).map(|_| receiver.recv(&mut [0; 16]).unwrap()).sum();
            assert_eq!(lens, sent + 4 + 9);
        });
        assert_eq!(receiver.try_recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock, "one too many was sent");
    });
}

#[test]
fn sequenced_packets_stay_apart_and_have_an_end() {
    everywhere(|| {
        let place = Place::new();
        let listener = UnixSeqpacketListener::bind(&place.0).unwrap();
        scope(|s| {
            s.spawn(|| {
                let (server, _) = listener.accept().unwrap();
                let mut buf = [0; 8];
                loop {
                    match server.recv(&mut buf).unwrap() {
                        0 => break,
                        count => server.send(&buf[..count]).unwrap(),
                    };
                }
            });
            let client = UnixSeqpacket::connect(&place.0).unwrap();
            client.send(b"one").unwrap();
            client.send(b"two and more").unwrap();
            let mut buf = [0; 32];
            assert_eq!(client.recv(&mut buf).unwrap(), 3);
            assert_eq!((client.recv(&mut buf).unwrap(), &buf[..8]), (8, &b"two and "[..]));
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(client.recv(&mut buf).unwrap(), 0);
        });
        let (here, there) = UnixSeqpacket::pair().unwrap();
        let sent = fill(|| here.try_send(&[7; 1000]));
        scope(|s| {
            s.spawn(|| here.send(b"last").unwrap());
            let mut got = 0;
            until(|| there.readable_source().wait().unwrap().is_ok());
            while there.recv(&mut [0; 1000]).unwrap() == 1000 {
                got += 1;
            }
            assert_eq!(got, sent);
        });
        drop(here);
        assert_eq!(there.recv(&mut [0; 8]).unwrap(), 0);
    });
}

#[test]
fn handles_come_from_descriptors_and_from_std_and_go_there() {
    everywhere(|| {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut one, mut other) =
            (UnixStream::from_std(one).unwrap(), UnixStream::from(std::os::fd::OwnedFd::from(other)));
        scope(|s| {
            s.spawn(|| one.write_all(b"x").unwrap());
            assert_eq!(other.read(&mut [0; 4]).unwrap(), 1);
        });
        let mut std: std::os::unix::net::UnixStream = one.try_into().unwrap();
        std.write_all(b"y").unwrap();
        assert_eq!(other.read(&mut [0; 4]).unwrap(), 1);
        let (packets, peer) = UnixSeqpacket::pair().unwrap();
        let packets = UnixSeqpacket::from_std(packets.into_std().unwrap()).unwrap();
        packets.send(b"z").unwrap();
        assert_eq!(peer.recv(&mut [0; 4]).unwrap(), 1);
        assert!(format!("{peer:?}").starts_with("UnixSeqpacket"));
    });
}
