//! `yield`, `yield_cold`: fibers that do nothing but give up their turn, on one worker; an
//! operation is one turn of one fiber.
//!
//! Timed: going from one fiber to the next through the ready queue. Not timed: spawning and ending
//! the fibers. With 10,000 fibers a turn meets cold caches, with 100,000 every turn does and, where
//! each fiber has a stack, a page that is in no translation cache: that is `yield_cold`, which
//! measures memory more than schedulers.
//!
//! The clock runs for whole rounds of a first-in first-out queue: each fiber yields until all have
//! started; the last to start runs the clock, takes its turns, and stops it. All others have then
//! had as many turns, which is checked: a scheduler that favours some fibers would be credited with
//! turns that nobody took.

use super::{may_run, segue_run, smol_executor, tokio_runtime};
use crate::measure::{SEGUE, Span, Stopwatch, Variant, Workload};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "yield", timed: "fibers that only yield, on one worker, all of them already started", variants };

/// See the file's head.
pub const COLD: Workload = Workload {
    name: "yield_cold",
    timed: "as yield, with so many fibers that each turn meets cold memory",
    variants: cold,
};

fn variants() -> Vec<Variant> {
    vec![among("2 fibers", 2), among("1,000 fibers", 1_000)]
}

fn cold() -> Vec<Variant> {
    vec![among("10,000 fibers", 10_000), among("100,000 fibers", 100_000)]
}

fn among(name: &str, fibers: u64) -> Variant {
    let variant = Variant::new(name, "yield", 1)
        .add(SEGUE, move |n| segue(fibers, n))
        .add("smol", move |n| smol(fibers, n))
        .add("tokio", move |n| tokio(fibers, n))
        .add_go(&[&fibers.to_string()]);
    match fibers {
        ..=1_000 => variant.add_apart("may", move |n| may(fibers, n)),
        _ => variant.absent("may", "it maps each stack by itself and meets the kernel's limit of mappings"),
    }
}

/// What the fibers of one round share.
pub struct Round {
    fibers: u64,
    turns: u64,
    started: AtomicU64,
    span: OnceLock<Span>,
}

impl Round {
    /// About `n` turns in all, and at least four for each fiber.
    pub fn new(fibers: u64, n: u64) -> Arc<Self> {
        Arc::new(Self { fibers, turns: (n / fibers).max(4), started: AtomicU64::new(0), span: OnceLock::new() })
    }

    /// The body of a fiber that yields by calling a function. There is one call, so that a library
    /// whose yield can be inlined has it inlined.
    pub fn take_part(&self, yield_now: impl Fn()) {
        let last = self.arrive();
        let mut watch = None;
        let mut taken = None;
        loop {
            match &mut taken {
                None if self.waiting() => {}
                None => {
                    watch = last.then(Stopwatch::start);
                    taken = Some(0);
                }
                Some(turns) => {
                    *turns += 1;
                    if *turns == self.turns / 2 {
                        self.check();
                    }
                    if *turns == self.turns {
                        break;
                    }
                }
            }
            yield_now();
        }
        self.finish(watch);
    }

    /// The body of a task that yields by awaiting a future.
    async fn take_part_async<F: Future<Output = ()>>(&self, yield_now: impl Fn() -> F) {
        let last = self.arrive();
        while self.waiting() {
            yield_now().await;
        }
        let watch = last.then(Stopwatch::start);
        for _ in 0..self.turns / 2 {
            yield_now().await;
        }
        self.check();
        for _ in self.turns / 2..self.turns {
            yield_now().await;
        }
        self.finish(watch);
    }

    fn arrive(&self) -> bool {
        self.started.fetch_add(1, Relaxed) + 1 == self.fibers
    }

    fn waiting(&self) -> bool {
        self.started.load(Relaxed) < self.fibers
    }

    /// Called by each fiber after half its turns.
    fn check(&self) {
        assert!(self.span.get().is_none(), "the fibers do not take turns");
    }

    fn finish(&self, watch: Option<Stopwatch>) {
        if let Some(watch) = watch {
            let _ = self.span.set(watch.stop(self.fibers * self.turns));
        }
    }

    /// What the last fiber has measured.
    pub fn span(&self) -> Span {
        *self.span.get().expect("the last fiber has finished")
    }
}

fn segue(fibers: u64, n: u64) -> Span {
    let round = Round::new(fibers, n);
    segue_run(1, || {
        segue::scope(|scope| {
            for _ in 0..fibers {
                scope.spawn(|| round.take_part(|| segue::yield_now().expect("nobody cancels")));
            }
        });
    });
    round.span()
}

fn smol(fibers: u64, n: u64) -> Span {
    let round = Round::new(fibers, n);
    let executor = smol_executor();
    let tasks: Vec<_> = (0..fibers)
        .map(|_| {
            let round = round.clone();
            executor.spawn(async move { round.take_part_async(smol::future::yield_now).await })
        })
        .collect();
    smol::future::block_on(executor.run(async {
        for task in tasks {
            task.await;
        }
    }));
    round.span()
}

fn tokio(fibers: u64, n: u64) -> Span {
    let round = Round::new(fibers, n);
    tokio_runtime(1).block_on(async {
        let tasks: Vec<_> = (0..fibers)
            .map(|_| {
                let round = round.clone();
                tokio::spawn(async move { round.take_part_async(tokio::task::yield_now).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    round.span()
}

fn may(fibers: u64, n: u64) -> Span {
    let round = Round::new(fibers, n);
    let shared = round.clone();
    may_run(1, move || {
        let all: Vec<_> = (0..fibers)
            .map(|_| {
                let round = shared.clone();
                may::go!(move || round.take_part(may::coroutine::yield_now))
            })
            .collect();
        for one in all {
            one.join().expect("no panic");
        }
    });
    round.span()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "do not take turns")]
    fn turns_that_nobody_took_are_noticed() {
        let round = Round::new(2, 100);
        round.arrive();
        // The other fiber takes all its turns at once.
        round.take_part(|| {});
        round.check();
    }
}
