//! Async tasks that are woken and cancelled by other threads, and fibers that move, yield in place
//! and stop at checkpoints: small, for Miri and the thread sanitizer, with the feature `threads`.

use segue_core::{CancelToken, JoinError, scope, spawn_task, yield_now};
use segue_sched::{Fifo, Handle, Polled, Runtime, checkpoint, move_to};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

#[test]
fn tasks_that_strangers_wake_while_their_scope_is_cancelled() {
    let (woken, ends) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Runtime::new()
        .workers(2)
        .run(|| {
            let wakers = Arc::new(Mutex::new(Vec::<Waker>::new()));
            let over = Arc::new(AtomicBool::new(false));
            let stranger = {
                let (wakers, over) = (Arc::clone(&wakers), Arc::clone(&over));
                thread::spawn(move || {
                    while !over.load(SeqCst) {
                        let waker = wakers.lock().unwrap().pop();
                        waker.inspect(Waker::wake_by_ref).into_iter().for_each(|waker| waker.wake_by_ref());
                        thread::yield_now();
                    }
                })
            };
            scope(|s| {
                let tasks: Vec<_> = (0..3)
                    .map(|_| {
                        let wakers = &wakers;
                        let woken = &woken;
                        s.spawn_task(poll_fn::<(), _>(move |task| {
                            woken.fetch_add(1, SeqCst);
                            wakers.lock().unwrap().push(task.waker().clone());
                            Poll::Pending
                        }))
                    })
                    .collect();
                while woken.load(SeqCst) < 6 {
                    yield_now().unwrap();
                }
                s.cancel();
                for task in tasks {
                    let joined = segue_core::shield(|| task.join());
                    assert!(matches!(joined, Err(JoinError::Cancelled(_) | JoinError::NeverRan(_))));
                    ends.fetch_add(1, SeqCst);
                }
            });
            over.store(true, SeqCst);
            stranger.join().unwrap();
            // Those that are left lead to tasks that are over.
            wakers.lock().unwrap().drain(..).for_each(Waker::wake);
            assert_eq!(spawn_task(async { 7 }).join().unwrap(), 7);
        })
        .unwrap();
    assert_eq!(ends.load(SeqCst), 3);
}

#[test]
fn a_fiber_that_moves_to_and_fro_while_a_stranger_cancels() {
    Runtime::new()
        .workers(1)
        .run_with(Fifo::default, || {
            let home = Handle::current().unwrap();
            let mut fibers = Runtime::new().driven(|| ()).unwrap();
            let there = fibers.handle();
            let token = CancelToken::new();
            let (mover, canceller) = (token.clone(), token.clone());
            let fiber = segue_core::spawn(move || {
                mover.run(|| {
                    let mut rounds = 0;
                    while move_to(&there, || move_to(&home, yield_now))
                        .is_ok_and(|moved| moved.is_ok_and(|it| it.is_ok()))
                    {
                        rounds += 1;
                    }
                    rounds
                })
            });
            let mut polls = 0;
            let mut stranger = None;
            while !fiber.is_finished() {
                while fibers.poll() == Polled::Again {}
                yield_now().unwrap();
                polls += 1;
                if polls == 4 {
                    let canceller = canceller.clone();
                    stranger = Some(thread::spawn(move || canceller.cancel()));
                }
            }
            stranger.unwrap().join().unwrap();
            fiber.join().unwrap();
        })
        .unwrap();
}

#[test]
fn fibers_that_yield_in_place_and_stop_at_checkpoints_while_a_worker_asks_for_work() {
    let (yields, stops) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Runtime::new()
        .workers(2)
        .run_with(Fifo::default, || {
            scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        for _ in 0..4 {
                            yields.fetch_add(usize::from(yield_now() == Ok(())), SeqCst);
                            // What comes from outside, and what the policy has to spare, is let in
                            // and shared here.
                            s.spawn(|| stops.fetch_add(1, SeqCst));
                            checkpoint().unwrap();
                        }
                    });
                }
            });
        })
        .unwrap();
    assert_eq!((yields.into_inner(), stops.into_inner()), (16, 16));
}
