//! A tree of fibers, each of which spawns its children and waits for them: how many are alive at
//! once under last in, first out, and under first in, first out.
#![cfg(not(miri))]

use segue_core::scope;
use segue_sched::{Fifo, Lifo, Policy, Runtime};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const BRANCHES: usize = 3;
const DEPTH: usize = 6;
const LEAVES: usize = BRANCHES.pow(DEPTH as u32);

#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

fn walk(depth: usize, alive: &Alive) {
    if depth > 0 {
        scope(|s| {
            for _ in 0..BRANCHES {
                let now = alive.now.fetch_add(1, Relaxed) + 1;
                alive.most.fetch_max(now, Relaxed);
                s.spawn(move || walk(depth - 1, alive));
            }
        });
    }
    alive.now.fetch_sub(1, Relaxed);
}

/// The most that were alive at once, the root included.
fn most_alive<P: Policy>(policy: impl Fn() -> P + Send + Sync) -> usize {
    let alive = Alive { now: 1.into(), most: 1.into() };
    Runtime::new().workers(1).run_with(policy, || walk(DEPTH, &alive)).unwrap();
    assert_eq!(alive.now.load(Relaxed), 0, "all have ended");
    alive.most.load(Relaxed)
}

#[test]
fn last_in_first_out_walks_a_tree_with_few_alive() {
    assert_eq!(most_alive(Lifo::strict), BRANCHES * DEPTH + 1);
    let relieved = most_alive(Lifo::default);
    assert!(relieved < LEAVES / 4, "{relieved}: turns of what is old begin too much");
    let breadth_first = most_alive(Fifo::default);
    assert!(breadth_first > LEAVES, "{breadth_first}: the policies do not differ in this tree");
}
