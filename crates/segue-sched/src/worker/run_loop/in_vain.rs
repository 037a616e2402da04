//! Naps: how long a worker had better leave the closures of others alone, learnt from wake-ups in
//! vain; and the doubt of a worker that has its group to itself.
//!
//! Used by the worker loop, around its sleeps.
//!
//! # Naps
//!
//! A fiber that spawns a child and waits for the child, again and again, offers each child for some
//! tens of nanoseconds; then its own worker starts the child. Another worker that sleeps is woken
//! by such an offer and comes too late, which costs the spawner a system call; a worker that is
//! awake reads the lines that the spawner writes; and a worker that takes the child needs longer
//! for the child than the spawner would, which waits meanwhile.
//!
//! So a worker counts: wake-ups after which there was nothing to run, and closures that the worker
//! has taken, that ended [soon](SHORT), and after which no other was offered. After [some](FEW) in
//! a row the worker leaves the closures of busy workers to these for a moment: the worker *naps*.
//! Offers of busy workers do not end a nap (`group/mod.rs`), unless the closure is a child of a
//! fork, or one of a crowd. After the nap the worker looks, as before, and naps again after one
//! more look in vain. A closure that was worth the trouble ends that; and if nobody has offered
//! anything during a nap, the worker sleeps until a wake-up.
//!
//! After a nap the worker takes a sample: one closure that would be left to its worker otherwise,
//! out of patience (`grace.rs`). Else the worker would learn nothing of closures of which a few are
//! there at a time. If the sample goes on to wait, the closure may be one of several that talk to
//! each other, so the next naps pass without a sample, more of them each time ([`Doubt`]).
//!
//! **Invariant**: a worker leaves nothing for longer than a nap, asleep or awake.

use std::time::Duration;

/// A closure that ends in less time is better started by its own worker: about the time that a
/// closure takes to another worker, and the result back.
pub(super) const SHORT: Duration = Duration::from_micros(1);

/// How long a nap is: some times as long as a wake-up and a look.
pub(super) const NAP: Duration = Duration::from_micros(50);

/// So many in a row are taken for no accident.
const FEW: u32 = 16;

/// How a worker that is alone doubts whether to look for the next closure, if a closure has woken
/// the worker soon; and how any worker doubts whether to take a sample. Beside 1,023 wake-ups a try
/// in vain is little.
///
/// A thread that hands in a closure and waits for its end is often on this very processor: then
/// each look is in vain, as the look keeps that thread from running.
pub(super) type Doubt = segue_core::scheduling::Doubt<1023>;

/// The use of a closure that a worker has taken from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Hardly worth the trouble.
    Short,
    /// Worth the trouble: the closure took some time, or others waited, or was the child of a fork.
    Worth,
    /// The closure has gone on to wait.
    Settled,
}

/// When a worker naps.
#[derive(Default)]
pub(super) struct Naps {
    /// How often in a row the worker has come in vain.
    in_vain: u32,
    /// The worker has napped since.
    rested: bool,
    /// The turn of the last wake-up, if nothing was found since.
    woke: Option<usize>,
    samples: bool,
    /// Of samples, which are in vain if the closure goes on to wait. Naps are the occasions.
    doubt: Doubt,
}

impl Naps {
    /// Whether the worker is to nap.
    pub(super) fn is_due(&self) -> bool {
        self.in_vain >= FEW && !self.rested
    }

    /// The worker was parked until now, in this turn; in a nap, if one was due. Others have
    /// `offered` something in that or nothing.
    pub(super) fn woke(&mut self, turn: usize, offered: bool) {
        self.woke = Some(turn);
        if self.is_due() {
            self.rested = true;
            self.samples = self.doubt.is_over() && offered;
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

    /// The worker has taken a closure and run the closure.
    pub(super) fn took(&mut self, what: Was) {
        match what {
            Was::Settled if self.samples => self.doubt.grow(),
            Was::Settled => self.doubt.again(),
            Was::Short | Was::Worth => self.doubt = Doubt::NONE,
        }
        self.samples = false;
        if what == Was::Short { self.count() } else { self.in_vain = 0 }
    }

    /// The worker lies down in this turn.
    pub(super) fn lies_down(&mut self, turn: usize) {
        // The look has taken one turn.
        if self.woke.take().is_some_and(|woke| turn == woke.wrapping_add(1)) {
            self.count();
        }
    }

    fn count(&mut self) {
        self.in_vain = self.in_vain.saturating_add(1);
        self.rested = false;
    }
}

#[cfg(test)]
#[path = "../../../tests/units/in_vain.rs"]
mod tests;
