//! Every interleaving of a foreign future's wakes with the looks and registrations of the wait for
//! it, and of the end of a wait with those that wait for its nack. Planted: a future whose flag is
//! cleared after the poll.

use crate::mailbox;
use crate::models;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use mailbox::Mailbox;
use models::{Reached, check, model};
use segue_core::scheduling::Family;
use segue_core::{Either, Fate, WaitQueue, Waitable, WaitsFor, future_source, with_nack};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A future that starts a thread at its first poll, which stores without ordering and wakes; ready
/// when that is done.
fn stored(polls: Arc<AtomicUsize>) -> impl Future<Output = ()> {
    let stored = Arc::new(AtomicUsize::new(0));
    poll_fn(move |cx| {
        if polls.fetch_add(1, Relaxed) == 0 {
            let (stored, waker) = (Arc::clone(&stored), cx.waker().clone());
            thread::spawn(move || {
                stored.store(1, Relaxed);
                waker.wake();
            });
        }
        if stored.load(Relaxed) == 1 { Poll::Ready(()) } else { Poll::Pending }
    })
}

#[test]
fn a_future_is_woken_by_another_thread() {
    static ONCE: Reached = Reached::new("ready at the first poll");
    static TWICE: Reached = Reached::new("ready at the second poll");
    model(3, || {
        let polls = Arc::new(AtomicUsize::new(0));
        future_source(stored(Arc::clone(&polls))).wait().unwrap();
        match polls.load(Relaxed) {
            1 => ONCE.note(),
            2 => TWICE.note(),
            more => panic!("{more} polls for one wake"),
        }
    });
    check(&[&ONCE, &TWICE]);
}

#[test]
fn a_future_is_woken_next_to_an_arm_that_is_served() {
    static FUTURE: Reached = Reached::new("the future was ready first");
    static MESSAGE: Reached = Reached::new("the message came first");
    model(3, || {
        let mailbox = Arc::new(Mailbox::new());
        let sender = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.send(7)
        });
        let future = future_source(stored(Arc::default()));
        match future.or(mailbox.receive_source()).wait().unwrap() {
            Either::Left(()) => {
                FUTURE.note();
                sender.join().unwrap();
                assert_eq!(mailbox.receive_source().attempt(), Some(7));
            }
            Either::Right(n) => {
                MESSAGE.note();
                assert_eq!((n, sender.join().unwrap()).0, 7);
            }
        }
        assert!(!mailbox.has_waiters());
    });
    check(&[&FUTURE, &MESSAGE]);
}

#[test]
fn a_wake_against_a_cancellation() {
    static WOKEN: Reached = Reached::new("woken");
    static CANCELLED: Reached = Reached::new("cancelled");
    model(3, || {
        let family = Arc::new(Family::detached());
        let canceller = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        match family.enter_context(|| future_source(stored(Arc::default())).wait()) {
            Ok(()) => WOKEN.note(),
            Err(_) => CANCELLED.note(),
        }
        canceller.join().unwrap();
    });
    check(&[&WOKEN, &CANCELLED]);
}

/// The source of a future whose flag is cleared after the poll, or before it.
fn flagged(clears_first: bool) {
    model(3, move || {
        struct Woken(WaitQueue<bool>);
        impl std::task::Wake for Woken {
            fn wake(self: Arc<Self>) {
                let mut woken = self.0.lock();
                *woken.state() = true;
                woken.notify_all(0);
            }
        }
        let woken = Arc::new(Woken(WaitQueue::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut future = Box::pin(stored(Arc::default()));
        let mut is_ready =
            || future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_ready().then_some(());
        let waits = WaitsFor::new("a model");
        if clears_first {
            let source = Waitable::new(woken.0.source(waits, |woken| *woken, |woken| *woken = false));
            source.filter_map(|()| is_ready()).wait().unwrap();
        } else {
            let source = || Waitable::new(woken.0.source(waits, |woken| *woken, |_| ()));
            let mut polled = || {
                let ready = is_ready();
                *woken.0.lock().state() = false;
                ready
            };
            while source().wait().map(|()| polled()).unwrap().is_none() {}
        }
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn planted_a_flag_that_is_cleared_after_the_poll_loses_a_wake() {
    flagged(false);
}

#[test]
fn one_that_is_cleared_before_it_does_not() {
    flagged(true);
}

#[test]
fn a_nack_is_told_while_it_is_waited_for() {
    static CHOSEN: Reached = Reached::new("chosen");
    static LOST: Reached = Reached::new("lost");
    model(2, || {
        let (mailbox, family) = (Arc::new(Mailbox::new()), Arc::new(Family::detached()));
        let sender = thread::spawn({
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.send(7)
        });
        let canceller = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        let mut watcher = None;
        let event = with_nack(|nack| {
            watcher = Some(thread::spawn(move || nack.wait().expect("nobody cancels")));
            mailbox.receive_source()
        });
        let received = family.enter_context(|| event.wait());
        if let Some(watcher) = watcher {
            let fate = watcher.join().unwrap();
            assert_eq!(fate == Fate::Chosen, received.is_ok());
            if fate == Fate::Chosen { CHOSEN.note() } else { LOST.note() }
        }
        sender.join().unwrap();
        canceller.join().unwrap();
        assert_eq!(mailbox.receive_source().attempt().is_some(), received.is_err());
    });
    check(&[&CHOSEN, &LOST]);
}
