//! Which directions of a socket are reported for good, so that an op that waits need not look at
//! the socket's place.
//!
//! Used by `socket`. With a selector of edges a direction is asked for once, under the lock of the
//! place. All later waits find its bit here, by one load.
//!
//! # The word
//!
//! | bits | |
//! | --- | --- |
//! | 0, 1 | the directions, by the number of their half |
//! | 2 to 31 | how many ends of reactors have told the socket to look for another |
//! | 32 to 63 | the process in which the bits were set: the child of a fork may not use the place |
//!
//! | side | steps, in this order |
//! | --- | --- |
//! | an op that waits | reads its tick; reads the word, and is done if its bit is there |
//! | an op without its bit there | locks the place; reads the word; asks the selector; sees that the reactor is open; exchanges the word for one with the bit |
//! | a reactor's end | closes the reactor; takes the bits out and counts; adds to the ticks |
//!
//! **The race to fear**: an op that trusts the bit of a reactor that has ended waits for ever. The
//! end's three steps release all writes before them. If the op reads a bit that the end takes out
//! later, then its tick is from before the end added to it, and changes. And no bit is set after
//! the end took them out: the exchange fails, since the word has counted. An exchange that fails
//! costs the next op a look at the place, and nothing else.

use crate::selector::Interest;
use crate::system::fork::Birth;
use std::sync::atomic::{AtomicU64, Ordering};

const DIRECTIONS: u64 = 0b11;
const ONE_END: u64 = 0b100;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Settled(AtomicU64);

/// The word before the selector was asked.
pub(crate) struct Before(u64);

fn bits(interest: Interest) -> u64 {
    u64::from(interest.read) | u64::from(interest.write) << 1
}

impl Settled {
    /// Whether these directions are reported for good, to this process.
    #[inline]
    pub(crate) fn has(&self, interest: Interest) -> bool {
        let (word, wanted) = (self.0.load(Ordering::Acquire), bits(interest));
        word & wanted == wanted && word >> 32 == u64::from(Birth::now().number())
    }

    /// To be called under the lock of the place, before the selector is asked.
    pub(crate) fn before(&self) -> Before {
        Before(self.0.load(Ordering::Acquire))
    }

    /// These directions are reported for good, if no reactor has ended since `before`. Under the
    /// same lock, and after the reactor was seen open.
    pub(crate) fn set(&self, Before(before): Before, interest: Interest) {
        let birth = u64::from(Birth::now().number());
        let kept = if before >> 32 == birth { before & DIRECTIONS } else { 0 };
        let ends = before & u64::from(u32::MAX) & !DIRECTIONS;
        let new = birth << 32 | ends | kept | bits(interest);
        let _ = self.0.compare_exchange(before, new, Ordering::Release, Ordering::Relaxed);
    }

    /// The reactor has been closed; the ticks come after this.
    pub(crate) fn end(&self) {
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            Some(u64::from((word as u32 & !(DIRECTIONS as u32)).wrapping_add(ONE_END as u32)))
        });
    }
}

#[cfg(test)]
#[path = "../../tests/units/settled.rs"]
mod tests;
