//! Ops that fly in a worker's ring: that they do, that the kernel's and the fiber's ideas of a
//! buffer agree, and that nothing is left when a flight is cut short.
#![cfg(linux)]
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

mod common;

use common::{guarded, on_one_worker, pair};
use segue_core::{Cancelled, scope, shield, sleep, timeout, yield_now};
use segue_io::net::{TcpListener, TcpStream};
use segue_io::{Backend, DriverPark};
use segue_sched::{Fifo, Runtime};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const RINGS: [Backend; 3] = [Backend::Ring, Backend::RingOf(2), Backend::RingOf(16)];

/// Whether this is a machine on which rings can be had at all.
fn has_rings() -> bool {
    on_one_worker(Backend::Ring, || {
        let (mut client, mut server) = pair();
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        let fds = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|to| to.to_string_lossy().contains("io_uring"))
    })
}

fn in_epoll(fd: i32) -> bool {
    let infos = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    infos.filter_map(|info| std::fs::read_to_string(info.path()).ok()).any(|info| {
        info.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("tfd:") && words.next() == Some(&fd.to_string())
        })
    })
}

#[test]
fn reads_and_writes_of_a_workers_fiber_fly_and_a_plain_threads_do_not() {
    if !has_rings() {
        return eprintln!("no rings can be had here: nothing is tested");
    }
    on_one_worker(Backend::Ring, || {
        let (client, server) = pair();
        scope(|s| {
            s.spawn(|| (&server).read_exact(&mut [0; 4]).unwrap());
            for _ in 0..10 {
                yield_now().unwrap();
            }
            (&client).write_all(b"four").unwrap();
        });
        assert!(!in_epoll(server.as_raw_fd()) && !in_epoll(client.as_raw_fd()), "a fiber's op went by readiness");
        std::thread::scope(|threads| {
            let reads = threads.spawn(|| (&server).read_exact(&mut [0; 4]).unwrap());
            let begun = Instant::now();
            while !in_epoll(server.as_raw_fd()) && begun.elapsed() < Duration::from_secs(30) {
                std::thread::yield_now();
            }
            assert!(in_epoll(server.as_raw_fd()), "a plain thread's op did not go by readiness");
            (&client).write_all(b"four").unwrap();
            shield(|| segue_core::blocking(|| reads.join().unwrap()).unwrap());
        });
    });
}

/// Small numbers without a pattern that a test could fall in step with.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A buffer between two canaries.
struct Guarded(Vec<u8>);

const CANARY: u8 = 0xC5;
const MARGIN: usize = 64;

impl Guarded {
    fn new(length: usize) -> Self {
        Self(vec![CANARY; length + 2 * MARGIN])
    }

    fn buffer(&mut self) -> &mut [u8] {
        let end = self.0.len() - MARGIN;
        &mut self.0[MARGIN..end]
    }

    /// Nothing was written beside the buffer, nor in it beyond what was said to be.
    fn check(&self, filled: usize) {
        let (before, rest) = self.0.split_at(MARGIN);
        assert!(before.iter().all(|byte| *byte == CANARY), "the kernel wrote before the buffer");
        assert!(rest[filled..].iter().all(|byte| *byte == CANARY), "the kernel wrote more than it said");
    }
}

