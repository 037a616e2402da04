//! Foreign futures as sources, and ticks: when they are polled, woken, dropped and over; when they
//! come.
#![cfg(not(loom))]

use crate::common;
use crate::mailbox;

use common::{Host, Jobs, counted, rounds};
use mailbox::{Calls, Mailbox, poll};
use segue_core::{CancelToken, Either, after, future_source, interval, now};
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_future_is_an_arm() {
    let mailbox = Mailbox::<u8>::new();
    assert_eq!(future_source(ready(1)).or_else(mailbox.receive_source()).wait(), Ok(Either::Left(1)));
    assert_eq!(future_source(async { 2 }).attempt(), Some(2));
    mailbox.send(3);
    assert_eq!(future_source(pending::<()>()).or(mailbox.receive_source()).wait(), Ok(Either::Right(3)));
    // A source that is awaited in a future, which is a source.
    thread::scope(|t| {
        let sum = future_source(async { mailbox.receive_source().await + mailbox.receive_source().await });
        let waiter = t.spawn(|| sum.or(after(Duration::MAX)).wait());
        mailbox.send(20);
        mailbox.send(22);
        assert_eq!(waiter.join().unwrap(), Ok(Either::Left(42)));
    });
    assert!(mailbox.into_messages().is_empty());
}

#[test]
fn a_wait_that_panics_after_a_retreat_begins_anew_at_the_next_poll() {
    let (mailbox, polls) = (Mailbox::<u8>::new(), AtomicUsize::new(0));
    // It is woken while it is polled, so that its registration retreats, and panics in the look
    // after that.
    let bad = future_source(poll_fn(|cx| {
        assert_eq!(polls.fetch_add(1, SeqCst), 0, "planted");
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    let (calls, waker) = Calls::new();
    let mut choice = pin!(mailbox.receive_source().or_else(bad).into_future());
    assert!(panics(|| poll(choice.as_mut(), &waker)) && polls.load(SeqCst) == 2);
    assert!(!mailbox.has_waiters());
    assert_eq!(poll(choice.as_mut(), &waker), Poll::Pending);
    assert!(mailbox.has_waiters(), "it waits again");
    mailbox.send(5);
    assert_eq!(poll(choice.as_mut(), &waker), Poll::Ready(Either::Left(5)));
    assert!(calls.count() > 0);
}

/// A future that hands out its waker, and is ready at the poll after `polls` of them.
fn counting<'a>(
    polls: &'a AtomicUsize,
    wakers: &'a Mutex<Vec<Waker>>,
    ready: usize,
) -> impl Future<Output = usize> + Send + use<'a> {
    poll_fn(move |cx| {
        wakers.lock().unwrap().push(cx.waker().clone());
        let before = polls.fetch_add(1, SeqCst);
        if before == ready { Poll::Ready(before) } else { Poll::Pending }
    })
}

#[test]
fn a_future_is_polled_when_it_was_woken_and_not_else() {
    let (polls, wakers) = (AtomicUsize::new(0), Mutex::default());
    let mut source = future_source(counting(&polls, &wakers, 3));
    let wake = || wakers.lock().unwrap()[0].wake_by_ref();
    assert_eq!(polls.load(SeqCst), 0);
    for _ in 0..3 {
        assert_eq!(source.attempt(), None);
        assert_eq!(polls.load(SeqCst), 1);
    }
    wake();
    wake();
    let (calls, waker) = Calls::new();
    let mut task = Box::pin(source.by_ref().or(after(Duration::MAX)).into_future());
    assert!(poll(task.as_mut(), &waker).is_pending());
    assert!(poll(task.as_mut(), &waker).is_pending());
    assert_eq!((polls.load(SeqCst), calls.count()), (2, 0));
    wake();
    assert_eq!(calls.count(), 1, "the waiter is told");
    assert!(poll(task.as_mut(), &waker).is_pending());
    // Woken while the wait is dropped: the next wait has it polled.
    drop(task);
    wake();
    assert_eq!(source.attempt(), Some(3));
    // It is over, and so is a wake that comes late.
    wake();
    assert_eq!((source.attempt(), polls.load(SeqCst)), (None, 4));
    let mut task = Box::pin(source.into_future());
    assert!(poll(task.as_mut(), &waker).is_pending());
    wake();
    assert!(poll(task.as_mut(), &waker).is_pending());
    assert_eq!((polls.load(SeqCst), calls.count()), (4, 2));
    drop(task);
    wake();
}

#[test]
fn a_future_that_wakes_itself_lets_others_run() {
    let (polls, all) = (AtomicUsize::new(0), if cfg!(miri) { 300 } else { 1000 });
    let spins = future_source(poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if polls.fetch_add(1, SeqCst) == all { Poll::Ready(()) } else { Poll::Pending }
    }));
    let (calls, waker) = Calls::new();
    let mut task = pin!(spins.into_future());
    let mut turns = 0;
    while poll(task.as_mut(), &waker).is_pending() {
        turns += 1;
        assert_eq!(calls.count(), turns);
    }
    assert!(turns > all / 100);
}

