//! Structures are used in destructors of thread-locals, at the end of threads and of the process.
#![cfg(not(loom))]

mod common;

use common::until;
use segue_conformance::this_program;
use segue_core::{WaitQueue, WaitsFor, check, is_cancelled, now, scope, spawn};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

struct AtExit(Box<dyn FnOnce()>);

impl Drop for AtExit {
    fn drop(&mut self) {
        std::mem::replace(&mut self.0, Box::new(|| ()))();
    }
}

thread_local! {
    static AT_EXIT: RefCell<Vec<AtExit>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` when the calling thread's thread-locals are destroyed.
fn at_exit(f: impl FnOnce() + 'static) {
    AT_EXIT.with_borrow_mut(|all| all.push(AtExit(Box::new(f))));
}

/// Everything that can wait, once.
fn use_everything() {
    let queue: &'static WaitQueue<(), u8> = Box::leak(Box::new(WaitQueue::new(())));
    let giver = spawn(|| {
        until(|| !queue.lock().is_empty(0));
        queue.lock().hand_over(0, 7).unwrap();
    });
    assert_eq!(queue.wait(WaitsFor::new("a value"), |()| false, |()| 0), Ok(7));
    giver.join().unwrap();
    let mut sum = [0, 0];
    scope(|s| sum.iter_mut().for_each(|n| drop(s.spawn(|| *n = 1))));
    assert_eq!(sum, [1, 1]);
    let past = Instant::now().checked_sub(Duration::from_millis(1));
    assert!(queue.wait_until(past, WaitsFor::new("a value"), |()| false, |()| 0).is_err());
    assert!(now() > past.unwrap());
    check().unwrap();
}

#[test]
fn a_destructor_of_a_thread_local_of_a_plain_thread_may_wait() {
    static DONE: AtomicUsize = AtomicUsize::new(0);
    let exits = || {
        at_exit(|| {
            use_everything();
            DONE.fetch_add(1, Ordering::SeqCst);
        })
    };
    thread::spawn(exits).join().unwrap();
    assert_eq!(DONE.load(Ordering::SeqCst), 1);
}

#[test]
fn a_destructor_of_a_thread_local_of_a_spawned_one_may_wait() {
    static DONE: AtomicUsize = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..4 {
            let _ = s.spawn(|| {
                at_exit(|| {
                    use_everything();
                    DONE.fetch_add(1, Ordering::SeqCst);
                })
            });
        }
    });
    until(|| DONE.load(Ordering::SeqCst) == 4);
}

/// The scope may be gone when the thread ends, so the thread must not be inside of it any more.
#[test]
fn a_destructor_of_a_thread_local_is_outside_of_the_scope_that_the_thread_was_spawned_in() {
    static SEEN: AtomicUsize = AtomicUsize::new(usize::MAX);
    let token = scope(|s| {
        let child = s.spawn(|| at_exit(|| SEEN.store(usize::from(is_cancelled()), Ordering::SeqCst)));
        child.join().unwrap();
        s.cancel();
        s.token()
    });
    until(|| SEEN.load(Ordering::SeqCst) != usize::MAX);
    assert_eq!(SEEN.load(Ordering::SeqCst), 0, "it looked into the context of a scope that has ended");
    assert!(token.is_cancelled());
}

#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn the_process_may_end_while_everything_is_in_use() {
    let name = "ends_with_threads_that_wait";
    let status = this_program().args(["--exact", name, "--ignored", "--test-threads=1"]).status().unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "the process of the test above"]
fn ends_with_threads_that_wait() {
    let queue: &'static WaitQueue<()> = Box::leak(Box::new(WaitQueue::new(())));
    for _ in 0..4 {
        drop(spawn(|| queue.wait(WaitsFor::new("nothing"), |()| false, |()| ())));
        drop(spawn(|| segue_core::sleep(Duration::from_secs(1_000_000))));
    }
    until(|| !queue.lock().is_empty(0));
    at_exit(use_everything);
}

/// Timers of plain threads may be needed for the first time where no thread can be started: that is
/// a panic, and leaves no waiter behind.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn timers_that_can_not_be_started_leave_the_queue_as_it_was() {
    let status = this_program()
        .args(["--exact", "waits_where_no_thread_can_be_started", "--ignored", "--test-threads=1"])
        .env("RUST_MIN_STACK", (1_u64 << 50).to_string())
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
#[ignore = "the process of the test above"]
fn waits_where_no_thread_can_be_started() {
    let queue: WaitQueue<(), u8> = WaitQueue::new(());
    for deadline in [Instant::now() + Duration::from_secs(1_000), Instant::now()] {
        let waits = || queue.wait_until(Some(deadline), WaitsFor::new("nothing"), |()| false, |()| 0);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(waits));
        assert!(ended.is_err() || std::env::var_os("RUST_MIN_STACK").is_none());
        assert!(queue.lock().is_empty(0), "a waiter that is gone stands in the queue");
    }
    assert!(spawn(|| 1).join().is_err(), "a closure that can't be started is reported");
}
