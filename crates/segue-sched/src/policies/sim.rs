//! The simulator: one thread, an order drawn from a seed, a clock that moves only when nothing can run, and a report when
//! nothing ever will.
//!
//! Read this file first: it is a whole scheduler. A *policy* says what runs next, a *park* says what it is to idle, and the worker loop,
//! which it shares with every other scheduler, does the rest. Tests run on it, since the same seed gives the same schedule.

use crate::group::Group;
use crate::local::{Local, Stuck};
use crate::policy::{Goes, Policy, Task, Why};
use crate::runtime::{lead_family, with_family};
use fastrand::Rng;
use segue_core::{Park, Timers, Unpark, WaitPark};
use segue_fiber::{StackArena, StackConfig, StackPool};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// Runs programs under schedules that depend on nothing but a seed.
///
/// Its world is closed: its fibers wait for each other and for the clock. What they wait for from other threads counts as never coming, unless it is
/// [opened](Sim::open).
///
/// # Examples
///
/// ```
/// use segue_core::{sleep, spawn};
/// use segue_sched::Sim;
/// use std::time::Duration;
///
/// // A day passes at once.
/// let slept = Sim::new(1).run(|| {
///     let fiber = spawn(|| sleep(Duration::from_secs(86_400)));
///     fiber.join().unwrap()
/// });
/// assert_eq!(slept, Ok(Ok(())));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Sim {
    seed: u64,
    stacks: StackConfig,
    open: bool,
}

impl Sim {
    /// A simulation whose schedule follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, stacks: StackConfig::new(), open: false }
    }

    /// What the fibers' stacks are like.
    pub fn stacks(mut self, stacks: StackConfig) -> Self {
        self.stacks = stacks;
        self
    }

    /// Lets other threads take part: when no fiber can run and no timer is left, it waits for them, and reports no deadlock.
    ///
    /// The order of what is ready is still drawn from the seed, but what is ready when is up to the others, so a schedule can't be replayed.
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Runs `f` as the first fiber, and all that it spawns, on this thread.
    ///
    /// On a deadlock every fiber is cancelled, so that their stacks can be unwound in order, and the report is returned.
    ///
    /// # Errors
    /// [`Deadlock`] if at some point no fiber could run and no timer was left.
    ///
    /// # Panics
    /// If `f` panics; or if address space for stacks can't be had. If fibers are still stuck after they were cancelled (inside of a
    /// [`shield`](segue_core::shield)), the process ends with the report: their stacks could not be freed.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> Result<T, Deadlock> {
        crate::runtime::prepare_thread().expect("a handler for stack overflow");
        let arena = StackArena::new(self.stacks.clone()).expect("address space for the simulator's stacks");
        let policy = Shuffled { ready: Vec::new(), rng: Rng::with_seed(self.seed) };
        let clock = Timers::simulated();
        let local = Local::new(Group::new(1), 0, policy, clock.clone(), StackPool::new(arena));
        local.reserve_stack().expect("a stack for the first fiber");
        let deadlock = RefCell::new(None);
        let value = with_family(|family| {
            let on_deadlock = |fibers| {
                let found = Deadlock { seed: self.seed, fibers };
                assert!(deadlock.borrow().is_none(), "still stuck after cancellation: {found}");
                *deadlock.borrow_mut() = Some(found);
                family.token().cancel();
            };
            let park = World { clock, park: WaitPark::new(), open: self.open };
            lead_family(family, local, park, Some(&on_deadlock), f)
        });
        match deadlock.take() {
            Some(deadlock) => Err(deadlock),
            None => Ok(value),
        }
    }
}

/// The policy: what runs next is drawn at random from all that is ready.
struct Shuffled {
    ready: Vec<Task>,
    rng: Rng,
}

impl Policy for Shuffled {
    fn push(&mut self, task: Task, _why: Why) -> Goes {
        self.ready.push(task);
        Goes::Here
    }

    fn pop(&mut self) -> Option<Task> {
        let drawn = (!self.ready.is_empty()).then(|| self.rng.usize(..self.ready.len()));
        drawn.map(|index| self.ready.swap_remove(index))
    }
}

/// The park: to idle is to move the clock to the next timer.
struct World {
    clock: Timers,
    park: WaitPark,
    open: bool,
}

impl Park for World {
    fn unparker(&self) -> Arc<dyn Unpark> {
        self.park.unparker()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            None if self.open => self.park.park(None),
            _ => self.clock.advance(timeout.unwrap_or_default()),
        }
    }

    fn is_closed(&self) -> bool {
        !self.open
    }
}

/// No fiber could run, and no timer was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The seed that leads to it again.
    pub seed: u64,
    /// Who was stuck, and on what.
    pub fibers: Vec<Stuck>,
}

impl std::fmt::Display for Deadlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "deadlock (seed {}): nothing can run, and no timer is left", self.seed)?;
        self.fibers.iter().try_for_each(|stuck| writeln!(f, "  {stuck}"))
    }
}

impl std::error::Error for Deadlock {}
