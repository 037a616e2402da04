//! Contexts that were captured with a computation, far from where they were entered: cancelled by
//! other threads while they are away or on their way back, forgotten, left to the end of a thread,
//! moved ten thousand times.
//!
//! Not on the host with a thread for each fiber, where a handled computation is on a thread that
//! does not know which fiber it is part of.
#![cfg(not(feature = "threads"))]

use segue_core::{CancelToken, after, is_cancelled, scope, shield, spawn, timeout};
use segue_sched::Runtime;
use segue_sched::fiber::{Generator, Yielder, generator};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(1000);

fn gives(y: &Yielder<bool>) -> ! {
    loop {
        y.give(is_cancelled());
    }
}

/// Gives over and over from inside of a token, a timeout and a scope, whether it was cancelled.
fn gives_from_inside(token: &CancelToken) -> Generator<'static, bool> {
    let token = token.clone();
    generator(move |y| token.run(|| timeout(LONG, || scope(|_| -> () { gives(y) }))))
}

#[test]
fn a_token_that_outlives_what_was_forgotten_under_it_is_cancelled_after_the_end_of_the_thread() {
    let token = CancelToken::new();
    let inside = token.clone();
    let forgets = move || {
        for _ in 0..10 {
            let mut elements = gives_from_inside(&inside);
            assert_eq!(elements.next(), Some(false));
            std::mem::forget(elements);
        }
    };
    std::thread::spawn(forgets).join().unwrap();
    // Stacks of other threads, for those that would have been given back.
    let uses = || generator(|y| y.give(std::hint::black_box([0xa5_u8; 16 << 10])[7])).next();
    std::thread::spawn(move || assert_eq!(uses(), Some(0xa5))).join().unwrap();
    token.cancel();
    assert!(token.run(is_cancelled));
}

#[test]
fn what_a_variable_of_a_thread_keeps_to_its_end_is_cancelled_from_outside() {
    thread_local!(static KEPT: RefCell<Vec<Generator<'static, bool>>> = const { RefCell::new(Vec::new()) });
    for variable_first in [true, false] {
        let token = CancelToken::new();
        let (inside, kept) = (token.clone(), Arc::new(Barrier::new(2)));
        let told = Arc::clone(&kept);
        let keeps = std::thread::spawn(move || {
            if variable_first {
                KEPT.with_borrow_mut(Vec::clear);
            }
            let mut elements = gives_from_inside(&inside);
            assert_eq!(elements.next(), Some(false));
            KEPT.with_borrow_mut(|kept| kept.push(elements));
            told.wait();
        });
        kept.wait();
        // While the thread ends.
        token.cancel();
        keeps.join().unwrap();
        assert!(token.run(is_cancelled));
    }
}

#[test]
fn cancellations_race_with_what_leaves_and_comes_back() {
    for round in 0..200 {
        let (inner, outer) = (CancelToken::new(), CancelToken::new());
        let start = Arc::new(Barrier::new(2));
        let cancels = {
            let (inner, outer, start) = (inner.clone(), outer.clone(), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                if round % 2 == 0 {
                    inner.cancel();
                    outer.cancel();
                } else {
                    outer.cancel();
                    inner.cancel();
                }
            })
        };
        let run = Runtime::new().workers(1).run(|| {
            let mut elements = gives_from_inside(&inner);
            start.wait();
            // Each element is a move out of what is around, and back into it.
            while elements.next() == Some(false) {
                let _ = spawn(|| ()).is_finished();
                outer.run(|| assert!(elements.next().is_some()));
            }
            // It is sticky, and the one around is not the consumer's.
            assert_eq!(elements.next(), Some(true));
            assert!(!is_cancelled());
            // A wait inside of both is not missed either.
            assert!(outer.run(|| timeout(LONG, || after(LONG).wait())).is_err());
        });
        run.unwrap();
        cancels.join().unwrap();
    }
}

#[test]
fn ten_thousand_moves_leave_nothing_behind() {
    let ended = AtomicUsize::new(0);
    let run = Runtime::new().workers(1).run(|| {
        let token = CancelToken::new();
        let mut elements = gives_from_inside(&token);
        for n in 0..10_000 {
            let mut next = || elements.next();
            let was_cancelled = match n % 3 {
                0 => timeout(LONG, next),
                1 => shield(next),
                _ => scope(|_| next()),
            };
            assert_eq!(was_cancelled, Some(false));
            ended.fetch_add(1, SeqCst);
        }
        // Whoever it was in has ended; this cancels what is there, and would find what was left
        // behind.
        token.cancel();
        assert_eq!(elements.next(), Some(true));
        drop(elements);
    });
    run.unwrap();
    assert_eq!(ended.load(SeqCst), 10_000);
}
