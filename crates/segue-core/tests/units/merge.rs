//! How many steps it takes to remove the arms of a merge. Part of `wait/merge.rs`.

use super::{KEPT, Merge, merge};
use crate::wait::queue::WaitQueue;
use crate::{Source, Waitable, WaitsFor};

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
