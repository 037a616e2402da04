//! Descriptors that are passed over Unix sockets. A file of its own, since it counts those of the
//! process: one test at a time.
#![cfg(target_os = "linux")]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::descriptors::leaves_no_descriptor;
use common::{enlist, everywhere, pair, until_watched};
use segue_core::{Cancelled, scope, shield};
use segue_io::net::{Received, UnixDatagram, UnixSeqpacket, UnixStream};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Runs a test everywhere, and sees that it leaves no descriptor.
fn leaving_none(test: impl Fn()) {
    leaves_no_descriptor(|| everywhere(test));
}

/// So many descriptors of one end, and the other end, which sees when all of them are closed.
fn some(count: usize) -> (Vec<OwnedFd>, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    ((0..count).map(|_| one.as_fd().try_clone_to_owned().unwrap()).collect(), other)
}

fn borrowed(fds: &[OwnedFd]) -> Vec<BorrowedFd<'_>> {
    fds.iter().map(AsFd::as_fd).collect()
}

/// Whether nobody has the other end any more.
fn is_last(mut watch: UnixStream) -> bool {
    watch.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
    watch.read(&mut [0]).is_ok_and(|count| count == 0)
}

#[test]
fn a_descriptor_that_is_passed_works_there() {
    leaving_none(|| {
        let (here, there) = UnixStream::pair().unwrap();
        let (fds, mut watch) = some(3);
        scope(|s| {
            s.spawn(|| {
                assert_eq!(here.send_fds(b"abc", &borrowed(&fds)).unwrap(), 3);
            });
            let Received { len, fds, truncated } = there.recv_fds(&mut [0; 8], 3).unwrap();
            assert_eq!((len, fds.len(), truncated), (3, 3, false));
            for fd in &fds {
                assert!(rustix::io::fcntl_getfd(fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
            }
            for fd in fds {
                UnixStream::from(fd).write_all(b"x").unwrap();
            }
        });
        drop(fds);
        watch.read_exact(&mut [0; 3]).unwrap();
        assert!(is_last(watch), "one of them is open");
    });
}

#[test]
fn datagrams_and_sequenced_packets_pass_descriptors_too() {
    leaving_none(|| {
        let (here, there) = UnixDatagram::pair().unwrap();
        let (fds, watch) = some(1);
        here.send_fds(b"", &borrowed(&fds)).unwrap();
        let received = there.recv_fds(&mut [0; 4], 4).unwrap();
        assert_eq!((received.len, received.fds.len(), received.truncated), (0, 1, false));
        drop((received, fds));
        assert!(is_last(watch));

        let (here, there) = UnixSeqpacket::pair().unwrap();
        let (fds, watch) = some(2);
        scope(|s| {
            s.spawn(|| here.send_fds(b"two", &borrowed(&fds)).unwrap());
            assert_eq!(there.recv_fds(&mut [0; 4], 2).unwrap().fds.len(), 2);
        });
        drop(fds);
        assert!(is_last(watch));
    });
}

#[test]
fn descriptors_without_room_are_closed() {
    leaving_none(|| {
        for most in [0, 1, 2, 3] {
            let (here, there) = UnixStream::pair().unwrap();
            let (fds, watch) = some(7);
            here.send_fds(b"seven", &borrowed(&fds)).unwrap();
            drop(fds);
            let received = there.recv_fds(&mut [0; 8], most).unwrap();
            assert_eq!((received.len, received.fds.len(), received.truncated), (5, most, true));
            drop(received);
            assert!(is_last(watch), "one is open that nobody knows");
        }
    });
}

/// A socket that asks for its peer's credentials gets them before the descriptors.
#[test]
fn credentials_take_no_descriptors_place() {
    leaving_none(|| {
        let (here, there) = UnixStream::pair().unwrap();
        socket2::SockRef::from(&there).set_passcred(true).unwrap();
        let (fds, watch) = some(3);
        here.send_fds(b"x", &borrowed(&fds)).unwrap();
        drop(fds);
        let received = there.recv_fds(&mut [0; 8], 3).unwrap();
        assert_eq!((received.fds.len(), received.truncated), (3, false));
        drop(received);
        assert!(is_last(watch));
    });
}

#[test]
fn a_plain_read_closes_them() {
    leaving_none(|| {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (fds, watch) = some(2);
        here.send_fds(b"x", &borrowed(&fds)).unwrap();
        drop(fds);
        assert_eq!(there.read(&mut [0; 4]).unwrap(), 1);
        assert!(is_last(watch));
    });
}

#[test]
fn those_that_nobody_receives_go_with_the_socket() {
    leaving_none(|| {
        let (here, there) = UnixStream::pair().unwrap();
        let (fds, watch) = some(2);
        here.send_fds(b"x", &borrowed(&fds)).unwrap();
        drop((fds, here, there));
        assert!(is_last(watch));
    });
}

/// A read ends where descriptors begin, with less than fits. That must not count as the end of what
/// has arrived.
#[test]
fn what_lies_behind_a_short_read_is_read() {
    leaving_none(|| {
        let (here, mut there) = UnixStream::pair().unwrap();
        scope(|s| {
            let first = s.spawn(|| (&there).read(&mut [0; 8]).unwrap());
            until_watched(&there);
            (&here).write_all(b"w").unwrap();
            assert_eq!(first.join().unwrap(), 1);
        });
        let (fds, _watch) = some(1);
        here.send_fds(b"one", &borrowed(&fds)).unwrap();
        here.send_fds(b"two", &borrowed(&fds)).unwrap();
        (&here).write_all(b"three").unwrap();
        let mut got = 0;
        while got < 11 {
            got += there.read(&mut [0; 16]).unwrap();
        }
        assert_eq!(there.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_receive_that_is_cut_short_leaves_all_to_the_next() {
    leaving_none(|| {
        let (here, there) = UnixStream::pair().unwrap();
        scope(|s| {
            let receives = s.spawn(|| there.recv_fds(&mut [0; 4], 1).unwrap_err());
            until_watched(&there);
            s.cancel();
            assert!(Cancelled::caused(&shield(|| receives.join()).unwrap()));
            let (fds, _) = some(1);
            assert!(Cancelled::caused(&here.send_fds(b"not sent", &borrowed(&fds)).unwrap_err()));
        });
        there.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        assert_eq!(there.recv_fds(&mut [0; 4], 1).unwrap_err().kind(), ErrorKind::TimedOut);
        let (fds, watch) = some(1);
        here.send_fds(b"x", &borrowed(&fds)).unwrap();
        assert_eq!(there.try_recv_fds(&mut [0; 4], 1).unwrap().fds.len(), 1);
        drop(fds);
        assert!(is_last(watch));
    });
}

#[test]
fn bad_input_passes_nothing() {
    leaving_none(|| {
        let (here, there) = UnixStream::pair().unwrap();
        let (fds, watch) = some(1);
        assert_eq!(here.send_fds(b"", &borrowed(&fds)).unwrap_err().kind(), ErrorKind::InvalidInput);
        let many = vec![fds[0].as_fd(); 254];
        assert_eq!(here.send_fds(b"x", &many).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(there.recv_fds(&mut [], 1).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(there.recv_fds(&mut [0], 254).unwrap_err().kind(), ErrorKind::InvalidInput);
        here.send_fds(b"x", &many[..253]).unwrap();
        let received = there.recv_fds(&mut [0], 253).unwrap();
        assert_eq!((received.fds.len(), received.truncated), (253, false));
        assert_eq!(here.send_fds(b"", &[]).unwrap(), 0);
        drop((received, fds));
        assert!(is_last(watch));
    });
}

fn blocks(fd: impl AsFd) -> bool {
    !rustix::fs::fcntl_getfl(fd).unwrap().contains(rustix::fs::OFlags::NONBLOCK)
}

/// Of each kind of handle, as a descriptor and as std's type; and of clones that stay.
#[test]
fn what_is_handed_on_blocks_as_other_programs_expect_it() {
    use segue_io::net::{TcpListener, UdpSocket, UnixListener, UnixSeqpacketListener};
    fn of<T: TryInto<OwnedFd, Error = std::io::Error>>(make: impl Fn() -> T) {
        let handle = make();
        assert!(blocks(handle.try_into().unwrap()), "{}", std::any::type_name::<T>());
    }
    leaving_none(|| {
        let here = || std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let name = |number: usize| {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("segue-passing-{}-{number}", std::process::id());
            std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap()
        };
        of(|| pair().0);
        of(|| UnixStream::pair().unwrap().0);
        of(|| UnixDatagram::pair().unwrap().0);
        of(|| UnixSeqpacket::pair().unwrap().0);
        of(|| UdpSocket::bind(here()).unwrap());
        of(|| TcpListener::bind(here()).unwrap());
        of(|| UnixListener::bind_addr(&name(1)).unwrap());
        of(|| UnixSeqpacketListener::bind_addr(&name(2)).unwrap());
        of(|| segue_io::pipe::pipe().unwrap().0);
        of(|| segue_io::pipe::pipe().unwrap().1);
        assert!(blocks(pair().0.into_std().unwrap()) && blocks(UdpSocket::bind(here()).unwrap().into_std().unwrap()));
        assert!(blocks(TcpListener::bind(here()).unwrap().into_std().unwrap()));
        // A clone's accept relies on the flag; its reads do not.
        let listener = TcpListener::bind(here()).unwrap();
        let given = listener.try_clone().unwrap().into_std().unwrap();
        assert!(!blocks(&given) && blocks(listener.into_std().unwrap()));
        let (client, mut server) = pair();
        let given = server.try_clone().unwrap().into_std().unwrap();
        assert!(blocks(&given));
        let late = segue_core::timeout(Duration::from_millis(5), || server.read(&mut [0])).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        drop(client);
    });
}

#[test]
fn a_program_reads_and_writes_a_socket_that_it_was_given() {
    leaving_none(|| {
        let (mut client, server) = pair();
        enlist(&server);
        let mut cat = std::process::Command::new("cat");
        cat.stdin(OwnedFd::try_from(server.try_clone().unwrap()).unwrap());
        cat.stdout(OwnedFd::try_from(server).unwrap());
        let mut child = cat.spawn().unwrap();
        drop(cat);
        // The program reads before there is anything.
        segue_core::sleep(Duration::from_millis(20)).unwrap();
        client.write_all(b"through").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        assert!(segue_core::blocking(|| child.wait()).unwrap().unwrap().success());
    });
}
