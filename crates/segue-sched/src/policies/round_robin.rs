//! New fibers to all workers in turn: the scheduler that papers/002 builds as its example.
//!
//! For many fibers of about the same weight, which are to be spread evenly without anybody having
//! to be idle first.

use super::Fifo;
use crate::worker::policy::{Goes, Idle, Policy, Seat, Started, Task, Why};
use segue_core::scheduling::Job;
use std::num::NonZero;

/// Round robin over the workers.
///
/// Each worker sends the closures that are spawned there, and those from outside that this worker
/// sees first, to the next worker, the one after that, and so on, itself included. With n workers
/// each gets every n-th of them; with [runs](RoundRobin::in_runs_of) of k, the first k go to one
/// worker, the next k to the next. On its worker everything is first in, first out, or in [another
/// order](RoundRobin::ordered_by).
///
/// Good for: work that is all alike, such as a connection for each fiber, or a batch of equal
/// parts. Nothing is ever moved a second time, so when the parts differ, one worker may have much
/// to do while another sleeps; then [`Stealing`](crate::Stealing) is better.
///
/// # Starvation
/// None first in, first out: a ready fiber runs after all that were ready on its worker before.
/// Else as in that order.
#[derive(Debug)]
pub struct RoundRobin<P = Fifo> {
    order: P,
    seat: Option<Seat>,
    /// How many in a row go to the same worker.
    run: NonZero<usize>,
    /// Where they go now, and how many more of them.
    to: usize,
    left: usize,
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self::in_runs_of(NonZero::<usize>::MIN)
    }
}

impl RoundRobin {
    /// So many closures to a worker before the next one gets any.
    ///
    /// For chains and grids, in which those that are spawned one after the other talk to each
    /// other: then only one pair of neighbours in each run has two workers, and a message that
    /// crosses over takes longer than one that does not. The shorter the runs, the more evenly the
    /// work is spread.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::RoundRobin;
    /// use std::num::NonZero;
    ///
    /// let eight = NonZero::new(8).unwrap();
    /// let sum = segue_sched::Runtime::new().workers(2).run_with(|| RoundRobin::in_runs_of(eight), || {
    ///     // One worker gets the first eight, the other one the rest.
    ///     let fibers: Vec<_> = (0..16).map(|n| segue_core::spawn(move || n)).collect();
    ///     fibers.into_iter().map(|fiber| fiber.join().unwrap()).sum::<i32>()
    /// });
    /// assert_eq!(sum.unwrap(), 120);
    /// ```
    #[must_use]
    pub fn in_runs_of(run: NonZero<usize>) -> Self {
        Self { order: Fifo::default(), seat: None, run, to: 0, left: 0 }
    }
}

impl<P> RoundRobin<P> {
    /// The same places, and each worker's own in the order of another policy. Closures that this
    /// gives away when an idle worker asks are moved a second time.
    ///
    /// For a chain: last in, first out, as a fiber that its neighbour resumed is to run while their
    /// shared data are in the caches.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_sched::{Lifo, RoundRobin};
    /// use std::num::NonZero;
    ///
    /// let policy = || RoundRobin::in_runs_of(NonZero::new(64).unwrap()).ordered_by(Lifo::default());
    /// let answer = segue_sched::Runtime::new().workers(2).run_with(policy, || segue_core::spawn(|| 42).join());
    /// assert_eq!(answer.unwrap().unwrap(), 42);
    /// ```
    #[must_use]
    pub fn ordered_by<Q>(self, order: Q) -> RoundRobin<Q> {
        let Self { seat, run, to, left, .. } = self;
        RoundRobin { order, seat, run, to, left }
    }
}

impl<P: Policy> Policy for RoundRobin<P> {
    fn seated(&mut self, seat: Seat) {
        self.order.seated(seat.clone());
        // So that they do not all begin with the same one.
        self.to = seat.index();
        self.seat = Some(seat);
    }

    #[inline]
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match (task, why, &self.seat) {
            (Task::Fresh(job), Why::Spawned | Why::Arrived, Some(seat)) => {
                if self.left == 0 {
                    self.to = (self.to + 1) % seat.workers();
                    self.left = self.run.get();
                }
                self.left -= 1;
                if self.to != seat.index() {
                    return Goes::To(self.to, job);
                }
                self.order.push(Task::Fresh(job), why)
            }
            (task, ..) => self.order.push(task, why),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        self.order.pop()
    }

    fn spare(&mut self) -> Option<Job> {
        self.order.spare()
    }

    fn paced(&mut self, turns: u32) {
        self.order.paced(turns);
    }

    fn idle(&mut self) -> Idle {
        self.order.idle()
    }

    #[inline]
    fn upcoming(&self, turns: usize) -> Option<&Started> {
        self.order.upcoming(turns)
    }

    fn takes_arrivals(&self) -> bool {
        true
    }
}
