//! The monitor: a thread that notices workers which stay in one fiber for long, reports them, and
//! has others do the waiting work there.
//!
//! Used by applications, through [`Runtime::monitor`](crate::Runtime::monitor); made by the
//! scheduler's entry points, which end it.
//!
//! # The idea
//!
//! Each worker publishes the number of its turn, by one plain store on a line of its own (`Beat` in
//! `group/mod.rs`). The monitor looks at all of them four times in the set time. A worker that is
//! in the same turn for that long has not come back to its loop: its fiber computes, or has blocked
//! the thread.
//!
//! The monitor does not read the fiber's name from the worker's memory, where names are freed. The
//! monitor asks the worker's thread for its calls ([`Watched`]): in a signal handler the thread
//! copies its registers, its stacks and the labels of the fibers on them. So name and stack are of
//! the same instant, and turns cost nothing for that. If the turn has not changed after that, the
//! answer was given in that turn.
//!
//! # States of an incident
//!
//! ```text
//!   unseen --same turn at two looks, for long--> noticed --answer, same turn--> reported
//!      ^                                            |                             |
//!      +------------ another turn, or none ---------+-----------------------------+
//! ```
//!
//! At each look from "noticed" on, the monitor hands closures that are sent to the worker to all
//! others, wakes sleepers, and asks the worker for a fork or a closure that its policy can spare
//! ([`Group::relieve`]).
//!
//! # Idle
//!
//! A monitor that has found nobody in a turn, twice, announces its sleep, if all workers sleep, and
//! parks without a time-out. The announcement is a bit in the very word that counts sleeping
//! workers, set by a compare-and-swap that fails if one is awake; a worker that gets up changes
//! that word and finds the bit. So there is no instant between the two in which a worker gets up
//! unwatched, and no ordering is needed. A woken monitor looks for a while before it sleeps again.
//! So an idle program costs no looks, and a program with moments of work costs some looks for each.
//!
//! # The end
//!
//! The scheduler's owner ends the monitor after the workers, and waits for its thread, and so for a
//! report under way. A pool that is dropped inside of a report can't wait for the thread that
//! reports.

use crate::run::report::{StuckWorker, say};
use crate::worker::group::Group;
use crate::worker::hooks::no_unwind;
use segue_core::scheduling::Unpark;
use segue_fiber::{Backtrace, StackOwner, Watched};
use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The time that a thread may take to answer. A thread does so in microseconds if it gets the
/// processor.
const ANSWER: Duration = Duration::from_secs(1);

/// Looks are no nearer to each other than this.
const SHORTEST: Duration = Duration::from_millis(1);

pub(super) type OnStuck = Arc<dyn Fn(&StuckWorker) + Send + Sync>;

/// The settings of a scheduler's monitor.
#[derive(Clone)]
pub(crate) struct Config {
    pub(super) patience: Option<Duration>,
    pub(super) on_stuck: OnStuck,
}

impl Default for Config {
    fn default() -> Self {
        Self { patience: None, on_stuck: Arc::new(|stuck| say(&format!("segue: {stuck}\n"))) }
    }
}

segue_core::impl_debug!([] Config, |it| patience: it.patience);

impl Config {
    pub(crate) fn is_on(&self) -> bool {
        self.patience.is_some()
    }
}

/// The means to ask a worker's thread.
struct Seat {
    thread: Watched,
    /// How many stacks there are below the worker's loop; more than the thread's own if the
    /// scheduler runs in a fiber.
    below: usize,
}

/// The state that the looking threads share with these.
pub(crate) struct Watch {
    group: Arc<Group>,
    name: String,
    seats: Box<[OnceLock<Seat>]>,
    ended: AtomicBool,
}

