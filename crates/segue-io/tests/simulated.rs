//! Sockets in a simulation: what they wait for is the network, which the simulator does not drive.

mod common;

use common::guarded;
use segue_core::{Cancelled, now, scope, sleep, spawn, timeout};
use segue_io::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use segue_io::pipe::pipe;
use segue_sched::{Cause, Explore, Sim};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::panic::Location;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Waits for a connection that nobody makes.
fn forlorn() {
    let (listener, _) = listener();
    assert!(Cancelled::caused(&listener.accept().unwrap_err()));
}

#[test]
fn a_deadlock_names_the_network_and_where_it_is_waited_for() {
    let deadlock = Sim::new(1).run(forlorn).unwrap_err();
    assert!(deadlock.fibers[0].network);
    let report = deadlock.to_string();
    let says = "fiber 0 waits for the network, which the simulator does not drive: a connection at ";
    assert!(report.contains(says) && report.contains("simulated.rs"), "{report}");
    assert!(report.contains("`Sim::open` waits for the network"), "{report}");

    let failure = Explore::random(1).shrink(false).run(forlorn).unwrap_err();
    assert!(matches!(&failure.cause, Cause::Deadlock(fibers) if fibers[0].network));
    assert!(failure.to_string().contains(says), "{failure}");
}

#[test]
fn a_connect_is_reported_where_it_was_called() {
    // A listener whose queue is full answers nobody.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let _queued = std::net::TcpStream::connect(address).unwrap();
    let connects = || assert!(Cancelled::caused(&TcpStream::connect(address).unwrap_err()));
    let report = Sim::new(1).run(connects).unwrap_err().to_string();
    assert!(report.contains("an answer to a connect at ") && report.contains("tests/simulated.rs"), "{report}");
}

/// Something that waits for the network, and the line that it begins in.
struct Row(u32, fn());

#[track_caller]
fn row(stuck: fn()) -> Row {
    Row(Location::caller().line(), stuck)
}

fn pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().unwrap()
}

#[test]
fn whatever_waits_for_the_network_is_reported_where_it_was_called() {
    /// More than there is room for.
    static MUCH: [u8; 1 << 23] = [0; 1 << 23];

    let table = [
        row(|| _ = listener().0.accept()),
        row(|| _ = listener().0.incoming().next()),
        row(|| {
            for stream in listener().0.incoming() {
                drop(stream);
            }
        }),
        row(|| _ = listener().0.readable_source().wait()),
        row(|| _ = pair().0.read(&mut [0])),
        row(|| _ = pair().0.peek(&mut [0])),
        row(|| _ = pair().0.read_exact(&mut [0])),
        row(|| _ = (&pair().0).read_exact(&mut [0])),
        row(|| _ = pair().0.write_all(&MUCH)),
        row(|| _ = (&pair().0).write_all(&MUCH)),
        row(|| {
            let (stream, _other) = pair();
            let (mut reads, mut writes) = stream.into_split();
            _ = writes.write_all(&MUCH).and_then(|()| reads.read_exact(&mut [0]));
        }),
        row(|| {
            let (stream, _other) = pair();
            let (mut reads, _writes) = stream.into_split();
            _ = reads.read_exact(&mut [0]);
        }),
        row(|| _ = UdpSocket::bind("127.0.0.1:0").unwrap().recv_from(&mut [0])),
        row(|| {
            let (mut reader, _writer) = pipe().unwrap();
            _ = reader.read_exact(&mut [0]);
        }),
        row(|| {
            let (_reader, mut writer) = pipe().unwrap();
            _ = writer.write_all(&MUCH);
        }),
    ];
    let ends = table.iter().skip(1).map(|row| row.0).chain([u32::MAX]);
    for (Row(line, stuck), end) in table.iter().zip(ends) {
        let deadlock = Sim::new(1).run(stuck).unwrap_err();
        let at = deadlock.fibers[0].waits_for.unwrap().at;
        assert!(at.file() == file!() && (*line..end).contains(&at.line()), "line {line}: {deadlock}");
    }
}

#[test]
fn only_the_fiber_that_waits_for_the_network_is_said_to() {
    let deadlock = Sim::new(1).run(|| {
        let (listener, address) = listener();
        // It has waited for the network before, and then waits for somebody else.
        let (told, tell) = mpsc::channel();
        let client = thread::spawn(move || {
            tell.recv().unwrap();
            drop(std::net::TcpStream::connect(address).unwrap());
        });
        let accepted = segue_core::outside_work();
        told.send(()).unwrap();
        listener.accept().unwrap();
        client.join().unwrap();
        drop(accepted);
        let nobody = segue_core::WaitQueue::<()>::new(());
        let _ = nobody.wait(segue_core::WaitsFor::new("nobody"), |()| false, |()| ());
    });
    let deadlock = deadlock.unwrap_err();
    assert!(!deadlock.fibers[0].network, "{deadlock}");
    assert!(!deadlock.to_string().contains("network"), "{deadlock}");
}

#[test]
fn an_open_simulation_gives_the_network_the_time_that_a_time_out_allows() {
    guarded("an open simulation", || {
        for seed in 0..10 {
            let run = Sim::new(seed).open().run(|| {
                let (listener, address) = listener();
                let (told, tell) = mpsc::channel();
                let client = thread::spawn(move || {
                    tell.recv().unwrap();
                    let mut client = std::net::TcpStream::connect(address).unwrap();
                    client.write_all(b"x").unwrap();
                });
                // Only once the accept below has waited.
                let teller = spawn(move || told.send(()).unwrap());
                let (mut stream, _) = timeout(Duration::from_secs(50), || listener.accept()).unwrap();
                let got = timeout(Duration::from_secs(50), || stream.read(&mut [0; 2]));
                teller.join().unwrap();
                client.join().unwrap();
                // Nobody waits for the network any more: the clock jumps.
                let before = now();
                sleep(Duration::from_secs(86_400)).unwrap();
                (got.unwrap(), now() - before)
            });
            assert_eq!(run, Ok((1, Duration::from_secs(86_400))));
        }
    });
}

#[test]
fn in_an_open_simulation_a_time_out_around_a_read_passes_in_real_time() {
    guarded("a time-out", || {
        let run = Sim::new(1).open().run(|| {
            let (listener, address) = listener();
            scope(|s| {
                let client = s.spawn(move || TcpStream::connect(address).unwrap());
                let (mut stream, _) = listener.accept().unwrap();
                let _client = client.join().unwrap();
                let (real, simulated) = (std::time::Instant::now(), now());
                let read = timeout(Duration::from_millis(20), || stream.read(&mut [0]));
                assert!(read.is_err());
                (real.elapsed() >= Duration::from_millis(20), now() - simulated)
            })
        });
        assert_eq!(run, Ok((true, Duration::from_millis(20))));
    });
}
