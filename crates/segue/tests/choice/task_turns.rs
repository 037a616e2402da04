//! Tasks that never have to wait, and let others run all the same.
#![cfg(feature = "sched")]

use crate::meet;

use meet::{Task, pool, simulated};
use segue::cancel::no_suspend;
use segue::sched::{Fifo, Runtime};
use segue::sync::Semaphore;
use segue::{scope, spawn_task, wait_future, yield_now};
use std::future::Future;
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// How many operations a fiber or task may begin in one turn.
const TURN: usize = 128;

/// Takes so many permits that are there, and notes the longest run of them between two turns of
/// somebody else.
async fn takes(permits: &Semaphore, count: usize, turns: &AtomicUsize) -> usize {
    let (mut longest, mut run, mut seen) = (0, 0, turns.load(SeqCst));
    for _ in 0..count {
        drop(permits.acquire_source().await.unwrap());
        let now = turns.load(SeqCst);
        run = if now == seen { run + 1 } else { 0 };
        (longest, seen) = (longest.max(run), now);
    }
    longest
}

fn counts_turns(turns: &AtomicUsize, over: &AtomicUsize) {
    while over.load(SeqCst) == 0 {
        turns.fetch_add(1, SeqCst);
        yield_now().unwrap();
    }
}

#[test]
fn a_task_that_is_always_ready_gives_up_its_turn() {
    let run = || {
        let (permits, turns, over) = (Semaphore::new(1), AtomicUsize::new(0), AtomicUsize::new(0));
        let longest = scope(|s| {
            s.spawn(|| counts_turns(&turns, &over));
            let task = s.spawn_task(async {
                let longest = takes(&permits, 20 * TURN, &turns).await;
                over.store(1, SeqCst);
                longest
            });
            task.join().unwrap()
        });
        (longest, turns.into_inner())
    };
    let (longest, turns) = Runtime::new().workers(1).run_with(Fifo::default, run).unwrap();
    assert!(longest <= TURN && turns >= 19, "{longest} at once, {turns} turns");
    // The policy that steals gives a worker's turns out in another order.
    let (longest, turns) = Runtime::new().workers(1).run(run).unwrap();
    assert!(longest <= 4 * TURN && turns >= 19, "{longest} at once, {turns} turns");
    // Others are chosen by chance, and often the task again.
    let all = AtomicUsize::new(0);
    simulated(20, |_| _ = all.fetch_add(run().1, SeqCst));
    assert!(all.into_inner() > 20);
}

#[test]
fn a_fiber_that_waits_for_such_a_future_does_as_well() {
    let run = || {
        let (permits, turns, over) = (Semaphore::new(1), AtomicUsize::new(0), AtomicUsize::new(0));
        let longest = scope(|s| {
            s.spawn(|| counts_turns(&turns, &over));
            let longest = wait_future(takes(&permits, 20 * TURN, &turns)).unwrap();
            over.store(1, SeqCst);
            longest
        });
        (longest, turns.into_inner())
    };
    let (longest, turns) = Runtime::new().workers(1).run_with(Fifo::default, run).unwrap();
    assert!(longest <= TURN && turns >= 19, "{longest} at once, {turns} turns");
}

/// A waker without effect that is not `Waker::noop`.
#[allow(unsafe_code)]
fn deaf() -> Waker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(|_| RawWaker::new(ptr::null(), &TABLE), |_| (), |_| (), |_| ());
    // SAFETY: its functions do nothing.
    unsafe { Waker::new(ptr::null(), &TABLE) }
}

#[test]
fn where_there_is_no_turn_to_give_up_it_goes_on() {
    let permits = Arc::new(Semaphore::new(1));
    let turns = AtomicUsize::new(0);
    // A thread that polls by hand, or for any executor, is told to poll again.
    let (mut task, mut polls) = (Task::new(takes(&permits, 1_000, &turns)), 1);
    while task.poll_in_turn().is_none() {
        polls += 1;
    }
    assert_eq!(polls, task.all_wakes() + 1);
    assert!((1_000 / TURN..=1_000 / TURN + 1).contains(&task.all_wakes()), "{} wakes", task.all_wakes());
    // Unless it could not be told: by std's waker, or another crate's or another copy of it.
    for waker in [Waker::noop(), &deaf()] {
        let taken = pin!(takes(&permits, 1_000, &turns)).poll(&mut Context::from_waker(waker));
        assert_eq!(taken, Poll::Ready(1_000));
    }
    let inside = Arc::clone(&permits);
    pool(1)
        .run(move || {
            let turns = AtomicUsize::new(0);
            // In an executor of somebody else's, inside of a fiber: it is polled again at once.
            let mut task = Task::new(takes(&inside, 1_000, &turns));
            let polls = (1..).find(|_| task.poll_in_turn().is_some()).unwrap();
            assert_eq!((polls, task.all_wakes()), (1_000usize.div_ceil(TURN), 1_000 / TURN));
            // A fiber that can't give up its turn does not.
            assert_eq!(no_suspend(|| wait_future(takes(&inside, 1_000, &turns))), Ok(1_000));
            drop(task);
            let task = spawn_task(async move { takes(&inside, 1_000, &AtomicUsize::new(0)).await });
            assert_eq!(task.join().unwrap(), 1_000);
        })
        .unwrap();
}
