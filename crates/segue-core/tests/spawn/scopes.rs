//! Scopes own what they spawn: it may borrow, it is waited for however the body ends, and panics
//! come out at the end.

use crate::common;

use common::{Host, Jobs, until};
use segue_core::{Builder, JoinError, WaitQueue, WaitsFor, is_cancelled, scope, shield, spawn};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

fn gate() -> WaitQueue<bool> {
    WaitQueue::new(false)
}

fn open(gate: &WaitQueue<bool>) {
    let mut guard = gate.lock();
    *guard.state() = true;
    guard.notify_all(0);
}

fn pass(gate: &WaitQueue<bool>) {
    shield(|| gate.wait(WaitsFor::new("a gate"), |open| *open, |_| ())).unwrap();
}

fn panic_of<R>(f: impl FnOnce() -> R) -> Box<dyn Any + Send> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("it was to panic"),
        Err(payload) => payload,
    }
}

/// Unwinds without the noise of the panic hook.
fn fail<T: Send + 'static, R>(payload: T) -> R {
    resume_unwind(Box::new(payload))
}

#[test]
fn children_borrow_from_the_surroundings() {
    let words = [String::from("straight"), String::from("line")];
    let mut lengths = [0; 2];
    let longest = scope(|s| {
        let handles = words.each_ref().map(|word| s.spawn(|| word.as_str()));
        for (length, word) in lengths.iter_mut().zip(&words) {
            let _ = s.spawn(move || *length = word.len());
        }
        handles.into_iter().map(|handle| handle.join().unwrap()).max_by_key(|word| word.len()).unwrap()
    });
    assert_eq!((lengths, longest), ([8, 4], "straight"));
}

#[test]
fn a_handle_of_a_scope_may_leave_it_and_a_child_may_spawn_a_sibling() {
    let count = AtomicUsize::new(0);
    let handle = scope(|s| {
        s.spawn(|| {
            let _ = s.spawn(|| s.spawn(|| count.fetch_add(1, Ordering::SeqCst)));
            7
        })
    });
    assert_eq!(count.load(Ordering::SeqCst), 1);
    assert!(handle.is_finished());
    assert_eq!(handle.join().unwrap(), 7);
}

