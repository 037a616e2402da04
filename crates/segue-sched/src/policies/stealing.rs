//! Work stealing: closures go to whoever is idle, started fibers stay.
//!
//! For computation on all processors, and the default of `run`.

use crate::policy::{AHEAD, Policy, Started, Task, Why};
use segue_core::Job;
use std::collections::VecDeque;

/// Work stealing.
///
/// A new closure is offered to all workers: the spawner's takes the newest, an idle one the oldest. A fiber that has started is resumed on
/// its worker, first in, first out, before new closures are started.
#[derive(Debug, Default)]
pub struct Stealing {
    started: VecDeque<Started>,
}

impl Policy for Stealing {
    #[inline]
    fn push(&mut self, task: Task, _why: Why) -> Option<Job> {
        match task {
            Task::Fresh(job) => Some(job),
            Task::Started(started) => {
                self.started.push_back(started);
                None
            }
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.started.pop_front().map(Task::Started)
    }

    #[inline]
    fn upcoming(&self) -> Option<&Started> {
        self.started.get(AHEAD)
    }
}
