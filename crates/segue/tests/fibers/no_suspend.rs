//! Code in which a fiber can't wait.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{AtDrop, everywhere, pool, simulated};
use segue::cancel::no_suspend;
use segue::core::in_fiber;
use segue::sync::{MVar, Mutex, Semaphore, promise};
use segue::testing::settle;
use segue::{
    Builder, Cancelled, JoinError, after, checkpoint, scope, sleep, spawn, spawn_task, wait_future, yield_now,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn says_so(cancelled: &Cancelled) -> bool {
    cancelled.reason().is_some_and(|reason| reason.to_string() == "a fiber can't wait inside of `no_suspend`")
}

fn never_ran<H>(error: JoinError<H>) -> Cancelled {
    match error {
        JoinError::NeverRan(why) => why,
        error => panic!("it ran: {error}"),
    }
}

#[test]
fn a_wait_is_refused_on_a_fiber_and_parks_on_a_thread() {
    let refused = AtomicUsize::new(0);
    everywhere(|| {
        let (cell, promised) = (MVar::<u32>::empty(), promise::<()>());
        if !in_fiber() {
            assert_eq!(no_suspend(|| sleep(Duration::from_millis(1))), Ok(()));
            return;
        }
        no_suspend(|| {
            assert!(says_so(&cell.take().unwrap_err()));
            assert!(says_so(&sleep(Duration::from_millis(1)).unwrap_err()));
            assert!(says_so(&yield_now().unwrap_err()));
            assert!(says_so(&wait_future(async { promised.1.wait_source().await.is_ok() }).unwrap_err()));
            assert!(says_so(&after(Duration::MAX).or(after(Duration::MAX)).wait().unwrap_err()));
            // What is there is taken, and what never waits works.
            cell.put(1).unwrap();
            assert_eq!(cell.take(), Ok(1));
            assert_eq!(wait_future(async { 2 }), Ok(2));
            // Nested, it holds until the outer one has ended.
            no_suspend(|| ());
            assert!(says_so(&cell.take().unwrap_err()));
            refused.fetch_add(1, SeqCst);
        });
        // A join keeps its handle.
        let fiber = spawn(|| sleep(Duration::from_millis(1)));
        if let Err(error) = no_suspend(|| fiber.join()) {
            assert!(says_so(error.cancelled().unwrap()));
            assert_eq!(error.into_handle().unwrap().join().unwrap(), Ok(()));
        }
        // It ends with a panic, too.
        let _ = catch_unwind(|| no_suspend(|| std::panic::resume_unwind(Box::new(()))));
        assert_eq!(yield_now(), Ok(()));
    });
    assert!(refused.into_inner() > 20);
}

#[test]
fn a_join_in_the_body_of_a_scope_is_refused_like_any_wait_and_blocks_no_worker() {
    everywhere(|| {
        if !in_fiber() {
            return;
        }
        let cell = MVar::empty();
        scope(|s| {
            // It can't end before the body has gone on.
            let fiber = s.spawn(|| cell.take());
            let error = no_suspend(|| fiber.join()).unwrap_err();
            assert!(says_so(error.cancelled().unwrap()));
            let mut fiber = error.into_handle();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _joins = AtDrop(|| {
                    let error = fiber.take().unwrap().join().unwrap_err();
                    let why = error.cancelled().unwrap().reason().unwrap().to_string();
                    assert_eq!(why, "a fiber that is panicking can't wait");
                    fiber = error.into_handle();
                });
                std::panic::resume_unwind(Box::new(()))
            }));
            assert!(panicked.is_err());
            cell.put(7).unwrap();
            assert_eq!(fiber.unwrap().join().unwrap(), Ok(7));
        });
    });
}

#[test]
fn in_a_scope_fibers_run_in_place_and_what_comes_later_never_runs_and_says_why() {
    everywhere(|| {
        let (ran, soon) = (AtomicUsize::new(0), Duration::from_millis(1));
        no_suspend(|| {
            scope(|s| {
                let task = s.spawn_task(async { 1 });
                let later = Builder::new().after(soon).within(s).spawn(|| 2);
                let fiber = s.spawn(|| ran.fetch_add(1, SeqCst));
                if !in_fiber() {
                    assert_eq!((task.join().unwrap(), later.join().unwrap(), fiber.join().unwrap()), (1, 2, 0));
                    return;
                }
                assert_eq!(ran.load(SeqCst), 1, "in place");
                for refused in [task.join().map_err(never_ran), later.join().map_err(never_ran)] {
                    assert!(says_so(&refused.unwrap_err()));
                }
                // A scope that was cancelled has a reason of its own.
                s.cancel_with("no need");
                let why = s.spawn_task(async { 3 }).join().unwrap_err().to_string();
                assert!(why.ends_with("no need"), "{why}");
            });
        });
        assert_eq!(ran.into_inner(), 1);
    });
}

#[test]
fn nobody_else_has_the_thread_meanwhile_however_much_is_done() {
    simulated(20, |_| {
        let (turns, permits) = (AtomicUsize::new(0), Semaphore::new(1));
        scope(|s| {
            s.spawn(|| {
                for _ in 0..10 {
                    turns.fetch_add(1, SeqCst);
                    yield_now().unwrap();
                }
            });
            no_suspend(|| {
                let before = turns.load(SeqCst);
                for _ in 0..1_000 {
                    drop(permits.acquire().unwrap());
                    let _ = checkpoint();
                }
                assert_eq!(turns.load(SeqCst), before);
            });
            settle().unwrap();
        });
        assert_eq!(turns.into_inner(), 10);
    });
}

#[test]
fn in_the_poll_of_a_task_what_would_wait_is_refused() {
    pool(1)
        .run(|| {
            let task = spawn_task(async {
                let held = Mutex::new(0);
                let guard = held.lock_source().await;
                let refused = no_suspend(|| held.lock().map(drop)).unwrap_err();
                drop(guard);
                // What it awaits afterwards is awaited as ever.
                after(Duration::from_millis(1)).await;
                says_so(&refused)
            });
            assert!(task.join().unwrap());
        })
        .unwrap();
}
