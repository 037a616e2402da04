//! A task's result is given to one owner and freed once, whichever of the task and its handle goes
//! first.
#![allow(unsafe_code, unused_unsafe)] // Jobs are made by hand where the test is their scheduler.

use crate::common;

use common::{Counted, Host, Jobs, counted, rounds, stagger, until};
use segue_core::scheduling::Family;
use segue_core::{JoinError, JoinHandle, WaitQueue, WaitsFor, scope, shield, spawn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A fiber that returns a counted value once the gate is open.
fn behind(gate: &Arc<WaitQueue<bool>>, make: impl Fn() -> Counted + Send + 'static) -> JoinHandle<Counted> {
    let gate = Arc::clone(gate);
    spawn(move || {
        gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ()).unwrap();
        make()
    })
}

fn open(gate: &WaitQueue<bool>) {
    let mut guard = gate.lock();
    *guard.state() = true;
    guard.notify_all(0);
}

fn dropped(drops: &AtomicUsize) -> usize {
    drops.load(Ordering::SeqCst)
}

#[test]
fn a_joined_result_is_the_joiner_s() {
    let (drops, make) = counted();
    let value = spawn(make).join().unwrap();
    assert_eq!(dropped(&drops), 0);
    drop(value);
    assert_eq!(dropped(&drops), 1);
}

#[test]
fn a_handle_that_is_dropped_before_the_end_leaves_the_result_to_the_task() {
    let (drops, make) = counted();
    let gate = Arc::new(WaitQueue::new(false));
    drop(behind(&gate, make));
    assert_eq!(dropped(&drops), 0);
    open(&gate);
    until(|| dropped(&drops) == 1);
}

#[test]
fn a_handle_that_is_dropped_after_the_end_drops_the_result() {
    let (drops, make) = counted();
    let handle = spawn(make);
    until(|| handle.is_finished());
    assert_eq!(dropped(&drops), 0);
    drop(handle);
    assert_eq!(dropped(&drops), 1);
}

#[test]
fn a_cancelled_join_gives_its_handle_back() {
    let (drops, make) = counted();
    let gate = Arc::new(WaitQueue::new(false));
    let handle = behind(&gate, make);
    let again = thread::scope(|t| {
        scope(|s| {
            let token = s.token();
            t.spawn(move || token.cancel());
            // Cancelled in its wait, or before it; and then in any case before it.
            let handle = handle.join().unwrap_err().into_handle().unwrap();
            let error = handle.join().unwrap_err();
            assert!(error.is_cancelled() && !error.is_panic());
            let Err(error) = error.into_handle().unwrap().join() else { unreachable!("it waits at the gate") };
            error.into_handle().unwrap()
        })
    });
    assert!(!again.is_finished());
    open(&gate);
    drop(again.join().unwrap());
    assert_eq!(dropped(&drops), 1);

    // A result that is there is given to a cancelled caller, too.
    let (drops, make) = counted();
    let handle = spawn(make);
    until(|| handle.is_finished());
    scope(|s| {
        s.cancel();
        drop(handle.join().unwrap());
    });
    assert_eq!(dropped(&drops), 1);
}

#[test]
fn the_end_races_a_drop_and_a_join_and_a_cancelled_join() {
    let (mut joined, mut cancelled) = (0, 0);
    for round in 0..rounds(6_000) {
        let (drops, make) = counted();
        thread::scope(|t| {
            let handle = spawn(move || {
                stagger(round);
                make()
            });
            match round % 3 {
                0 => {
                    stagger(round / 3);
                    drop(handle);
                }
                1 => drop(handle.join().unwrap()),
                _ => scope(|s| {
                    let token = s.token();
                    t.spawn(move || {
                        stagger(round / 15);
                        token.cancel();
                    });
                    match handle.join() {
                        Ok(_) => joined += 1,
                        Err(JoinError::WaitCancelled(_, handle)) => {
                            cancelled += 1;
                            // Joined again, and again, or dropped.
                            if round % 2 == 0 {
                                let handle = handle.join().map_or_else(JoinError::into_handle, |_| None);
                                handle.map(|handle| shield(|| handle.join()).unwrap());
                            }
                        }
                        Err(error) => unreachable!("{error}"),
                    }
                }),
            }
        });
        until(|| dropped(&drops) == 1);
    }
    assert!(cfg!(miri) || (joined > 0 && cancelled > 0), "joined {joined}, cancelled {cancelled}");
}

