//! What nobody takes is dropped where it can be cancelled, and a panic in such a drop reaches
//! whoever can be told.
#![cfg(feature = "sched")]

use segue::sync::MVar;
use segue::testing::Sim;
use segue::{Cancelled, JoinError, scope, spawn, timeout, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// Waits in its drop, for what never comes, and notes how that ends.
struct Waits(Arc<Mutex<Vec<bool>>>);

impl Drop for Waits {
    fn drop(&mut self) {
        let ended = MVar::<()>::empty().take();
        self.0.lock().unwrap().push(ended.is_err());
    }
}

fn on_each_scheduler(body: impl Fn() + Send + Sync) {
    Sim::new(0).run(&body).unwrap_or_else(|deadlock| panic!("{deadlock}"));
    segue::runtime().workers(2).run(&body).unwrap();
    segue::sched::Runtime::new().workers(1).pool().unwrap().run(&body).unwrap();
}

fn settle() {
    (0..16).for_each(|_| yield_now().unwrap());
}

/// Runs `f` with what waits in its drop, which `ends` it must cancel.
fn cancelled_in_the_drop(f: impl Fn(Waits)) {
    let notes = Arc::new(Mutex::new(Vec::new()));
    f(Waits(Arc::clone(&notes)));
    assert_eq!(*notes.lock().unwrap(), [true]);
}

#[test]
fn a_run_ends_although_results_that_nobody_takes_wait_in_their_drops() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    for workers in [1, 2] {
        let run = || {
            // What has not begun when the run ends never does, and leaves nothing. What has ended
            // before its handle goes is dropped with that.
            let (begun, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let waits = || {
                let (begun, gone, notes) = (Arc::clone(&begun), Arc::clone(&gone), Arc::clone(&notes));
                move || {
                    while !gone.load(SeqCst) {
                        yield_now().unwrap();
                    }
                    begun.fetch_add(1, SeqCst);
                    Waits(notes)
                }
            };
            let (of_fiber, of_task, of_panic) = (waits(), waits(), waits());
            drop(spawn(of_fiber));
            drop(segue::core::spawn_task(async move { of_task() }));
            drop(spawn(move || resume_unwind(Box::new(of_panic()))));
            gone.store(true, SeqCst);
            while begun.load(SeqCst) < 3 {
                yield_now().unwrap();
            }
        };
        segue::runtime().workers(workers).run(run).unwrap();
    }
    assert_eq!(*notes.lock().unwrap(), [true; 6]);
}

#[test]
fn a_scope_s_cancellation_reaches_the_drop_of_a_result() {
    on_each_scheduler(|| {
        // What has ended before its handle goes is dropped with that.
        let gone = &AtomicBool::new(false);
        let wait = || {
            while !gone.load(SeqCst) {
                let _ = yield_now();
            }
        };
        cancelled_in_the_drop(|waits| {
            scope(|s| {
                let made = move || {
                    wait();
                    waits
                };
                drop(s.spawn(made));
                gone.store(true, SeqCst);
                settle();
                s.cancel();
            });
        });
        gone.store(false, SeqCst);
        cancelled_in_the_drop(|waits| {
            scope(|s| {
                let made = async move {
                    wait();
                    waits
                };
                drop(s.spawn_task(made));
                gone.store(true, SeqCst);
                settle();
                s.cancel();
            });
        });
    });
}

#[test]
fn a_time_limit_reaches_the_drop_of_a_result() {
    on_each_scheduler(|| {
        cancelled_in_the_drop(|waits| {
            timeout(Duration::from_millis(1), || scope(|s| drop(s.spawn(move || waits))));
        });
    });
}

struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("{}", self.0);
    }
}

fn panic_of(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("it panics");
    JoinError::panicked(payload).to_string()
}

#[test]
fn a_scope_raises_the_panic_that_came_first() {
    on_each_scheduler(|| {
        let raised = panic_of(|| {
            scope(|s| {
                s.spawn(|| panic!("the first"));
                // It panics because the scope is cancelled.
                MVar::<()>::empty().take().unwrap();
            });
        });
        assert!(raised.starts_with("the fiber panicked: the first"), "{raised}");
        let raised = panic_of(|| {
            scope(|s| {
                s.spawn(|| MVar::<()>::empty().take().unwrap());
                settle();
                panic!("the body's");
            });
        });
        assert!(raised.starts_with("the fiber panicked: the body's"), "{raised}");
    });
}

