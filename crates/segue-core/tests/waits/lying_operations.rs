//! Operations that break every promise that safe code can break: the queue they are used on must
//! not be harmed.
#![cfg(not(loom))]

use segue_core::drivers::from_kernel;
use segue_core::{Either, Guard, Operation, WaitQueue, Waitable, WaitsFor, after, any_of};
use std::cell::Cell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

static OTHER: WaitQueue<u32> = WaitQueue::new(0);

/// Puts the guard of another queue in the place of the one that it is lent.
struct Swaps;

impl Operation<u32, ()> for Swaps {
    type Output = ();

    fn attempt(&mut self, queue: &mut Guard<'_, u32, ()>) -> Option<()> {
        let mut other = OTHER.lock();
        mem::swap(queue, &mut other);
        None
    }

    fn is_ready(&mut self, _: &mut Guard<'_, u32, ()>) -> bool {
        false
    }

    fn commit(&mut self, _: Option<()>) -> Option<()> {
        None
    }

    fn give_back(&mut self, _: Option<()>, _: &mut Guard<'_, u32, ()>) -> Option<()> {
        None
    }
}

#[test]
fn an_operation_that_swaps_the_guard_joins_no_other_queue() {
    let own: Box<WaitQueue<u32>> = Box::new(WaitQueue::new(0));
    let swaps = || Waitable::new(own.operation(WaitsFor::new("a swap"), Swaps));
    let waited = catch_unwind(AssertUnwindSafe(|| swaps().wait()));
    // A look joins nothing.
    let ended = Box::new(swaps().or(after(Duration::from_millis(1)))).wait();
    assert_eq!(ended, Ok(Either::Right(())));
    // The waiter that is left in the other queue has gone.
    OTHER.lock().notify_all(0);
    own.lock().notify_all(0);
    assert!(waited.is_err(), "it is told that this is a mistake");
}

/// The registration retreats, and what is registered anew is in order of addresses, one after the
/// other: a source of the kernel with two queues inside is in each of them once.
#[test]
fn a_source_of_the_kernel_whose_answer_changes_is_registered_once_at_each_queue() {
    let queues = [WaitQueue::<u32>::new(0), WaitQueue::new(0)];
    let retreats = |lies: usize, limit: Duration| {
        let waits_for = WaitsFor::new("an edge");
        let looks = Cell::new(0);
        let edge = |at: usize| {
            let looks = &looks;
            let ready = move |_: &u32| {
                looks.set(looks.get() + usize::from(at == lies));
                at == lies && looks.get() == 2
            };
            queues[at].source(waits_for, ready, |_| ())
        };
        let both = from_kernel(waits_for, || any_of([edge(0), edge(1)]).into_source());
        let ended = both.or(after(limit)).wait();
        assert!(matches!(ended, Ok(Either::Right(()))), "{ended:?}");
        queues.iter().for_each(|queue| queue.lock().notify_all(0));
        looks.get() > 2
    };
    for lies in 0..2 {
        // Again, if the limit was over before the registration.
        assert!((0..13).any(|doubled| retreats(lies, Duration::from_millis(1 << doubled))));
    }
}
