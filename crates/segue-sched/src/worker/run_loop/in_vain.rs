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
//! without such a sample, and after another one of that kind twice as many.
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

/// How many wake-ups by closures may pass without a try to look for one, or to take a sample:
/// beside what they take, a try in vain is little then.
const MOST_DOUBT: u32 = 1023;

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
    /// How many naps pass until it takes a sample, now and after the next that goes on to wait.
    pass: u32,
    next_pass: u32,
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

    /// Whether it takes a closure out of patience.
    pub(super) fn samples(&self) -> bool {
        self.samples
    }

    /// It has taken a closure and run it.
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

/// Whether a worker that is alone, and was woken soon by a closure, looks for the next one.
///
/// A thread that hands in a closure and waits for its end is often on this very processor: then
/// each look is in vain, as it keeps that thread from running. So after a try in vain some wake-ups
/// pass without one, and after the next twice as many.
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
#[path = "../../../tests/units/in_vain.rs"]
mod tests;
