//! Every interleaving of an async task's polls with its wakes and its cancellation: no wake is
//! lost, no two polls meet, the future is dropped once.
// Families are driven by hand, and cells are watched by the model checker.
#![allow(unsafe_code, unused_unsafe)]

use crate::models;

use loom::cell::UnsafeCell;
use loom::thread;
use models::{Reached, check, model};
use segue_core::scheduling::{Family, Job, Spawn};
use segue_core::{Builder, JoinError, JoinHandle};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Jobs that were woken, and the number of those that are still to be run.
#[derive(Default)]
struct Queue {
    jobs: loom::sync::Mutex<Vec<Job>>,
    some: loom::sync::Condvar,
}

impl Queue {
    /// Runs a job as a fiber of the family would.
    fn run_one(&self, family: &Family) {
        let mut jobs = self.jobs.lock().unwrap();
        while jobs.is_empty() {
            jobs = self.some.wait(jobs).unwrap();
        }
        let job = jobs.remove(0);
        drop(jobs);
        family.enter_context(|| job.run());
    }
}

impl Spawn for Queue {
    fn spawn(&self, job: Job) {
        self.jobs.lock().unwrap().push(job);
        self.some.notify_one();
    }

    fn share(&self) -> Arc<dyn Spawn + Send + Sync> {
        unreachable!("the tasks have theirs")
    }
}

/// Ready when the flag is set; each poll writes to a cell, so that polls that meet are a race.
struct Flagged {
    shared: Arc<Shared>,
    polls: Arc<UnsafeCell<u32>>,
}

#[derive(Default)]
struct Shared {
    flag: loom::sync::atomic::AtomicBool,
    waker: loom::sync::Mutex<Option<Waker>>,
    // What tests look at, outside of the model.
    polled: AtomicUsize,
    dropped: AtomicUsize,
    left: AtomicBool,
}

// SAFETY: loom checks who touches the cell when.
unsafe impl Send for Flagged {}

impl Future for Flagged {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<u32> {
        // SAFETY: loom checks it.
        self.polls.with_mut(|polls| unsafe { *polls += 1 });
        self.shared.polled.fetch_add(1, Ordering::Relaxed);
        if self.shared.flag.load(loom::sync::atomic::Ordering::Acquire) {
            return Poll::Ready(7);
        }
        *self.shared.waker.lock().unwrap() = Some(task.waker().clone());
        self.shared.left.store(true, Ordering::Relaxed);
        Poll::Pending
    }
}

impl Drop for Flagged {
    fn drop(&mut self) {
        // SAFETY: loom checks it.
        self.polls.with_mut(|polls| unsafe { *polls += 1 });
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

struct Started {
    family: Arc<Family>,
    handle: JoinHandle<u32>,
    shared: Arc<Shared>,
    queue: Arc<Queue>,
}

/// A task whose first job is in the queue.
fn start() -> Started {
    let (family, queue) = (Arc::new(Family::detached()), Arc::new(Queue::default()));
    let shared = Arc::new(Shared::default());
    let future = Flagged { shared: Arc::clone(&shared), polls: Arc::new(UnsafeCell::new(0)) };
    let spawner = Arc::<Queue>::clone(&queue);
    // SAFETY: the tests complete the family; the future borrows nothing.
    let (job, handle) = unsafe { family.async_job(Builder::new(), future, spawner) };
    queue.spawn(job);
    Started { family, handle, shared, queue }
}

/// Polls twice, if need be; a wake that is lost leaves the second one waiting for ever, which the
/// model reports.
fn run_to_the_end(queue: &Queue, family: &Family, shared: &Shared) {
    while shared.dropped.load(Ordering::Relaxed) == 0 {
        queue.run_one(family);
    }
}

/// Sets the flag, and wakes if a waker was left.
fn fill(shared: &Shared) -> bool {
    shared.flag.store(true, loom::sync::atomic::Ordering::Release);
    let waker = shared.waker.lock().unwrap().take();
    let woke = waker.is_some();
    waker.into_iter().for_each(Waker::wake);
    woke
}

#[test]
fn a_wake_against_the_end_of_a_poll_is_not_lost() {
    static ONCE: Reached = Reached::new("one poll");
    static TWICE: Reached = Reached::new("two polls");
    model(3, || {
        let Started { family, handle, shared, queue } = start();
        let waker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                fill(&shared);
            })
        };
        queue.run_one(&family);
        waker.join().unwrap();
        // A waker that was left after the look: then nobody owes a wake, and the test gives it.
        fill(&shared);
        run_to_the_end(&queue, &family, &shared);
        match shared.polled.load(Ordering::Relaxed) {
            1 => ONCE.note(),
            _ => TWICE.note(),
        }
        assert_eq!(handle.join().unwrap(), 7);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 1);
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
    });
    check(&[&ONCE, &TWICE]);
}

