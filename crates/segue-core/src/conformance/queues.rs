//! Cases of the one structure of this crate, the wait queue, between fibers and plain threads.
//!
//! Used by the suite, which knows no other structure.

use super::probe::{Probe, a_case, plain_thread};
use super::report::{Case, Need};
use crate::{WaitQueue, scope};
use std::sync::Arc;

pub(super) const CASES: &[Case] = &[Case {
    name: "a_queue_between_fibers_and_threads",
    clauses: &["1", "9", "R2"],
    about: "fibers and plain threads hand each other values over one queue, and none is lost or doubled",
    needs: &[Need::Others],
    run: a_queue_between_fibers_and_threads,
}];

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
    let threads: Vec<_> = (0..TAKERS)
        .map(|_| {
            let (from, to) = (Arc::clone(&to_threads), Arc::clone(&to_fibers));
            plain_thread(move || (0..rounds).for_each(|_| put(&to, take(&from))))
        })
        .collect();
    probe.run(move |probe| {
        let sums: Vec<usize> = scope(|s| {
            let takers: Vec<_> =
                (0..TAKERS).map(|_| s.spawn(|| (0..rounds).map(|_| take(&to_fibers)).sum::<usize>())).collect();
            (0..TAKERS * rounds).for_each(|value| put(&to_threads, value));
            probe.next("every value, by way of a plain thread");
            takers.into_iter().filter_map(|taker| taker.join().ok()).collect()
        });
        let due = (0..TAKERS * rounds).sum::<usize>();
        probe.equal("R2", "the sum of what came back", sums.iter().sum::<usize>(), due);
    });
    for thread in threads {
        probe.expect("9", thread.join().is_ok(), || "a thread that met fibers at a queue panicked".to_owned());
    }
}
