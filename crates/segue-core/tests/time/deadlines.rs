//! A wait with a deadline ends with the value, the time-out or the cancellation, and takes or
//! leaves everything accordingly.

use crate::common;

use common::{Host, Jobs, counted, rounds, stagger, until};
use segue_core::{Ended, WaitQueue, WaitsFor, now, scope};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const MILLISECOND: Duration = Duration::from_millis(1);

type Queue<T> = WaitQueue<Vec<T>, T>;

fn receive<T>(queue: &Queue<T>, deadline: Option<Instant>) -> Result<T, Ended> {
    queue.wait_until(deadline, WaitsFor::new("a test"), |kept| !kept.is_empty(), |kept| kept.remove(0))
}

fn in_one(host: &Host) -> Option<Instant> {
    Some(host.timers().now() + MILLISECOND)
}

#[test]
fn a_value_in_time_leaves_no_timer() {
    let (host, queue) = (Host::new(Jobs::Keep), Queue::new(Vec::new()));
    thread::scope(|t| {
        let waiter = t.spawn(|| host.run(0, |_| receive(&queue, in_one(&host))));
        host.until_suspended(1);
        assert_eq!(host.timers().until_next(), Some(MILLISECOND));
        queue.lock().hand_over(0, 7).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(7));
    });
    assert!(host.timers().is_empty());
}

#[test]
fn a_time_out_leaves_the_queue() {
    let (host, queue) = (Host::new(Jobs::Keep), Queue::new(Vec::new()));
    thread::scope(|t| {
        let waiter = t.spawn(|| host.run(0, |_| receive(&queue, in_one(&host))));
        host.until_suspended(1);
        host.timers().advance(MILLISECOND);
        assert_eq!(host.timers().fire(), 1);
        assert_eq!(waiter.join().unwrap(), Err(Ended::TimedOut));
    });
    let mut guard = queue.lock();
    assert!(guard.is_empty(0));
    assert_eq!(guard.hand_over(0, 7).err(), Some(7));
}

#[test]
fn a_cancellation_leaves_both() {
    let (host, queue) = (Host::new(Jobs::Keep), Queue::<u8>::new(Vec::new()));
    let (sender, receiver) = mpsc::channel();
    thread::scope(|t| {
        let waiter = t.spawn(|| {
            host.run(0, |token| {
                sender.send(token).unwrap();
                receive(&queue, in_one(&host))
            })
        });
        host.until_suspended(1);
        receiver.recv().unwrap().cancel();
        assert!(matches!(waiter.join().unwrap(), Err(Ended::Cancelled(_))));
    });
    assert!(queue.lock().is_empty(0) && host.timers().is_empty());
}

#[test]
fn a_past_deadline_ends_the_wait_unless_the_value_is_there() {
    // On a plain thread, by the real clock.
    let queue = Queue::new(vec![1]);
    let past = Instant::now().checked_sub(MILLISECOND);
    assert_eq!(receive(&queue, past), Ok(1));
    assert_eq!(receive(&queue, past), Err(Ended::TimedOut));
    assert_eq!(receive(&queue, Some(now())), Err(Ended::TimedOut));
    assert!(queue.lock().is_empty(0));
}

#[test]
fn no_deadline_is_never() {
    let queue = Queue::new(Vec::new());
    thread::scope(|t| {
        let bare = t.spawn(|| receive(&queue, None));
        let far = t.spawn(|| receive(&queue, now().checked_add(Duration::MAX)));
        let years = t.spawn(|| receive(&queue, now().checked_add(Duration::from_secs(1 << 40))));
        for value in 0..3 {
            until(|| !queue.lock().is_empty(0));
            queue.lock().hand_over(0, value).unwrap();
        }
        let mut all = [bare, far, years].map(|waiter| waiter.join().unwrap().unwrap());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    });
}