#[test]
fn fibers_are_told_why_the_body_s_panic_has_cancelled_them() {
    on_each_scheduler(|| {
        let told = Mutex::new(None);
        let raised = panic_of(|| {
            scope(|s| {
                let begun = Arc::new(AtomicUsize::new(0));
                let begins = Arc::clone(&begun);
                let told = &told;
                s.spawn(move || {
                    begins.store(1, SeqCst);
                    *told.lock().unwrap() = MVar::<()>::empty().take().err();
                });
                while begun.load(SeqCst) == 0 {
                    yield_now().unwrap();
                }
                panic!("out of ink");
            });
        });
        assert_eq!(raised, "the fiber panicked: out of ink");
        let told: Cancelled = told.lock().unwrap().take().unwrap();
        assert_eq!(told.to_string(), "cancelled: the body of the scope panicked: out of ink");
    });
}

#[test]
fn a_panic_in_the_drop_of_a_result_is_the_scope_s() {
    on_each_scheduler(|| {
        let raised = panic_of(|| {
            scope(|s| {
                drop(s.spawn(|| Bomb("in the drop of a result")));
                settle();
            });
        });
        assert!(raised.starts_with("the fiber panicked: in the drop of a result"), "{raised}");
        let raised = panic_of(|| {
            scope(|s| {
                drop(s.spawn_task(async { Bomb("in the drop of an output") }));
                settle();
            });
        });
        assert!(raised.starts_with("the fiber panicked: in the drop of an output"), "{raised}");
    });
}

/// A future that panics with `first` when it is polled, and with `then` when it is dropped.
struct PanicsTwice(&'static str, #[allow(dead_code, reason = "it is dropped")] Bomb);

impl Future for PanicsTwice {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        panic!("{}", self.0)
    }
}

#[test]
fn the_panic_of_a_future_s_drop_after_that_of_its_poll_is_the_scope_s_too() {
    on_each_scheduler(|| {
        let raised = panic_of(|| {
            scope(|s| {
                let error = s.spawn_task(PanicsTwice("in the poll", Bomb("in the drop"))).join().unwrap_err();
                assert_eq!(error.to_string(), "the fiber panicked: in the poll");
            });
        });
        let both = "in the poll; then the drop of what a fiber has left panicked: in the drop";
        assert_eq!(raised, format!("the fiber panicked: {both}"));
    });
}

#[test]
fn a_panic_in_the_drop_of_what_never_started_is_its_handle_s_and_the_scope_s() {
    on_each_scheduler(|| {
        let raised = panic_of(|| {
            scope(|s| {
                s.cancel();
                let bomb = Bomb("in the drop of a closure");
                s.spawn(move || drop(bomb));
            });
        });
        assert_eq!(raised, "the fiber panicked: in the drop of a closure");
    });
    // Detached: its handle is all that there is. The run is over before the worker gets to it.
    let handle = segue::runtime().workers(1).run(|| {
        let bomb = Bomb("in the drop of a detached one");
        spawn(move || drop(bomb))
    });
    let error = handle.unwrap().join().unwrap_err();
    assert_eq!(error.to_string(), "the fiber panicked: in the drop of a detached one");
}

#[test]
fn those_that_never_started_are_counted() {
    const CHILD: &str = "SEGUE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        segue::sched::Runtime::new()
            .workers(1)
            .run_with(segue::sched::Fifo::default, || {
                scope(|s| {
                    s.spawn(|| panic_any(7));
                    for _ in 0..3 {
                        s.spawn(|| ());
                    }
                });
            })
            .unwrap();
        return;
    }
    let name = "those_that_never_started_are_counted";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    assert!(!child.status.success());
    let said = String::from_utf8(child.stderr).unwrap();
    assert!(said.contains("segue: 3 fibers were never started in the scope at "), "{said}");
    assert!(said.contains("last_drops.rs:"), "{said}");
}
