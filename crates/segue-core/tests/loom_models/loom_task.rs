//! Every interleaving of a task's end with its handle and with the family's owner: results are
//! freed once, and seen in full.
// Families are driven by hand, and cells are watched by the model checker.
#![allow(unsafe_code, unused_unsafe)]

use crate::models;

use loom::cell::UnsafeCell;
use loom::thread;
use models::{Reached, check, model};
use segue_core::scheduling::{Family, Job};
use segue_core::{JoinError, JoinHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a task returns: it is written by the task, and each drop looks at it, so that a drop that
/// is not ordered after the writing is a race that the model checker sees.
struct Value {
    cell: Arc<UnsafeCell<u32>>,
    drops: Arc<AtomicUsize>,
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: loom checks it.
        self.cell.with_mut(|value| unsafe { *value += 1 });
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

struct Started {
    family: Arc<Family>,
    handle: JoinHandle<Value>,
    cell: Arc<UnsafeCell<u32>>,
    drops: Arc<AtomicUsize>,
    runner: thread::JoinHandle<()>,
}

/// A task that runs on a thread of its own.
fn start() -> Started {
    let (family, cell) = (Arc::new(Family::detached()), Arc::new(UnsafeCell::new(0)));
    let drops = Arc::new(AtomicUsize::new(0));
    let value = Value { cell: Arc::clone(&cell), drops: Arc::clone(&drops) };
    let work = Sendable(value);
    // SAFETY: `end` completes the family; the closure borrows nothing.
    let (job, handle) = unsafe {
        family.job(segue_core::Builder::new(), move || {
            let Sendable(value) = { work };
            // SAFETY: loom checks it.
            value.cell.with_mut(|value| unsafe { *value += 1 });
            value
        })
    };
    let runner = thread::spawn(move || Job::run(job));
    Started { family, handle, cell, drops, runner }
}

struct Sendable(Value);
// SAFETY: loom checks who touches the cell when.
unsafe impl Send for Sendable {}
// SAFETY: as above.
unsafe impl Send for Value {}

fn end(family: &Family, runner: thread::JoinHandle<()>, drops: &AtomicUsize) {
    // SAFETY: the owner's one call.
    unsafe { family.complete() };
    runner.join().unwrap();
    assert_eq!(drops.load(Ordering::Relaxed), 1, "a result is dropped once");
}

#[test]
fn a_handle_that_is_dropped_against_the_end_of_its_task() {
    static BEFORE: Reached = Reached::new("dropped before the end");
    static AFTER: Reached = Reached::new("dropped after the end");
    model(5, || {
        let Started { family, handle, drops, runner, .. } = start();
        thread::yield_now();
        if handle.is_finished() {
            AFTER.note();
        } else {
            BEFORE.note();
        }
        drop(handle);
        end(&family, runner, &drops);
    });
    check(&[&BEFORE, &AFTER]);
}

/// What the handle's owner did before it let go happens before the task drops its result.
#[test]
fn a_handle_that_is_dropped_hands_its_view_on_to_the_task() {
    model(5, || {
        let family = Arc::new(Family::detached());
        let (cell, drops) = (Arc::new(UnsafeCell::new(0)), Arc::new(AtomicUsize::new(0)));
        let value = Sendable(Value { cell: Arc::clone(&cell), drops: Arc::clone(&drops) });
        // SAFETY: as in `start`.
        let (job, handle) = unsafe {
            family.job(segue_core::Builder::new(), move || {
                let Sendable(value) = { value };
                value
            })
        };
        // SAFETY: loom checks it.
        cell.with_mut(|value| unsafe { *value = 1 });
        let runner = thread::spawn(move || job.run());
        cell.with(|value| {
            // SAFETY: the task does nothing with the cell before the handle is gone, and afterwards
            // it is ordered.
            unsafe { std::ptr::read(value) }
        });
        if !handle.is_finished() {
            drop(handle);
        }
        end(&family, runner, &drops);
    });
}

#[test]
fn a_join_against_the_end_of_its_task() {
    static BEFORE: Reached = Reached::new("joined before the end");
    static AFTER: Reached = Reached::new("joined after the end");
    model(5, || {
        let Started { family, handle, cell, drops, runner } = start();
        thread::yield_now();
        if handle.is_finished() {
            AFTER.note();
        } else {
            BEFORE.note();
        }
        let value = handle.join().expect("nobody cancels");
        // SAFETY: loom checks it.
        assert_eq!(cell.with(|value| unsafe { *value }), 1);
        drop(value);
        end(&family, runner, &drops);
    });
    check(&[&BEFORE, &AFTER]);
}

#[test]
fn a_join_that_is_cancelled_against_the_end_of_its_task() {
    static JOINED: Reached = Reached::new("joined");
    static CANCELLED: Reached = Reached::new("the join was cancelled");
    model(3, || {
        let Started { family, handle, drops, runner, .. } = start();
        let joiner = Family::detached();
        let canceller = thread::spawn({
            let token = joiner.token();
            move || token.cancel()
        });
        match joiner.enter_context(|| handle.join()) {
            Ok(value) => {
                JOINED.note();
                drop(value);
            }
            Err(JoinError::WaitCancelled(_, handle)) => {
                CANCELLED.note();
                drop(handle.join().expect("it ends"));
            }
            Err(_) => panic!("nobody panics, or cancels the task"),
        }
        canceller.join().unwrap();
        end(&family, runner, &drops);
    });
    check(&[&JOINED, &CANCELLED]);
}

#[test]
fn a_job_that_is_dropped_tells_its_handle_and_its_family() {
    static WAITED: Reached = Reached::new("the handle waited");
    static TOLD: Reached = Reached::new("the handle found it told");
    model(5, || {
        let family = Arc::new(Family::detached());
        // SAFETY: completed below; the closure borrows nothing.
        let (job, handle) = unsafe { family.job(segue_core::Builder::new(), || 7) };
        let dropper = thread::spawn(move || drop(job));
        thread::yield_now();
        if handle.is_finished() {
            TOLD.note();
        } else {
            WAITED.note();
        }
        assert!(matches!(handle.join(), Err(JoinError::NeverRan(_))));
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
        dropper.join().unwrap();
    });
    check(&[&WAITED, &TOLD]);
}

/// The owner frees what the members wrote to, and the family itself, as soon as it is complete.
#[test]
fn the_owner_goes_on_after_the_last_member_and_sees_what_all_did() {
    static WAITED: Reached = Reached::new("the owner waited");
    static FOUND: Reached = Reached::new("the owner found all gone");
    model(3, || {
        let family = Family::detached();
        let cells: [Arc<UnsafeCell<u32>>; 2] = Default::default();
        let ended = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let runners = cells.clone().map(|cell| {
            let (cell, ended) = (SendCell(cell), Arc::clone(&ended));
            // SAFETY: completed below; the closure borrows nothing.
            let (job, handle) = unsafe {
                family.job(segue_core::Builder::new(), move || {
                    // SAFETY: loom checks it.
                    { cell }.0.with_mut(|value| unsafe { *value = 1 });
                    ended.fetch_add(1, Ordering::Relaxed);
                })
            };
            drop(handle);
            thread::spawn(move || job.run())
        });
        thread::yield_now();
        let found = ended.load(Ordering::Relaxed) == 2;
        FOUND.note_if(found);
        WAITED.note_if(!found);
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
        // SAFETY: loom checks it.
        cells.iter().for_each(|cell| cell.with_mut(|value| unsafe { assert_eq!(std::ptr::replace(value, 2), 1) }));
        runners.into_iter().for_each(|runner| runner.join().unwrap());
        drop(family);
    });
    check(&[&WAITED, &FOUND]);
}

struct SendCell(Arc<UnsafeCell<u32>>);
// SAFETY: loom checks who touches the cell when.
unsafe impl Send for SendCell {}

#[test]
fn a_task_that_awaits_the_end_is_dropped_at_any_instant() {
    static TOOK: Reached = Reached::new("took the result");
    static DROPPED: Reached = Reached::new("was dropped before the end");
    model(4, || {
        let Started { family, handle, cell, drops, runner } = start();
        {
            let mut future = Box::pin(handle.into_future());
            let mut task = std::task::Context::from_waker(std::task::Waker::noop());
            let ended = (0..2).any(|_| match future.as_mut().poll(&mut task) {
                std::task::Poll::Ready(result) => result.is_ok(),
                std::task::Poll::Pending => false,
            });
            TOOK.note_if(ended);
            DROPPED.note_if(!ended);
        }
        runner.join().unwrap();
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        // SAFETY: loom checks it.
        cell.with(|value| assert_eq!(unsafe { *value }, 2));
    });
    check(&[&TOOK, &DROPPED]);
}

#[test]
fn a_choice_between_the_ends_of_two_tasks() {
    static LEFT: Reached = Reached::new("left");
    static RIGHT: Reached = Reached::new("right");
    model(2, || {
        let (left, right) = (start(), start());
        match left.handle.join_source().or(right.handle.join_source()).wait().expect("nobody cancels") {
            segue_core::Either::Left(value) => {
                LEFT.note();
                drop(value.ok().expect("it returned"));
            }
            segue_core::Either::Right(value) => {
                RIGHT.note();
                drop(value.ok().expect("it returned"));
            }
        }
        for (family, cell, drops, runner) in
            [(left.family, left.cell, left.drops, left.runner), (right.family, right.cell, right.drops, right.runner)]
        {
            runner.join().unwrap();
            // SAFETY: the owner's one call.
            unsafe { family.complete() };
            assert_eq!(drops.load(Ordering::Relaxed), 1);
            // SAFETY: loom checks it.
            cell.with(|value| assert_eq!(unsafe { *value }, 2));
        }
    });
    check(&[&LEFT, &RIGHT]);
}
