//! Whether a receiver that finds the channel empty lets the senders go on for a moment before it
//! waits, learnt from earlier tries.
//!
//! Used by `recv` and iteration, of an exclusive receiver and of any one of an unbounded channel.
//!
//! # The idea
//!
//! A receiver that is faster than its senders finds the channel empty after each value. To wait is
//! right if nothing comes soon. But if a sender runs on another processor, and sends all the time,
//! then each value is handed over, by a wake-up of the other worker, and both fight for the line of
//! the lock. The receiver had better do nothing for as long as ten or more values take, and then
//! take them all at once.
//!
//! Only a try tells. A try that brings a [crowd](CROWD) costs each message less than a wake-up
//! would, also where other fibers of this worker could have run meanwhile, and so the next wait
//! begins with a try. After a try that brings less, some waits pass without one ([`Doubt`]). On one
//! worker nobody sends during a try: there a thousand waits have one short try.
//!
//! Time is counted in pauses, of some twenty to fifty nanoseconds on the processors of today; to
//! read a clock takes as long. So a simulation takes the same course each time.
//!
//! # Orderings
//!
//! All is relaxed. A lesson of one receiver serves the others, and if two learn at once, one of the
//! lessons is lost; nothing but time depends on that.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// How long the senders are let go on: so many times so many pauses, unless nothing has come after
/// one of these times.
const ROUNDS: u32 = 4;
const PAUSES: u32 = 8;

/// So many values at once are worth a try.
const CROWD: usize = 8;

/// At most 1,023 waits pass without a try.
type Doubt = segue_core::scheduling::Doubt<1023>;

/// The lessons of a channel's receivers.
#[derive(Default)]
pub(super) struct Patience {
    /// The bits of a [`Doubt`] of tries.
    doubt: AtomicU32,
    /// The last wait began with a try, and the values that have come are not known yet.
    tried: AtomicBool,
}

impl Patience {
    /// The channel is empty: lets the senders go on for a moment, or not.
    #[inline]
    pub(super) fn wait(&self, is_empty: impl Fn() -> bool) {
        let mut doubt = Doubt::from_bits(self.doubt.load(Relaxed));
        let tries = doubt.tries();
        self.doubt.store(doubt.to_bits(), Relaxed);
        if tries {
            self.give_a_try(is_empty);
        }
    }

    #[cold]
    fn give_a_try(&self, is_empty: impl Fn() -> bool) {
        self.tried.store(true, Relaxed);
        for _ in 0..ROUNDS {
            (0..PAUSES).for_each(|_| spin_loop());
            if is_empty() {
                self.tried.store(false, Relaxed);
                return;
            }
        }
    }

    /// So many values were taken at once.
    #[inline]
    pub(super) fn took(&self, values: usize) {
        if self.tried.load(Relaxed) {
            self.tried.store(false, Relaxed);
            if values >= CROWD {
                self.doubt.store(Doubt::NONE.to_bits(), Relaxed);
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/units/patience.rs"]
mod tests;
