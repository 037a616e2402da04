//! Calls of the scheduler contract that safe code can make today and that reach undefined behaviour: each is to become `unsafe`
//! (then its test here goes) or to be refused.
#![cfg(not(any(miri, feature = "threads")))]

mod common;

use common::in_child;
use segue_core::{scope, yield_now};
use segue_sched::Builder;

#[test]
fn yielding_through_the_scheduler_for_a_fiber_that_is_not_the_caller_is_refused() {
    let end = in_child("yielding_through_the_scheduler_for_a_fiber_that_is_not_the_caller_is_refused", || {
        // `Scheduler::yield_now` is safe to call: with a header of another kind it must not reach for this worker's.
        segue_core::with_current(|thread| {
            let _ = Builder::new().workers(1).run(|| {
                segue_core::with_current(|fiber| fiber.scheduler().yield_now(thread));
            });
        });
    });
    let refused = end.status.is_some_and(|status| {
        use std::os::unix::process::ExitStatusExt;
        status.success() || status.signal() == Some(6)
    });
    assert!(refused, "undefined behaviour from safe code: {end:#?}");
}

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

#[test]
fn a_fiber_cannot_be_given_another_host_by_safe_code() {
    let end = in_child("a_fiber_cannot_be_given_another_host_by_safe_code", || {
        let _ = Builder::new().workers(1).run(|| {
            segue_core::with_current(|fiber| fiber.set_host(std::ptr::null()));
            let _ = yield_now();
        });
    });
    end.assert_passed();
}
