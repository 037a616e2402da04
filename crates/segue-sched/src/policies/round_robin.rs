//! New fibers to all workers in turn, each first in, first out: the scheduler that papers/002 builds as its example.
//!
//! For many fibers of about the same weight, which are to be spread evenly without anybody having to be idle first.

use crate::policy::{Goes, Policy, Seat, Task, Why};
use std::collections::VecDeque;

/// Round robin over the workers.
///
/// Each worker sends the closures that are spawned on it, and those from outside that it sees first, to the next worker, the one after that, and so on, itself included. With n workers each gets
/// every n-th of them. On its worker everything is first in, first out.
///
/// What it is good for: work that is all alike, such as a connection for each fiber, or a batch whose parts take the same time. Nothing is ever moved a second time, so when the parts
/// differ, one worker may have much to do while another sleeps; then [`Stealing`](crate::Stealing) is better.
///
/// # Starvation
/// None: what is ready runs after all that was ready on its worker before it.
#[derive(Debug, Default)]
pub struct RoundRobin {
    ready: VecDeque<Task>,
    seat: Option<Seat>,
    next: usize,
}

impl Policy for RoundRobin {
    fn seated(&mut self, seat: Seat) {
        // So that they do not all begin with the same one.
        self.next = seat.index();
        self.seat = Some(seat);
    }

    #[inline]
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match (task, why, &self.seat) {
            (Task::Fresh(job), Why::Spawned | Why::Arrived, Some(seat)) => {
                self.next = (self.next + 1) % seat.workers();
                if self.next != seat.index() {
                    return Goes::To(self.next, job);
                }
                self.ready.push_back(Task::Fresh(job));
            }
            (task, ..) => self.ready.push_back(task),
        }
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.ready.pop_front()
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}
