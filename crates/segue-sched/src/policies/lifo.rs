//! Last in, first out, on the worker where it was spawned.
//!
//! For trees of fibers that are to be walked depth first, so that few are alive at once.

use crate::worker::ebb::ebb;
use crate::worker::policy::{Goes, Idle, Policy, Task, Why};
use std::collections::VecDeque;

/// Last in, first out. What gives up its turn comes after all others. Every 64th turn goes to what
/// is old.
///
/// Every fiber runs on the worker of its spawner. Work from outside goes to whichever worker looks
/// first, at every other turn.
///
/// What it is good for: a fiber that spawns others and waits for them has the newest run first,
/// while what it will touch is still in the caches, and a tree of fibers is walked depth first:
/// with branches of b and a depth of d [`strict`](Lifo::strict) has b·d fibers and the root alive,
/// and not b to the power of d. Without it the turns of what is old begin a few more branches.
///
/// # Starvation
/// None, but what is old waits long beside two fibers that resume each other, or an async task that
/// wakes itself. There are two lines, one of what has given up its turn and one of all else, and
/// the 64th turns go to the oldest of each in turn: a fiber with k older ones in its line gets a
/// turn after 128·(k + 1) turns at most. [`strict`](Lifo::strict) has no such turns: then what is
/// old starves as long as newer things keep becoming ready.
#[derive(Debug, Default)]
pub struct Lifo {
    ready: VecDeque<Task>,
    yielded: VecDeque<Task>,
    turns: u32,
    is_strict: bool,
}

/// Every so many turns the oldest gets one.
const RELIEF: u32 = 64;

impl Lifo {
    /// Nothing that is older gets a turn while there is anything newer that has not given up its
    /// own.
    #[must_use]
    pub fn strict() -> Self {
        Self { is_strict: true, ..Self::default() }
    }

    #[cold]
    fn pop_oldest(&mut self) -> Option<Task> {
        match self.turns.is_multiple_of(2 * RELIEF) {
            true => self.yielded.pop_front().or_else(|| self.ready.pop_front()),
            false => self.ready.pop_front().or_else(|| self.yielded.pop_front()),
        }
    }
}

impl Policy for Lifo {
    #[inline]
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match why {
            Why::Yielded => self.yielded.push_back(task),
            _ => self.ready.push_back(task),
        }
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(RELIEF) && !self.is_strict {
            return self.pop_oldest();
        }
        self.ready.pop_back().or_else(|| self.yielded.pop_front())
    }

    fn idle(&mut self) -> Idle {
        drop((ebb(&mut self.ready), ebb(&mut self.yielded)));
        Idle::Sleep
    }
}
