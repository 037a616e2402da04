//! Locks of Segue's that are held across a join of rayon's: the deadlocks that stealing makes where
//! a worker that waits runs a stranger's job on top of the waiting frame (rayon #592 and #1251,
//! domainslib #47). Here it is the fiber that waits, and what runs meanwhile has a stack of its
//! own.

use rayon::prelude::*;
use segue::sync::{Lazy, Mutex, OnceCell, RwLock};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Runs `body` on pools of rayon's with one to three threads, on Segue's workers, and on a plain
/// thread.
fn everywhere(body: impl Fn() + Send + Sync) {
    for threads in 1..=3 {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(&body);
        segue::runtime().workers(threads).run(&body).unwrap();
    }
    body();
}

/// Work that forks, and so gives others the time to take something.
fn forked(n: u64) -> u64 {
    (0..n).into_par_iter().map(|n| n * n).sum()
}

#[test]
fn a_mutex_is_held_across_a_loop_that_others_want_to_lock() {
    // rayon #592: jobs lock, and fork while they hold the lock; a worker that waits for its half
    // takes another job, which locks.
    everywhere(|| {
        let total = Mutex::new(0);
        (0..200_u64).into_par_iter().for_each(|n| {
            let mut total = total.lock().unwrap();
            *total += n + forked(500) - forked(500);
        });
        assert_eq!(total.into_inner(), 19_900);
    });
}

#[test]
fn a_lazy_value_is_computed_by_a_loop_while_jobs_want_it() {
    // rayon #1251: the initialiser of a lazy value uses rayon; a worker that waits in it takes a
    // job that wants the value.
    everywhere(|| {
        let lazy = Lazy::new(|| forked(2_000));
        let cell = OnceCell::new();
        let expected = (0..2_000).map(|n| n * n).sum::<u64>();
        (0..100).into_par_iter().for_each(|_| {
            assert_eq!(*lazy.force().unwrap(), expected);
            assert_eq!(*cell.get_or_init(|| forked(2_000)).unwrap(), expected);
        });
    });
}

#[test]
fn locks_are_taken_in_one_order_by_tasks_that_await_others() {
    // domainslib #47: a task holds a lock while it awaits others, and the worker that waits runs a
    // task that wants the lock.
    everywhere(|| {
        let (outer, inner) = (Mutex::new(0), RwLock::new(0));
        rayon::scope(|s| {
            for _ in 0..50 {
                s.spawn(|s| {
                    let mut held = outer.lock().unwrap();
                    let (a, b) = rayon::join(
                        || {
                            *inner.write().unwrap() += 1;
                            forked(200)
                        },
                        || *inner.read().unwrap(),
                    );
                    *held += 1;
                    assert!(a > 0 && b >= 0);
                    s.spawn(|_| *outer.lock().unwrap() += 1);
                });
            }
        });
        assert_eq!(outer.into_inner(), 100);
        assert_eq!(inner.into_inner(), 50);
    });
}

#[test]
fn jobs_wait_for_jobs_further_back_in_the_queue() {
    everywhere(|| {
        let meet = AtomicUsize::new(0);
        let (send, receive) = segue::channel::bounded(0);
        rayon::scope(|s| {
            s.spawn(|_| {
                let received: usize = (0..10).map(|_| receive.recv().unwrap()).sum();
                meet.store(received, SeqCst);
            });
            for n in 0..10 {
                let send = send.clone();
                s.spawn(move |_| send.send(n).unwrap());
            }
        });
        assert_eq!(meet.load(SeqCst), 45);
    });
}
