//! Last in, first out, on the worker where it was spawned.
//!
//! For trees of fibers that are to be walked depth first, so that few are alive at once.

use crate::policy::{Goes, Policy, Task, Why};
use std::collections::VecDeque;

/// Last in, first out. What gives up its turn comes after all others.
///
/// Every fiber runs on the worker of its spawner. Work from outside goes to whichever worker looks first, at every other turn.
///
/// What it is good for: a fiber that spawns others and waits for them has the newest run first, while what it will touch is still in the caches, and a tree of fibers
/// is walked depth first: with branches of b and a depth of d some b·d fibers are alive, and not b to the power of d.
///
/// # Starvation
/// What is old starves as long as newer things keep becoming ready: two fibers that resume each other keep all others of their worker waiting, but for work from outside; and so does an
/// async task that wakes itself, since it is queued anew each time. A fiber that only yields starves nobody.
#[derive(Debug, Default)]
pub struct Lifo {
    ready: VecDeque<Task>,
}

impl Policy for Lifo {
    #[inline]
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match why {
            Why::Yielded => self.ready.push_front(task),
            _ => self.ready.push_back(task),
        }
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.ready.pop_back()
    }
}
