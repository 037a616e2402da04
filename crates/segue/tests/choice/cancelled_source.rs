//! The cancellation of a token as an arm, and as what a task awaits.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{Task, block_on, everywhere, mixed};
use segue::sync::{MVar, promise};
use segue::{CancelToken, Either, after, scope, spawn_task, timeout, yield_now};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn who_waits_for_a_cancellation_gets_its_reason() {
    everywhere(|| {
        let token = CancelToken::new();
        scope(|s| {
            let waiters = [(); 3].map(|()| s.spawn(|| token.cancelled_source().wait()));
            let task = s.spawn_task({
                let token = token.clone();
                async move { token.cancelled_source().await }
            });
            let _ = yield_now();
            token.cancel_with("enough");
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap().unwrap().to_string(), "cancelled: enough");
            }
            assert_eq!(task.join().unwrap().to_string(), "cancelled: enough");
        });
        // It is there for good.
        assert!(token.cancelled_source().attempt().is_some());
        assert_eq!(block_on(token.cancelled_source()).to_string(), "cancelled: enough");
        let outer = scope(|s| s.token());
        assert!(outer.cancelled_source().attempt().is_none());
    });
}

#[test]
fn an_arm_that_is_not_chosen_leaves_nothing_behind() {
    everywhere(|| {
        let (token, inbox) = (CancelToken::new(), MVar::empty());
        inbox.put(1).unwrap();
        assert_eq!(inbox.take_source().or(token.cancelled_source()).wait(), Ok(Either::Left(1)));
        for _ in 0..10 {
            let late = after(Duration::from_micros(1)).or(token.cancelled_source()).wait();
            assert_eq!(late, Ok(Either::Left(())));
        }
        // Cancelled while it waits for somebody else's cancellation.
        let ended = timeout(Duration::from_millis(1), || token.cancelled_source().wait());
        assert!(ended.unwrap_err().timed_out());
        // Under the token itself it is either: the wait is cancelled, or over.
        let own = scope(|s| {
            let inside = s.spawn(|| token.run(|| token.cancelled_source().wait()));
            let _ = yield_now();
            token.cancel();
            inside.join().unwrap()
        });
        assert!(own.is_ok() || own.is_err());
        assert!(matches!(inbox.take_source().or(token.cancelled_source()).wait(), Ok(Either::Right(_))));
    });
}

#[test]
fn futures_are_dropped_before_and_after_it() {
    let token = CancelToken::new();
    drop(Task::waiting(token.cancelled_source()));
    let (mut kept, dropped) = (Task::waiting(token.cancelled_source()), Task::waiting(token.cancelled_source()));
    token.cancel();
    assert_eq!((kept.wakes(), dropped.wakes()), (1, 1));
    drop(dropped);
    assert!(kept.poll().is_some());
}

#[test]
fn a_waker_may_cancel_and_drop_what_waits_there_too() {
    // The task of one token cancels the other, whose waiter is the first one's.
    segue::run(|| {
        let (first, second) = (CancelToken::new(), CancelToken::new());
        let chain = spawn_task({
            let (first, second) = (first.clone(), second.clone());
            async move {
                first.cancelled_source().await;
                second.cancel_with("by the first");
            }
        });
        let ends = spawn_task({
            let (first, second) = (first.clone(), second.clone());
            async move { second.cancelled_source().or(first.cancelled_source()).await }
        });
        yield_now().unwrap();
        first.cancel();
        chain.join().unwrap();
        ends.join().unwrap();
        assert!(second.is_cancelled());
    });
}

#[test]
fn values_race_the_cancellation_and_none_is_lost() {
    let (values, ends) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..300 {
        let (token, (resolver, mut promised)) = (CancelToken::new(), promise());
        let (sender, waiter) = (std::sync::Mutex::new(Some(resolver)), std::sync::Mutex::new(Some(&mut promised)));
        mixed(3, |n| match (n + round) % 3 {
            0 => {
                let promised = waiter.lock().unwrap().take().unwrap();
                match promised.take_source().or(token.cancelled_source()).wait() {
                    Ok(Either::Left(value)) => drop(values.fetch_add(value.unwrap(), SeqCst)),
                    Ok(Either::Right(_)) => {
                        ends.fetch_add(1, SeqCst);
                        // It stays in the promise.
                        assert_eq!(promised.take_source().wait(), Ok(Ok(1)));
                    }
                    Err(cancelled) => panic!("nobody cancels the waiter: {cancelled}"),
                }
            }
            1 => sender.lock().unwrap().take().unwrap().fill(1).unwrap(),
            _ => token.cancel(),
        });
    }
    let (values, ends) = (values.into_inner(), ends.into_inner());
    println!("{values} values, {ends} cancellations");
    assert_eq!(values + ends, 300);
    assert!(values > 0 && ends > 0);
}
