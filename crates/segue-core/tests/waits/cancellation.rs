//! What a cancellation reaches, what it leaves alone, and how those who are cancelled see it.
#![cfg(not(loom))]

use crate::common;

use common::{Host, Jobs, rounds, stagger, until};
use segue_core::{
    CancelToken, Cancelled, Trigger, WaitQueue, WaitsFor, check, is_cancelled, scope, shield, sleep, yield_now,
};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

type Gate = WaitQueue<bool>;

fn pass(gate: &Gate) -> Result<(), Cancelled> {
    gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ())
}

fn closed() -> Gate {
    WaitQueue::new(false)
}

#[test]
fn it_wakes_waiters_in_nested_scopes() {
    let gate = closed();
    let waits = |ended: &AtomicUsize| {
        assert!(pass(&gate).is_err());
        ended.fetch_add(1, Ordering::SeqCst);
    };
    let ended = AtomicUsize::new(0);
    scope(|outer| {
        let (started, count) = mpsc::channel();
        let (direct, nested, below) = (started.clone(), started.clone(), started);
        let (waits, ended) = (&waits, &ended);
        drop(outer.spawn(move || {
            direct.send(()).unwrap();
            waits(ended);
        }));
        drop(outer.spawn(move || {
            scope(|_| {
                nested.send(()).unwrap();
                waits(ended);
            })
        }));
        drop(outer.spawn(move || {
            scope(|s| {
                drop(s.spawn(|| {
                    scope(|_| {
                        below.send(()).unwrap();
                        waits(ended);
                    })
                }))
            })
        }));
        // All have started, and wait or are about to.
        (0..3).for_each(|_| count.recv().unwrap());
        outer.cancel();
    });
    assert_eq!(ended.into_inner(), 3);
    assert!(gate.lock().is_empty(0));
}

#[test]
fn it_does_not_reach_outwards_or_sideways() {
    scope(|outer| {
        let sibling = scope(|s| s.token());
        scope(|inner| {
            inner.cancel();
            assert!(is_cancelled() && !sibling.is_cancelled() && !outer.token().is_cancelled());
        });
        assert_eq!(check(), Ok(()));
        yield_now().unwrap();
    });
    assert!(!is_cancelled());
}

#[test]
fn a_scope_that_is_opened_in_a_cancelled_one_is_born_cancelled() {
    let ran = AtomicBool::new(false);
    scope(|outer| {
        outer.cancel();
        scope(|inner| {
            assert!(inner.token().is_cancelled());
            let child = inner.spawn(|| ran.store(true, Ordering::SeqCst));
            assert!(shield(|| child.join()).is_err(), "cancelled before it started");
            assert!(pass(&closed()).is_err());
        });
    });
    assert!(!ran.into_inner());
}

#[test]
fn it_is_sticky() {
    let (gate, open) = (closed(), WaitQueue::new(true));
    scope(|s| {
        s.cancel();
        s.cancel();
        for _ in 0..3 {
            assert!(pass(&gate).is_err());
            assert!(pass(&open).is_err(), "also if it would not have to wait");
            assert!(sleep(Duration::ZERO).is_err() && yield_now().is_err() && check().is_err());
        }
    });
    assert_eq!(pass(&open), Ok(()));
}

#[test]
fn what_never_waits_ignores_it() {
    let gate = closed();
    scope(|s| {
        s.cancel();
        let mut guard = gate.lock();
        *guard.state() = true;
        guard.notify_all(0);
        let trigger = Trigger::new();
        assert!(trigger.signal(0));
    });
    assert_eq!(pass(&gate), Ok(()));
}

#[test]
fn a_shield_holds_it_off_and_ends() {
    let (host, gate) = (Host::new(Jobs::Keep), closed());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|t| {
        let shielded = t.spawn(|| {
            host.run(0, |token| {
                sender.send(token).unwrap();
                let inside = shield(|| scope(|_| (pass(&gate), is_cancelled())));
                (inside, check())
            })
        });
        host.until_suspended(1);
        let token: CancelToken = receiver.recv().unwrap();
        token.cancel();
        assert_eq!(host.suspended(), 1);
        let mut guard = gate.lock();
        *guard.state() = true;
        guard.notify_all(0);
        let (inside, after) = shielded.join().unwrap();
        assert_eq!(inside, (Ok(()), false));
        assert!(after.is_err());
    });
}

#[test]
fn a_shield_ends_also_by_a_panic() {
    scope(|s| {
        s.cancel();
        let panicked = std::panic::catch_unwind(|| shield(|| std::panic::resume_unwind(Box::new(()))));
        assert!(panicked.is_err() && is_cancelled());
        assert!(shield(|| shield(|| !is_cancelled()) && !is_cancelled()));
    });
}

