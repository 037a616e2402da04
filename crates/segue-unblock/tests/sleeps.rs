//! Sleeps in the scope, on the clock of the scheduler; and names, which are looked up elsewhere.
#![allow(unsafe_code)] // Calls of the C library.

mod common;

use common::{errno, everywhere, unblock};
use segue_core::{CancelToken, Cancelled, now, scope, timeout, yield_now};
use segue_sched::Sim;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn a_sleep_of_std_takes_the_simulators_time() {
    let real = Instant::now();
    Sim::new(3)
        .run(|| {
            let begun = now();
            scope(|s| {
                for n in 1..=10 {
                    // It takes no time: the clock is a simulator's.
                    s.spawn(move || unblock(|| thread::sleep(Duration::from_secs(n * 3_600))));
                }
            });
            assert_eq!(now() - begun, Duration::from_secs(36_000));
            // SAFETY: no memory is named.
            unblock(|| unsafe {
                assert_eq!(libc::sleep(5), 0);
                assert_eq!(libc::usleep(7_000_000), 0);
            });
            assert_eq!(now() - begun, Duration::from_secs(36_012));
        })
        .unwrap();
    assert!(real.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_time_out_of_a_socket_takes_the_simulators_time() {
    Sim::new(5)
        .run(|| {
            let (mut silent, _other) = UnixStream::pair().unwrap();
            silent.set_read_timeout(Some(Duration::from_secs(3_600))).unwrap();
            let begun = now();
            let error = unblock(|| silent.read(&mut [0])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            assert_eq!(now() - begun, Duration::from_secs(3_600));
            assert_eq!(unblock(|| poll_nothing(60_000)), 0);
            assert_eq!(now() - begun, Duration::from_secs(3_660));
        })
        .unwrap();
}

fn poll_nothing(millis: i32) -> i32 {
    // SAFETY: there are no entries.
    unsafe { libc::poll(ptr::null_mut(), 0, millis) }
}

#[test]
fn sleeps_of_all_kinds_share_the_worker() {
    everywhere(|| {
        let begun = now();
        scope(|s| {
            // A thread sleeps as the fiber does not.
            let sleepers = (0..200).map(|_| s.spawn(|| unblock(|| thread::sleep(Duration::from_millis(30)))));
            let sleepers: Vec<_> = sleepers.collect();
            s.spawn(|| {
                // SAFETY: the times are there.
                unblock(|| unsafe {
                    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
                    libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut at);
                    at.tv_sec += 3_600;
                    let cut = timeout(Duration::from_millis(5), || {
                        let absolute = libc::TIMER_ABSTIME;
                        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, absolute, &raw const at, ptr::null_mut())
                    });
                    assert_eq!(cut, 0);
                    let past = libc::timespec { tv_sec: 1, tv_nsec: 0 };
                    let (clock, absolute) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
                    assert_eq!(libc::clock_nanosleep(clock, absolute, &raw const past, ptr::null_mut()), 0);
                });
            });
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        });
        assert!(now() - begun < Duration::from_secs(5), "they slept one after the other");
    });
}

#[test]
fn a_cancelled_sleep_of_std_ends_early_and_the_next_call_says_why() {
    everywhere(|| {
        let token = CancelToken::new();
        scope(|s| {
            let sleeper = s.spawn(|| {
                token.run(|| {
                    unblock(|| {
                        // It is cancelled.
                        thread::sleep(Duration::from_secs(3_600));
                        TcpStream::connect("127.0.0.1:1").unwrap_err()
                    })
                })
            });
            (0..10).for_each(|_| yield_now().unwrap());
            token.cancel();
            assert!(Cancelled::caused(&sleeper.join().unwrap()));
        });
    });
}

/// It would have the worker for itself.
#[test]
fn a_loop_that_goes_on_after_it_was_cancelled_lets_others_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // It is cancelled.
    let nap = || thread::sleep(Duration::from_millis(1));
    let accept = || assert!(listener.accept().is_err());
    let calls: [&(dyn Fn() + Sync); 2] = [&nap, &accept];
    for call in calls {
        everywhere(|| {
            let (token, is_over) = (CancelToken::new(), AtomicBool::new(false));
            let looping = || (0..).take_while(|_| !is_over.load(Ordering::Relaxed)).for_each(|_| call());
            scope(|s| {
                let fiber = s.spawn(|| token.run(|| unblock(looping)));
                token.cancel();
                (0..10).for_each(|_| yield_now().unwrap());
                is_over.store(true, Ordering::Relaxed);
                fiber.join().unwrap();
            });
        });
    }
}

#[test]
fn a_time_that_is_none_is_refused_as_ever() {
    everywhere(|| {
        let wrong = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000_000 };
        let nanosleep = || {
            // SAFETY: the time is there.
            unsafe { (libc::nanosleep(&raw const wrong, ptr::null_mut()), errno()) }
        };
        let clock = || {
            // SAFETY: the time is there.
            unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const wrong, ptr::null_mut()) }
        };
        assert_eq!((nanosleep(), clock()), ((-1, libc::EINVAL), libc::EINVAL));
        assert_eq!(unblock(|| (nanosleep(), clock())), ((-1, libc::EINVAL), libc::EINVAL));
    });
}

#[test]
fn names_are_looked_up_on_another_thread() {
    everywhere(|| {
        let found: Vec<_> = unblock(|| ("localhost", 80).to_socket_addrs().unwrap().collect());
        assert!(!found.is_empty() && found.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
        let before = segue_unblock::waits();
        assert!(("localhost", 80).to_socket_addrs().unwrap().next().is_some());
        assert_eq!(segue_unblock::waits(), before, "outside of the scope it is looked up in place");
        assert!(unblock(|| "no.such.name.invalid:1".to_socket_addrs()).is_err());

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        unblock(|| TcpStream::connect(("localhost", port))).unwrap();

        let token = CancelToken::new();
        token.cancel();
        let error = token.run(|| unblock(|| ("localhost", 80).to_socket_addrs())).map(drop).unwrap_err();
        assert!(Cancelled::caused(&error), "{error:?}");
    });
}
