//! Sends that fly, that go at once, and that change between the two: none loses, doubles or
//! reorders a byte, and each way is reached. Part of `lib.rs`: the tests look into the ring from
//! above the streams.

use crate::DriverPark;
use crate::net::{TcpListener, TcpStream, UnixStream};
use crate::ring::{Rule, Way, here};
use segue_core::{Cancelled, scope, timeout, yield_now};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const RULES: [Rule; 4] = [Rule::Auto, Rule::Always(Way::Fly), Rule::Always(Way::Now), Rule::Turns];

/// Runs a test on one worker with this rule. Answers how many sends have flown, and how many went
/// at once.
fn under(rule: Rule, test: impl FnOnce()) -> (u64, u64) {
    let runtime = segue_sched::Runtime::new().workers(1).park(move || DriverPark::sending(rule));
    let counted = runtime.run(|| {
        test();
        here().map(|ring| ring.sends().went())
    });
    counted.unwrap().unwrap_or_else(|| {
        eprintln!("no rings can be had here: nothing is counted");
        match rule {
            Rule::Always(Way::Fly) => (1, 0),
            _ => (1, 1),
        }
    })
}

/// Looks whether the ways that a rule allows were reached. Sends without room fly under each rule.
fn check(rule: Rule, (flown, at_once): (u64, u64)) {
    assert!(flown > 0, "{rule:?}: none has flown, {at_once} went at once");
    assert_eq!(at_once > 0, rule != Rule::Always(Way::Fly), "{rule:?}: {flown} have flown, {at_once} went at once");
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

/// As little room as the kernel makes.
fn make_small(socket: &impl AsFd) {
    socket2::SockRef::from(socket).set_send_buffer_size(1).unwrap();
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// The byte at this place in a stream: not the one of any place nearby.
fn byte_at(place: usize) -> u8 {
    (place ^ (place >> 8).wrapping_mul(31) ^ (place >> 16)) as u8
}

fn bytes_from(place: usize, count: usize) -> Vec<u8> {
    (place..place + count).map(byte_at).collect()
}

/// Reads up to the end, and looks at each byte. Answers how many there were.
fn read_all(mut from: impl Read, random: &mut Random) -> usize {
    let mut buffer = vec![0; 50_000];
    let mut read = 0;
    loop {
        for _ in 0..random.below(3) {
            yield_now().unwrap();
        }
        let room = 1 + random.below(buffer.len() - 1);
        match from.read(&mut buffer[..room]).unwrap() {
            0 => return read,
            count => {
                let wrong = buffer[..count].iter().zip(read..).find(|(byte, place)| **byte != byte_at(*place));
                assert_eq!(wrong, None, "a byte was lost, doubled or out of order");
                read += count;
            }
        }
    }
}

/// Writes so many bytes in pieces of all sizes, some of them from two slices.
fn write_pieces(mut to: impl Write, total: usize, largest: usize, random: &mut Random) {
    let mut written = 0;
    while written < total {
        let piece = bytes_from(written, (1 + random.below(largest)).min(total - written));
        written += match random.below(3) {
            0 => {
                let (first, second) = piece.split_at(random.below(piece.len() + 1));
                to.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]).unwrap()
            }
            1 => to.write(&piece).unwrap(),
            _ => {
                to.write_all(&piece).unwrap();
                piece.len()
            }
        };
    }
}

#[test]
fn a_stream_of_sends_arrives_byte_for_byte_by_either_way_and_by_both() {
    for rule in RULES {
        let went = under(rule, || {
            for (total, largest, small) in [(300_000, 40, false), (3_000_000, 300_000, false), (60_000, 9_000, true)] {
                let (client, server) = connection();
                if small {
                    make_small(&client);
                }
                scope(|s| {
                    let reader = s.spawn(|| read_all(&server, &mut Random(3)));
                    write_pieces(&client, total, largest, &mut Random(total as u64));
                    client.shutdown(Shutdown::Write).unwrap();
                    assert_eq!(reader.join().unwrap(), total, "{rule:?}: bytes were lost");
                });
            }
            let (client, server) = UnixStream::pair().unwrap();
            make_small(&client);
            scope(|s| {
                let reader = s.spawn(|| read_all(&server, &mut Random(4)));
                write_pieces(&client, 1_000_000, 20_000, &mut Random(6));
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(reader.join().unwrap(), 1_000_000, "{rule:?}: bytes were lost");
            });
        });
        check(rule, went);
    }
}

