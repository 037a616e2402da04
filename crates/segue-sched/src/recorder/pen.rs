//! [`Pen`]: how a worker writes its events down, and which ones.
//!
//! Used by the worker: where it switches, wakes, spawns and sleeps.
//!
//! # Which turns
//!
//! To record a turn takes a look at the clock and some words. If turns are short, one in `every` is
//! recorded. So the hot paths pay for a count: `skip` turns are left until the next is recorded,
//! which is counted down where a fiber is about to run; and inside of a turn there is *room* for
//! events, or none. A pen without a ring has neither, and its count begins at zero, so that the
//! next turn to be recorded is billions away; then the pen finds that there is no ring.
//!
//! ```text
//!   skip > 1 --a turn--> skip - 1            nothing is recorded
//!   skip = 1 --a turn begins--> on           `Run` is recorded; skip is 1
//!   on --that turn ends--> skip = every      its end is recorded
//! ```

#![allow(clippy::inline_always)] // Counts on the paths of a switch.

use crate::recorder::registry::Ink;
use crate::recorder::word::{Kind, Word};
use segue_core::Fiber;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::time::Instant;

/// How many events inside of a turn are recorded.
const ROOM: u8 = 32;

/// A worker knows its pace, the number of turns in 20 microseconds. One of so many takes five.
const PART: u32 = 4;

/// The largest pace that a worker knows: turns may be much shorter. Then one in so many is
/// recorded.
const FASTEST: u32 = 512;
const OF_FASTEST: u32 = 1024;

/// Up to this pace events inside of a turn have a time of their own.
const SLOW: u32 = 2;

/// How a turn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    Suspends,
    Yields,
    Ends,
}

/// Writes the events of one worker.
pub(crate) struct Pen {
    /// How many turns are left until one is recorded.
    skip: Cell<u32>,
    /// Whether the turn that is under way is recorded.
    on: Cell<bool>,
    /// How many more events of this turn are recorded.
    room: Cell<u8>,
    /// Of how many turns one is recorded.
    every: Cell<u32>,
    slow: Cell<bool>,
    /// The number of the last turn that was recorded.
    last: Cell<usize>,
    ink: OnceCell<Arc<Ink>>,
}

impl Pen {
    /// A pen that writes nothing.
    pub(crate) fn new() -> Self {
        Self {
            skip: Cell::new(0),
            on: Cell::new(false),
            room: Cell::new(0),
            every: Cell::new(1),
            slow: Cell::new(true),
            last: Cell::new(0),
            ink: OnceCell::new(),
        }
    }

    /// Has the pen write to this ring, which is the worker's own.
    pub(crate) fn dip(&self, ink: Arc<Ink>) {
        if self.ink.set(ink).is_ok() {
            self.skip.set(1);
        }
    }

