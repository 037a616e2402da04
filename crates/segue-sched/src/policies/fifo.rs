//! First in, first out, on the worker where it was spawned.
//!
//! For fibers that wait a lot and compute little, where fairness and predictable order matter more
//! than use of all processors.

use crate::policies::ring::Ring;
use crate::worker::policy::{Goes, Idle, Policy, Started, Task, Why};

/// First in, first out.
///
/// Every fiber runs on the worker of its spawner. Work from outside goes to whichever worker looks
/// first.
#[derive(Debug, Default)]
pub struct Fifo {
    ready: Ring<Task>,
}

impl Policy for Fifo {
    #[inline]
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        self.ready.push_back(task);
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.ready.pop_front()
    }

    fn idle(&mut self) -> Idle {
        self.ready.ebb();
        Idle::Sleep
    }

    #[inline]
    fn upcoming(&self, turns: usize) -> Option<&Started> {
        match self.ready.get(turns) {
            Some(Task::Started(started)) => Some(started),
            _ => None,
        }
    }
}
