//! Hosted fibers in the hands of hostile executors: thread-local variables that are gone, futures
//! that are dropped by wakers.
// On the stand-in host a fiber has thread-local variables of its own.
#![cfg(not(any(miri, feature = "threads")))]

use crate::common::in_child;
use segue_sched::{Hosted, hosted};
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Waker};

#[test]
#[cfg_attr(
    all(windows, target_env = "gnu"),
    ignore = "variables end there in an order of the process: soundness, limit 3"
)]
fn a_fiber_that_holds_a_thread_local_variable_is_not_run_after_that_is_gone() {
    let end = in_child("a_fiber_that_holds_a_thread_local_variable_is_not_run_after_that_is_gone", || {
        struct Loud(String);
        impl Drop for Loud {
            fn drop(&mut self) {
                eprintln!("the variable is gone");
                self.0.clear();
                self.0.shrink_to_fit();
            }
        }
        thread_local! {
            static FIBER: RefCell<Option<Hosted<()>>> = const { RefCell::new(None) };
            static VALUE: RefCell<Loud> = RefCell::new(Loud("a value".to_owned()));
        }
        std::thread::spawn(|| {
            FIBER.with(|fiber| {
                let mut hosted = hosted(|| {
                    VALUE.with(|value| {
                        let waited = segue_core::sleep(std::time::Duration::MAX);
                        eprintln!("the fiber goes on after {waited:?} with {:?}", value.borrow().0);
                    });
                });
                let _ = Pin::new(&mut hosted).poll(&mut Context::from_waker(Waker::noop()));
                *fiber.borrow_mut() = Some(hosted);
            });
        })
        .join()
        .unwrap();
    });
    end.assert_passed();
    assert!(end.stderr.contains("the variable is gone"), "{end:#?}");
    assert!(!end.stderr.contains("the fiber goes on"), "{end:#?}");
}
