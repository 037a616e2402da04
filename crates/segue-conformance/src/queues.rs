//! Cases of the one structure of this crate, the wait queue, between fibers and plain threads.
//!
//! Used by the suite, which knows no other structure.

use crate::probe::{Need, Probe, a_case, other};
use crate::report::Case;
use segue_core::{WaitQueue, scope};
use std::sync::Arc;

pub(crate) const CASES: &[Case] =
    &[Case::new("a_queue_between_fibers_and_threads", a_queue_between_fibers_and_threads)
        .checks(
            &["1", "9", "R2"],
            "fibers and plain threads hand each other values over one queue, and none is lost or doubled",
        )
        .needs(&[Need::Others])];

/// Room for values, and the waiters for one.
type Queue = WaitQueue<Vec<usize>, usize>;

fn put(queue: &Queue, value: usize) {
    let mut guard = queue.lock();
    guard.state().push(value);
    guard.notify_all(0);
}

fn take(queue: &Queue) -> usize {
    let taken = queue.wait(a_case(), |values| !values.is_empty(), |values| values.pop().expect("it is there"));
    taken.expect("nobody has cancelled it")
}

fn a_queue_between_fibers_and_threads(probe: &Probe) {
    const TAKERS: usize = 2;
    let rounds = probe.rounds() / 5;
    let (to_threads, to_fibers) = (Arc::new(Queue::new(Vec::new())), Arc::new(Queue::new(Vec::new())));
    let others = [(); TAKERS].map(|()| {
        let (from, to) = (Arc::clone(&to_threads), Arc::clone(&to_fibers));
        other(move || (0..rounds).for_each(|_| put(&to, take(&from))))
    });
    let sum: usize = scope(|s| {
        let takers = [(); TAKERS].map(|()| s.spawn(|| (0..rounds).map(|_| take(&to_fibers)).sum::<usize>()));
        (0..TAKERS * rounds).for_each(|value| put(&to_threads, value));
        probe.next("every value, by way of a plain thread");
        takers.into_iter().filter_map(|taker| taker.join().ok()).sum()
    });
    probe.equal("R2", "the sum of what came back", sum, (0..TAKERS * rounds).sum());
    others.into_iter().for_each(|other| other.end(probe));
}
