//! The schedulers of "Composable scheduler activations for Haskell" (section 4), on transactions:
//! run queues that are first in, first out, one for each worker, and the same with work stealing.
//! Both pass the conformance suite, and its reports are printed.
//!
//! As in the paper, new closures go round the workers. The next one to run is found by one
//! transaction, which looks at the worker's own queue, and in the second scheduler at all others;
//! that nothing was there and that this worker sleeps is one step. So nobody can add a closure in
//! between, and the scheduler has no other protocol for its sleepers.
//!
//! Two things differ from the paper. A policy may not wait: where the paper's `retry` puts the
//! worker to sleep, an `or_else` notes the sleeper, and the worker that adds a closure wakes that
//! one. And a fiber that has started stays on its worker: so these fibers are the worker's own
//! data, and the queues, which are shared, have closures.

use segue::core::scheduling::Job;
use segue::sched::{Goes, Idle, Policy, Runtime, Seat, Started, Task, Why};
use segue::scope;
use segue::stm::{Stop, TQueue, TVar, Tx, transaction};
use segue_conformance::{Main, Suite};
use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// A closure that has not started, with the time at which it became ready. A transaction moves the
/// ticket, and may begin again; the one that has it in the end takes the job.
#[derive(Clone)]
struct Ticket {
    since: Instant,
    job: Arc<Mutex<Option<Job>>>,
}

impl Ticket {
    fn into_job(self) -> Job {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        job.take().expect("one transaction has taken the ticket out")
    }
}

/// The variables of one scheduler.
struct Shared {
    /// A run queue for each worker.
    queues: Box<[TQueue<Ticket>]>,
    /// Which workers have found nothing and were not woken since.
    sleeping: Box<[TVar<bool>]>,
    /// The worker that gets the next closure.
    next: TVar<usize>,
    steals: bool,
}

impl Shared {
    fn new(workers: usize, steals: bool) -> Arc<Self> {
        let queues = (0..workers).map(|_| TQueue::unbounded()).collect();
        let sleeping = (0..workers).map(|_| TVar::new(false)).collect();
        Arc::new(Self { queues, sleeping, next: TVar::new(0), steals })
    }

    fn policy(self: &Arc<Self>) -> OnTransactions {
        OnTransactions { shared: Arc::clone(self), seat: None, new: Vec::new(), started: VecDeque::new() }
    }

    /// Takes the note that a worker sleeps away, if there is one.
    fn is_roused(&self, tx: &Tx<'_>, worker: usize) -> Result<bool, Stop> {
        let sleeps = *tx.read(&self.sleeping[worker])?;
        if sleeps {
            tx.write(&self.sleeping[worker], false)?;
        }
        Ok(sleeps)
    }

    /// The enqueue activation. Answers which worker is to be woken.
    fn enqueue(&self, tx: &Tx<'_>, ticket: &Ticket) -> Result<Option<usize>, Stop> {
        let workers = self.queues.len();
        let home = *tx.read(&self.next)?;
        tx.write(&self.next, (home + 1) % workers)?;
        self.queues[home].write(tx, ticket.clone())?;
        let fitting = if self.steals { workers } else { 1 };
        for worker in (home..home + fitting).map(|worker| worker % workers) {
            if self.is_roused(tx, worker)? {
                return Ok(Some(worker));
            }
        }
        Ok(None)
    }

    /// The dequeue activation: a closure that came before the worker's oldest fiber; `None` if that
    /// fiber is next. Retries if there is nothing at all.
    fn dequeue(&self, tx: &Tx<'_>, me: usize, oldest: Option<Instant>) -> Result<Option<Ticket>, Stop> {
        let is_next = |ticket: &Ticket| oldest.is_none_or(|oldest| ticket.since < oldest);
        if self.queues[me].peek(tx)?.is_some_and(is_next) {
            return Ok(self.queues[me].try_read(tx)?.cloned());
        }
        if oldest.is_some() {
            return Ok(None);
        }
        let others = if self.steals { &*self.queues } else { &[] };
        for queue in others {
            if let Some(stolen) = queue.try_read(tx)? {
                return Ok(Some(stolen.clone()));
            }
        }
        tx.retry()
    }
}

