//! `policy_overhead`: Segue's fibers against a loop by hand on the same coroutines: a `VecDeque` of
//! `segue_fiber`'s coroutines that are resumed in turn, without a policy, cancellation, timers,
//! mail from other threads, or an end of the process when a fiber panics where it must not. All on
//! one worker.
//!
//! Yielding: an operation is one turn of a fiber; timed as in `yield`, all fibers have started
//! before the clock. Spawning: an operation is a fiber that is spawned, yields once, and ends; the
//! main fiber spawns a thousand at a time and waits until all have ended. Timed: spawning, both
//! turns, and the ends, but not the start of the runtime.
//!
//! The loop by hand does as little as possible. What Segue does more is what a scheduler costs;
//! "segue, fifo" has the same order. The other policies show what theirs adds.

use super::policies::{self, LIFO, Policy, RUNS_LIFO};
use super::r#yield::Round;
use crate::measure::{Span, Stopwatch, Variant, Workload};
use segue_fiber::{Coroutine, StackArena, StackConfig, StackPool, Step, suspend};
use std::cell::Cell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the file's head.
pub const WORKLOAD: Workload = Workload {
    name: "policy_overhead",
    timed: "yields and spawns through policies and by a loop by hand on the same coroutines",
    variants,
};

fn variants() -> Vec<Variant> {
    let yields = |name, fibers| {
        policies::add_but(&[LIFO, RUNS_LIFO], Variant::new(name, "turn", 1), move |policy, n| yields(policy, fibers, n))
            .add("by hand", move |n| yields_by_hand(fibers, n))
    };
    let spawns = policies::add_but(&[LIFO, RUNS_LIFO], Variant::new("spawn, yield once, end", "fiber", 1), spawns)
        .add("by hand", spawns_by_hand);
    vec![yields("yield, 2 fibers", 2), yields("yield, 1,000 fibers", 1_000), spawns]
}

/// How many fibers there are at a time where they are spawned.
const BATCH: u64 = 1_000;

fn yields(policy: &Policy, fibers: u64, n: u64) -> Span {
    let round = Round::new(fibers, n);
    policy.run(1, || {
        segue::scope(|scope| {
            for _ in 0..fibers {
                scope.spawn(|| round.take_part(|| segue::yield_now().expect("nobody cancels")));
            }
        });
    });
    round.span()
}

fn yields_by_hand(fibers: u64, n: u64) -> Span {
    let round = Round::new(fibers, n);
    let mut ready = Loop::new();
    for _ in 0..fibers {
        let round: Arc<Round> = round.clone();
        ready.spawn(move |header| round.take_part(|| header.give_way()));
    }
    ready.run();
    round.span()
}

fn spawns(policy: &Policy, n: u64) -> Span {
    policy.run(1, || {
        let count = AtomicU64::new(0);
        let batches = n.div_ceil(BATCH);
        let watch = Stopwatch::start();
        for _ in 0..batches {
            segue::scope(|scope| {
                for _ in 0..BATCH {
                    scope.spawn(|| {
                        segue::yield_now().expect("nobody cancels");
                        count.fetch_add(1, Relaxed);
                    });
                }
            });
        }
        let span = watch.stop(batches * BATCH);
        assert_eq!(count.into_inner(), batches * BATCH);
        span
    })
}

fn spawns_by_hand(n: u64) -> Span {
    let count = Rc::new(Cell::new(0));
    let batches = n.div_ceil(BATCH);
    let mut ready = Loop::new();
    let watch = Stopwatch::start();
    for _ in 0..batches {
        for _ in 0..BATCH {
            let count = count.clone();
            ready.spawn(move |header| {
                header.give_way();
                count.set(count.get() + 1);
            });
        }
        ready.run();
    }
    let span = watch.stop(batches * BATCH);
    assert_eq!(count.get(), batches * BATCH);
    span
}

/// The scheduler by hand.
struct Loop {
    stacks: StackPool,
    ready: VecDeque<Coroutine<Header>>,
}

struct Header {
    me: Cell<Option<NonNull<Header>>>,
}

impl Header {
    #[inline]
    fn give_way(&self) {
        let me = self.me.get().expect("set before the first resume");
        // SAFETY: only the function of this header's coroutine has the header, so that is the one
        // that runs.
        #[allow(unsafe_code, reason = "the switch itself is unsafe; schedulers hide it")]
        unsafe {
            suspend(me);
        }
    }
}

impl Loop {
    fn new() -> Self {
        let arena = StackArena::new(StackConfig::new()).expect("address space for stacks");
        Self { stacks: StackPool::new(arena), ready: VecDeque::new() }
    }

    fn spawn(&mut self, fiber: impl FnOnce(&Header) + 'static) {
        let stack = self.stacks.take().expect("a stack");
        let coroutine = Coroutine::new(stack, Header { me: Cell::new(None) }, fiber);
        coroutine.header().me.set(Some(coroutine.header_ptr()));
        self.ready.push_back(coroutine);
    }

    fn run(&mut self) {
        while let Some(mut coroutine) = self.ready.pop_front() {
            match coroutine.resume() {
                Step::Suspended => self.ready.push_back(coroutine),
                Step::Returned => {
                    let (_, stack) = coroutine.finish();
                    self.stacks.put(stack);
                }
            }
        }
    }
}
