//! std's sockets and pipes in the scope: only the fiber waits.

mod common;

use common::{beside, everywhere, unblock};
use segue_core::{CancelToken, Cancelled, scope, sleep, spawn, timeout, yield_now};
use std::io::{self, ErrorKind, Read, Write};
use std::iter;
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::{Duration, Instant};

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn a_read_suspends_its_fiber_and_no_other() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let mut bytes = [0; 5];
        let count = beside(|| client.read(&mut bytes), || server.write_all(b"hello").unwrap()).unwrap();
        assert_eq!((count, &bytes), (5, b"hello"));

        let (mut one, mut other) = UnixStream::pair().unwrap();
        beside(|| one.read_exact(&mut bytes), || other.write_all(b"again").unwrap()).unwrap();
        assert_eq!(&bytes, b"again");

        let (mut reader, mut writer) = io::pipe().unwrap();
        let mut text = String::new();
        let write = move || {
            writer.write_all(b"a pipe").unwrap();
            drop(writer);
        };
        assert_eq!(beside(|| reader.read_to_string(&mut text), write).unwrap(), 6);
        assert_eq!(text, "a pipe");
    });
}

#[test]
fn a_server_and_its_clients_of_std_share_one_worker() {
    everywhere(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        scope(|s| {
            s.spawn(|| {
                unblock(|| {
                    for _ in 0..20 {
                        let (mut stream, peer) = listener.accept().unwrap();
                        assert!(peer.ip().is_loopback() && peer.port() != 0);
                        spawn(move || unblock(|| io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap()));
                    }
                });
            });
            for client in 0..20_u32 {
                s.spawn(move || {
                    unblock(|| {
                        let mut stream = TcpStream::connect(address).unwrap();
                        for round in 0..10 {
                            stream.write_all(&(client * round).to_le_bytes()).unwrap();
                            let mut bytes = [0; 4];
                            stream.read_exact(&mut bytes).unwrap();
                            assert_eq!(u32::from_le_bytes(bytes), client * round);
                        }
                    });
                });
            }
        });
    });
}

#[test]
fn a_large_write_goes_on_until_all_is_written() {
    let text: Vec<u8> = (0..4_000_000_u32).map(|byte| (byte / 7) as u8).collect();
    everywhere(|| {
        let (mut client, mut server) = pair();
        let mut read = vec![0; text.len()];
        let write = || {
            // One call, and not `write_all`.
            let written = client.write(&text).unwrap();
            assert_eq!(written, text.len());
        };
        beside(write, || unblock(|| server.read_exact(&mut read)).unwrap());
        assert!(read == text);

        let (mut reader, mut writer) = io::pipe().unwrap();
        let slices: Vec<_> = text.chunks(100_001).map(io::IoSlice::new).collect();
        let mut read = vec![0; text.len()];
        let written =
            beside(|| writer.write_vectored(&slices).unwrap(), || unblock(|| reader.read_exact(&mut read)).unwrap());
        assert_eq!(written, text.len());
        assert!(read == text);
    });
}

#[test]
fn what_was_sent_before_a_time_out_or_a_cancellation_is_said() {
    everywhere(|| {
        let text = vec![b'x'; 30_000_000];
        let (mut client, _server) = pair();
        client.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        let written = unblock(|| client.write(&text)).unwrap();
        assert!((1..text.len()).contains(&written));
        // The kernel may find room for some more.
        let error = iter::repeat_with(|| unblock(|| client.write(&text))).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);

        let (mut client, _server) = pair();
        let written = timeout(Duration::from_millis(20), || unblock(|| client.write(&text))).unwrap();
        assert!((1..text.len()).contains(&written));
        let mut more = || timeout(Duration::from_millis(20), || unblock(|| client.write(&text)));
        let error = iter::repeat_with(&mut more).find_map(Result::err).unwrap();
        assert!(Cancelled::caused(&error), "{error}");
    });
}