#[test]
fn the_end_waits_for_children_whose_handles_are_gone() {
    let (gate, ended) = (gate(), AtomicUsize::new(0));
    thread::scope(|t| {
        scope(|s| {
            for _ in 0..3 {
                drop(s.spawn(|| {
                    pass(&gate);
                    ended.fetch_add(1, Ordering::SeqCst);
                }));
            }
            std::mem::forget(s.spawn(|| pass(&gate)));
            t.spawn(|| open(&gate));
        });
        assert_eq!(ended.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn the_end_waits_also_when_it_is_cancelled_or_the_body_panics() {
    for panics in [false, true] {
        let (started, gate, ended) = (gate(), gate(), AtomicBool::new(false));
        thread::scope(|t| {
            let body = || {
                scope(|s| {
                    let (started, gate, ended) = (&started, &gate, &ended);
                    drop(s.spawn(move || {
                        open(started);
                        pass(gate);
                        ended.store(true, Ordering::SeqCst);
                    }));
                    pass(started);
                    s.cancel();
                    t.spawn(move || open(gate));
                    if panics {
                        fail("the body")
                    }
                })
            };
            assert_eq!(catch_unwind(AssertUnwindSafe(body)).is_err(), panics);
            assert!(ended.load(Ordering::SeqCst), "the end did not wait");
        });
    }
}

#[test]
fn a_panic_of_the_body_cancels_the_children_and_comes_out() {
    let gate = gate();
    let cancelled = AtomicBool::new(false);
    let payload = panic_of(|| {
        scope(|s| {
            let started = &gate;
            let cancelled = &cancelled;
            let _ = s.spawn(move || {
                open(started);
                let never = WaitQueue::<()>::new(());
                assert!(never.wait(WaitsFor::new("nothing"), |()| false, |()| ()).is_err());
                cancelled.store(is_cancelled(), Ordering::SeqCst);
            });
            pass(started);
            panic_any(42_u8);
        })
    });
    assert_eq!(payload.downcast_ref(), Some(&42_u8));
    assert!(cancelled.into_inner());
}

#[test]
fn a_panic_of_a_child_cancels_the_rest_and_comes_out_with_its_payload() {
    let never = WaitQueue::<()>::new(());
    let mut body_was_cancelled = false;
    let payload = panic_of(|| {
        scope(|s| {
            let wait = || never.wait(WaitsFor::new("nothing"), |()| false, |()| ());
            let _ = s.spawn(wait);
            let _ = s.spawn(|| -> () { fail(vec![1, 2, 3]) });
            body_was_cancelled = wait().is_err();
        })
    });
    assert_eq!(payload.downcast_ref(), Some(&vec![1, 2, 3]));
    assert!(body_was_cancelled);
}

#[test]
fn a_handle_reports_the_panic_and_the_scope_still_raises_it() {
    let reported = Mutex::new(None);
    let payload = panic_of(|| {
        scope(|s| {
            let child = s.spawn(|| -> u8 { fail("why") });
            let error = shield(|| child.join()).unwrap_err();
            assert!(matches!(error, JoinError::Panicked(_)));
            *reported.lock().unwrap() = Some(error.to_string());
        })
    });
    assert_eq!(payload.downcast_ref(), Some(&"why"));
    assert_eq!(reported.into_inner().unwrap().unwrap(), "the fiber panicked: why");
}

#[test]
fn of_several_panics_the_first_comes_out_and_all_are_waited_for() {
    let ended = AtomicUsize::new(0);
    let count_and_fail = |number: usize| -> usize {
        ended.fetch_add(1, Ordering::SeqCst);
        fail(number)
    };
    let payload = panic_of(|| {
        scope(|s| {
            let child = s.spawn(|| count_and_fail(1));
            assert!(shield(|| child.join()).is_err());
            fail::<_, ()>(String::from("the body"))
        })
    });
    assert_eq!(payload.downcast_ref(), Some(&1_usize), "the body's came later");

    let payload = panic_of(|| {
        scope(|s| {
            let second = gate();
            let second = Box::leak(Box::new(second));
            let both_run = s.spawn(|| {
                pass(second);
                count_and_fail(2)
            });
            until(|| !second.lock().is_empty(0));
            let first = s.spawn(|| count_and_fail(1));
            assert!(shield(|| first.join()).is_err());
            open(second);
            drop(both_run);
        })
    });
    assert_eq!(payload.downcast_ref(), Some(&1_usize));
    assert_eq!(ended.into_inner(), 3);
}

#[test]
fn a_panic_of_a_nested_scope_comes_out_of_the_child_and_then_of_the_outer_one() {
    let payload = panic_of(|| {
        scope(|s| {
            let _ = s.spawn(|| scope(|s| drop(s.spawn(|| -> () { fail(3_u64) }))));
        })
    });
    assert_eq!(payload.downcast_ref(), Some(&3_u64));
}

#[test]
fn a_panic_of_a_detached_fiber_stays_with_its_handle() {
    let error = spawn(|| -> () { fail(9_i8) }).join().unwrap_err();
    assert_eq!(error.into_panic().unwrap().downcast_ref(), Some(&9_i8));
    let error = spawn(|| -> () { fail(String::from("text")) }).join().unwrap_err();
    assert_eq!(error.to_string(), "the fiber panicked: text");
    drop(spawn(|| -> () { fail("nobody looks") }));
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_scope_in_a_drop_while_its_thread_unwinds() {
    let count = AtomicUsize::new(0);
    let payload = panic_of(|| {
        let _guard = OnDrop(|| {
            assert!(thread::panicking());
            let sum: usize = scope(|s| {
                let handles = [1, 2, 3].map(|n| s.spawn(move || n));
                handles.into_iter().map(|handle| handle.join().unwrap()).sum()
            });
            count.store(sum, Ordering::SeqCst);
        });
        fail::<_, ()>("outer")
    });
    assert_eq!(payload.downcast_ref(), Some(&"outer"));
    assert_eq!(count.into_inner(), 6);
}

#[test]
fn a_scope_in_a_drop_while_its_fiber_unwinds_runs_its_fibers_in_place() {
    let (host, count) = (Host::new(Jobs::Keep), AtomicUsize::new(0));
    host.run(0, |_| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let _guard = OnDrop(|| {
                scope(|s| {
                    let here = thread::current().id();
                    let child = s.spawn(move || thread::current().id() == here);
                    assert!(child.is_finished());
                    count.fetch_add(usize::from(child.join().unwrap()), Ordering::SeqCst);
                });
                assert!(segue_core::yield_now().is_err(), "no other fiber may run here");
            });
            fail::<_, ()>("outer")
        }));
        assert!(caught.is_err());
        assert_eq!(segue_core::yield_now(), Ok(()), "and afterwards they may");
    });
    assert_eq!(count.into_inner(), 1);
    assert!(host.take_jobs().is_empty());
}

#[test]
fn names_are_given_to_threads() {
    let name = || thread::current().name().map(str::to_owned);
    assert_eq!(Builder::new().name("worker bee").spawn(name).join().unwrap().as_deref(), Some("worker bee"));
    let named = scope(|s| Builder::new().name("scoped").within(s).spawn(name).join().unwrap());
    assert_eq!(named.as_deref(), Some("scoped"));
}

#[test]
fn a_name_that_no_thread_can_have_is_no_obstacle() {
    assert_eq!(Builder::new().name("a\0b").spawn(|| 1).join().unwrap(), 1);
}
