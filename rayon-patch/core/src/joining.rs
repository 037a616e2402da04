//! `join` and `join_context`.
//!
//! Used by rayon's iterators for all that they split.
//!
//! Both closures are run, also if the first one panics: rayon's merge sort leaves elements to the
//! second one. (A join of Segue's may leave it out.)

use crate::place::on_worker;
use segue_sched::FnContext;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread::Result;

/// Runs a closure, whose panic is kept until both have ended.
#[inline(always)]
fn caught<R>(f: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Goes on with the results, or with the first one's panic, or else with the second one's.
#[inline(always)]
fn both<RA, RB>(results: (Result<RA>, Result<RB>)) -> (RA, RB) {
    match results {
        (Ok(a), Ok(b)) => (a, b),
        (Err(payload), _) | (_, Err(payload)) => resume_unwind(payload),
    }
}

/// Runs both closures, on two workers if one is idle, and returns both results.
///
/// # Panics
/// If one of them does, when both have run; with the first one's payload if both do.
///
/// # Examples
///
/// ```
/// assert_eq!(rayon_core::join(|| 1, || 2), (1, 2));
/// ```
#[inline]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let halves = (|| caught(oper_a), || caught(oper_b));
    both(segue_sched::try_join(halves.0, halves.1).unwrap_or_else(|(a, b)| on_worker(|| segue_sched::join(a, b))))
}

/// As [`join`], and tells each closure whether it was taken by another worker.
///
/// # Panics
/// As for [`join`].
///
/// # Examples
///
/// ```
/// rayon_core::join_context(|_| (), |context| println!("taken: {}", context.migrated()));
/// ```
#[inline]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    // Rayon's iterators split a few times, and then go on for long without a fork: an idle worker
    // that comes meanwhile is to find something.
    let offering = |context| {
        segue_sched::offer_forks();
        caught(|| oper_a(context))
    };
    // One that is not on a worker has both taken by others. One fork for either case: a program has
    // as many of these functions as it has loops.
    let is_taken = segue_sched::worker_index().is_none();
    on_worker(|| {
        let halves = (
            |context: FnContext| offering(FnContext::new(is_taken || context.migrated())),
            |context: FnContext| caught(|| oper_b(FnContext::new(is_taken || context.migrated()))),
        );
        both(segue_sched::join_context(halves.0, halves.1))
    })
}
