//! Futures that were first polled on a scheduler that has ended since.

use segue_core::{after, wait_future};
use segue_sched::{Runtime, Sim};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::time::Duration;

/// Fails instead of hanging.
fn ends(f: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        let _sender = sender;
        f();
    });
    let waited = receiver.recv_timeout(Duration::from_secs(100));
    assert_eq!(waited, Err(mpsc::RecvTimeoutError::Disconnected), "it never ended");
}

type Sleep = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn sleep_that_was_polled() -> Sleep {
    let mut sleep: Sleep = Box::pin(after(Duration::from_millis(50)).into_future());
    assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep
}

#[test]
fn a_sleep_ends_also_if_the_scheduler_on_which_it_began_has_ended() {
    ends(|| {
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        Runtime::new().workers(1).run(move || *keep.lock().unwrap() = Some(sleep_that_was_polled())).unwrap();
        let sleep = kept.lock().unwrap().take().unwrap();
        let began = std::time::Instant::now();
        wait_future(sleep).unwrap();
        assert!(began.elapsed() < Duration::from_secs(50));
    });
}

#[test]
fn a_sleep_ends_also_if_the_simulator_on_which_it_began_has_ended() {
    ends(|| {
        let kept = Arc::new(Mutex::new(None));
        let keep = Arc::clone(&kept);
        Sim::new(1).run(move || *keep.lock().unwrap() = Some(sleep_that_was_polled())).unwrap();
        let sleep = kept.lock().unwrap().take().unwrap();
        wait_future(sleep).unwrap();
    });
}

#[test]
fn a_sleep_is_dropped_on_another_thread_after_the_end_of_its_scheduler() {
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    Runtime::new().workers(2).run(move || *keep.lock().unwrap() = Some(sleep_that_was_polled())).unwrap();
    std::thread::spawn(move || drop(kept.lock().unwrap().take())).join().unwrap();
}