#[test]
fn time_outs_of_sockets_are_kept() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let begun = Instant::now();
        let error = unblock(|| client.read(&mut [0])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(!Cancelled::caused(&error) && begun.elapsed() >= Duration::from_millis(19));
        // What comes in time is had.
        client.set_read_timeout(Some(Duration::from_secs(3_600))).unwrap();
        beside(|| client.read_exact(&mut [0]), || server.write_all(b"x").unwrap()).unwrap();

        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        assert_eq!(unblock(|| socket.recv_from(&mut [0])).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_cancelled_call_says_so_by_its_number() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let token = CancelToken::new();
        let error = scope(|s| {
            let read = s.spawn(|| token.run(|| unblock(|| client.read(&mut [0]))));
            let accept = s.spawn(|| token.run(|| unblock(|| listener.accept())));
            (0..10).for_each(|_| yield_now().unwrap());
            token.cancel();
            assert!(Cancelled::caused(&accept.join().unwrap().unwrap_err()));
            read.join().unwrap().unwrap_err()
        });
        assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
        assert!(Cancelled::caused(&error) && Cancelled::from_io(&error).unwrap().reason().is_none());
        // Nothing was lost, and who is cancelled is not even given what is there.
        server.write_all(b"x").unwrap();
        assert!(Cancelled::caused(&token.run(|| unblock(|| client.read(&mut [0]))).unwrap_err()));
        unblock(|| client.read_exact(&mut [0])).unwrap();
        TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        unblock(|| listener.accept()).unwrap();
    });
}

#[test]
fn two_fibers_wait_at_one_descriptor_and_each_gets_its_part() {
    everywhere(|| {
        let (client, mut server) = pair();
        let read = || unblock(|| (&client).read(&mut [0; 1]).unwrap());
        scope(|s| {
            let fibers = [s.spawn(read), s.spawn(read)];
            // And one that writes there.
            let writer = s.spawn(|| unblock(|| (&client).write(b"z").unwrap()));
            (0..10).for_each(|_| yield_now().unwrap());
            server.write_all(b"x").unwrap();
            sleep(Duration::from_millis(1)).unwrap();
            server.write_all(b"y").unwrap();
            for fiber in fibers {
                assert_eq!(fiber.join().unwrap(), 1);
            }
            assert_eq!(writer.join().unwrap(), 1);
        });
        // Two at one listener, of which one is called in vain.
        let listener = UnixListener::bind_addr(&name()).unwrap();
        let accept = || unblock(|| listener.accept().unwrap());
        scope(|s| {
            let fibers = [s.spawn(accept), s.spawn(accept)];
            for _ in 0..2 {
                (0..10).for_each(|_| yield_now().unwrap());
                unblock(|| UnixStream::connect_addr(&listener.local_addr().unwrap()).unwrap());
            }
            fibers.into_iter().for_each(|fiber| drop(fiber.join().unwrap()));
        });
    });
}

