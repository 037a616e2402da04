//! Idle workers that want children of forks, beside one that computes on: none of them is
//! forgotten. The first half of each fork waits for its second without suspending, so another
//! worker has to run that.

use crate::common::{pool, scaled};
use segue_core::scheduling::Job;
use segue_core::{no_suspend, scope, sleep, spawn, yield_now};
use segue_sched::{ByPriority, Fifo, Goes, Policy, RoundRobin, Runtime, Task, Why, join};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::current;
use std::time::Duration;

/// Whether some other worker runs the second half while the first one goes on forking.
fn is_helped() -> bool {
    let helped = AtomicBool::new(false);
    join(
        || {
            // A fork is where a wish is seen.
            while !helped.load(SeqCst) {
                join(|| (), || ());
                std::thread::yield_now();
            }
        },
        || helped.store(true, SeqCst),
    );
    helped.load(SeqCst)
}

#[test]
fn two_sleepers_get_a_child_each() {
    let pool = pool(3);
    for _ in 0..50 {
        pool.run(|| {
            let left = AtomicUsize::new(2);
            let held = || {
                left.fetch_sub(1, SeqCst);
                // It computes, without a fork, until both are helped.
                while left.load(SeqCst) != 0 {
                    std::thread::yield_now();
                }
            };
            let forks = || {
                while left.load(SeqCst) != 0 {
                    join(|| (), || ());
                    std::thread::yield_now();
                }
            };
            join(|| join(forks, held), held);
        })
        .unwrap();
    }
}

#[test]
fn a_worker_with_many_idle_fibers_takes_a_child_at_once() {
    Runtime::new()
        .workers(2)
        .run_with(RoundRobin::default, || {
            scope(|s| {
                // Half of them are on the other worker, and stay there.
                for _ in 0..20 {
                    s.spawn(|| drop(sleep(Duration::from_secs(3600))));
                }
                for _ in 0..50 {
                    assert!(is_helped());
                }
                s.cancel();
            });
        })
        .unwrap();
}

#[test]
fn a_fork_that_must_not_yield_gives_a_child_beside_what_was_sent() {
    Runtime::new()
        .workers(2)
        .run_with(RoundRobin::default, || {
            let (here, sent) = (current().id(), AtomicBool::new(false));
            scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        // The one on the other worker sends closures to this one, too.
                        if current().id() != here {
                            (0..4).for_each(|_| drop(spawn(|| ())));
                            sent.store(true, SeqCst);
                        }
                    });
                }
                no_suspend(|| {
                    while !sent.load(SeqCst) {
                        std::thread::yield_now();
                    }
                    for _ in 0..50 {
                        assert!(is_helped());
                    }
                });
            });
        })
        .unwrap();
}

#[test]
fn a_closure_that_a_policy_spares_to_one_sleeper_leaves_the_wish_of_another() {
    Runtime::new()
        .workers(3)
        .run_with(ByPriority::strict, || {
            for _ in 0..20 {
                // Both others sleep by then.
                sleep(Duration::from_millis(2)).unwrap();
                let (begun, helped) = (AtomicBool::new(false), AtomicBool::new(false));
                scope(|s| {
                    // One of them gets this, and computes without a fork.
                    s.spawn(|| {
                        begun.store(true, SeqCst);
                        while !helped.load(SeqCst) {
                            std::thread::yield_now();
                        }
                    });
                    // If nobody slept yet: then it is given at a fork. One that suspends, because
                    // another worker has its child, would have this worker begin it.
                    no_suspend(|| {
                        while !begun.load(SeqCst) {
                            join(|| (), || ());
                        }
                    });
                    assert!(is_helped());
                    helped.store(true, SeqCst);
                });
            }
        })
        .unwrap();
}

/// First in, first out, and counts how often it was asked to spare a closure.
struct Asked(Fifo, &'static AtomicUsize);

impl Policy for Asked {
    fn push(&mut self, task: Task, why: Why) -> Goes {
        self.0.push(task, why)
    }

    fn pop(&mut self) -> Option<Task> {
        self.0.pop()
    }

    fn spare(&mut self) -> Option<Job> {
        self.1.fetch_add(1, SeqCst);
        None
    }
}

#[test]
fn a_policy_that_spares_nothing_is_not_asked_at_each_turn() {
    const TURNS: usize = scaled(100_000, 1_000);
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let policy = || Asked(Fifo::default(), &ASKED);
    // The other worker has nothing to do all the while.
    Runtime::new().workers(2).run_with(policy, || (0..TURNS).for_each(|_| yield_now().unwrap())).unwrap();
    // Turns are shorter than a microsecond, unless fibers are threads.
    let asked = ASKED.load(SeqCst);
    assert!(asked < TURNS / 4, "it was asked {asked} times in {TURNS} turns");
}
