//! What is called where a fiber can't suspend: in a destructor while its thread panics, and in
//! `no_suspend`. All of it works.

use rayon_core::{ThreadPool, ThreadPoolBuilder, in_place_scope, join, scope, scope_fifo, spawn, spawn_broadcast};
use segue_core::no_suspend;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::mpsc::channel;

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn indices() -> Vec<usize> {
    rayon_core::broadcast(|context| context.index())
}

/// Makes a call when it is dropped.
struct AtDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs `f` while the thread panics.
fn panicking<R>(f: impl Fn() -> R) -> R {
    let mut result = None;
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let _at_drop = AtDrop(|| result = Some(f()));
        std::panic::resume_unwind(Box::new("told"));
    }));
    assert_eq!(*ended.unwrap_err().downcast::<&str>().unwrap(), "told");
    result.unwrap()
}

/// Runs `f` on a worker of pools with one thread and with two, where it can't suspend.
fn where_nothing_suspends(f: impl Fn(&ThreadPool, usize) + Sync) {
    for threads in [1, 2] {
        let pool = pool(threads);
        pool.install(|| no_suspend(|| f(&pool, threads)));
        pool.install(|| panicking(|| f(&pool, threads)));
    }
}

#[test]
fn a_broadcast_of_a_worker_that_can_not_suspend_runs_on_all_workers() {
    where_nothing_suspends(|pool, threads| {
        assert_eq!(indices(), (0..threads).collect::<Vec<_>>());
        assert_eq!(pool.broadcast(|context| context.index()), (0..threads).collect::<Vec<_>>());
    });
}

#[test]
fn broadcasts_of_all_workers_at_once_that_can_not_suspend_end() {
    let (pool, both) = (pool(2), Barrier::new(2));
    let on_both = |f: &(dyn Fn() -> Vec<usize> + Sync)| {
        let told = pool.broadcast(|_| {
            both.wait();
            f()
        });
        assert_eq!(told, [[0, 1], [0, 1]]);
    };
    for _ in 0..100 {
        on_both(&|| no_suspend(indices));
        on_both(&|| panicking(indices));
    }
}

#[test]
fn a_broadcast_in_a_pool_from_another_one_s_worker_that_can_not_suspend_ends() {
    let other = pool(2);
    where_nothing_suspends(|_, _| assert_eq!(other.broadcast(|context| context.index()), [0, 1]));
}

#[test]
fn jobs_of_a_worker_that_can_not_suspend_run() {
    where_nothing_suspends(|pool, threads| {
        assert_eq!(join(|| join(|| 1, || 2), || 3), ((1, 2), 3));
        let (send, receive) = channel();
        scope(|s| (0..10).for_each(|_| s.spawn(|s| s.spawn(|_| send.send(()).unwrap()))));
        scope_fifo(|s| (0..10).for_each(|_| s.spawn_fifo(|_| send.send(()).unwrap())));
        in_place_scope(|s| s.spawn_broadcast(|_, _| send.send(()).unwrap()));
        pool.scope(|s| s.spawn(|_| send.send(()).unwrap()));
        pool.install(|| send.send(()).unwrap());
        assert_eq!(receive.try_iter().count(), 22 + threads);
    });
}

#[test]
fn what_nobody_waits_for_runs_when_its_worker_can_suspend_again() {
    for threads in [1, 2] {
        let pool = pool(threads);
        let (send, receive) = channel();
        pool.install(|| {
            no_suspend(|| {
                let sender = send.clone();
                spawn_broadcast(move |context| sender.send(context.index()).unwrap());
                spawn(move || send.send(threads).unwrap());
            });
        });
        let mut told: Vec<_> = receive.iter().collect();
        told.sort_unstable();
        assert_eq!(told, (0..=threads).collect::<Vec<_>>());
    }
}
