//! Wakers that wait, called in the middle of another wait's registration: what resumes that one
//! must not end theirs.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{pool, simulated};
use segue::sync::{Barrier, Condvar, MVar, Mutex, Promise, Resolver};
use segue::{CancelToken, spawn, yield_now};
use std::future::IntoFuture;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};

/// Calls `then` and waits for what never comes, unless the wait is refused.
struct Waits {
    then: Box<dyn Fn() + Send + Sync>,
    never: MVar<()>,
    refused: AtomicUsize,
}

impl Waits {
    fn new(then: impl Fn() + Send + Sync + 'static) -> (Arc<Self>, Waker) {
        let waits = Arc::new(Self { then: Box::new(then), never: MVar::empty(), refused: AtomicUsize::new(0) });
        (Arc::clone(&waits), Waker::from(waits))
    }
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        (self.then)();
        let refused = self.never.take().unwrap_err();
        assert!(refused.reason().is_some(), "it was refused with a reason");
        self.refused.fetch_add(1, SeqCst);
    }
}

#[test]
fn the_unlock_of_a_condition_that_is_waited_for() {
    let refused = pool(1).run(|| {
        let (mutex, changed) = (Mutex::new(0), Arc::new(Condvar::new()));
        let notifies = Arc::clone(&changed);
        // While the waker waits, another fiber notifies the one that has called it.
        let (waits, waker) = Waits::new(move || {
            let notifies = Arc::clone(&notifies);
            spawn(move || notifies.notify_one());
        });
        let guard = mutex.lock().unwrap();
        let mut task = pin!(mutex.lock_source().into_future());
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        // It joins, and then unlocks: the task is told. The task does not look, so the mutex is
        // free for the fiber again.
        let guard = changed.wait(guard).unwrap();
        assert_eq!(*guard, 0);
        waits.refused.load(SeqCst)
    });
    assert_eq!(refused.unwrap(), 1);
}

#[test]
fn an_attempt_that_serves_others_and_joins() {
    let refused = AtomicUsize::new(0);
    simulated(100, |_| {
        let barrier = Arc::new(Barrier::new(3));
        let arrive = |barrier: &Arc<Barrier>| {
            let barrier = Arc::clone(barrier);
            spawn(move || barrier.wait().map(drop))
        };
        let other = Arc::clone(&barrier);
        let (waits, waker) = Waits::new(move || drop(arrive(&other)));
        // A task has arrived, and a fiber that is cancelled and may not have left yet.
        let mut task = pin!(barrier.wait_source().into_future());
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let token = CancelToken::new();
        let leaves = spawn({
            let (token, barrier) = (token.clone(), Arc::clone(&barrier));
            move || token.run(|| barrier.wait()).is_err()
        });
        yield_now().unwrap();
        token.cancel();
        // If it has not, the third can't open the barrier: it claims the task in vain, and joins.
        let third = arrive(&barrier);
        (0..20).for_each(|_| yield_now().unwrap());
        if waits.refused.load(SeqCst) == 0 {
            // Then nobody was sent by the waker.
            drop(arrive(&barrier));
        }
        let _ = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(third.join().unwrap(), Ok(()));
        assert!(leaves.join().unwrap());
        refused.fetch_add(waits.refused.load(SeqCst), SeqCst);
    });
    assert!(refused.into_inner() > 0, "no waker was called in the middle of a registration");
}

/// A task that its waker polls on the spot.
struct Inline(std::sync::Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut task = self.0.lock().unwrap().take().expect("it is polled by one at a time");
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.0.lock().unwrap() = Some(task);
        }
    }
}

/// Twenty tasks: each fills the promise of the next as soon as its own is filled, inside of the
/// waker. The twelfth then does `waits`, and fills the promise that is given back.
fn chain(waits: impl FnOnce(Promise<()>) + Send + 'static) -> (Resolver<()>, Promise<()>) {
    let (first, mut promise) = segue::sync::promise();
    let (last, ended) = segue::sync::promise();
    let (waited, over) = segue::sync::promise();
    let mut rest = Some((waits, ended, waited));
    let mut fills_last = Some(last);
    for number in 0..20 {
        let (fills, next) = segue::sync::promise();
        let mine = std::mem::replace(&mut promise, next);
        let last = if number == 19 { fills_last.take() } else { None };
        let waits = if number == 12 { rest.take() } else { None };
        let task = async move {
            mine.wait_source().await.unwrap();
            // Nobody waits for what the last one fills.
            assert!(fills.fill(()).is_ok() || last.is_some());
            last.into_iter().for_each(|last| last.fill(()).unwrap());
            if let Some((waits, ended, waited)) = waits {
                waits(ended);
                waited.fill(()).unwrap();
            }
        };
        Arc::new(Inline(std::sync::Mutex::new(Some(Box::pin(task))))).wake();
    }
    (first, over)
}

#[test]
fn a_waker_far_in_that_waits_for_the_last_of_a_chain() {
    simulated(20, |_| {
        let (first, over) = chain(|ended| *ended.wait().unwrap());
        first.fill(()).unwrap();
        over.wait().unwrap();
    });
    let on_a_worker = pool(1).run(|| {
        let (first, over) = chain(|ended| *ended.wait().unwrap());
        first.fill(()).unwrap();
        over.wait().unwrap();
    });
    on_a_worker.unwrap();
}

#[test]
fn a_waker_far_in_that_runs_a_scheduler_whose_tasks_are_woken() {
    let (first, over) = chain(|ended| {
        let inner = || {
            let soon = segue::core::after(std::time::Duration::from_millis(1));
            segue::spawn_task(async move { soon.await }).join().unwrap();
        };
        segue::run(inner);
        ended.wait().unwrap();
    });
    first.fill(()).unwrap();
    over.wait().unwrap();
}