    /// Counts a turn that begins. Answers whether [`begins`](Pen::begins), or
    /// [`switched`](Pen::switched), is to be called.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        let skip = self.skip.get().wrapping_sub(1);
        self.skip.set(skip);
        skip == 0
    }

    /// Whether the turn that is under way is recorded, and its end is to be.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Whether an event of the turn that is under way is to be recorded.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.room.get() != 0
    }

    /// Whether every turn is recorded.
    pub(crate) fn is_steady(&self) -> bool {
        self.every.get() == 1 && self.ink.get().is_some()
    }

    /// A fiber is about to run, in this turn: for the first time, if there is the closure's
    /// address.
    #[cold]
    #[inline(never)]
    pub(crate) fn begins(&self, fiber: &Fiber, closure: usize, turn: usize) {
        let Some(ink) = self.ink.get() else { return };
        ink.time();
        self.begin(ink, fiber, closure, turn);
    }

    fn begin(&self, ink: &Ink, fiber: &Fiber, closure: usize, turn: usize) {
        let missing = turn.wrapping_sub(self.last.replace(turn)).wrapping_sub(1);
        // Where all are recorded, these are turns in which the loop has found nothing.
        if missing != 0 && self.every.get() > 1 {
            ink.write(Word::new(Kind::Unrecorded, missing as u64));
        }
        if closure != 0 {
            ink.write(Word::of_fiber(Kind::Start, fiber.id()));
            ink.write(Word::new(Kind::Closure, closure as u64));
            fiber.name().into_iter().flat_map(Word::of_name).for_each(|word| ink.write(word));
        }
        ink.write(Word::of_fiber(Kind::Run, fiber.id()));
        self.on.set(true);
        self.room.set(ROOM);
        self.skip.set(1);
    }

    /// The running fiber leaves, for the worker's loop.
    #[cold]
    #[inline(never)]
    pub(crate) fn left(&self, fiber: &Fiber, why: Leaves) {
        let Some(ink) = self.ink.get() else { return };
        ink.time();
        self.end(ink, fiber, why);
        self.skip.set(self.every.get());
    }

    fn end(&self, ink: &Ink, fiber: &Fiber, why: Leaves) {
        let kind = match why {
            Leaves::Suspends => Kind::Suspend,
            Leaves::Yields => Kind::Yield,
            Leaves::Ends => Kind::End,
        };
        ink.write(Word::of_fiber(kind, fiber.id()));
        if kind == Kind::Suspend {
            let words = fiber.waits_for().and_then(Word::of_wait);
            words.into_iter().flatten().for_each(|word| ink.write(word));
        }
        self.on.set(false);
        self.room.set(0);
    }

    /// The running fiber leaves for another one, which runs in this turn.
    #[cold]
    #[inline(never)]
    pub(crate) fn switched(&self, from: &Fiber, why: Leaves, to: &Fiber, turn: usize) {
        let Some(ink) = self.ink.get() else { return };
        ink.time();
        let was_on = self.on.get();
        if was_on {
            self.end(ink, from, why);
        }
        match self.every.get() {
            // The next turn is the first of those.
            every if was_on && every > 1 => self.skip.set(every - 1),
            _ => self.begin(ink, to, 0, turn),
        }
    }

    /// An event of the running fiber, for which there is room.
    #[cold]
    #[inline(never)]
    pub(crate) fn woke(&self, id: u64) {
        self.inside(Word::of_fiber(Kind::Resume, id));
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn spawned(&self, closure: usize) {
        self.inside(Word::new(Kind::Spawn, closure as u64));
    }

    #[cold]
    pub(crate) fn flies(&self, id: u64) {
        self.inside(Word::of_fiber(Kind::Flight, id));
    }

    fn inside(&self, word: Word) {
        let Some(ink) = self.ink.get() else { return };
        self.room.set(self.room.get().saturating_sub(1));
        if self.slow.get() {
            ink.time();
        }
        ink.write(word);
    }

    /// A letter for this fiber was read: a resume, or else a cancellation.
    pub(crate) fn read(&self, id: u64, is_resume: bool) {
        if self.is_steady() {
            let kind = if is_resume { Kind::Mail } else { Kind::Cancel };
            self.between(Word::of_fiber(kind, id));
        }
    }

    pub(crate) fn stole(&self, closure: usize) {
        self.between(Word::new(Kind::Steal, closure as u64));
    }

    pub(crate) fn parks(&self) {
        self.between(Word::new(Kind::Park, 0));
    }

    pub(crate) fn unparked(&self) {
        self.between(Word::new(Kind::Unpark, 0));
        self.record_within(1);
    }

    #[cold]
    #[inline(never)]
    fn between(&self, word: Word) {
        if let Some(ink) = self.ink.get() {
            ink.time();
            ink.write(word);
        }
    }

    /// So many turns take 20 microseconds, by the last look-around.
    pub(crate) fn paced(&self, pace: u32) {
        let every = if pace < FASTEST { pace.div_ceil(PART) } else { OF_FASTEST };
        self.every.set(every);
        self.slow.set(pace <= SLOW);
        self.record_within(every);
    }

    /// One of the next turns, so many, is recorded.
    fn record_within(&self, turns: u32) {
        // Of a pen without a ring that is not to be: its count wraps, or is far away.
        if self.ink.get().is_some() && self.skip.get() > turns {
            self.skip.set(turns);
        }
    }
}

impl Ink {
    #[inline]
    fn write(&self, word: Word) {
        self.ring.push(word);
    }

    /// Writes the time, which is that of the words that follow.
    #[inline]
    fn time(&self) {
        let now = Instant::now().saturating_duration_since(self.epoch);
        self.ring.push(Word::new(Kind::Time, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)));
    }
}
