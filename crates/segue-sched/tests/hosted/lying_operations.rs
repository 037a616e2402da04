//! Closures that wait while their own waiter is being registered: a claim by another arm must not
//! end their wait.
#![cfg(not(miri))]

use crate::common::in_child;
use segue_core::{Either, WaitQueue, Waitable, WaitsFor, after, sleep};
use segue_sched::Runtime;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_closure_that_waits_inside_of_a_registration_does_not_leave_its_frame_behind() {
    let end = in_child("a_closure_that_waits_inside_of_a_registration_does_not_leave_its_frame_behind", || {
        let ended = Runtime::new().workers(1).run(|| {
            let gate: Arc<WaitQueue<bool>> = Arc::new(WaitQueue::new(false));
            let foreign: WaitQueue<u32> = WaitQueue::new(0);
            let remote = Arc::clone(&gate);
            let looks = Cell::new(0);
            let ready = |_: &u32| {
                // The first look comes before any registration.
                if looks.replace(looks.get() + 1) == 0 {
                    return false;
                }
                // The left arm is registered by now: its claim resumes this very fiber, in the
                // middle of another wait.
                let remote = Arc::clone(&remote);
                let opener = std::thread::spawn(move || {
                    let mut gate = remote.lock();
                    *gate.state() = true;
                    gate.notify_all(0);
                });
                // The resume is on its way before the wait begins, and would end it.
                opener.join().unwrap();
                let inner = catch_unwind(AssertUnwindSafe(|| sleep(Duration::from_millis(20))));
                let refused = inner.expect("a wait does not unwind while it is registered");
                assert!(refused.unwrap_err().reason().is_some());
                false
            };
            let left = Waitable::new(gate.source(WaitsFor::new("the gate"), |open| *open, |_| ()));
            let right = Waitable::new(foreign.source(WaitsFor::new("a closure"), ready, |_| ()));
            let ended = left.or(right).wait();
            assert_eq!(ended, Ok(Either::Left(())));
            // Frames over the inner one's, until its timer has fired. The thread that resumes is a
            // real one, and so is the worker's clock.
            let litter = [0x5555_5555_5555_5555_u64; 512];
            std::hint::black_box(&litter);
            let _ = after(Duration::from_millis(60)).wait();
        });
        ended.unwrap();
    });
    end.assert_passed();
}
