//! `join` and `join_context`.
//!
//! Used by rayon's iterators for all that they split.

use crate::place::on_worker;
use segue_sched::FnContext;

/// Runs both closures, on two workers if one is idle, and returns both results.
///
/// # Panics
/// If one of them does, when neither is running any more; with the first one's payload if both do.
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
    segue_sched::try_join(oper_a, oper_b)
        .unwrap_or_else(|(oper_a, oper_b)| on_worker(|| segue_sched::join(oper_a, oper_b)))
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
    if segue_sched::Handle::current().is_some() {
        return segue_sched::join_context(
            |context| {
                // Rayon's iterators split a few times, and then go on for long without a fork: an idle
                // worker that comes meanwhile is to find something.
                segue_sched::offer_forks();
                oper_a(context)
            },
            oper_b,
        );
    }
    // Another thread takes both.
    on_worker(|| {
        let first = || {
            segue_sched::offer_forks();
            oper_a(FnContext::new(true))
        };
        segue_sched::join(first, || oper_b(FnContext::new(true)))
    })
}