/// The writer is cancelled after each number of turns, from none on: before its first send, between
/// sends, and in a flight that has no room. What a send has said to be written is what arrives.
#[test]
fn a_writer_that_is_cancelled_at_any_point_says_what_has_gone_out() {
    for rule in RULES {
        let went = under(rule, || {
            let (client, server) = UnixStream::pair().unwrap();
            make_small(&client);
            let mut written = 0;
            scope(|s| {
                let reader = s.spawn(|| read_all(&server, &mut Random(8)));
                let mut random = Random(11);
                for turns in 0..60 {
                    scope(|s| {
                        let writer = s.spawn(|| {
                            loop {
                                let piece = bytes_from(written, 1 + random.below(30_000));
                                let (first, second) = piece.split_at(piece.len() / 2);
                                let slices = [IoSlice::new(first), IoSlice::new(second)];
                                let sent = match turns % 2 {
                                    0 => (&client).write(&piece),
                                    _ => (&client).write_vectored(&slices),
                                };
                                match sent {
                                    Ok(count) => written += count,
                                    Err(error) => return error,
                                }
                            }
                        });
                        for _ in 0..turns {
                            yield_now().unwrap();
                        }
                        s.cancel();
                        // A writer that had no turn has not begun.
                        assert!(writer.join().map_or(turns < 3, |error| Cancelled::caused(&error)));
                    });
                }
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(reader.join().unwrap(), written, "{rule:?}: bytes were lost, or came unsaid");
            });
        });
        check(rule, went);
    }
}

#[test]
fn a_send_with_a_time_limit_that_finds_no_room_moves_nothing() {
    for rule in RULES {
        let went = under(rule, || {
            let (client, server) = connection();
            client.set_write_timeout(Some(Duration::from_millis(5))).unwrap();
            let mut written = 0;
            let error = loop {
                match (&client).write(&bytes_from(written, 100_000)) {
                    Ok(count) => written += count,
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            match timeout(Duration::from_millis(5), || (&client).write(&bytes_from(written, 10))) {
                // The kernel has found some room meanwhile.
                Ok(count) => written += count,
                Err(late) => assert!(late.kind() == ErrorKind::TimedOut || Cancelled::caused(&late), "{late}"),
            }
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_all(&server, &mut Random(2)), written);
        });
        assert_eq!(went.1 > 0, rule != Rule::Always(Way::Fly));
    }
}

#[test]
fn a_send_to_a_peer_that_has_gone_is_a_broken_pipe_by_either_way() {
    for rule in RULES {
        under(rule, || {
            let (near, far) = UnixStream::pair().unwrap();
            drop(far);
            for _ in 0..4 {
                assert_eq!((&near).write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
                let slices = [IoSlice::new(b"x"), IoSlice::new(b"y")];
                assert_eq!((&near).write_vectored(&slices).unwrap_err().kind(), ErrorKind::BrokenPipe);
            }
        });
    }
}

#[test]
fn two_writers_of_one_stream_lose_nothing() {
    for rule in RULES {
        let went = under(rule, || {
            let (client, server) = UnixStream::pair().unwrap();
            make_small(&client);
            scope(|s| {
                let reader = s.spawn(|| {
                    let mut all = Vec::new();
                    (&server).read_to_end(&mut all).unwrap();
                    all
                });
                let writers = [b'a', b'b'].map(|byte| {
                    let client = &client;
                    s.spawn(move || {
                        let mut to = client;
                        (0..500_usize).for_each(|many| to.write_all(&vec![byte; 1 + many]).unwrap());
                    })
                });
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                client.shutdown(Shutdown::Write).unwrap();
                let all = reader.join().unwrap();
                let count = |byte| all.iter().filter(|one| **one == byte).count();
                assert_eq!((count(b'a'), count(b'b'), all.len()), (125_250, 125_250, 250_500));
            });
        });
        check(rule, went);
    }
}

/// Enough messages for several comparisons.
#[test]
fn a_worker_that_measures_tries_both_ways() {
    let (flown, at_once) = under(Rule::Auto, || {
        scope(|s| {
            for _ in 0..8 {
                let (client, server) = connection();
                s.spawn(move || io::copy(&mut &server, &mut &server).map(drop).unwrap());
                s.spawn(move || {
                    let mut got = [0; 100];
                    for number in 0..2_000 {
                        let message = bytes_from(number, 100);
                        (&client).write_all(&message).unwrap();
                        (&client).read_exact(&mut got).unwrap();
                        assert_eq!(&got[..], message);
                    }
                });
            }
        });
    });
    assert!(flown >= 1_000 && at_once >= 1_000, "{flown} have flown, {at_once} went at once");
}

/// A fiber that sends without end, and never has to wait, gives others their turns.
#[test]
fn a_fiber_whose_sends_go_at_once_does_not_keep_the_worker() {
    under(Rule::Always(Way::Now), || {
        let turns = AtomicUsize::new(0);
        scope(|s| {
            let (client, server) = connection();
            // Another process's share: its reads need no turn of this worker.
            let drains = std::thread::spawn(move || {
                let server: std::net::TcpStream = server.into_std().unwrap();
                server.set_nonblocking(false).unwrap();
                io::copy(&mut &server, &mut io::sink()).unwrap()
            });
            s.spawn_daemon(|| {
                while yield_now().is_ok() {
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
            let piece = vec![b'x'; 16 * 1024];
            for _ in 0..640 {
                (&client).write_all(&piece).unwrap();
            }
            let turns = turns.load(Ordering::Relaxed);
            assert!(turns >= 20, "{turns} turns in ten megabytes");
            client.shutdown(Shutdown::Write).unwrap();
            segue_core::blocking(|| drains.join().unwrap()).unwrap();
        });
    });
}
