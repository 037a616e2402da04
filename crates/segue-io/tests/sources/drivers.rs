//! Drivers as parks, and sockets that outlive the driver in which they waited.
#![allow(unused_must_use, reason = "a scope waits for what it spawned, handle or not")]

use crate::common;

use common::{BACKENDS, enlist, guarded, is_ring, on_one_worker, on_two_workers, pair, until_watched};
use segue_core::scheduling::Park;
use segue_core::{WaitQueue, WaitsFor, scope};
use segue_io::DriverPark;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[test]
fn an_unpark_before_the_park_ends_it() {
    for backend in BACKENDS {
        guarded(backend, || {
            let mut park = DriverPark::with(backend).unwrap();
            let unparker = park.unparker();
            for _ in 0..100 {
                unparker.unpark();
                unparker.unpark();
                park.park(None);
            }
        });
    }
}

#[test]
fn an_unpark_during_the_park_ends_it() {
    const ROUNDS: usize = 2000;
    for backend in BACKENDS {
        guarded(backend, || {
            let mut park = DriverPark::with(backend).unwrap();
            let unparker = park.unparker();
            let (asked, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    for round in 1..=ROUNDS {
                        asked.store(round, Ordering::Relaxed);
                        unparker.unpark();
                        while done.load(Ordering::Relaxed) < round {
                            std::thread::yield_now();
                        }
                    }
                });
                // Parks for ever each time: a lost unpark, or one that does not carry the store
                // before it, hangs.
                for round in 1..=ROUNDS {
                    while asked.load(Ordering::Relaxed) < round {
                        park.park(None);
                    }
                    done.store(round, Ordering::Relaxed);
                }
            });
        });
    }
}

#[test]
fn a_park_ends_at_its_time_out_and_not_before() {
    for backend in BACKENDS {
        guarded(backend, || {
            let mut park = DriverPark::with(backend).unwrap();
            for time in [Duration::ZERO, Duration::from_micros(200), Duration::from_millis(12)] {
                let begun = Instant::now();
                // It may be early, by an event of its own; here there are none after the first.
                park.park(Some(Duration::ZERO));
                park.park(Some(time));
                assert!(begun.elapsed() >= time, "{time:?}");
            }
            park.poll();
            park.unparker().unpark();
            park.park(Some(Duration::MAX));
        });
    }
}

#[test]
fn a_stream_is_waited_for_on_another_worker_than_its_own() {
    for backend in BACKENDS {
        on_two_workers(backend, || {
            for _ in 0..50 {
                let (client, server) = pair();
                enlist(&server);
                enlist(&client);
                scope(|s| {
                    for _ in 0..4 {
                        s.spawn(|| (&server).read_exact(&mut [0; 10]).unwrap());
                        s.spawn(|| (&client).write_all(&[0; 10]).unwrap());
                    }
                });
            }
        });
    }
}

#[test]
fn a_plain_thread_waits_for_a_fibers_stream() {
    for backend in BACKENDS {
        on_one_worker(backend, || {
            let (client, server) = pair();
            enlist(&server);
            let turn = WaitQueue::<usize>::new(0);
            let set = |value| {
                let mut guard = turn.lock();
                *guard.state() = value;
                guard.notify_all(0);
            };
            let until = |value| turn.wait(WaitsFor::new("a turn"), |now| *now == value, |_| ()).unwrap();
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    for round in 0..100 {
                        assert_eq!((&server).read(&mut [0; 4]).unwrap(), 1);
                        set(round + 1);
                    }
                });
                for round in 0..100 {
                    (&client).write_all(b"x").unwrap();
                    until(round + 1);
                }
            });
        });
    }
}

#[test]
fn a_stream_outlives_the_driver_that_watched_it() {
    for backend in BACKENDS {
        let (mut client, mut server) = on_one_worker(backend, || {
            let (client, server) = pair();
            enlist(&server);
            enlist(&client);
            (client, server)
        });
        // On a plain thread, and then on another driver.
        guarded(backend, || {
            scope(|s| {
                s.spawn(|| client.write_all(b"x").unwrap());
                assert_eq!(server.read(&mut [0; 4]).unwrap(), 1);
            });
        });
        on_one_worker(backend, || {
            scope(|s| {
                s.spawn(|| assert_eq!(client.read(&mut [0; 4]).unwrap(), 1));
                server.write_all(b"x").unwrap();
            });
        });
    }
}

#[test]
fn who_waits_in_a_driver_that_ends_goes_on_in_another() {
    for backend in BACKENDS {
        for _ in 0..20 {
            let begun = AtomicUsize::new(0);
            let (client, server) = on_one_worker(backend, || {
                let (client, server) = pair();
                enlist(&server);
                (client, server)
            });
            drop((client, server));
            guarded(backend, || {
                std::thread::scope(|threads| {
                    let (client, server) = on_one_worker(backend, || {
                        let (client, server) = pair();
                        enlist(&server);
                        let reader = server.try_clone().unwrap();
                        let begun = &begun;
                        threads.spawn(move || {
                            begun.store(1, Ordering::Relaxed);
                            assert_eq!((&reader).read(&mut [0; 4]).unwrap(), 1);
                        });
                        while begun.load(Ordering::Relaxed) == 0 {
                            segue_core::yield_now().unwrap();
                        }
                        // A few more turns, in which it gets to wait in this worker's driver: or
                        // not, which must not matter.
                        for _ in 0..100 {
                            segue_core::yield_now().unwrap();
                        }
                        (client, server)
                    });
                    (&client).write_all(b"x").unwrap();
                    drop(server);
                });
            });
        }
    }
}

#[test]
fn a_stream_that_is_dropped_while_its_event_is_on_its_way_disturbs_nobody() {
    for backend in BACKENDS {
        on_two_workers(backend, || {
            let (witness, peer) = pair();
            scope(|s| {
                let reads = s.spawn(|| {
                    let mut count = 0;
                    while (&witness).read(&mut [0; 1]).unwrap() > 0 {
                        count += 1;
                    }
                    count
                });
                for _ in 0..300 {
                    let (client, server) = pair();
                    enlist(&server);
                    (&client).write_all(b"an event for somebody who has gone").unwrap();
                    drop(server);
                    // Another with the same descriptor, in the same slot of the table.
                    let (again, other) = pair();
                    s.spawn(move || assert_eq!((&other).read(&mut [0; 4]).unwrap(), 2));
                    (&again).write_all(b"ok").unwrap();
                    (&peer).write_all(b".").unwrap();
                }
                peer.shutdown(std::net::Shutdown::Write).unwrap();
                assert_eq!(reads.join().unwrap(), 300);
            });
        });
    }
}

#[test]
fn a_driver_wakes_a_worker_that_sleeps_for_ever() {
    for backend in BACKENDS {
        let (mut client, server) = pair();
        std::thread::scope(|threads| {
            threads.spawn(|| on_one_worker(backend, || (&server).read_exact(&mut [0; 3]).unwrap()));
            for _ in 0..3 {
                if is_ring(backend) {
                    // Nothing says that it flies; it does, before or after this.
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(5) {
                        std::thread::yield_now();
                    }
                } else {
                    until_watched(&server);
                }
                client.write_all(b"x").unwrap();
            }
        });
    }
}
