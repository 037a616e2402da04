//! Numbers that are drawn.
//!
//! Used by choices, which begin with an arm that is drawn, and for pauses that are not to be alike.

use crate::contract::current::{on_current, with_running};
use crate::primitives::atomic::local;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

local!(static DRAWS: Cell<u32> = Cell::new(0));

/// A number below `bound`, which is at most 2^32, of the running fiber's series or else of the
/// thread's. The multiplier is that of PCG.
#[inline]
pub(crate) fn draw(bound: usize) -> usize {
    let next = |series: &Cell<u32>| {
        series.set(series.get().wrapping_mul(747_796_405).wrapping_add(2_891_336_453));
        ((u64::from(series.get()) * bound as u64) >> 32) as usize
    };
    with_running(|fiber| match fiber {
        Some(fiber) => next(fiber.draws()),
        None => DRAWS.with(next),
    })
}

/// A random number, for what is to differ between programs that do the same at the same time. It
/// keeps no secrets.
///
/// In a simulation it follows from the fiber that draws, and from how often it has: so a schedule
/// that is replayed draws the same. Elsewhere it follows from the operating system's numbers.
///
/// # Examples
///
/// ```
/// assert_ne!(segue_core::random(), segue_core::random());
/// ```
#[must_use]
pub fn random() -> u64 {
    if on_current(|fiber| fiber.scheduler().timers().is_real()) {
        // Each state is another one.
        return RandomState::new().hash_one(0_u64);
    }
    let half = || draw(1 << 16) as u64;
    (0..4).fold(0, |number, _| (number << 16) | half())
}
