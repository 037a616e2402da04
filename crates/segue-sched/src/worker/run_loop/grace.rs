//! How long an idle worker leaves the closures of others to these.
//!
//! Used by the worker loop, during its search for work before a sleep.
//!
//! # The idea
//!
//! A fiber that has spawned ten others and waits for them lies on one worker, and this worker
//! starts them one after the other within some microseconds. Another worker that happens to look
//! just then would take one or two of them. If they go on to talk to their siblings, each message
//! between the workers costs a microsecond, for as long as they live, and some forty nanoseconds on
//! one worker. If they compute, they are better apart.
//!
//! The first turn of a closure tells: the closure goes on to wait, or ends. Until an idle worker
//! knows, the worker is *patient*. A patient worker takes a closure that has come from outside, a
//! child of a fork, and offers of a worker that is in no turn; but none from a worker that begins
//! one turn after the other, as such a worker starts its closures itself. A worker that stays in
//! its turn computes, and a worker with a full shelf can't keep up: the grace of both ends. A
//! [crowd](CROWD) of closures has none: connections that come together are to lie on both workers.
//! After a closure that ended in its first turn the worker takes everything at once; after a
//! closure that went on to wait the worker is patient again. A worker that found nothing often
//! enough takes a sample (`in_vain.rs`).
//!
//! **Invariant**: grace is a matter of looks. A worker neither sleeps nor parks while a shelf holds
//! something that the worker may take (`group/mod.rs`), so nothing is forgotten, and nothing waits
//! for longer than [`GRACE`] while a worker is idle.

use crate::worker::group::CROWD;
use std::mem;
use std::time::{Duration, Instant};

/// For how long a worker may keep the closures on its shelf to itself.
const GRACE: Duration = Duration::from_micros(200);

/// For how long a worker may do so that stays in one turn. The first fibers of a worker need some
/// ten microseconds each, for memory that is touched for the first time.
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
