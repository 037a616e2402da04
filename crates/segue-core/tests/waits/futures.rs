//! Sources that are awaited: tasks stand in the same queues as fibers and threads, and may go at
//! any instant.
#![cfg(not(loom))]

use crate::common;
use crate::mailbox;

use common::{counted, rounds, stagger};
use mailbox::{Calls, Mailbox, poll};
use segue_core::{Either, after, at, now};
use std::future::IntoFuture;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// Runs a future on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(thread::current()))));
    loop {
        match poll(future.as_mut(), &waker) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn a_task_and_a_thread_are_served_in_the_order_of_their_arrival() {
    let mailbox = Mailbox::new();
    let (calls, waker) = Calls::new();
    let (told, tells) = std::sync::mpsc::channel();
    thread::scope(|t| {
        let mut first = pin!(mailbox.receive_source().into_future());
        assert_eq!(poll(first.as_mut(), &waker), Poll::Pending);
        let second = t.spawn(|| {
            told.send(()).unwrap();
            mailbox.receive()
        });
        tells.recv().unwrap();
        assert!(mailbox.send(1));
        assert_eq!((calls.count(), poll(first.as_mut(), &waker)), (1, Poll::Ready(1)));
        mailbox.send(2);
        assert_eq!(second.join().unwrap(), Ok(2));
    });
    assert!(mailbox.into_messages().is_empty());
}

#[test]
fn a_message_that_is_there_is_received_at_the_first_poll() {
    let mailbox = Mailbox::new();
    assert!(!mailbox.send(1));
    let (calls, waker) = Calls::new();
    assert_eq!(poll(pin!(mailbox.receive_source().into_future()), &waker), Poll::Ready(1));
    assert_eq!(calls.count(), 0);
}

#[test]
fn one_that_is_dropped_before_it_was_served_has_no_effect() {
    let mailbox = Mailbox::new();
    let (calls, waker) = Calls::new();
    drop(mailbox.receive_source().into_future());
    {
        let mut future = pin!(mailbox.receive_source().into_future());
        assert_eq!(poll(future.as_mut(), &waker), Poll::Pending);
        assert!(mailbox.has_waiters());
    }
    assert!(!mailbox.has_waiters());
    assert!(!mailbox.send(1), "nobody is there to take it");
    assert_eq!(calls.count(), 0);
    assert_eq!(mailbox.into_messages(), [1]);
}

#[test]
fn one_that_is_dropped_after_it_was_served_gives_back_to_the_next() {
    let mailbox = Mailbox::new();
    let (calls, waker) = Calls::new();
    let mut second = pin!(mailbox.receive_source().into_future());
    {
        let mut first = pin!(mailbox.receive_source().into_future());
        assert_eq!(poll(first.as_mut(), &waker), Poll::Pending);
        assert_eq!(poll(second.as_mut(), &waker), Poll::Pending);
        assert!(mailbox.send(1));
        assert_eq!(poll(second.as_mut(), &waker), Poll::Pending);
        assert_eq!(calls.count(), 1);
    }
    assert_eq!((calls.count(), poll(second.as_mut(), &waker)), (2, Poll::Ready(1)));
    // And to the front of what is kept, if there is no next.
    let mailbox = Mailbox::new();
    {
        let mut third = pin!(mailbox.receive_source().into_future());
        assert_eq!(poll(third.as_mut(), &waker), Poll::Pending);
        mailbox.send(2);
        mailbox.send(3);
    }
    assert_eq!(mailbox.into_messages(), [2, 3]);
}

#[test]
fn one_that_was_only_told_passes_that_on_when_it_is_dropped() {
    let mailbox = Mailbox::new();
    let (calls, waker) = Calls::new();
    let mut second = pin!(mailbox.receive_source().into_future());
    {
        let mut first = pin!(mailbox.receive_source().into_future());
        assert_eq!(poll(first.as_mut(), &waker), Poll::Pending);
        assert_eq!(poll(second.as_mut(), &waker), Poll::Pending);
        mailbox.leave(1);
        assert_eq!(calls.count(), 1);
    }
    assert_eq!(calls.count(), 2, "a wake-up was lost");
    assert_eq!(poll(second.as_mut(), &waker), Poll::Ready(1));
}

#[test]
fn one_that_was_told_in_vain_waits_again() {
    let mailbox = Mailbox::new();
    let (calls, waker) = Calls::new();
    let mut future = pin!(mailbox.receive_source().into_future());
    assert_eq!(poll(future.as_mut(), &waker), Poll::Pending);
    mailbox.leave(1);
    assert_eq!(mailbox.receive(), Ok(1));
    assert_eq!((calls.count(), poll(future.as_mut(), &waker)), (1, Poll::Pending));
    assert!(mailbox.send(2));
    assert_eq!((calls.count(), poll(future.as_mut(), &waker)), (2, Poll::Ready(2)));
}

#[test]
fn the_waker_of_the_last_poll_is_called_and_no_other() {
    let mailbox = Mailbox::new();
    let ((old, first), (new, last)) = (Calls::new(), Calls::new());
    let mut future = pin!(mailbox.receive_source().into_future());
    for waker in [&first, &first, &last] {
        assert_eq!(poll(future.as_mut(), waker), Poll::Pending);
    }
    drop(first);
    assert_eq!(Arc::strong_count(&old), 1, "a waker that is not needed is dropped");
    mailbox.send(1);
    assert_eq!((old.count(), new.count()), (0, 1));
    assert_eq!(poll(future.as_mut(), &last), Poll::Ready(1));
}

#[test]
fn a_waker_that_panics_harms_nobody() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("in a waker");
        }
    }
    let mailbox = Mailbox::new();
    let waker = Waker::from(Arc::new(Panics));
    let mut future = pin!(mailbox.receive_source().into_future());
    assert_eq!(poll(future.as_mut(), &waker), Poll::Pending);
    assert!(mailbox.send(1));
    assert_eq!(poll(future.as_mut(), &waker), Poll::Ready(1));
}