#[test]
fn a_waiter_that_is_told_in_vain_keeps_its_deadline() {
    let (host, queue) = (Host::new(Jobs::Keep), Queue::<u8>::new(Vec::new()));
    thread::scope(|t| {
        let waiter = t.spawn(|| host.run(0, |_| receive(&queue, in_one(&host))));
        for _ in 0..3 {
            host.until_suspended(1);
            until(|| !queue.lock().is_empty(0));
            queue.lock().notify_all(0);
        }
        host.until_suspended(1);
        until(|| !queue.lock().is_empty(0) && !host.timers().is_empty());
        assert_eq!(host.timers().until_next(), Some(MILLISECOND));
        host.timers().advance(MILLISECOND);
        while host.timers().fire() == 0 {}
        assert_eq!(waiter.join().unwrap(), Err(Ended::TimedOut));
    });
}

#[test]
fn value_time_out_and_cancellation_race_and_nothing_is_lost() {
    let (mut values, mut time_outs, mut cancellations) = (0, 0, 0);
    for round in 0..rounds(30_000) {
        let (host, queue) = (Host::new(Jobs::Keep), Queue::new(Vec::new()));
        let (drops, make) = counted();
        let (sender, receiver) = mpsc::channel();
        let ended = thread::scope(|t| {
            t.spawn(|| {
                stagger(round);
                let mut guard = queue.lock();
                if let Err(value) = guard.hand_over(0, make()) {
                    guard.state().push(value);
                }
            });
            t.spawn(|| {
                stagger(round / 5);
                host.timers().advance(MILLISECOND);
                host.timers().fire();
            });
            t.spawn(move || {
                let token: segue_core::CancelToken = receiver.recv().unwrap();
                stagger(round / 25);
                token.cancel();
            });
            host.run(0, |token| {
                sender.send(token).unwrap();
                receive(&queue, in_one(&host))
            })
        });
        let kept = queue.lock().state().len();
        match ended {
            Ok(value) => {
                assert_eq!(kept, 0);
                drop(value);
                values += 1;
            }
            Err(ended) => {
                assert_eq!((kept, drops.load(Ordering::SeqCst)), (1, 0), "lost in round {round}");
                if ended == Ended::TimedOut { time_outs += 1 } else { cancellations += 1 }
            }
        }
        drop(queue);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        assert!(host.timers().is_empty());
        if values > 20 && time_outs > 20 && cancellations > 20 {
            return;
        }
    }
    let reached = format!("{values} values, {time_outs} time-outs, {cancellations} cancellations");
    assert!(values > 0 && (cfg!(miri) || time_outs > 0) && cancellations > 0, "{reached}");
}

#[test]
fn plain_threads_race_their_own_clock() {
    let (mut values, mut time_outs) = (0, 0);
    for round in 0..rounds(5_000) {
        let queue = Queue::new(Vec::new());
        thread::scope(|t| {
            t.spawn(|| {
                stagger(round);
                let mut guard = queue.lock();
                if let Err(value) = guard.hand_over(0, 1) {
                    guard.state().push(value);
                }
            });
            let deadline = now() + Duration::from_nanos(1_000 * (round as u64 % 200));
            match receive(&queue, Some(deadline)) {
                Ok(1) => values += 1,
                Err(Ended::TimedOut) => time_outs += 1,
                other => panic!("{other:?}"),
            }
        });
        if values > 20 && time_outs > 20 {
            return;
        }
    }
    assert!(values > 0 && time_outs > 0, "{values} values, {time_outs} time-outs");
}

#[test]
fn a_cancelled_caller_is_told_so_before_the_deadline_is_looked_at() {
    scope(|s| {
        s.cancel();
        let past = Instant::now().checked_sub(MILLISECOND);
        assert!(matches!(receive(&Queue::new(vec![1]), past), Err(Ended::Cancelled(_))));
        assert!(segue_core::sleep(Duration::ZERO).is_err());
        assert!(segue_core::yield_now().is_err());
    });
}