#[test]
fn two_wakers_make_one_job() {
    static MERGED: Reached = Reached::new("two wakes make one job");
    static APART: Reached = Reached::new("the second wake comes after the poll has begun, and makes another");
    model(3, || {
        let Started { family, handle, shared, queue } = start();
        queue.run_one(&family);
        let waker = shared.waker.lock().unwrap().clone().unwrap();
        let second = {
            let waker = waker.clone();
            thread::spawn(move || waker.wake())
        };
        waker.wake_by_ref();
        queue.run_one(&family);
        second.join().unwrap();
        let again = !queue.jobs.lock().unwrap().is_empty();
        APART.note_if(again);
        MERGED.note_if(!again);
        shared.flag.store(true, loom::sync::atomic::Ordering::Release);
        waker.wake();
        run_to_the_end(&queue, &family, &shared);
        assert_eq!(shared.polled.load(Ordering::Relaxed), 3);
        assert_eq!(handle.join().unwrap(), 7);
        // A waker that outlives the task has no effect.
        shared.waker.lock().unwrap().take().into_iter().for_each(Waker::wake);
        assert!(queue.jobs.lock().unwrap().is_empty());
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
    });
    check(&[&MERGED, &APART]);
}

#[test]
fn a_cancellation_against_a_poll_drops_the_future_once() {
    static UNPOLLED: Reached = Reached::new("cancelled before the first poll");
    static POLLED: Reached = Reached::new("cancelled after a poll");
    model(3, || {
        let Started { family, handle, shared, queue } = start();
        let canceller = {
            let token = family.token();
            thread::spawn(move || token.cancel())
        };
        thread::yield_now();
        run_to_the_end(&queue, &family, &shared);
        canceller.join().unwrap();
        match handle.join() {
            Err(JoinError::Cancelled(_)) => POLLED.note(),
            Err(JoinError::NeverRan(_)) => UNPOLLED.note(),
            _ => unreachable!("it was cancelled"),
        }
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 1);
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
    });
    check(&[&POLLED, &UNPOLLED]);
}

#[test]
fn a_waker_that_goes_while_the_task_ends_lets_go_of_the_spawner_once() {
    static WAKER: Reached = Reached::new("the waker is the last user");
    static TASK: Reached = Reached::new("the waker goes before the task is joined");
    model(3, || {
        let Started { family, handle, shared, queue } = start();
        queue.run_one(&family);
        let waker = shared.waker.lock().unwrap().take().unwrap();
        shared.flag.store(true, loom::sync::atomic::Ordering::Release);
        let stranger = thread::spawn(move || waker.wake());
        run_to_the_end(&queue, &family, &shared);
        assert_eq!(handle.join().unwrap(), 7);
        let is_kept = Arc::strong_count(&queue) > 1;
        stranger.join().unwrap();
        WAKER.note_if(is_kept);
        TASK.note_if(!is_kept);
        assert_eq!(Arc::strong_count(&queue), 1, "nobody has the spawner any more");
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
    });
    check(&[&WAKER, &TASK]);
}

/// Wakes itself in its second poll, and looks before that.
struct Restless(Arc<Shared>);

impl Future for Restless {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<u32> {
        let seen = self.0.flag.load(loom::sync::atomic::Ordering::Relaxed);
        if self.0.polled.fetch_add(1, Ordering::Relaxed) == 1 {
            task.waker().wake_by_ref();
        } else {
            *self.0.waker.lock().unwrap() = Some(task.waker().clone());
        }
        if seen { Poll::Ready(7) } else { Poll::Pending }
    }
}

#[test]
fn a_wake_that_merges_with_another_is_seen_by_the_next_poll() {
    static SECOND: Reached = Reached::new("seen by the second poll");
    static THIRD: Reached = Reached::new("seen by the third poll");
    static FOURTH: Reached = Reached::new("seen by the fourth poll");
    model(3, || {
        let (family, queue, shared) =
            (Arc::new(Family::detached()), Arc::new(Queue::default()), Arc::new(Shared::default()));
        let spawner = Arc::<Queue>::clone(&queue);
        // SAFETY: the test completes the family; the future borrows nothing.
        let (job, handle) = unsafe { family.async_job(Builder::new(), Restless(Arc::clone(&shared)), spawner) };
        queue.spawn(job);
        queue.run_one(&family);
        let waker = shared.waker.lock().unwrap().take().unwrap();
        waker.wake_by_ref();
        let stranger = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // Only the wake says that it is there.
                shared.flag.store(true, loom::sync::atomic::Ordering::Relaxed);
                waker.wake();
            })
        };
        while !handle.is_finished() {
            queue.run_one(&family);
        }
        stranger.join().unwrap();
        match shared.polled.load(Ordering::Relaxed) {
            2 => SECOND.note(),
            3 => THIRD.note(),
            _ => FOURTH.note(),
        }
        assert_eq!(handle.join().unwrap(), 7);
        // SAFETY: the owner's one call.
        unsafe { family.complete() };
    });
    check(&[&SECOND, &THIRD, &FOURTH]);
}
