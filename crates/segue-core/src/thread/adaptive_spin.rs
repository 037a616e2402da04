//! How often a plain thread looks for its mail before a park, learnt from how its earlier waits
//! have ended.
//!
//! Used by `plain.rs`, which is where threads wait, and by `park.rs`, which waits for long.
//!
//! # The idea
//!
//! Parking and unparking cost each side a system call and some tens of microseconds; a thread that
//! is resumed sooner than that had better spin. A thread does not know how soon it will be resumed,
//! but knows the delays of the last times. Each thread keeps a *habit*, how often to look, and a
//! [doubt](Doubt):
//!
//! ```text
//!             a look was rewarded, the k-th: looks = 4k, or 7/8 of what they were if that is more; no doubt
//!             .-----.
//!             |     v   in vain: a half
//!   NONE <--- looks > 0 -------------.
//!    |  ^ fewer than LEAST           |
//!    |  '----------------------------'
//!    '--> MOST, if it parked and the mail came SOON, and the doubt has it try
//! ```
//!
//! A new thread does not look: its first park decides about that. A wait that takes longer than
//! SOON counts only for its looks in vain: after some of these a thread with long waits does not
//! look at all, and pays for two readings of the clock.
//!
//! MOST is about the time of a wake-up. So if two threads wake each other in turn, each asleep
//! while the other one is woken, the first one that looks meets the answer; after that the other
//! one's waits are short, too. That is also why the first tries go so far, and why they must be
//! rare where they are in vain: two threads that share one processor answer each other soon, and
//! never while one of them looks. There doubt grows, up to 127 short waits without a new try. So
//! there is no need to ask how many processors there are, which std answers by those that the
//! *calling* thread may use: for a thread that is bound to one, that is no answer.
//!
//! # When a wait is long
//!
//! [`at_once`] is for callers that know that the wait is long, or that have looked themselves, as
//! an idle worker does. They neither look nor teach.
//!
//! # Under the model checker
//!
//! A thread does not look: mail that comes early is found by the exchange of the lying down, so
//! that looks add no outcome; and a clock would make two runs of a model differ.

use crate::primitives::at_end::at_end;
use crate::primitives::atomic::{local, spin_loop};
use crate::primitives::doubt::Doubt;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How often to look at most. On the processors where this was measured a look takes 30 to 45
/// ns.
const MOST: u32 = 1024;
/// Fewer looks than this are none.
const LEAST: u32 = 8;
/// A thread that got mail sooner than this after its park might have done better with a look.
const SOON: Duration = Duration::from_micros(100);
/// A thread's lessons.
#[derive(Clone, Copy)]
struct Habit {
    looks: u32,
    /// Of tries after short waits.
    doubt: Doubt<127>,
}

impl Habit {
    const NEW: Self = Self { looks: 0, doubt: Doubt::NONE };

    fn was_rewarded(&mut self, look: u32) {
        let looks = (4 * look).max(self.looks - self.looks / 8).clamp(LEAST, MOST);
        *self = Self { looks, ..Self::NEW };
    }

    fn was_in_vain(&mut self) {
        self.looks /= 2;
        if self.looks < LEAST {
            self.looks = 0;
        }
    }

    fn parked_for(&mut self, time: Duration) {
        if time < SOON && self.doubt.tries() {
            self.looks = MOST;
        }
    }
}

local!(static HABIT: Cell<Habit> = Cell::new(Habit::NEW));
local!(static AT_ONCE: Cell<bool> = Cell::new(false));

/// One wait of this thread.
pub(crate) struct Patience {
    looked: bool,
    parked: Option<Instant>,
}

impl Patience {
    /// At the beginning of a wait.
    #[inline]
    pub(crate) fn new() -> Self {
        Self { looked: false, parked: None }
    }

    /// Looks for a while, in the first call, and answers whether there was something; if not, the
    /// thread should park.
    pub(crate) fn look(&mut self, mut is_there: impl FnMut() -> bool) -> bool {
        if cfg!(loom) || self.looked || AT_ONCE.with(Cell::get) {
            return false;
        }
        self.looked = true;
        let mut habit = HABIT.with(Cell::get);
        for look in 0..habit.looks {
            if is_there() {
                habit.was_rewarded(look);
                HABIT.with(|known| known.set(habit));
                return true;
            }
            spin_loop();
        }
        if habit.looks > 0 {
            habit.was_in_vain();
            HABIT.with(|known| known.set(habit));
        }
        self.parked = Some(Instant::now());
        false
    }

    /// At the end of the wait: learns from its length.
    #[inline]
    pub(crate) fn end(self) {
        if let Some(parked) = self.parked {
            let mut habit = HABIT.with(Cell::get);
            habit.parked_for(parked.elapsed());
            HABIT.with(|known| known.set(habit));
        }
    }
}

/// Calls `f`, in which this thread parks without looking.
pub(crate) fn at_once<R>(f: impl FnOnce() -> R) -> R {
    let before = AT_ONCE.with(|at_once| at_once.replace(true));
    let _restore = at_end(|| AT_ONCE.with(|at_once| at_once.set(before)));
    f()
}