#[test]
fn a_handle_may_be_joined_elsewhere_and_looked_at_from_two_threads() {
    let gate = Arc::new(WaitQueue::new(false));
    let (drops, make) = counted();
    let handle = behind(&gate, make);
    thread::scope(|t| {
        let look = || assert!(!handle.is_finished() && !format!("{handle:?}").is_empty());
        t.spawn(look);
        t.spawn(look);
    });
    open(&gate);
    thread::spawn(move || drop(handle.join().unwrap())).join().unwrap();
    assert_eq!(dropped(&drops), 1);
}

#[test]
fn results_that_borrow_are_dropped_before_what_they_borrow() {
    struct Writes<'a>(&'a AtomicUsize);
    impl Drop for Writes<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    for round in 0..rounds(1_000) {
        let drops = AtomicUsize::new(0);
        scope(|s| {
            let handle = s.spawn(|| Writes(&drops));
            stagger(round);
            drop(handle);
        });
        assert_eq!(drops.into_inner(), 1, "the scope ended before the result was dropped");
    }
}

#[test]
fn a_forgotten_handle_leaks_the_result_and_nothing_else() {
    let (drops, make) = counted();
    scope(|s| std::mem::forget(s.spawn(make.clone())));
    assert_eq!(dropped(&drops), 0);
}

#[test]
fn a_result_or_a_closure_whose_drop_panics_does_not_strand_the_scope_which_raises_it() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            if !thread::panicking() {
                resume_unwind(Box::new("a drop"));
            }
        }
    }
    let panic_of = |f: &dyn Fn()| *catch_unwind(AssertUnwindSafe(f)).unwrap_err().downcast::<&str>().unwrap();
    let of_a_result = || {
        let gate = WaitQueue::<bool>::new(false);
        scope(|s| {
            drop(s.spawn(|| {
                gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ()).unwrap();
                Bad
            }));
            open(&gate);
        });
    };
    assert_eq!(panic_of(&of_a_result), "a drop");
    let of_a_closure = || {
        scope(|s| {
            s.cancel();
            let captured = Bad;
            let child = s.spawn(move || drop(captured));
            assert!(shield(|| child.join()).is_err_and(|error| error.is_panic()));
        });
    };
    assert_eq!(panic_of(&of_a_closure), "a drop");
}

#[test]
fn a_job_that_is_dropped_tells_its_handle_drops_its_closure_and_leaves_its_family() {
    let (drops, make) = counted();
    let family = Family::detached();
    let captured = make();
    // SAFETY: completed below; nothing is borrowed.
    let (job, handle) = unsafe { family.job(segue_core::Builder::new(), move || drop(captured)) };
    let joiner = thread::spawn(|| handle.join());
    drop(job);
    assert!(matches!(joiner.join().unwrap(), Err(JoinError::NeverRan(_))));
    assert_eq!(dropped(&drops), 1);
    // SAFETY: the owner's one call.
    unsafe { family.complete() };
}

#[test]
fn a_scheduler_that_accepts_nothing_strands_nobody() {
    let host = Host::new(Jobs::Drop);
    let (drops, make) = counted();
    host.run(0, |_| {
        scope(|s| {
            let captured = make();
            let child = s.spawn(move || drop(captured));
            assert!(matches!(child.join(), Err(JoinError::NeverRan(_))));
            let _ = s.spawn(|| ());
        });
        assert!(spawn(|| ()).join().is_err());
    });
    assert_eq!(dropped(&drops), 1);
}

#[test]
fn a_fiber_that_is_cancelled_before_its_first_run_is_not_run() {
    let host = Host::new(Jobs::Keep);
    let (ran, (drops, make)) = (AtomicUsize::new(0), counted());
    thread::scope(|t| {
        let (host, ran) = (&host, &ran);
        t.spawn(move || {
            host.run(0, |_| {
                scope(|s| {
                    let captured = make();
                    let child = s.spawn(move || {
                        ran.fetch_add(1, Ordering::SeqCst);
                        drop(captured);
                    });
                    s.cancel();
                    assert!(matches!(shield(|| child.join()), Err(JoinError::NeverRan(_))));
                })
            });
        });
        host.until_suspended(1);
        let mut jobs = host.take_jobs();
        host.start(1, jobs.pop().unwrap());
    });
    assert_eq!((ran.into_inner(), dropped(&drops)), (0, 1));
}

#[test]
fn a_job_that_is_kept_is_run_later_and_elsewhere() {
    let host = Host::new(Jobs::Keep);
    let text = String::from("borrowed");
    thread::scope(|t| {
        let (host, text) = (&host, &text);
        let owner = t.spawn(move || host.run(0, |_| scope(|s| s.spawn(|| text.len()).join().unwrap())));
        host.until_suspended(1);
        let job = host.take_jobs().pop().unwrap();
        t.spawn(move || host.start(1, job));
        assert_eq!(owner.join().unwrap(), 8);
    });
    assert_eq!(host.resumed().first(), Some(&0));
}