#[test]
fn a_token_outlives_its_scope() {
    let token = scope(|s| s.token());
    let other = token.clone();
    assert!(!token.is_cancelled());
    thread::spawn(move || other.cancel()).join().unwrap();
    assert!(token.is_cancelled() && !is_cancelled());
    scope(|s| assert!(!s.token().is_cancelled()));
}

#[test]
fn it_comes_before_during_or_after_the_wait() {
    let (mut cancelled, mut passed) = (0, 0);
    for round in 0..rounds(20_000) {
        let gate = closed();
        let ended = thread::scope(|t| {
            scope(|s| {
                let token = s.token();
                t.spawn(move || {
                    stagger(round);
                    token.cancel();
                });
                t.spawn(|| {
                    stagger(round / 5);
                    let mut guard = gate.lock();
                    *guard.state() = true;
                    guard.notify_all(0);
                });
                pass(&gate)
            })
        });
        if ended.is_ok() {
            passed += 1
        } else {
            cancelled += 1
        }
        assert!(gate.lock().is_empty(0));
        if passed > 20 && cancelled > 20 {
            return;
        }
    }
    assert!(passed > 0 && cancelled > 0, "passed {passed}, cancelled {cancelled}");
}

#[test]
fn a_tree_ten_thousand_deep_is_cancelled_without_recursion() {
    fn nest(depth: usize, gate: &Gate) -> Result<(), Cancelled> {
        if depth == 0 { pass(gate) } else { scope(|_| nest(depth - 1, gate)) }
    }
    let depth = if cfg!(miri) { 100 } else { 10_000 };
    let gate = closed();
    thread::scope(|t| {
        let (sender, receiver) = mpsc::channel();
        let gate = &gate;
        let deep = thread::Builder::new().stack_size(512 << 20).spawn_scoped(t, move || {
            scope(|s| {
                sender.send(s.token()).unwrap();
                nest(depth, gate)
            })
        });
        let token = receiver.recv().unwrap();
        until(|| !gate.lock().is_empty(0));
        // From a thread whose stack would not hold a recursion of that depth.
        let small = thread::Builder::new().stack_size(64 << 10);
        small.spawn_scoped(t, move || token.cancel()).unwrap().join().unwrap();
        assert!(deep.unwrap().join().unwrap().is_err());
    });
}

#[test]
fn a_scope_with_many_inside_is_cancelled_as_one() {
    let count = if cfg!(miri) { 4 } else { 60 };
    let (host, gate) = (Host::new(Jobs::Keep), closed());
    scope(|s| {
        thread::scope(|t| {
            let token = s.token();
            let (host, gate) = (&host, &gate);
            let children: Vec<_> = (0..count).map(|_| s.spawn(move || host.run(0, |_| pass(gate)))).collect();
            // These are fibers of a runtime of their own, which the scope does not own: they are
            // not reached.
            host.until_suspended(count);
            t.spawn(move || token.cancel()).join().unwrap();
            assert_eq!(host.suspended(), count);
            let mut guard = gate.lock();
            *guard.state() = true;
            guard.notify_all(0);
            shield(|| children.into_iter().for_each(|child| child.join().unwrap().unwrap()));
        });
    });
}

/// A reader whose bytes never come.
struct Silent<'a>(&'a Gate);

impl Read for Silent<'_> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        pass(self.0)?;
        Ok(0)
    }
}

#[test]
fn it_passes_through_io_errors_and_the_loops_of_std() {
    let error = io::Error::from(check_cancelled().unwrap_err());
    assert_eq!(error.kind(), io::ErrorKind::Other);
    assert_ne!(error.kind(), io::ErrorKind::Interrupted, "std's loops would retry it");
    assert!(Cancelled::caused(&error));
    assert_eq!(error.to_string(), "cancelled");
    assert!(!Cancelled::caused(&io::Error::other("cancelled")));
    assert!(!Cancelled::caused(&io::Error::from_raw_os_error(4)));

    let gate = closed();
    scope(|s| {
        s.cancel();
        let mut bytes = Vec::new();
        let errors = [
            Silent(&gate).read_to_end(&mut bytes).unwrap_err(),
            Silent(&gate).read_exact(&mut [0; 4]).unwrap_err(),
            BufReader::new(Silent(&gate)).read_line(&mut String::new()).unwrap_err(),
            io::copy(&mut Silent(&gate), &mut io::sink()).unwrap_err(),
        ];
        assert!(errors.iter().all(Cancelled::caused));
    });
}

fn check_cancelled() -> Result<(), Cancelled> {
    scope(|s| {
        s.cancel();
        check()
    })
}
