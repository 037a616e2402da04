//! What UDP sockets do: everywhere the same.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, until_watched};
use segue_core::{CancelToken, Cancelled, Either, scope, shield, wait_future};
use segue_io::net::{Socket, UdpSocket};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

fn addr(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().unwrap()
}

/// Two sockets that are connected with each other.
fn pair() -> (UdpSocket, UdpSocket) {
    let (one, other) = (socket(), socket());
    one.connect(addr(&other)).unwrap();
    other.connect(addr(&one)).unwrap();
    (one, other)
}

#[test]
fn an_echo_comes_back_to_its_sender() {
    const CLIENTS: u8 = 10;
    everywhere(|| {
        let server = socket();
        scope(|s| {
            s.spawn(|| {
                let mut buf = [0; 64];
                for _ in 0..CLIENTS {
                    let (count, from) = server.recv_from(&mut buf).unwrap();
                    assert_eq!(server.send_to(&buf[..count], from).unwrap(), count);
                }
            });
            for number in 0..CLIENTS {
                let server = addr(&server);
                s.spawn(move || {
                    let client = socket();
                    client.send_to(&[number; 5], server).unwrap();
                    let mut buf = [0; 64];
                    assert_eq!(client.recv_from(&mut buf).unwrap(), (5, server));
                    assert_eq!(buf[..5], [number; 5]);
                });
            }
        });
    });
}

