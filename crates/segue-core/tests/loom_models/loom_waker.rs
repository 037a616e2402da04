//! Every interleaving of polls, wakes and the end of a wait: each poll after a wake sees what was
//! done before it, nobody sleeps for ever, and a bell is not used after its end.

use crate::models;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use models::{Reached, check, model};
use segue_core::scheduling::Family;
use segue_core::wait_future;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A future that, at its first poll, starts a thread for each of `counters`, which counts up
/// without ordering and wakes; ready when all are one.
fn all_counted(counters: &[Arc<AtomicUsize>]) -> impl Future<Output = u32> {
    let mut polls = 0;
    poll_fn(move |cx| {
        polls += 1;
        if polls == 1 {
            for counter in counters {
                let (counter, waker) = (Arc::clone(counter), cx.waker().clone());
                thread::spawn(move || {
                    counter.store(1, Relaxed);
                    waker.wake();
                });
            }
        }
        if counters.iter().all(|counter| counter.load(Relaxed) == 1) { Poll::Ready(polls) } else { Poll::Pending }
    })
}

#[test]
fn two_threads_wake_one_wait() {
    static TWICE: Reached = Reached::new("ready at the second poll");
    static THRICE: Reached = Reached::new("ready at the third poll");
    model(3, || {
        let counters = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        match wait_future(all_counted(&counters)).unwrap() {
            1 => {}
            2 => TWICE.note(),
            3 => THRICE.note(),
            more => panic!("{more} polls for two wakes"),
        }
    });
    check(&[&TWICE, &THRICE]);
}

#[test]
fn a_future_wakes_itself_and_is_woken_by_a_thread() {
    static TWICE: Reached = Reached::new("ready at the second poll");
    static THRICE: Reached = Reached::new("ready at the third poll");
    model(3, || {
        let counters = [Arc::new(AtomicUsize::new(0))];
        let mut counted = pin!(all_counted(&counters));
        let mut polled = false;
        let future = poll_fn(|cx| {
            if !std::mem::replace(&mut polled, true) {
                // Before and after the thread has a waker, which may ring between the two.
                cx.waker().wake_by_ref();
                let poll = counted.as_mut().poll(cx);
                cx.waker().wake_by_ref();
                return poll;
            }
            counted.as_mut().poll(cx)
        });
        match wait_future(future).unwrap() {
            1 => {}
            2 => TWICE.note(),
            3 => THRICE.note(),
            more => panic!("{more} polls for a wake from here and one from elsewhere"),
        }
    });
    check(&[&TWICE, &THRICE]);
}

#[test]
fn a_wake_against_a_cancellation() {
    static WOKEN: Reached = Reached::new("woken");
    static CANCELLED: Reached = Reached::new("cancelled");
    model(3, || {
        let family = Arc::new(Family::detached());
        let counters = [Arc::new(AtomicUsize::new(0))];
        let cancel = thread::spawn({
            let token = family.token();
            move || token.cancel()
        });
        match family.enter_context(|| wait_future(all_counted(&counters))) {
            Ok(_) => WOKEN.note(),
            Err(_) => CANCELLED.note(),
        }
        cancel.join().unwrap();
    });
    check(&[&WOKEN, &CANCELLED]);
}

#[test]
fn wakers_that_are_left_end_the_bell_on_two_threads() {
    static HERE: Reached = Reached::new("the owner dropped one after the end");
    model(3, || {
        let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let mut polled = false;
        let future = poll_fn(|cx| {
            if std::mem::replace(&mut polled, true) {
                return Poll::Ready(());
            }
            let (waker, kept) = (cx.waker().clone(), Arc::clone(&kept));
            thread::spawn(move || {
                // One more reference from here, dropped here or there.
                kept.lock().unwrap().push(waker.clone());
                waker.wake();
            });
            Poll::Pending
        });
        wait_future(future).unwrap();
        let left = kept.lock().unwrap().pop();
        HERE.note_if(left.is_some());
        drop(left);
    });
    check(&[&HERE]);
}
