//! Futures that have yielded and are kept: they hold nothing that others wait for.

use segue::sync::Mutex;
use segue_core::{Either, WaitQueue, Waitable, WaitsFor};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[test]
fn a_choice_that_was_told_of_an_unlock_takes_it_and_keeps_nothing_else() {
    let mutex = Mutex::new(0);
    let gate: WaitQueue<bool> = WaitQueue::new(false);
    let task = &mut Context::from_waker(Waker::noop());
    let guard = mutex.lock().unwrap();
    let open = Waitable::new(gate.source(WaitsFor::new("a gate"), |open| *open, |_| ()));
    let mut choice = pin!(open.or(mutex.lock_source()).into_future());
    assert!(choice.as_mut().poll(task).is_pending());
    let mut next = pin!(mutex.lock_source().into_future());
    assert!(next.as_mut().poll(task).is_pending());
    // The choice is the first in the queue, and is told.
    drop(guard);
    *gate.lock().state() = true;
    let Poll::Ready(Either::Right(guard)) = choice.as_mut().poll(task) else { panic!("it was told of the mutex") };
    assert!(next.as_mut().poll(task).is_pending());
    drop(guard);
    // It is still there, and the next one has its turn all the same.
    assert!(next.as_mut().poll(task).is_ready());
}

#[test]
fn a_choice_that_was_told_in_vain_and_has_yielded_is_not_waited_for() {
    let mutex = Mutex::new(0);
    let gate: WaitQueue<bool> = WaitQueue::new(false);
    let task = &mut Context::from_waker(Waker::noop());
    let guard = mutex.lock().unwrap();
    let open = Waitable::new(gate.source(WaitsFor::new("a gate"), |open| *open, |_| ()));
    let mut choice = pin!(open.or(mutex.lock_source()).into_future());
    assert!(choice.as_mut().poll(task).is_pending());
    let mut next = pin!(mutex.lock_source().into_future());
    assert!(next.as_mut().poll(task).is_pending());
    // The choice is told, and overtaken.
    drop(guard);
    let barged = mutex.try_lock().expect("nobody was handed it");
    *gate.lock().state() = true;
    assert!(matches!(choice.as_mut().poll(task), Poll::Ready(Either::Left(()))));
    assert!(next.as_mut().poll(task).is_pending());
    drop(barged);
    assert!(next.as_mut().poll(task).is_ready(), "it waits for a choice that has yielded");
}