#[test]
fn a_connected_socket_hears_its_peer_alone() {
    everywhere(|| {
        let (here, there) = pair();
        assert_eq!(here.peer_addr().unwrap(), addr(&there));
        socket().send_to(b"a stranger", addr(&here)).unwrap();
        there.send(b"hello").unwrap();
        let mut buf = [0; 16];
        assert_eq!(here.recv(&mut buf).unwrap(), 5);
        assert_eq!(here.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(socket().send(b"nowhere").unwrap_err().raw_os_error(), Some(libc::EDESTADDRREQ));
    });
}

#[test]
fn a_packet_is_taken_as_a_whole() {
    everywhere(|| {
        let (here, there) = pair();
        for packet in [&b"longer than the buffer"[..], b"", b"lost", b"short"] {
            here.send(packet).unwrap();
        }
        let mut buf = [0; 6];
        assert_eq!(there.peek(&mut buf).unwrap(), 6);
        assert_eq!(there.peek_from(&mut [0; 99]).unwrap(), (22, addr(&here)));
        assert_eq!((there.recv(&mut buf).unwrap(), &buf), (6, b"longer"));
        assert_eq!(there.recv(&mut buf).unwrap(), 0, "an empty packet is one, too");
        assert_eq!(there.recv(&mut []).unwrap(), 0, "a receive without room takes one");
        assert_eq!(there.recv_from(&mut buf).unwrap(), (5, addr(&here)));
        assert_eq!(&buf[..5], b"short");
    });
}

#[test]
fn a_receive_without_room_waits_for_a_packet() {
    everywhere(|| {
        let (here, there) = pair();
        scope(|s| {
            let receives = s.spawn(|| there.recv(&mut []).unwrap());
            until_watched(&there);
            here.send(b"x").unwrap();
            assert_eq!(receives.join().unwrap(), 0);
        });
        assert_eq!(there.try_recv(&mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn several_receive_from_one_socket_and_each_packet_comes_once() {
    const PACKETS: u32 = 64;
    everywhere(|| {
        let (here, there) = pair();
        let sum = scope(|s| {
            let receivers = [(); 4].map(|()| {
                s.spawn(|| {
                    let mut sum = 0;
                    for _ in 0..PACKETS / 4 {
                        let mut packet = [0; 4];
                        assert_eq!(there.recv(&mut packet).unwrap(), 4);
                        sum += u32::from_ne_bytes(packet);
                    }
                    sum
                })
            });
            for number in 0..PACKETS {
                here.send(&number.to_ne_bytes()).unwrap();
                if number % 8 == 0 {
                    segue_core::yield_now().unwrap();
                }
            }
            receivers.map(|receiver| receiver.join().unwrap()).iter().sum::<u32>()
        });
        assert_eq!(sum, (0..PACKETS).sum());
    });
}

#[test]
fn a_receive_ends_at_its_time_out_and_the_next_one_gets_what_comes() {
    everywhere(|| {
        let (here, there) = pair();
        there.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        assert_eq!(there.recv(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(there.recv_from(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(there.peek(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        there.set_read_timeout(None).unwrap();
        scope(|s| {
            s.spawn(|| here.send(b"x").unwrap());
            assert_eq!(there.recv(&mut [0; 4]).unwrap(), 1);
        });
        assert_eq!(there.set_write_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_cancelled_receive_leaves_the_packet() {
    everywhere(|| {
        let (here, there) = pair();
        scope(|s| {
            let receives = s.spawn(|| there.recv_from(&mut [0; 4]).unwrap_err());
            until_watched(&there);
            s.cancel();
            assert!(Cancelled::caused(&shield(|| receives.join()).unwrap()));
            // Also where it need not wait.
            shield(|| here.send(b"stays")).unwrap();
            assert!(Cancelled::caused(&there.recv(&mut [0; 8]).unwrap_err()));
            assert!(Cancelled::caused(&here.send(b"is not sent").unwrap_err()));
            assert!(Cancelled::caused(&here.send_to(b"is not sent", addr(&there)).unwrap_err()));
        });
        assert_eq!(there.recv(&mut [0; 8]).unwrap(), 5);
        assert_eq!(there.try_recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_packet_that_nobody_wanted_is_told_by_the_next_operation() {
    everywhere(|| {
        let here = socket();
        let gone = addr(&socket());
        here.connect(gone).unwrap();
        here.send(b"who is there?").unwrap();
        assert_eq!(here.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn bad_input_is_an_error_and_the_socket_goes_on() {
    everywhere(|| {
        let nobody: [SocketAddr; 0] = [];
        assert_eq!(UdpSocket::bind(nobody).unwrap_err().kind(), ErrorKind::InvalidInput);
        let (here, there) = pair();
        assert_eq!(here.connect(nobody).unwrap_err().kind(), ErrorKind::InvalidInput);
        let sender = socket();
        assert_eq!(sender.send_to(b"x", nobody).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(sender.send_to(b"x", "127.0.0.1:0").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(sender.send_to(b"x", "no port").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(here.send(&[0; 1 << 17]).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        assert_eq!(UdpSocket::bind(addr(&there)).unwrap_err().kind(), ErrorKind::AddrInUse);
        here.send(b"fine").unwrap();
        assert_eq!(there.recv(&mut [0; 8]).unwrap(), 4);
    });
}

#[test]
fn a_choice_waits_for_a_packet_or_the_end() {
    everywhere(|| {
        let (here, there) = pair();
        let (stop, received) = (CancelToken::new(), AtomicUsize::new(0));
        scope(|s| {
            s.spawn(|| {
                while let Either::Right(ready) =
                    stop.cancelled_source().or_else(there.readable_source()).wait().unwrap()
                {
                    ready.unwrap();
                    received.fetch_add(there.try_recv(&mut [0; 8]).unwrap(), Ordering::Relaxed);
                }
            });
            for _ in 0..5 {
                here.send(b"xx").unwrap();
                segue_core::yield_now().unwrap();
            }
            common::until(|| received.load(Ordering::Relaxed) == 10);
            stop.cancel();
        });
        // Nothing was taken by a wait that was not chosen.
        here.send(b"last").unwrap();
        wait_future(async { there.readable_source().await.unwrap() }).unwrap();
        assert_eq!(there.recv(&mut [0; 8]).unwrap(), 4);
        wait_future(async { there.writable_source().await.unwrap() }).unwrap();
    });
}

#[test]
fn options_are_kept() {
    let socket = socket();
    socket.set_broadcast(true).unwrap();
    assert!(socket.broadcast().unwrap());
    socket.set_ttl(9).unwrap();
    socket.set_multicast_ttl_v4(3).unwrap();
    socket.set_multicast_loop_v4(false).unwrap();
    assert_eq!((socket.ttl().unwrap(), socket.multicast_ttl_v4().unwrap()), (9, 3));
    assert!(!socket.multicast_loop_v4().unwrap());
    assert!(socket.take_error().unwrap().is_none());
    assert_eq!(socket.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    let group = Ipv4Addr::new(224, 0, 0, 251);
    // A machine without a network has no interface for a group.
    if socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).is_ok() {
        socket.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
    }
    assert!(socket.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).is_err(), "it is in no group");
}

#[test]
fn sockets_come_from_std_and_go_there() {
    everywhere(|| {
        let here = UdpSocket::from_std(std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        assert_eq!(here.try_recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let there = std::net::UdpSocket::try_from(socket()).unwrap();
        there.send_to(b"std", addr(&here)).unwrap();
        assert_eq!(here.recv(&mut [0; 8]).unwrap(), 3);
        let built = Socket::udp_v4().unwrap();
        built.set_reuse_port(true).unwrap();
        built.bind(&SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let built = built.into_packets();
        built.send_to(b"built", addr(&here)).unwrap();
        assert_eq!(here.recv_from(&mut [0; 8]).unwrap(), (5, addr(&built)));
    });
}
