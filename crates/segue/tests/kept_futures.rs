//! Futures that have yielded and are kept: they hold nothing that others wait for.

use segue::sync::Mutex;
use segue_core::{Either, WaitQueue, Waitable, WaitsFor};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[test]
fn a_choice_that_has_yielded_is_not_told_of_an_unlock_any_more() {
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
    assert!(matches!(choice.as_mut().poll(task), Poll::Ready(Either::Left(()))));
    // It is still there, and the next one has its turn all the same.
    assert!(next.as_mut().poll(task).is_ready());
}