#[test]
fn a_future_is_dropped_with_its_source_and_once_it_is_over() {
    let (drops, make) = counted();
    let holding = |counted| async move {
        let _counted = counted;
        pending::<()>().await;
    };
    drop(future_source(holding(make())));
    assert_eq!(drops.load(SeqCst), 1);
    let mut task = Box::pin(future_source(holding(make())).into_future());
    assert!(poll(task.as_mut(), Waker::noop()).is_pending());
    drop(task);
    assert_eq!(drops.load(SeqCst), 2);
    let counted = make();
    let mut source = future_source(async move { drop(counted) });
    assert_eq!(source.attempt(), Some(()));
    assert_eq!(drops.load(SeqCst), 3);
    let mut bad = future_source(async { panic!("planted") as () });
    assert!(panics(|| bad.attempt()));
    assert_eq!(bad.attempt(), None);
    let token = CancelToken::new();
    let cancelled = future_source(async {
        token.cancel();
        holding(make()).await;
    });
    assert!(token.run(|| cancelled.wait()).is_err());
    assert_eq!(drops.load(SeqCst), 4);
}

#[test]
fn a_future_that_is_send_is_a_source_that_is() {
    fn goes<T: Send>(it: T) -> T {
        it
    }
    _ = goes(goes(future_source(ready(1))).into_future());
    _ = goes(future_source(ready(1)).boxed());
    let local = future_source(async {
        let here = std::rc::Rc::new(1);
        ready(()).await;
        *here
    });
    assert_eq!(local.boxed_local().wait(), Ok(1));
}

#[test]
fn futures_that_are_woken_by_other_threads() {
    for round in 0..rounds(2000) {
        let (polls, wakers) = (AtomicUsize::new(0), Mutex::<Vec<Waker>>::default());
        thread::scope(|t| {
            t.spawn(|| {
                for wakes in 1..4 {
                    common::until(|| wakers.lock().unwrap().len() >= wakes);
                    common::stagger(round);
                    wakers.lock().unwrap()[wakes - 1].wake_by_ref();
                }
            });
            let counting = future_source(counting(&polls, &wakers, 3));
            let number = if round.is_multiple_of(2) {
                counting.wait()
            } else {
                match counting.or(after(Duration::MAX)).wait().unwrap() {
                    Either::Left(number) => Ok(number),
                    Either::Right(()) => unreachable!(),
                }
            };
            assert_eq!(number, Ok(3));
        });
        wakers.lock().unwrap().drain(..).for_each(Waker::wake);
    }
}

#[test]
fn ticks_come_at_fixed_times_and_those_that_are_missed_are_counted() {
    let host = Host::new(Jobs::Keep);
    let (ms, start) = (Duration::from_millis, Mutex::new(None));
    let timers = host.timers();
    thread::scope(|t| {
        let (ticked, ticks) = std::sync::mpsc::channel();
        let waiter = t.spawn(|| {
            host.run(0, move |_| {
                *start.lock().unwrap() = Some(now());
                let mut each = interval(ms(10));
                for _ in 0..4 {
                    let came = each.tick().unwrap();
                    ticked.send((came, now().duration_since(start.lock().unwrap().unwrap()))).unwrap();
                }
            })
        });
        for (advance, expected) in
            [(ms(10), (1, ms(10))), (ms(35), (3, ms(45))), (ms(4), (0, ms(0))), (ms(1), (1, ms(50)))]
        {
            host.until_suspended(1);
            timers.advance(advance);
            if timers.fire() == 1 {
                assert_eq!(ticks.recv().unwrap(), expected);
            } else {
                assert_eq!(expected.0, 0);
            }
        }
        host.until_suspended(1);
        timers.advance(ms(10));
        assert_eq!(timers.fire(), 1);
        assert_eq!(ticks.recv().unwrap(), (1, ms(60)));
        waiter.join().unwrap();
    });
}

#[test]
fn a_tick_that_is_not_chosen_or_cancelled_is_still_to_come() {
    let mut ticks = interval(Duration::MAX);
    assert_eq!(after(Duration::ZERO).or(ticks.tick_source()).wait(), Ok(Either::Left(())));
    let token = CancelToken::new();
    token.cancel();
    let mut ticks = interval(Duration::from_nanos(1));
    assert!(token.run(|| ticks.tick()).is_err());
    let mut task = Box::pin(ticks.tick_source().into_future());
    while poll(task.as_mut(), Waker::noop()).is_pending() {}
    drop(task);
    assert!(ticks.tick().is_ok());
}

#[test]
fn an_interval_of_no_time_is_refused() {
    let refused = catch_unwind(|| interval(Duration::ZERO)).unwrap_err();
    assert!(refused.downcast::<&str>().unwrap().contains("yield_now"));
}