#[test]
fn reads_that_are_cut_short_at_any_moment_lose_no_byte_and_write_none_after_their_return() {
    for backend in RINGS {
        let (timed_out, got, empty) = on_one_worker(backend, || {
            let (client, server) = pair();
            let total = 40_000_u32;
            scope(|s| {
                s.spawn(|| {
                    let mut random = Random(7);
                    let mut next = 0_u32;
                    while next < total {
                        let many = (1 + random.below(40)).min(u64::from(total - next));
                        let bytes: Vec<u8> = (0..many).map(|i| ((u64::from(next) + i) % 199) as u8).collect();
                        (&client).write_all(&bytes).unwrap();
                        next += many as u32;
                        if random.below(3) == 0 {
                            sleep(Duration::from_micros(random.below(40))).unwrap();
                        }
                    }
                    client.shutdown(Shutdown::Write).unwrap();
                });
                let mut random = Random(99);
                let (mut timed_out, mut got, mut empty, mut read) = (0, 0, 0, 0_u32);
                loop {
                    // A buffer of its own for each read: what the kernel still had would show.
                    let mut guarded = Guarded::new(1 + random.below(64) as usize);
                    let limit = Duration::from_micros(random.below(30));
                    let buffer = guarded.buffer();
                    let result = match random.below(3) {
                        0 => timeout(limit, || (&server).read(buffer)),
                        1 => {
                            server.set_read_timeout(Some(limit.max(Duration::from_nanos(1)))).unwrap();
                            let result = (&server).read(buffer);
                            server.set_read_timeout(None).unwrap();
                            result
                        }
                        _ => {
                            let (first, second) = buffer.split_at_mut(buffer.len() / 2);
                            timeout(limit, || {
                                (&server).read_vectored(&mut [IoSliceMut::new(first), IoSliceMut::new(second)])
                            })
                        }
                    };
                    match result {
                        Ok(0) => break,
                        Ok(count) => {
                            for byte in &guarded.buffer()[..count] {
                                assert_eq!(*byte, (read % 199) as u8, "a byte was lost or doubled at {read}");
                                read += 1;
                            }
                            guarded.check(count);
                            got += 1;
                        }
                        Err(error) if error.kind() == ErrorKind::TimedOut => {
                            // Let a completion that comes too late show itself.
                            yield_now().unwrap();
                            guarded.check(0);
                            timed_out += 1;
                        }
                        Err(error) if Cancelled::caused(&error) => {
                            yield_now().unwrap();
                            guarded.check(0);
                            empty += 1;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                assert_eq!(read, total, "bytes were lost");
                (timed_out, got, empty)
            })
        });
        assert!(
            timed_out + empty > 20 && got > 100,
            "{backend:?}: {timed_out} + {empty} cut short, {got} read: too few"
        );
    }
}

#[test]
fn writes_that_are_cut_short_say_what_went_out() {
    for backend in RINGS {
        let cut = on_one_worker(backend, || {
            let (client, server) = pair();
            scope(|s| {
                let reader = s.spawn(|| {
                    let mut random = Random(3);
                    let mut buffer = vec![0; 10_000];
                    let (mut read, mut sum) = (0_u64, 0_u64);
                    loop {
                        if random.below(4) == 0 {
                            sleep(Duration::from_micros(random.below(300))).unwrap();
                        }
                        let room = 1 + random.below(9_999) as usize;
                        match (&server).read(&mut buffer[..room]).unwrap() {
                            0 => return (read, sum),
                            count => {
                                read += count as u64;
                                sum += buffer[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>();
                            }
                        }
                    }
                });
                let mut random = Random(5);
                let (mut written, mut sum, mut cut) = (0_u64, 0_u64, 0);
                let bytes: Vec<u8> = (0..300_000).map(|i| (i % 251) as u8).collect();
                while cut < 30 || written < 3_000_000 {
                    let part = &bytes[..1 + random.below(299_999) as usize];
                    let limit = Duration::from_micros(random.below(60));
                    let slices = part.split_at(part.len() / 2);
                    let result = if random.below(2) == 0 {
                        timeout(limit, || (&client).write(part))
                    } else {
                        timeout(limit, || (&client).write_vectored(&[IoSlice::new(slices.0), IoSlice::new(slices.1)]))
                    };
                    match result {
                        Ok(count) => {
                            written += count as u64;
                            sum += part[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>();
                        }
                        Err(_) => cut += 1,
                    }
                }
                client.shutdown(Shutdown::Write).unwrap();
                assert_eq!(reader.join().unwrap(), (written, sum), "what was said to be written is not what was read");
                cut
            })
        });
        assert!(cut >= 30);
    }
}

#[test]
fn a_run_that_ends_with_a_thousand_ops_in_flight_ends_them_all() {
    for backend in RINGS {
        let begun = Instant::now();
        on_one_worker(backend, || {
            let pairs: Vec<_> = (0..500).map(|_| pair()).collect();
            scope(|s| {
                for (client, server) in &pairs {
                    s.spawn(|| assert!(Cancelled::caused(&(&*server).read(&mut [0; 16]).unwrap_err())));
                    s.spawn(|| assert!(Cancelled::caused(&(&*client).read(&mut [0; 16]).unwrap_err())));
                }
                for _ in 0..5 {
                    yield_now().unwrap();
                }
                s.cancel();
            });
        });
        assert!(begun.elapsed() < Duration::from_secs(20), "{backend:?}");
    }
}

#[test]
fn more_completions_than_the_ring_has_room_for_all_arrive() {
    on_one_worker(Backend::RingOf(2), || {
        let pairs: Vec<_> = (0..400).map(|_| pair()).collect();
        scope(|s| {
            for (index, (_, server)) in pairs.iter().enumerate() {
                s.spawn(move || {
                    for round in 0..5_u8 {
                        let mut bytes = [0; 2];
                        (&*server).read_exact(&mut bytes).unwrap();
                        assert_eq!(bytes, [round, index as u8]);
                    }
                });
            }
            s.spawn(|| {
                for round in 0..5 {
                    // All at once, by system calls that do not go through the ring.
                    let write = || {
                        pairs.iter().enumerate().for_each(|(index, (client, _))| {
                            let client = client.try_clone().unwrap().into_std().unwrap();
                            (&client).write_all(&[round, index as u8]).unwrap();
                        })
                    };
                    segue_core::blocking(write).unwrap();
                }
            });
        });
    });
}

/// The resident memory of this process, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn ten_thousand_connects_that_are_cancelled_leave_descriptors_and_memory_flat() {
    let rounds = if cfg!(debug_assertions) { 2_000 } else { 10_000 };
    guarded("connects", || {
        Runtime::new()
            .workers(1)
            .park(|| DriverPark::with(Backend::Ring))
            .run_with(Fifo::default, || {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let addr = listener.local_addr().unwrap();
                let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
                let (mut random, mut connected, mut cut) = (Random(11), 0, 0);
                let mut at_rest = None;
                for round in 0..rounds {
                    scope(|s| {
                        let connects = s.spawn(|| TcpStream::connect(addr).is_ok());
                        let accepts = s.spawn(|| listener.accept().is_ok());
                        for _ in 0..random.below(60) {
                            yield_now().unwrap();
                        }
                        s.cancel();
                        let done = shield(|| (connects.join(), accepts.join()));
                        if matches!(done.0, Ok(true)) { connected += 1 } else { cut += 1 }
                    });
                    // What a connect that was cut short left in the listener's queue.
                    while timeout(Duration::ZERO, || listener.accept()).is_ok() {}
                    if round == rounds / 4 {
                        at_rest = Some((open(), resident()));
                    }
                }
                let (files, memory) = at_rest.unwrap();
                // Other tests of this process come and go.
                assert!(open() < files + 2_500, "descriptors: {} after {files}", open());
                assert!(resident() < memory + 64 * 1024, "KiB of memory: {} after {memory}", resident());
                assert!(connected > 0 && cut > 0, "{connected} connected, {cut} cut: only one outcome was reached");
            })
            .unwrap();
    });
}

#[test]
fn a_drop_that_reads_and_writes_while_its_fiber_panics_gets_errors_or_results_but_never_waits() {
    struct Farewell<'a>(&'a TcpStream, &'a TcpStream);
    impl Drop for Farewell<'_> {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            let mut stream = self.0;
            assert_eq!(stream.write(b"bye").unwrap(), 3, "there is room");
            assert!(stream.read(&mut [0; 8]).is_err(), "there is nothing to read, and it must not wait");
            assert_eq!((&*self.1).read(&mut [0; 8]).unwrap(), 3, "what is there can be read");
        }
    }
    for backend in RINGS {
        on_one_worker(backend, || {
            let (client, server) = pair();
            let panics = || {
                let _farewell = Farewell(&client, &server);
                panic!("on purpose");
            };
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
            assert!(panicked.is_err());
        });
    }
}

#[test]
fn two_readers_with_limits_of_their_own_end_at_their_times() {
    for backend in RINGS {
        on_one_worker(backend, || {
            let (_client, server) = pair();
            let begun = Instant::now();
            scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        server.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
                        assert_eq!((&server).read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
                        assert!(begun.elapsed() >= Duration::from_millis(5));
                    });
                }
            });
        });
    }
}

