//! Calls of the scheduler contract that safe code can make against the grain, and that must do no harm.
#![cfg(not(any(miri, feature = "threads")))]

mod common;

use common::in_child;
use segue_core::scope;

#[test]
fn a_family_that_is_dropped_leaves_the_tree() {
    let end = in_child("a_family_that_is_dropped_leaves_the_tree", || {
        // `Family::of_caller` is safe, and hangs a raw pointer into the scope's context.
        for _ in 0..100 {
            scope(|s| {
                drop(segue_core::Family::of_caller());
                let litter: Vec<Box<[u64; 12]>> = (0..100).map(|_| Box::new([u64::MAX; 12])).collect();
                s.cancel();
                drop(litter);
            });
        }
    });
    end.assert_passed();
}
