//! `join_context`: a join whose halves are told whether another worker has taken them.
//!
//! Used by applications, and by libraries that fork more as long as somebody takes what they fork.

use crate::join::join;
use crate::worker::residents;
use std::marker::PhantomData;

/// What a half of a [`join_context`] is told.
///
/// # Examples
///
/// ```
/// let told = segue_sched::join_context(|a| a.migrated(), |_| ());
/// assert!(!told.0);
/// ```
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// It says something about the thread that it was made on.
    here: PhantomData<*const ()>,
}

impl FnContext {
    /// For what runs a half by itself: whether that is elsewhere than where it was forked.
    #[must_use]
    pub fn new(migrated: bool) -> Self {
        Self { migrated, here: PhantomData }
    }

    /// Whether another worker has taken this half: so there was one without work a moment ago, and
    /// it may pay off to fork more.
    #[inline]
    #[must_use]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// The worker that has forked, by its address, which nobody follows.
#[derive(Clone, Copy)]
struct Forker(usize);

impl Forker {
    #[inline]
    fn here() -> Self {
        Self(crate::worker::common::worker().addr())
    }

    /// It is in place as long as the join, so no other worker has its address.
    #[inline]
    fn context(self) -> FnContext {
        FnContext::new(self.0 != Self::here().0)
    }
}

/// As [`join`], and tells each half whether another worker has taken it.
///
/// The first half runs where the caller does. A second half that has become a fiber of its own,
/// because the first one waits, was taken by another worker only if it runs on another one.
///
/// # Cancellation
/// As for [`join`].
///
/// # Panics
/// As for [`join`].
///
/// # Examples
///
/// Halves that go on forking as long as somebody takes them:
///
/// ```
/// fn sum(numbers: &[u64], splits: usize) -> u64 {
///     if numbers.len() < 2 || splits == 0 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let again = |taken| if taken { 4 } else { splits - 1 };
///     let (a, b) = segue_sched::join_context(
///         |half| sum(left, again(half.migrated())),
///         |half| sum(right, again(half.migrated())),
///     );
///     a + b
/// }
/// let numbers: Vec<u64> = (0..1000).collect();
/// let pool = segue_sched::Runtime::new().workers(2).pool().unwrap();
/// assert_eq!(pool.run(|| sum(&numbers, 4)).unwrap(), 499_500);
/// ```
#[inline]
pub fn join_context<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let forker = Forker::here();
    join(move || a(forker.context()), move || b(forker.context()))
}

/// As [`join_context`] where [`try_join`](crate::try_join) joins; elsewhere it gives both back.
///
/// # Errors
/// As for [`try_join`](crate::try_join).
///
/// # Panics
/// As for [`join`].
#[inline]
pub fn try_join_context<A, B, RA, RB>(a: A, b: B) -> Result<(RA, RB), (A, B)>
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let joins = !crate::worker::common::worker().is_null() || (residents::is_inhabited() && !segue_core::in_fiber());
    if joins { Ok(join_context(a, b)) } else { Err((a, b)) }
}