#[test]
fn more_reports_than_a_look_takes_are_all_found_while_an_op_flies() {
    for backend in [Backend::Ring, Backend::Native] {
        on_one_worker(backend, || {
            let (near, far) = pair();
            // Watched by the worker's reactor, and waited for by nobody any more.
            let quiet: Vec<_> = (0..600).map(|_| pair()).collect();
            for (_, server) in &quiet {
                server.set_read_timeout(Some(Duration::from_nanos(1))).unwrap();
                server.peek(&mut [0]).unwrap_err();
                server.set_read_timeout(None).unwrap();
            }
            let sources: Vec<_> =
                quiet.iter().map(|(client, _)| client.try_clone().unwrap().into_std().unwrap()).collect();
            scope(|s| {
                s.spawn(|| (&far).read_exact(&mut [0; 3]).unwrap());
                let waiter = s.spawn(|| quiet[599].1.peek(&mut [0]).unwrap());
                for _ in 0..400 {
                    yield_now().unwrap();
                }
                // All at once, before the worker looks.
                sources.iter().for_each(|mut client| client.write_all(b"x").unwrap());
                assert_eq!(waiter.join().unwrap(), 1);
                (&near).write_all(b"end").unwrap();
            });
        });
    }
}

#[test]
fn a_scheduler_whose_worker_sleeps_elsewhere_does_not_use_the_ring_around_it() {
    on_one_worker(Backend::Ring, || {
        let (_client, server) = pair();
        let limit = Duration::from_millis(5);
        segue_sched::blocking_here(|| {
            Runtime::new()
                .workers(1)
                .run(|| {
                    server.set_read_timeout(Some(limit)).unwrap();
                    assert_eq!((&server).read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
                    server.set_read_timeout(None).unwrap();
                    timeout(limit, || (&server).read(&mut [0; 4])).unwrap_err();
                })
                .unwrap();
        });
    });
}
