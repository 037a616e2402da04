//! `par_enter`: a parallel loop of two pieces is entered again and again; an operation is one
//! entrance, until both pieces are done.
//!
//! * *empty pieces*: each adds to a number of its own. Whoever forks lazily runs both in place as
//!   long as nobody asks for work; the figure is what a loop costs that turns out to be too small
//!   for several workers.
//! * *pieces of 2,000 steps*: a step is a multiplication that needs the one before, so that a piece
//!   takes some microseconds. Half the time of one worker would be for free; what is above that is
//!   what it takes to bring the second worker in.
//!
//! Timed: the entrances, one after the other. Not timed: starting the pool. Go has a goroutine for
//! one of the pieces.

use super::policies::{self, Policy};
use crate::measure::{Span, Stopwatch, Variant, Workload};
use rayon::iter::{IntoParallelRefMutIterator, ParallelIterator};
use std::hint::black_box;
use std::num::NonZero;

/// See the file's head.
pub const WORKLOAD: Workload =
    Workload { name: "par_enter", timed: "entering a parallel loop of two small pieces, per entrance", variants };

fn variants() -> Vec<Variant> {
    let with = |name, workers, steps| {
        policies::add_all(Variant::new(name, "entrance", workers), move |policy, n| segue(policy, workers, steps, n))
            .add("chili", move |n| chili(workers, steps, n))
            .add("rayon, join", move |n| {
                rayon(workers, steps, n, |[a, b], piece| {
                    rayon::join(|| piece(a), || piece(b));
                })
            })
            .add("rayon, par_iter", move |n| {
                rayon(workers, steps, n, |pieces, piece| pieces.par_iter_mut().for_each(piece))
            })
            .add("rayon, scope", move |n| {
                rayon(workers, steps, n, |[a, b], piece| {
                    rayon::scope(|scope| {
                        scope.spawn(|_| piece(b));
                        piece(a);
                    });
                })
            })
            .add_go(&[&steps.to_string()])
            .absent("ForkUnion", "its core is C++, for which this workspace wants no compiler")
    };
    vec![
        with("empty pieces, one worker", 1, 1),
        with("empty pieces, two workers", 2, 1),
        with("pieces of 2,000 steps, one worker", 1, 2_000),
        with("pieces of 2,000 steps, two workers", 2, 2_000),
    ]
}

/// What a piece has: how many steps it has taken, and where they have led.
struct Piece {
    taken: u64,
    at: u64,
}

impl Piece {
    /// A piece is run.
    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.at = (self.at ^ (self.at >> 7)).wrapping_mul(0x5851_f42d_4c95_7f2d);
        }
        self.taken += steps;
    }
}

/// Enters `n` times.
fn often(steps: u64, n: u64, mut enter: impl FnMut(&mut [Piece; 2])) -> Span {
    let mut pieces = [3, 5].map(|at| Piece { taken: 0, at });
    let watch = Stopwatch::start();
    for _ in 0..n {
        enter(black_box(&mut pieces));
    }
    let span = watch.stop(n);
    assert!(pieces.iter().all(|piece| piece.taken == n * steps));
    span
}

/// The calling thread is the first worker.
fn segue(policy: &Policy, workers: usize, steps: u64, n: u64) -> Span {
    policy.run(workers, || {
        often(steps, n, |[a, b]| {
            segue::join(|| a.run(steps), || b.run(steps));
        })
    })
}

/// The calling thread is the first worker.
fn chili(workers: usize, steps: u64, n: u64) -> Span {
    let config = chili::Config { thread_count: NonZero::new(workers), ..Default::default() };
    let pool = chili::ThreadPool::with_config(config);
    let mut scope = pool.scope();
    often(steps, n, |[a, b]| {
        scope.join(|_| a.run(steps), |_| b.run(steps));
    })
}

/// From inside of the pool.
fn rayon(
    workers: usize,
    steps: u64,
    n: u64,
    enter: impl Fn(&mut [Piece; 2], &(dyn Fn(&mut Piece) + Sync)) + Sync,
) -> Span {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("rayon starts");
    pool.install(|| often(steps, n, |pieces| enter(pieces, &|piece| piece.run(steps))))
}
