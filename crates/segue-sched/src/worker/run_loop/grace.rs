//! How long an idle worker leaves the closures of others to these.
//!
//! Used by the worker loop, while it looks for work before it sleeps.
//!
//! # The idea
//!
//! A fiber that has spawned ten others and waits for them lies on one worker, and that starts them
//! one after the other within some microseconds. Another worker that happens to look just then
//! would take one or two of them. If they go on to talk to their siblings, each message between the
//! workers costs a microsecond, for as long as they live, and some forty nanoseconds on one worker.
//! If they compute, they are better apart.
//!
//! Which of the two it is shows when one was taken: whether it went on to wait, or ended in its
//! first turn. Until an idle worker knows, it is *patient*. It takes a closure that has come from
//! outside, a child of a fork, and what a worker offers that is in no turn. From a worker that
//! begins one turn after the other it takes none: that one starts its closures itself. A worker
//! that stays in its turn computes, and one whose shelf stays full can't keep up: the grace of both
//! ends. A [crowd](CROWD) of closures has none: connections that come together are to lie on both.
//! After a closure that ended in its first turn the worker takes everything at once; after one that
//! went on to wait it is patient again. One that found nothing often enough takes a sample
//! (`in_vain.rs`).
//!
//! **What holds**: grace is a matter of looks. A worker neither sleeps nor parks while a shelf
//! holds something that it may take (`group/mod.rs`), so nothing is forgotten, and nothing waits
//! for longer than [`GRACE`] while a worker is idle.

use crate::worker::group::CROWD;
use std::mem;
use std::time::{Duration, Instant};

/// For how long a worker may keep what is on its shelf to itself.
const GRACE: Duration = Duration::from_micros(200);

/// And if it stays in one turn. The first fibers of a worker need some ten microseconds each, for
/// memory that is touched for the first time.
const GRACE_IN_TURN: Duration = Duration::from_micros(50);

/// Closures that are offered, as an idle worker sees them again and again.
pub(super) struct Grace {
    turn: usize,
    in_turn: Instant,
    since: Instant,
}

impl Grace {
    /// So many closures are seen `now`, and their worker is in this turn. Answers whether they have
    /// had their grace, that of those seen before.
    pub(super) fn is_over(grace: &mut Option<Self>, turn: usize, closures: usize, now: Instant) -> bool {
        let seen = grace.get_or_insert(Self { turn, in_turn: now, since: now });
        if mem::replace(&mut seen.turn, turn) != turn {
            seen.in_turn = now;
        }
        closures > CROWD || now - seen.in_turn >= GRACE_IN_TURN || now - seen.since >= GRACE
    }
}

#[cfg(test)]
#[path = "../../../tests/units/grace.rs"]
mod tests;
