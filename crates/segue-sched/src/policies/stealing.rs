//! Work stealing: closures go to whoever is idle, started fibers stay.
//!
//! For computation on all processors, and the default of `run`.

use crate::policy::{AHEAD, Goes, Policy, Started, Task, Why};
use segue_core::Job;
use std::collections::VecDeque;

/// Work stealing.
///
/// A new closure is offered to all workers: the spawner's takes the newest, an idle one the oldest. A fiber that has started is resumed on
/// its worker, first in, first out, and takes turns with new closures, and with async tasks that were woken here, of which an idle worker
/// gets the oldest. One that gave way to work from outside goes on before the others.
#[derive(Debug, Default)]
pub struct Stealing {
    started: VecDeque<Started>,
    woken: VecDeque<Job>,
    /// Whose turn it is.
    tasks_turn: bool,
}

impl Policy for Stealing {
    #[inline]
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match task {
            Task::Fresh(job) if why == Why::Resumed => self.woken.push_back(job),
            Task::Fresh(job) => return Goes::Anywhere(job),
            // The newest first: what came from outside last is the least likely to be a long computation.
            Task::Started(started) if why == Why::Displaced => self.started.push_front(started),
            Task::Started(started) => self.started.push_back(started),
        }
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        if !self.woken.is_empty() {
            self.tasks_turn = !self.tasks_turn;
            if self.tasks_turn || self.started.is_empty() {
                return self.woken.pop_front().map(Task::Fresh);
            }
        }
        self.started.pop_front().map(Task::Started)
    }

    fn spare(&mut self) -> Option<Job> {
        self.woken.pop_front()
    }

    #[inline]
    fn upcoming(&self) -> Option<&Started> {
        self.started.get(AHEAD)
    }
}
