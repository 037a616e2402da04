//! Futures that have yielded and are kept: they hold nothing that others wait for.

use segue::sync::{Mutex, MutexGuard};
use segue_core::{Either, WaitQueue, Waitable, WaitsFor};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// A choice between an open gate and a mutex is told of the unlock first, and yields whatever is
/// there after `meanwhile`; `outcome` sees that. It is kept, and the next in the queue has its turn
/// all the same.
fn kept<'a>(
    mutex: &'a Mutex<u32>,
    meanwhile: impl FnOnce() -> Option<MutexGuard<'a, u32>>,
    outcome: impl FnOnce(Either<(), MutexGuard<'a, u32>>) -> Option<MutexGuard<'a, u32>>,
) {
    let gate: WaitQueue<bool> = WaitQueue::new(false);
    let guard = mutex.lock().unwrap();
    let open = Waitable::new(gate.source(WaitsFor::new("a gate"), |open| *open, |_| ()));
    let mut choice = pin!(open.or(mutex.lock_source()).into_future());
    let mut next = pin!(mutex.lock_source().into_future());
    assert!(poll(&mut choice).is_pending() && poll(&mut next).is_pending());
    // The choice is the first in the queue, and is told.
    drop(guard);
    let barged = meanwhile();
    *gate.lock().state() = true;
    let Poll::Ready(chosen) = poll(&mut choice) else { panic!("the gate is open") };
    let held = (barged, outcome(chosen));
    assert!(poll(&mut next).is_pending());
    drop(held);
    assert!(poll(&mut next).is_ready(), "it waits for a choice that has yielded");
}

#[test]
fn a_choice_that_was_told_of_an_unlock_takes_it_and_keeps_nothing_else() {
    kept(
        &Mutex::new(0),
        || None,
        |chosen| match chosen {
            Either::Right(guard) => Some(guard),
            Either::Left(()) => panic!("it was told of the mutex"),
        },
    );
}

#[test]
fn a_choice_that_was_told_in_vain_and_has_yielded_is_not_waited_for() {
    let mutex = Mutex::new(0);
    kept(
        &mutex,
        || Some(mutex.try_lock().expect("nobody was handed it")),
        |chosen| match chosen {
            Either::Left(()) => None,
            Either::Right(_) => panic!("the mutex is taken"),
        },
    );
}
