//! Work stealing: closures go to idle workers, started fibers stay.
//!
//! For computation on all processors, and the default of `run`.

use crate::policies::ring::Ring;
use crate::worker::policy::{Goes, Idle, Policy, Seat, Started, Task, Why};
use segue_core::scheduling::Job;
use segue_core::{Attribute, Spread};

/// Work stealing.
///
/// A new closure is offered to all workers: the spawner's takes the newest, an idle one the oldest.
/// A fiber that has started is resumed on its worker, first in, first out, and takes turns with new
/// closures, and with async tasks that were woken here. An idle worker gets the oldest of these
/// tasks. One that gave way to work from outside goes on before the others, 64 times in a row at
/// most.
///
/// # The fiber that was resumed last
/// This fiber runs next: the data that it shares with its resumer are still in the caches. Such
/// turns go before the others for some 20 microseconds in all. Then each fiber and task that is in
/// the queue has its turn first, and those that are resumed meanwhile come behind them. (Go gives
/// such a fiber the rest of a time slice of 10 ms, tokio three turns in a row.)
///
/// # Place
/// A fiber stays in the place of its start. So a worker that has more fibers than another one has
/// that start new closures, from its own shelf or from outside: after a sleep as soon as it has two
/// more, and the closure is the only one, since then a fiber has spawned it and gone on to wait;
/// and with a dozen more if busy. A closure on a shelf starts on any worker that has nothing to do.
/// A closure that is to be [spread](segue_core::Spread) goes to the worker with the fewest fibers
/// at its spawn.
///
/// # Starvation
/// None. Started fibers and woken tasks are first in, first out, each get every other turn at
/// least, and share that. To those that were resumed last they lose some 20 microseconds, once,
/// wherever they are in the queue; [`paced`](Policy::paced) says how well a worker knows its time.
/// Of all other closures those from outside come first, and of those that were spawned on the
/// worker the newest; but once in 64 turns the oldest of these starts before any other. So a
/// closure that has k older ones on its worker starts after 64·(k + 1) turns at most.
#[derive(Debug, Default)]
pub struct Stealing {
    seat: Option<Seat>,
    /// The fiber that was resumed last.
    last: Option<Started>,
    /// For how many more turns that goes before the others.
    left: u32,
    /// After these, up to where the others in the two queues have their turns first.
    relieved: (usize, usize),
    /// The number of turns that it gets then; none before the worker knows its pace.
    pace: u32,
    started: Ring<Started>,
    /// Tasks that were woken, and closures that were sent here to start here (`spawn_at`).
    woken: Ring<Job>,
    /// The fiber with the next turn.
    tasks_turn: bool,
    /// How often one has gone on before the others since one that should have did not.
    ahead: u8,
}

/// The attribute of a closure that is to start on the worker to which it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept;

impl Attribute for Kept {
    const INHERITED: bool = false;

    fn to_bits(self) -> u64 {
        0
    }

    fn from_bits(_: u64) -> Self {
        Self
    }
}

/// How often in a row a fiber goes on before the others.
const MOST_AHEAD: u8 = 64;

impl Stealing {
    /// Whether the fiber that was resumed last may go before the others.
    #[inline]
    fn may_go_ahead(&mut self) -> bool {
        if self.left == 0 && self.started.has_passed(self.relieved.0) && self.woken.has_passed(self.relieved.1) {
            self.left = self.pace;
        }
        self.left > 0
    }

    /// Where a closure is to start.
    #[inline]
    fn place(&self, job: Job, why: Why) -> Goes {
        if why == Why::Spawned && job.attribute::<Spread>().is_some() {
            return self.spread(job);
        }
        Goes::Anywhere(job)
    }

    #[cold]
    fn spread(&self, job: Job) -> Goes {
        match self.seat.as_ref().map(|seat| (seat.index(), seat.fewest_fibers())) {
            Some((here, to)) if to != here => Goes::To(to, job),
            _ => Goes::Anywhere(job),
        }
    }
}

impl Policy for Stealing {
    fn seated(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    #[inline]
    fn push(&mut self, task: Task, why: Why) -> Goes {
        match task {
            Task::Fresh(job) if why == Why::Resumed => self.woken.push_back(job),
            Task::Fresh(job) if why == Why::Sent && job.attribute::<Kept>().is_some() => self.woken.push_back(job),
            Task::Fresh(job) => return self.place(job, why),
            Task::Started(started) if why == Why::Displaced && self.ahead < MOST_AHEAD => {
                self.ahead += 1;
                self.started.push_front(started);
            }
            Task::Started(started) if why == Why::Displaced => {
                self.ahead = 0;
                self.started.push_back(started);
            }
            Task::Started(started) if why == Why::Resumed && self.may_go_ahead() => {
                if let Some(before) = self.last.replace(started) {
                    self.started.push_back(before);
                }
            }
            Task::Started(started) => self.started.push_back(started),
        }
        Goes::Here
    }

    #[inline]
    fn pop(&mut self) -> Option<Task> {
        if let Some(last) = self.last.take() {
            self.left -= 1;
            if self.left == 0 {
                self.relieved = (self.started.end(), self.woken.end());
            }
            return Some(Task::Started(last));
        }
        if !self.woken.is_empty() {
            self.tasks_turn = !self.tasks_turn;
            if self.tasks_turn || self.started.is_empty() {
                return self.woken.pop_front().map(Task::Fresh);
            }
        }
        self.started.pop_front().map(Task::Started)
    }

    fn idle(&mut self) -> Idle {
        self.started.ebb();
        self.woken.ebb();
        Idle::Sleep
    }

    fn paced(&mut self, turns: u32) {
        // A policy around this one may say anything.
        self.pace = turns.max(1);
        self.left = self.left.min(self.pace);
    }

    fn spare(&mut self) -> Option<Job> {
        let keeps = self.woken.get(0)?.attribute::<Kept>().is_some();
        if keeps { None } else { self.woken.pop_front() }
    }

    #[inline]
    fn upcoming(&self, turns: usize) -> Option<&Started> {
        self.started.get(turns)
    }
}
