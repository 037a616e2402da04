//! Wakers that poll what they wake, which wakes the next: a chain of any length takes a bounded
//! stack, and nobody in it is forgotten.
#![cfg(not(loom))]

use segue_core::{WaitQueue, Waitable, WaitsFor};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

type Gate = WaitQueue<bool>;

fn passed(gate: &'static Gate) -> Waitable<impl segue_core::Source<Output = ()>> {
    Waitable::new(gate.source(WaitsFor::new("a gate"), |open| *open, |_| ()))
}

fn open(gate: &Gate) {
    let mut gate = gate.lock();
    *gate.state() = true;
    gate.notify_all(0);
}

/// A task that its waker polls on the spot; a task that wakes itself is polled again.
struct Inline {
    task: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    again: AtomicBool,
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        self.again.store(true, SeqCst);
        while self.again.load(SeqCst) {
            let Some(mut task) = self.task.lock().unwrap().take() else { return };
            self.again.store(false, SeqCst);
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                *self.task.lock().unwrap() = Some(task);
            }
        }
    }
}

/// Task `i` waits for gate `i`, and then does as told.
fn chain(gates: &'static [Gate], then: impl Fn(usize) + Send + Sync + 'static) {
    let then = Arc::new(then);
    for (number, gate) in gates.iter().enumerate() {
        let then = Arc::clone(&then);
        let task = async move {
            passed(gate).await;
            then(number);
        };
        Arc::new(Inline { task: Mutex::new(Some(Box::pin(task))), again: AtomicBool::new(false) }).wake();
    }
}

fn gates(count: usize) -> &'static [Gate] {
    Box::leak((0..count).map(|_| WaitQueue::new(false)).collect())
}

const LENGTH: usize = if cfg!(miri) { 50 } else { 10_000 };

#[test]
fn a_chain_of_ten_thousand_takes_a_small_stack() {
    let gates = gates(LENGTH);
    let reached = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&reached);
    chain(gates, move |number| {
        counts.fetch_add(1, SeqCst);
        gates.get(number + 1).into_iter().for_each(open);
    });
    let small = thread::Builder::new().stack_size(256 << 10);
    small.spawn(|| open(&gates[0])).unwrap().join().unwrap();
    assert_eq!(reached.load(SeqCst), LENGTH);
}

#[test]
fn chains_that_spread_are_called_in_full() {
    // A heap: each opens two.
    let all = if cfg!(miri) { 63 } else { 1023 };
    let gates = gates(all);
    let reached = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&reached);
    chain(gates, move |number| {
        counts.fetch_add(1, SeqCst);
        gates.iter().skip(2 * number + 1).take(2).for_each(open);
    });
    open(&gates[0]);
    assert_eq!(reached.load(SeqCst), all);
}

#[test]
fn a_waker_that_waits_for_what_it_has_woken_is_not_in_its_way() {
    let (gates, done) = (gates(40), gates(40));
    let reached = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&reached);
    chain(gates, move |number| {
        if let Some(next) = gates.get(number + 1) {
            open(next);
            passed(&done[number + 1]).wait().unwrap();
        }
        counts.fetch_add(1, SeqCst);
        open(&done[number]);
    });
    open(&gates[0]);
    assert_eq!(reached.load(SeqCst), 40);
}

#[test]
fn what_is_woken_far_in_is_woken_when_the_outermost_has_returned() {
    // The very next statement sees the last of the chain, as if all had been called inside of
    // each other.
    let gates = gates(30);
    chain(gates, move |number| gates.get(number + 1).into_iter().for_each(open));
    let last = &gates[29];
    assert!(Box::pin(passed(last)).attempt().is_none());
    open(&gates[0]);
    let seen = Box::pin(passed(last)).as_mut().attempt();
    assert_eq!(seen.map_or(Poll::Pending, Poll::Ready), Poll::Ready(()));
}
