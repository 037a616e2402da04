//! Numbers that are drawn.
//!
//! Used by choices, which look at their arms in an order that is drawn, and for pauses that are not
//! to be alike.

use crate::contract::current::with_running;
use crate::primitives::atomic::local;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

// Zero until the thread draws first.
local!(static DRAWS: Cell<u32> = Cell::new(0));

/// How many threads have drawn.
static THREADS: AtomicU32 = AtomicU32::new(0);

/// A number below `bound`, which is at most 2^32, of the running fiber's series or else of the
/// thread's. Each begins elsewhere: threads that draw once each do not draw the same. The
/// multiplier is that of PCG.
#[inline]
pub(crate) fn draw(bound: usize) -> usize {
    let next = |series: &Cell<u32>| {
        series.set(series.get().wrapping_mul(747_796_405).wrapping_add(2_891_336_453));
        ((u64::from(series.get()) * bound as u64) >> 32) as usize
    };
    with_running(|fiber| match fiber {
        Some(fiber) => next(&fiber.draws),
        None => DRAWS.with(|series| {
            if series.get() == 0 {
                series.set(first_of_thread());
            }
            next(series)
        }),
    })
}

#[cold]
fn first_of_thread() -> u32 {
    // In a model each run is to draw the same.
    if cfg!(loom) { 0 } else { mixed(THREADS.fetch_add(1, Ordering::Relaxed).into()) as u32 }
}

/// Several numbers that are drawn at once: the running fiber is looked for only for the first.
///
/// The generator is Knuth's (MMIX), with more bits than that of [`draw`], so that two series do not
/// go on alike.
pub(crate) struct Series(u64);

impl Series {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(draw(1 << 32) as u64)
    }

    /// A number below `bound`, which is at most 2^32.
    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * bound as u64) >> 32) as usize
    }
}

/// A random number, for what is to differ between programs that do the same at the same time. It
/// keeps no secrets.
///
/// In a simulation it follows from the seed, from which fiber draws, and from how often it has: so
/// another seed draws others, and a schedule that is replayed from its name draws the same. A
/// simulation that has no seed, the schedule `plain` and those of an exhaustive exploration, draws
/// as seed 0 does. Elsewhere the number follows from the operating system's.
///
/// # Examples
///
/// ```
/// assert_ne!(segue_core::random(), segue_core::random());
/// ```
#[must_use]
pub fn random() -> u64 {
    let series = with_running(|fiber| {
        let fiber = fiber?;
        Some(mixed(fiber.scheduler().timers().drawn_from()? ^ mixed(fiber.id())))
    });
    match series {
        Some(series) => mixed(series ^ draw(1 << 32) as u64),
        // In a model each run is to draw the same.
        None if cfg!(loom) => draw(1 << 32) as u64,
        // Each state is another one.
        None => RandomState::new().hash_one(0_u64),
    }
}

/// Another number for each number: a step of SplitMix64.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