/// An abstract name of nobody's.
fn name() -> std::os::unix::net::SocketAddr {
    use std::os::linux::net::SocketAddrExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("segue-unblock-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap()
}

#[test]
fn packets_come_whole_and_with_their_senders() {
    everywhere(|| {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let (one_addr, other_addr) = (one.local_addr().unwrap(), other.local_addr().unwrap());
        let mut bytes = [0; 100];
        let send = || assert_eq!(unblock(|| other.send_to(b"hello", one_addr)).unwrap(), 5);
        assert_eq!(beside(|| one.recv_from(&mut bytes), send).unwrap(), (5, other_addr));
        other.send_to(b"", one_addr).unwrap();
        assert_eq!(unblock(|| one.recv_from(&mut bytes)).unwrap(), (0, other_addr));

        // A queue that is full: the sender waits for room, and nothing is lost.
        let (from, to) = UnixDatagram::pair().unwrap();
        scope(|s| {
            s.spawn(|| unblock(|| (0..1_000_u32).for_each(|n| assert_eq!(from.send(&n.to_le_bytes()).unwrap(), 4))));
            s.spawn(|| {
                unblock(|| {
                    for n in 0..1_000_u32 {
                        let mut bytes = [0; 9];
                        assert_eq!((to.recv(&mut bytes).unwrap(), &bytes[..4]), (4, &n.to_le_bytes()[..]));
                    }
                });
            });
        });
    });
}

#[test]
fn the_end_and_errors_come_through() {
    everywhere(|| {
        let (mut client, server) = pair();
        assert_eq!(beside(|| client.read(&mut [0]), || server.shutdown(Shutdown::Write).unwrap()).unwrap(), 0);
        drop(server);
        let (mut client, server) = pair();
        // Closed with something unread: a reset.
        client.write_all(b"x").unwrap();
        let error = beside(|| client.read(&mut [0]), || drop(server)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        // Nobody listens there, and nobody gets the port while this has it.
        let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        held.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let refused = held.local_addr().unwrap().as_socket().unwrap();
        let error = unblock(|| TcpStream::connect(refused)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = unblock(|| TcpStream::connect_timeout(&refused, Duration::from_secs(9))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_connect_to_nobody_waits_and_is_cut() {
    // A listener whose queue is full answers nobody.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let _queued = TcpStream::connect(address).unwrap();
    everywhere(|| {
        let (error, turns) = scope(|s| {
            let connect = s.spawn(|| timeout(Duration::from_millis(30), || unblock(|| TcpStream::connect(address))));
            let turns = s.spawn(|| (0..100).filter(|_| yield_now().is_ok()).count());
            (connect.join().unwrap().unwrap_err(), turns.join().unwrap())
        });
        assert!(Cancelled::caused(&error), "{error}");
        assert_eq!(turns, 100);
        let error = unblock(|| TcpStream::connect_timeout(&address, Duration::from_millis(30))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(!Cancelled::caused(&error));
    });
}

/// A second call waits for what the first one has begun. In a ring it would say `EALREADY` at once.
#[test]
fn a_connect_that_was_begun_before_is_waited_for() {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap();
    let _queued = TcpStream::connect(address.as_socket().unwrap()).unwrap();
    let begun = || {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.connect(&address).unwrap_err();
        socket.set_nonblocking(false).unwrap();
        socket
    };
    let again = || {
        let (socket, time) = (begun(), Duration::from_millis(10));
        socket.set_write_timeout(Some(time)).unwrap();
        let before = Instant::now();
        let error = socket.connect(&address).unwrap_err();
        assert!(before.elapsed() >= time, "it was not waited for");
        error.raw_os_error()
    };
    let plain = again();
    everywhere(|| {
        assert_eq!(unblock(again), plain);
        let socket = begun();
        let cut = timeout(Duration::from_millis(3), || unblock(|| socket.connect(&address)));
        assert!(Cancelled::caused(&cut.unwrap_err()));
    });
}

#[test]
fn flags_of_descriptors_stay_and_non_blocking_ones_are_passed_through() {
    everywhere(|| {
        let (client, server) = pair();
        client.set_nonblocking(true).unwrap();
        let before = segue_unblock::waits();
        assert_eq!(unblock(|| (&client).read(&mut [0])).unwrap_err().kind(), ErrorKind::WouldBlock);
        beside(
            || (&server).read(&mut [0]).map(drop),
            || {
                assert_eq!(flags(&server) & libc::O_NONBLOCK, 0);
                (&client).write_all(b"x").unwrap();
            },
        )
        .unwrap();
        assert_eq!(flags(&server) & libc::O_NONBLOCK, 0);
        assert!(segue_unblock::waits() > before);
    });
}

fn flags(fd: &impl std::os::fd::AsFd) -> i32 {
    rustix::fs::fcntl_getfl(fd).unwrap().bits() as i32
}
