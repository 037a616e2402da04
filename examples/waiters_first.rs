//! A policy of one's own: what has waited runs before what was only ready for more. It passes the
//! conformance suite, whose cases are counted.
//!
//! Fibers that wait a lot answer soon, although others beside them compute and yield; and since a
//! yielder gets one turn in nine at least, nobody starves. It needs nothing of the fibers: why one
//! is ready says which kind it is.

use segue::sched::{self, Fifo, Goes, Policy, Task, Why};
use segue::sync::MVar;
use segue::{Cancelled, scope, yield_now};
use segue_conformance::{Main, Suite, Verdict};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// How many turns in a row those that have waited may have.
const IN_A_ROW: u32 = 8;

/// The policy: what is ready in two queues, each first in, first out.
#[derive(Default)]
struct WaitersFirst {
    waited: VecDeque<Task>,
    yielded: VecDeque<Task>,
    in_a_row: u32,
}

impl Policy for WaitersFirst {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        let queue = match why {
            Why::Yielded | Why::Displaced => &mut self.yielded,
            _ => &mut self.waited,
        };
        queue.push_back(task);
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        if self.in_a_row < IN_A_ROW
            && let Some(task) = self.waited.pop_front()
        {
            self.in_a_row += 1;
            return Some(task);
        }
        self.in_a_row = 0;
        self.yielded.pop_front().or_else(|| self.waited.pop_front())
    }
}

/// How many turns ten fibers that only yield have while two others send a ball to and fro a hundred
/// times, on one worker.
fn turns_beside_a_game<P: Policy>(policy: fn() -> P) -> std::io::Result<u32> {
    sched::Runtime::new().workers(1).run_with(policy, || {
        let (there, back) = (MVar::empty(), MVar::empty());
        let (turns, over) = (AtomicU32::new(0), AtomicBool::new(false));
        scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    while !over.load(Relaxed) {
                        turns.fetch_add(1, Relaxed);
                        yield_now().expect("nobody cancels");
                    }
                });
            }
            s.spawn(|| {
                for _ in 0..100 {
                    back.put(there.take()?)?;
                }
                Ok::<(), Cancelled>(())
            });
            for ball in 0..100 {
                there.put(ball).expect("nobody cancels");
                back.take().expect("nobody cancels");
            }
            over.store(true, Relaxed);
        });
        turns.into_inner()
    })
}

fn main() -> std::io::Result<()> {
    for workers in [1, 2] {
        let run = move |main: Main| {
            sched::Runtime::new().workers(workers).run_with(WaitersFirst::default, main).expect("it starts")
        };
        let suite = Suite::new(format!("waiters first on {workers}"), run).workers(workers).nests();
        let report = suite.rounds(1_000).run();
        report.unwrap();
        let passed = report.results().filter(|(_, verdict)| **verdict == Verdict::Passed).count();
        println!("waiters first, workers: {workers}; cases that passed: {passed} of {}", report.results().count());
    }
    let (ours, fifo) = (turns_beside_a_game(WaitersFirst::default)?, turns_beside_a_game(Fifo::default)?);
    println!("turns of the yielders during the game: {ours}; first in, first out: {fifo}");
    assert!(ours < 100 && fifo > 1_000, "a ball does not wait behind the yielders");
    assert!(ours > 20, "nor are they kept from running");
    Ok(())
}
