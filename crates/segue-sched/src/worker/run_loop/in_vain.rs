//! What a worker learns from wake-ups in vain: how long it had better leave the closures of others
//! alone, and whether it looks for the next one if it has the group to itself.
//!
//! Used by the worker loop, around its sleeps.
//!
//! # Naps
//!
//! A fiber that spawns a child and waits for it, again and again, offers each child for some tens
//! of nanoseconds; then its own worker starts it. Another worker that sleeps is woken by such an
//! offer and comes too late, which costs the spawner a system call; one that is awake reads what
//! the spawner writes; and one that takes the child needs longer for it than the spawner would,
//! which waits meanwhile.
//!
//! So a worker counts: wake-ups after which there was nothing to run, and closures that it has
//! taken, that ended [soon](SHORT), and after which no other was offered. After [some](FEW) in a
//! row it leaves the closures of busy workers to them for a moment: it *naps*. What these offer
//! meanwhile does not wake it (`group/mod.rs`), unless it is a child of a fork, or one of a crowd.
//! After the nap it looks, as before, and if it comes in vain once more it naps again. A closure
//! that was worth it ends that; and if nobody has offered anything during a nap, the worker sleeps
//! until it is woken.
//!
//! After a nap it takes one closure that it would leave to its worker otherwise, out of patience
//! (`grace.rs`): else it would learn nothing of closures of which a few are there at a time. If
//! that goes on to wait, it may be one of several that talk to each other, so the next naps pass
//! without such a sample, and after another one of that kind twice as many ([`Doubt`]).
//!
//! **What holds**: a worker leaves nothing for longer than a nap, whether it sleeps then or not.

use std::time::Duration;

/// A closure that ends in less time is better started by the worker that has it: about what it
/// takes to bring a closure to another worker, and the result back.
pub(super) const SHORT: Duration = Duration::from_micros(1);

/// How long a nap is: some times as long as it takes to wake up and to look.
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

/// What a closure was that a worker has taken from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Was {
    /// Hardly worth it.
    Short,
    /// Worth it: it took some time, or others waited, or it is the child of a fork.
    Worth,
    /// It has gone on to wait.
    Settled,
}

/// When a worker naps.
#[derive(Default)]
pub(super) struct Naps {
    /// How often in a row it has come in vain.
    in_vain: u32,
    /// It has napped since.
    rested: bool,
    /// In which turn it was when it woke up, if nothing was found since.
    woke: Option<usize>,
    samples: bool,
    /// Of samples, which are in vain if the closure goes on to wait. Naps are the occasions.
    doubt: Doubt,
}

impl Naps {
    /// Whether it is to nap.
    pub(super) fn is_due(&self) -> bool {
        self.in_vain >= FEW && !self.rested
    }

    /// It was parked until now, in this turn; in a nap, if one was due. Others have `offered`
    /// something in that or nothing.
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

    /// Whether it takes a closure out of patience.
    pub(super) fn samples(&self) -> bool {
        self.samples
    }

    /// It has taken a closure and run it.
    pub(super) fn took(&mut self, what: Was) {
        match what {
            Was::Settled if self.samples => self.doubt.grow(),
            Was::Settled => self.doubt.again(),
            Was::Short | Was::Worth => self.doubt = Doubt::NONE,
        }
        self.samples = false;
        if what == Was::Short { self.count() } else { self.in_vain = 0 }
    }

    /// It lies down in this turn.
    pub(super) fn lies_down(&mut self, turn: usize) {
        // It has taken one turn to look.
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
