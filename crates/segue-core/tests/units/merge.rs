//! How many steps it takes to remove the arms of a merge. Part of `wait/merge.rs`.

use super::{KEPT, Merge, merge};
use crate::wait::queue::WaitQueue;
use crate::{Source, Waitable, WaitsFor, timeout};
use std::cell::Cell;
use std::time::Duration;

/// Not ready before its queue says so.
fn source(queue: &WaitQueue<bool>) -> Waitable<impl Source<Output = ()>> {
    Waitable::new(queue.source(WaitsFor::new("the end"), |ended| *ended, |_| ()))
}

/// How many places of the row were gone through, if each call that makes the row shorter goes
/// through all of it.
fn steps_of_removals<S: Source>(merged: &mut Merge<S>, mut next: impl FnMut(&mut Merge<S>) -> Option<usize>) -> usize {
    let mut steps = 0;
    while let Some(index) = next(merged) {
        let before = merged.row.len() + merged.served.list.lock().peek().len();
        assert!(merged.remove(index).is_some() && merged.remove(index).is_none());
        let after = merged.row.len() + merged.served.list.lock().peek().len();
        assert!(merged.row.len() <= 2 * merged.len() + 1);
        steps += if after < before { before } else { 1 };
    }
    steps
}

#[test]
fn arms_that_end_together_are_removed_in_a_few_steps_each() {
    const ARMS: usize = if cfg!(miri) { 100 } else { 10_000 };
    let queue = WaitQueue::new(false);
    for way in 0..3 {
        *queue.lock().state() = false;
        let mut merged = merge((0..ARMS).map(|_| source(&queue)));
        let mut all = 0..ARMS;
        let steps = match way {
            // They were never looked at.
            0 => steps_of_removals(&mut merged, |_| all.next()),
            // They are registered.
            1 => {
                assert!(merged.try_next().is_none());
                steps_of_removals(&mut merged, |_| all.next())
            }
            // They end all at once, and each is removed as it yields, while the others are due.
            _ => {
                assert!(merged.try_next().is_none());
                let mut ending = queue.lock();
                *ending.state() = true;
                ending.notify_all(0);
                steps_of_removals(&mut merged, |merged| merged.try_next().map(|(index, ())| index))
            }
        };
        assert!(steps <= 4 * ARMS, "{steps} steps for {ARMS} arms, in way {way}");
        assert!(merged.is_empty() && merged.arms.len() <= KEPT, "their memory has gone");
    }
}

#[test]
fn an_index_that_is_given_out_again_has_no_turn_of_the_arm_before() {
    let (idle, ready) = (WaitQueue::new(false), WaitQueue::new(true));
    let mut merged = Merge::new();
    for round in 0..if cfg!(miri) { 100 } else { 3000 } {
        let of = if round % 3 == 0 { &ready } else { &idle };
        let index = merged.push(source(of));
        assert!(index < 12, "the indices of those that have gone are used");
        if round % 5 == 0 {
            // Ready arms only yield, whatever had their index before.
            let next = merged.try_next().map(|(index, ())| index);
            assert!(next.is_none_or(|index| merged.arms[index].is_some()));
        }
        if merged.len() > 10 {
            let index = (round * 7..).map(|n| n % merged.arms.len()).find(|n| merged.arms[*n].is_some()).unwrap();
            assert!(merged.remove(index).is_some());
        }
        assert!(merged.len() <= 11 && merged.stale <= merged.len());
    }
}

#[test]
fn a_merge_without_arms_is_never_ready_whatever_has_left_it() {
    let (idle, ready) = (WaitQueue::new(false), WaitQueue::new(true));
    let mut merged = merge([source(&idle), source(&ready)]);
    assert_eq!([merged.try_next(), merged.try_next()], [Some((1, ())); 2]);
    // One that is due leaves its place in the row; then the last one goes, which is registered.
    assert!(merged.remove(1).is_some() && merged.remove(0).is_some());
    let (looks, ended) = (Cell::new(0), WaitQueue::new(false));
    let has_ended = |ended: &bool| {
        looks.set(looks.get() + 1);
        // A wait that finds itself ready again and again would go on for ever.
        *ended || looks.get() == 1000
    };
    let end = Waitable::new(ended.source(WaitsFor::new("the end"), has_ended, |_| ()));
    let waited = timeout(Duration::from_millis(10), || merged.next_source().or(end).wait());
    assert!(waited.is_err_and(|cancelled| cancelled.timed_out()), "after {} looks", looks.get());
    assert!(merged.row.is_empty());
}