/// A scheduler's monitor. Its end is the drop of this.
pub(crate) struct Monitor {
    watch: Arc<Watch>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Sleeper(Thread);

impl Unpark for Sleeper {
    fn unpark(&self) {
        self.0.unpark();
    }
}

/// The observations of a worker.
#[derive(Clone, Copy)]
struct Seen {
    turn: Option<NonZero<usize>>,
    since: Instant,
    reported: bool,
}

impl Monitor {
    /// Starts one, if that was asked for.
    pub(crate) fn start(config: &Config, watch: &Arc<Watch>) -> io::Result<Option<Self>> {
        let Some(patience) = config.patience else { return Ok(None) };
        let (watch, on_stuck) = (Arc::clone(watch), Arc::clone(&config.on_stuck));
        let monitor = Arc::clone(&watch);
        let run = move || monitor.run(patience, &*on_stuck);
        let thread = thread::Builder::new().name(format!("{}-monitor", watch.name)).spawn(run)?;
        watch.group.set_monitor(Arc::new(Sleeper(thread.thread().clone())));
        Ok(Some(Self { watch, thread: Some(thread) }))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.watch.ended.store(true, Ordering::Release);
        thread.thread().unpark();
        if thread.thread().id() != thread::current().id() {
            // This does not unwind.
            let _ = thread.join();
        }
    }
}

impl Watch {
    pub(crate) fn new(group: &Arc<Group>, name: &str) -> Arc<Self> {
        Arc::new(Self {
            group: Arc::clone(group),
            name: name.to_owned(),
            seats: (0..group.len()).map(|_| OnceLock::new()).collect(),
            ended: AtomicBool::new(false),
        })
    }

    /// Lets the calling thread, which is worker `index`'s, be asked for its calls.
    pub(crate) fn admit(&self, index: usize) -> io::Result<()> {
        let thread = Watched::register()?;
        let below = match segue_core::in_fiber() {
            false => 1,
            true => thread.backtrace(ANSWER).map_or(1, |backtrace| backtrace.stacks().len()),
        };
        // A worker starts once.
        let _ = self.seats[index].set(Seat { thread, below });
        Ok(())
    }

    fn run(&self, patience: Duration, on_stuck: &dyn Fn(&StuckWorker)) {
        let unseen = Seen { turn: None, since: Instant::now(), reported: false };
        let mut all = vec![unseen; self.group.len()];
        let every = (patience / 4).max(SHORTEST);
        let mut has_slept = false;
        while !self.ended.load(Ordering::Acquire) {
            let mut quiet = true;
            for (index, seen) in all.iter_mut().enumerate() {
                quiet &= self.look(index, seen, patience, on_stuck);
            }
            if quiet && !has_slept && self.group.unwatch() {
                thread::park();
                self.group.watch_again();
                has_slept = true;
            } else {
                thread::park_timeout(every);
                has_slept = false;
            }
        }
    }

    /// Looks at a worker, and answers whether the worker is in no turn, as at the last look.
    fn look(&self, index: usize, seen: &mut Seen, patience: Duration, on_stuck: &dyn Fn(&StuckWorker)) -> bool {
        let turn = self.group.remote(index).beat.turn();
        if turn != seen.turn {
            *seen = Seen { turn, since: Instant::now(), reported: false };
            return false;
        }
        let Some(turn) = turn else { return true };
        if seen.since.elapsed() >= patience {
            self.group.relieve(index);
            if self.seats[index].get().is_some() && !seen.reported {
                seen.reported = true;
                if let Some(stuck) = self.ask(index, turn, seen.since) {
                    let no_unwind = no_unwind();
                    on_stuck(&stuck);
                    no_unwind.disarm();
                }
            }
        }
        false
    }

    /// Asks a worker that has been in this turn since then for its calls. `None` after that turn.
    pub(crate) fn ask(&self, worker: usize, turn: NonZero<usize>, since: Instant) -> Option<StuckWorker> {
        let seat = self.seats[worker].get()?;
        let backtrace = seat.thread.backtrace(ANSWER);
        // The thread's writes before its answer are seen afterwards: the same turn now was the turn
        // then.
        if self.group.remote(worker).beat.turn() != Some(turn) {
            return None;
        }
        let fiber = backtrace.as_ref().ok().and_then(|backtrace| fiber_of(backtrace, seat.below));
        // Below the fiber are this scheduler and its starter.
        let backtrace = backtrace.map(|backtrace| match fiber {
            Some(_) => {
                let above = backtrace.stacks().len() - seat.below;
                backtrace.innermost(above)
            }
            None => backtrace,
        });
        let name = format!("{}-{worker}", self.name);
        Some(StuckWorker { name, worker, fiber, held: since.elapsed(), backtrace })
    }
}

/// The fiber with the stack next to those that were there before the worker.
fn fiber_of(backtrace: &Backtrace, below: usize) -> Option<String> {
    let stacks = backtrace.stacks();
    match stacks.get(stacks.len().checked_sub(below + 1)?)?.owner() {
        StackOwner::Coroutine { id, name } if name.is_empty() => Some(format!("fiber {id}")),
        StackOwner::Coroutine { name, .. } => Some(format!("fiber `{name}`")),
        _ => None,
    }
}
