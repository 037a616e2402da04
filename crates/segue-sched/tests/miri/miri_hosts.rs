//! Hosted fibers that other threads resume and that end at once: small, for Miri and the thread
//! sanitizer, with the feature `threads`.

use segue_core::{Outcome, Trigger, WaitsFor, wait_future};
use segue_sched::hosted;
use std::sync::Arc;
use std::thread;

#[test]
fn a_fiber_that_another_thread_resumes_and_that_ends_meanwhile() {
    for _ in 0..3 {
        let trigger = Arc::new(Trigger::new());
        let remote = Arc::clone(&trigger);
        let resumer = thread::spawn(move || remote.signal(7));
        let fiber = hosted(move || trigger.wait(WaitsFor::new("a signal")));
        assert_eq!(wait_future(fiber).unwrap().unwrap(), Outcome::Taken(7));
        resumer.join().unwrap();
    }
}

#[test]
fn a_fiber_whose_future_is_dropped_while_another_thread_resumes_it() {
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        let trigger = Arc::new(Trigger::new());
        let remote = Arc::clone(&trigger);
        let resumer = thread::spawn(move || remote.signal(7));
        let (send, receive) = std::sync::mpsc::channel();
        let mut fiber = hosted(move || send.send(trigger.wait(WaitsFor::new("a signal"))).unwrap());
        let task = &mut std::task::Context::from_waker(std::task::Waker::noop());
        let _ = std::pin::Pin::new(&mut fiber).poll(task);
        drop(fiber);
        let taken = receive.recv().unwrap() == Outcome::Taken(7);
        assert_eq!(taken, resumer.join().unwrap(), "the two agree");
        outcomes.push(taken);
    }
    println!("{outcomes:?}");
}
