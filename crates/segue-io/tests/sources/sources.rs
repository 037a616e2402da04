//! Readiness as a source, of every kind of socket: in choices, in tasks, on fibers and threads.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{everywhere, pair};
use segue_core::{Either, Source, Waitable, after, any_of, scope, wait_future};
use segue_io::net::{UdpSocket, UnixDatagram, UnixSeqpacket, UnixStream};
use std::future::Future;
use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(1);

/// A source is not ready, something happens, and it is: for a choice, a future that is dropped, a
/// fiber that waits, and a task.
fn becomes_ready<S: Source<Output = io::Result<()>> + Send>(
    source: impl Fn() -> Waitable<S> + Sync,
    happens: impl Fn(),
) {
    assert!(matches!(after(SOON).or_else(source()).wait(), Ok(Either::Left(()))), "it is ready already");
    let mut polls = Context::from_waker(Waker::noop());
    assert!(pin!(source().into_future()).as_mut().poll(&mut polls).is_pending());
    scope(|s| {
        let task = s.spawn(|| wait_future(async { source().await }));
        let fiber = s.spawn(|| source().wait());
        segue_core::yield_now().unwrap();
        happens();
        task.join().unwrap().unwrap().unwrap();
        fiber.join().unwrap().unwrap().unwrap();
    });
    // It stays ready, since nobody has taken anything.
    assert!(matches!(pin!(source().into_future()).as_mut().poll(&mut polls), Poll::Ready(Ok(()))));
    let first = any_of([source(), source()]).wait().unwrap();
    assert!(first.1.is_ok());
}

