//! A worker's lessons from wake-ups in vain: the time for which it had better leave the closures of
//! others alone, and, alone in its group, whether to look for the next one.
//!
//! Used by the worker loop, around its sleeps.
//!
//! # Naps
//!
//! A fiber that spawns a child and waits for the child, again and again, offers each child for some
//! tens of nanoseconds; then its own worker starts it. Another worker that sleeps is woken by such
//! an offer and comes too late, which costs the spawner a system call; one that is awake reads the
//! spawner's lines; and one that takes the child needs longer than the spawner would, which waits
//! meanwhile.
//!
//! So a worker counts: wake-ups after which there was nothing to run, and taken closures that ended
//! [soon](SHORT), and after which no other was offered. After [some](FEW) in a row the worker
//! leaves the closures of busy workers to them for a moment: a *nap*. Their offers meanwhile do not
//! end the nap (`group/mod.rs`), except a child of a fork, or one of a crowd. After the nap the
//! worker looks, as before, and naps again after one more time in vain. A worthwhile closure ends
//! that; and if nobody has offered anything during a nap, the worker sleeps until a wake-up.
//!
//! After a nap the worker takes one closure that it would otherwise leave, out of patience
//! (`grace.rs`): else there would be no lesson of closures of which a few are there at a time. A
//! closure that goes on to wait may be one of several that talk to each other, so the next naps
//! pass without such a sample, and after another one of that kind twice as many.
//!
//! **Invariant**: a worker leaves nothing for longer than a nap, asleep or awake.

use std::time::Duration;

/// A closure that ends in less time is better started by its own worker: about the time to bring a
/// closure to another worker, and the result back.
pub(super) const SHORT: Duration = Duration::from_micros(1);

/// The length of a nap: some times that of a wake-up and a look.
pub(super) const NAP: Duration = Duration::from_micros(50);

/// So many in a row are taken for no accident.
const FEW: u32 = 16;

/// The wake-ups by closures that may pass without a try to look for one, or to take a sample:
/// beside their time, a try in vain is little then.
const MOST_DOUBT: u32 = 1023;

/// The kind of a closure that a worker has taken from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Hardly worthwhile.
    Short,
    /// Worthwhile: it took some time, or others waited, or it is the child of a fork.
    Worth,
    /// Gone on to wait.
    Settled,
}

/// When a worker naps.
#[derive(Default)]
pub(super) struct Naps {
    /// The wake-ups in vain, in a row.
    in_vain: u32,
    /// Napped since.
    rested: bool,
    /// The turn of its wake-up, if nothing was found since.
    woke: Option<usize>,
    samples: bool,
    /// The naps that pass until the next sample, now and after the next that goes on to wait.
    pass: u32,
    next_pass: u32,
}

impl Naps {
    /// Whether a nap is due.
    pub(super) fn is_due(&self) -> bool {
        self.in_vain >= FEW && !self.rested
    }

    /// The worker was parked until now, in this turn; in a nap, if one was due. Others have
    /// `offered` something in that or nothing.
    pub(super) fn woke(&mut self, turn: usize, offered: bool) {
        self.woke = Some(turn);
        if self.is_due() {
            self.rested = true;
            self.samples = offered && self.pass == 0;
            self.pass = self.pass.saturating_sub(1);
            if !offered {
                self.in_vain = 0;
            }
        }
    }

    /// The nap is over, or would be if there had been time for one.
    pub(super) fn end(&mut self) {
        self.rested = true;
    }

    /// Whether the worker takes a closure out of patience.
    pub(super) fn samples(&self) -> bool {
        self.samples
    }

    /// The worker has taken a closure and run it.
    pub(super) fn took(&mut self, what: Was) {
        if what != Was::Settled {
            self.next_pass = 0;
        } else if self.samples {
            self.next_pass = (2 * self.next_pass + 1).min(MOST_DOUBT);
        }
        self.pass = self.next_pass;
        self.samples = false;
        if what == Was::Short { self.count() } else { self.in_vain = 0 }
    }

    /// The worker lies down in this turn.
    pub(super) fn lies_down(&mut self, turn: usize) {
        // The worker has taken one turn to look.
        if self.woke.take().is_some_and(|woke| turn == woke.wrapping_add(1)) {
            self.count();
        }
    }

    fn count(&mut self) {
        self.in_vain = self.in_vain.saturating_add(1);
        self.rested = false;
    }
}

/// Whether a worker that is alone, and was woken soon by a closure, looks for the next one.
///
/// A thread that hands in a closure and waits for its end is often on this very processor: then
/// each look is in vain, as the look keeps that thread from running. So after a try in vain some
/// wake-ups pass without one, and after the next twice as many.
#[derive(Default)]
pub(super) struct Doubt {
    /// How many pass after this try; zero if the last look was rewarded.
    pub(super) wake_ups: u32,
    /// How many of them are left.
    left: u32,
}

impl Doubt {
    pub(super) fn tries(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        self.wake_ups = (2 * self.wake_ups + 1).min(MOST_DOUBT);
        self.left = self.wake_ups;
        true
    }
}

#[cfg(test)]
#[path = "../../tests/units/in_vain.rs"]
mod tests;