/// The policy of one worker.
struct OnTransactions {
    shared: Arc<Shared>,
    seat: Option<Seat>,
    /// Closures that are not in a queue yet. A policy is asked to push inside of bodies, too: their
    /// transactions the closures are not to join. The next `pop` is in no body.
    new: Vec<Ticket>,
    /// Fibers of this worker, and since when they are ready.
    started: VecDeque<(Instant, Started)>,
}

impl Policy for OnTransactions {
    fn seated(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    fn push(&mut self, task: Task, _why: Why) -> Goes {
        let since = Instant::now();
        match task {
            Task::Fresh(job) => self.new.push(Ticket { since, job: Arc::new(Mutex::new(Some(job))) }),
            Task::Started(started) => self.started.push_back((since, started)),
        }
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        let Self { shared, seat, new, started } = self;
        let seat = seat.as_ref().expect("a policy has its seat before anything else");
        let (me, oldest) = (seat.index(), started.front().map(|(since, _)| *since));
        let mut step = transaction(|tx| {
            shared.is_roused(tx, me)?;
            let mut woken = Vec::new();
            for ticket in &*new {
                woken.extend(shared.enqueue(tx, ticket)?);
            }
            let sleep = |tx: &Tx<'_>| tx.write(&shared.sleeping[me], true).map(|()| None);
            Ok((woken, tx.or_else(|tx| shared.dequeue(tx, me, oldest), sleep)?))
        });
        // Without an answer others have held a variable for a moment.
        let (woken, ticket) = loop {
            match step.attempt() {
                Some(found) => break found,
                None => thread::yield_now(),
            }
        };
        drop(step);
        new.clear();
        woken.into_iter().for_each(|worker| seat.wake(worker));
        let job = ticket.map(|ticket| Task::Fresh(ticket.into_job()));
        job.or_else(|| started.pop_front().map(|(_, started)| Task::Started(started)))
    }

    fn takes_arrivals(&self) -> bool {
        true
    }

    fn idle(&mut self) -> Idle {
        Idle::Hold(None)
    }
}

/// Runs `main` on so many workers.
fn run<T: Send>(workers: usize, steals: bool, main: impl FnOnce() -> T + Send) -> T {
    let shared = Shared::new(workers, steals);
    Runtime::new().workers(workers).run_with(move || shared.policy(), main).expect("it starts")
}

/// The order in which a hundred closures run on one worker.
fn order(steals: bool) -> Vec<u32> {
    let (told, order) = channel();
    let tell = |n| {
        let told = told.clone();
        move || told.send(n).expect("somebody listens")
    };
    run(1, steals, || scope(|s| (0..100).for_each(|n| drop(s.spawn(tell(n))))));
    order.try_iter().collect()
}

/// A fiber blocks its worker until another one has run, which waits in the queue of that worker: so
/// the other worker has to steal that.
fn steal() {
    let (told, is_over) = channel();
    let blocks = move || is_over.recv().expect("the other one runs");
    run(2, true, || {
        scope(|s| {
            s.spawn(blocks);
            s.spawn(|| ());
            s.spawn(move || told.send(()).expect("somebody waits"));
        });
    });
}

fn main() {
    for (name, steals) in [("first in, first out", false), ("work stealing", true)] {
        for workers in [1, 2] {
            let main = move |main: Main| run(workers, steals, main);
            let suite = Suite::new(format!("{name}, by transactions, on {workers}"), main);
            let report = suite.workers(workers).nests().rounds(1_000).run();
            println!("{report}");
            report.unwrap();
        }
        assert!(order(steals).into_iter().eq(0..100));
    }
    (0..100).for_each(|_| steal());
}