#[test]
fn a_socket_is_readable_when_something_has_come() {
    everywhere(|| {
        let (client, server) = pair();
        becomes_ready(|| server.readable_source(), || (&client).write_all(b"x").unwrap());
        assert_eq!(server.try_read(&mut [0; 4]).unwrap(), 1);

        let (here, there) = UnixStream::pair().unwrap();
        becomes_ready(|| there.readable_source(), || (&here).write_all(b"x").unwrap());
        assert_eq!(there.try_read(&mut [0; 4]).unwrap(), 1);

        let (here, there) = UnixDatagram::pair().unwrap();
        becomes_ready(|| there.readable_source(), || _ = here.send(b"").unwrap());
        assert_eq!(there.try_recv(&mut [0; 4]).unwrap(), 0);
        assert_eq!(there.try_recv(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);

        let (here, there) = UnixSeqpacket::pair().unwrap();
        becomes_ready(|| there.readable_source(), || _ = here.send(b"x").unwrap());
        assert_eq!(there.try_recv(&mut [0; 4]).unwrap(), 1);

        let (here, there) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        becomes_ready(|| there.readable_source(), || _ = here.send_to(b"x", there.local_addr().unwrap()).unwrap());
        assert_eq!(there.try_recv_from(&mut [0; 4]).unwrap().0, 1);
    });
}

#[test]
fn the_end_and_errors_are_readable() {
    everywhere(|| {
        let (client, server) = pair();
        becomes_ready(|| server.readable_source(), || client.shutdown(Shutdown::Write).unwrap());
        assert_eq!(server.try_read(&mut [0; 4]).unwrap(), 0);

        let (client, server) = pair();
        let client = std::cell::Cell::new(Some(client));
        let reset = || {
            let client = client.take().unwrap();
            socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
        };
        becomes_ready(|| server.readable_source(), reset);
        assert_eq!(server.try_read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        server.writable_source().wait().unwrap().unwrap();
        assert_eq!(server.try_write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_socket_is_writable_when_there_is_room() {
    everywhere(|| {
        let (client, server) = UnixStream::pair().unwrap();
        client.writable_source().wait().unwrap().unwrap();
        while client.try_write(&[7; 1 << 16]).is_ok() {}
        let drain = || while server.try_read(&mut [0; 1 << 16]).is_ok() {};
        becomes_ready(|| client.writable_source(), drain);
        assert!(client.try_write(b"x").is_ok());

        let (here, there) = UnixSeqpacket::pair().unwrap();
        while here.try_send(&[7; 1 << 10]).is_ok() {}
        let drain = || while there.try_recv(&mut [0; 1 << 10]).is_ok() {};
        becomes_ready(|| here.writable_source(), drain);
        assert!(here.try_send(b"x").is_ok());
    });
}

#[test]
#[cfg(target_os = "linux")]
fn listeners_of_all_kinds_are_arms_and_what_loses_is_not_accepted() {
    use segue_io::net::{TcpListener, TcpStream, UnixListener, UnixSeqpacketListener};
    use std::io::Read;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;
    everywhere(|| {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
        let kept = std::cell::RefCell::new(Vec::new());
        becomes_ready(|| tcp.readable_source(), || kept.borrow_mut().push(connect()));
        tcp.try_accept().unwrap();

        let name = |kind: &str| SocketAddr::from_abstract_name(format!("segue-{kind}-{}", std::process::id())).unwrap();
        let (streams, packets) = (name("streams"), name("packets"));
        let (unix, seq) =
            (UnixListener::bind_addr(&streams).unwrap(), UnixSeqpacketListener::bind_addr(&packets).unwrap());
        scope(|s| {
            let server = s.spawn(|| {
                let mut accepted = [0; 2];
                while accepted != [3, 2] {
                    match unix.accept_source().or(seq.accept_source()).wait().unwrap() {
                        Either::Left(stream) => {
                            stream.unwrap().0.write_all(b"s").unwrap();
                            accepted[0] += 1;
                        }
                        Either::Right(packets) => {
                            packets.unwrap().0.send(b"p").unwrap();
                            accepted[1] += 1;
                        }
                    }
                }
            });
            for number in 0..5 {
                let mut byte = [0];
                if number % 2 == 0 {
                    UnixStream::connect_addr(&streams).unwrap().read_exact(&mut byte).unwrap();
                    assert_eq!(&byte, b"s");
                } else {
                    UnixSeqpacket::connect_addr(&packets).unwrap().recv(&mut byte).unwrap();
                    assert_eq!(&byte, b"p");
                }
            }
            server.join().unwrap();
        });
        assert_eq!(unix.try_accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(seq.try_accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let client = UnixStream::connect_addr(&streams).unwrap();
        assert!(matches!(after(Duration::ZERO).or_else(unix.accept_source()).wait(), Ok(Either::Left(()))));
        unix.incoming().next().unwrap().unwrap();
        drop(client);
    });
}

/// Event counters, timers, inotify, pipes and terminals of other code: by number, with their flags
/// as they are.
#[test]
#[cfg(target_os = "linux")]
fn any_descriptor_that_can_be_polled_is_readable_when_something_has_come() {
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use segue_io::fd::Readiness;
    use std::os::fd::AsFd;

    everywhere(|| {
        let counter = eventfd(0, EventfdFlags::empty()).unwrap();
        let readiness = Readiness::of(&counter).unwrap();
        becomes_ready(|| readiness.readable_source(), || _ = rustix::io::write(&counter, &1_u64.to_ne_bytes()));
        readiness.readable().unwrap();
        rustix::io::read(&counter, &mut [0; 8]).unwrap();
        // Full, so that there is no room.
        rustix::io::write(&counter, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        becomes_ready(|| readiness.writable_source(), || _ = rustix::io::read(&counter, &mut [0_u8; 8]));
        readiness.writable().unwrap();

        let path = std::env::temp_dir().join(format!("segue-readiness-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let watched = inotify::init(CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&watched, &path, WatchFlags::CREATE).unwrap();
        let changes = Readiness::of(&watched).unwrap();
        becomes_ready(|| changes.readable_source(), || std::fs::write(path.join("new"), "").unwrap());
        std::fs::remove_dir_all(&path).unwrap();

        // The wait is for the open file: its number may be closed.
        let (reader, mut writer) = std::io::pipe().unwrap();
        let pipe = Readiness::of(&reader).unwrap();
        drop(reader);
        becomes_ready(|| pipe.readable_source(), || _ = (&writer).write(b"x").unwrap());
        assert!(!rustix::fs::fcntl_getfl(&pipe).unwrap().contains(rustix::fs::OFlags::NONBLOCK), "a flag was set");
        writer.flush().unwrap();
        assert!(pipe.as_fd().try_clone_to_owned().is_ok());
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_wait_for_any_descriptor_ends_when_it_is_cancelled() {
    use segue_io::fd::Readiness;

    everywhere(|| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let silent = Readiness::of(&reader).unwrap();
        let late = segue_core::timeout(SOON, || silent.readable()).unwrap_err();
        assert!(segue_core::Cancelled::caused(&late));
    });
}

#[test]
#[cfg(target_os = "linux")]
fn readiness_of_a_file_is_refused_and_says_what_to_do() {
    use segue_io::fd::Readiness;

    for path in ["Cargo.toml", "src"] {
        let error = Readiness::of(std::fs::File::open(path).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("is always ready: read it by `fs::File`"), "{error}");
    }
    // Neither is a file whose kind nobody can wait for.
    Readiness::of(std::fs::File::open("/dev/null").unwrap()).unwrap().readable().unwrap();
}