#[test]
fn a_poll_after_the_end_panics() {
    let mailbox = Mailbox::new();
    mailbox.send(1);
    let mut future = pin!(mailbox.receive_source().into_future());
    assert_eq!(poll(future.as_mut(), Waker::noop()), Poll::Ready(1));
    assert!(catch_unwind(AssertUnwindSafe(|| poll(future.as_mut(), Waker::noop()))).is_err());
}

#[test]
fn they_may_be_sent_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let mailbox = Arc::new(Mailbox::new());
    let sender = Arc::clone(&mailbox);
    let task = is_send(async move {
        let either = mailbox.receive_source().or(after(Duration::MAX)).await;
        let Either::Left(message) = either else { unreachable!("that is never") };
        message + mailbox.receive_source().await
    });
    let task = thread::spawn(|| block_on(task));
    thread::spawn(move || [40, 2].map(|n| sender.send(n)));
    assert_eq!(task.join().unwrap(), 42);
}

#[test]
fn a_point_in_time_is_awaited() {
    block_on(async {
        let before = now();
        after(Duration::from_millis(2)).await;
        assert!(now() >= before + Duration::from_millis(2));
        at(Some(before)).await;
        let never = at(None).or(after(Duration::from_millis(1))).await;
        assert_eq!(never, Either::Right(()));
    });
}

#[test]
fn conservation_of_messages_when_tasks_are_dropped_at_any_instant() {
    let (mut received, mut given_back, mut kept) = (0, 0, 0);
    for round in 0..rounds(20_000) {
        let mailbox = Mailbox::new();
        let (drops, make) = counted();
        let took = AtomicUsize::new(0);
        thread::scope(|t| {
            let sender = t.spawn(|| {
                stagger(round);
                mailbox.send(make())
            });
            let mut future = Box::pin(mailbox.receive_source().into_future());
            let first = poll(future.as_mut(), Waker::noop());
            stagger(round / 5);
            let second = match first {
                Poll::Pending if round % 2 == 0 => poll(future.as_mut(), Waker::noop()),
                first => first,
            };
            took.fetch_add(usize::from(second.is_ready()), Ordering::SeqCst);
            drop(future);
            let handed = sender.join().unwrap();
            if second.is_ready() {
                received += 1;
            } else if handed {
                given_back += 1;
            } else {
                kept += 1;
            }
        });
        let left = mailbox.into_messages();
        assert_eq!(took.into_inner() + left.len(), 1, "lost or doubled in round {round}");
        drop(left);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        if received > 20 && given_back > 20 && kept > 20 {
            return;
        }
    }
    assert!(received > 0 && given_back > 0 && kept > 0, "{received} {given_back} {kept}");
}

#[test]
fn a_million_dropped_tasks_leave_nothing_behind() {
    let mailbox = Mailbox::<u32>::new();
    let (calls, waker) = Calls::new();
    let tasks = if cfg!(miri) { 100 } else { 1_000_000 };
    for _ in 0..tasks {
        let mut future = pin!(mailbox.receive_source().into_future());
        assert_eq!(poll(future.as_mut(), &waker), Poll::Pending);
    }
    assert!(!mailbox.has_waiters());
    drop(waker);
    assert_eq!(Arc::strong_count(&calls), 1);
    // Every 129th has given up its turn.
    assert!(calls.count() <= tasks / 128, "{} calls", calls.count());
}
