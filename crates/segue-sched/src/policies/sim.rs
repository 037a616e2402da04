//! The simulator: one thread, an order that follows from a seed, a clock that moves only when nothing can run, and a report when
//! nothing ever will.
//!
//! Read this file first: it is a whole scheduler, but for its policy, which is in `explore/course.rs`. A *policy* says what runs next, a *park* says what it
//! is to idle, and the worker loop, which it shares with every other scheduler, does the rest. Tests run on it, since the same seed gives the same schedule; the
//! explorer runs it again and again.

use crate::explore::{Course, Random, Steered};
use crate::group::Group;
use crate::local::{Local, suspended};
use crate::report::Stuck;
use crate::runtime::{lead_family, with_family};
use segue_core::{Park, PreemptionPoints, Timers, Unpark, WaitPark};
use segue_fiber::{StackArena, StackConfig, StackPool};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Runs programs under schedules that depend on nothing but a seed.
///
/// Its world is closed: its fibers wait for each other and for the clock. What they wait for from other threads counts as never coming, unless somebody holds an
/// [`OutsideWork`](segue_core::OutsideWork) for it, or the world is [opened](Sim::open).
///
/// One seed is one schedule. To try many, and have the one that fails named: [`Explore`](crate::Explore).
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
    backtraces: bool,
    preemptive: bool,
}

impl Sim {
    /// A simulation whose schedule follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, stacks: StackConfig::new(), open: false, backtraces: false, preemptive: false }
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

    /// Lets a deadlock report say where each fiber is, call by call. Default: no.
    ///
    /// Reports of the same program are then equal only if the fibers' functions are the same in the machine code.
    pub fn backtraces(mut self, yes: bool) -> Self {
        self.backtraces = yes;
        self
    }

    /// Lets fibers be preempted where they need not wait: at the beginning of each operation, and after each spawn. See
    /// [`preemption_point`](segue_core::preemption_point).
    pub fn preemptive(mut self) -> Self {
        self.preemptive = true;
        self
    }

    /// Runs `f` as the first fiber, and all that it spawns, on this thread.
    ///
    /// On a deadlock every fiber is cancelled, so that their stacks can be unwound in order, and the report is returned, also if `f` panics then.
    ///
    /// # Errors
    /// [`Deadlock`] if at some point no fiber could run and no timer was left.
    ///
    /// # Panics
    /// If `f` panics; or if address space for stacks can't be had. If fibers are still stuck after they were cancelled (inside of a
    /// [`shield`](segue_core::shield)), the process ends with the report: their stacks could not be freed.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> Result<T, Deadlock> {
        let course = Course::new(Box::new(Random::new(self.seed))).preemptive(self.preemptive);
        let name = |fibers| Deadlock { seed: self.seed, fibers };
        let run = simulate(
            course,
            &arena(self.stacks.clone()),
            Setup { open: self.open, backtraces: self.backtraces },
            &|fibers| name(fibers).to_string(),
            f,
        );
        match (run.deadlock, run.outcome) {
            (Some(fibers), _) => Err(name(fibers)),
            (None, Ok(value)) => Ok(value),
            (None, Err(payload)) => resume_unwind(payload),
        }
    }
}

/// Stacks for simulations.
pub(crate) fn arena(stacks: StackConfig) -> Arc<StackArena> {
    crate::runtime::prepare_thread().expect("a handler for stack overflow");
    StackArena::new(stacks).expect("address space for the simulator's stacks")
}

/// What else there is to say of a simulation.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup {
    /// Other threads take part.
    pub(crate) open: bool,
    /// Reports say where each fiber is.
    pub(crate) backtraces: bool,
}

/// What came of a simulation.
pub(crate) struct Run<T> {
    pub(crate) outcome: thread::Result<T>,
    /// Who was stuck, if it came to that.
    pub(crate) deadlock: Option<Vec<Stuck>>,
    /// Who was not over when the first fiber was.
    pub(crate) left: Vec<Stuck>,
    pub(crate) course: Course,
}

/// Runs `f` as the first fiber of a simulation on this thread. A second deadlock, after all was cancelled, ends the process with what `report` makes of it.
pub(crate) fn simulate<T>(
    course: Course,
    arena: &Arc<StackArena>,
    setup: Setup,
    report: &dyn Fn(Vec<Stuck>) -> String,
    f: impl FnOnce() -> T,
) -> Run<T> {
    let _points = course.is_preemptive().then(PreemptionPoints::enable);
    let course = Rc::new(RefCell::new(course));
    let clock = Timers::simulated();
    let stacks = StackPool::new(Arc::clone(arena));
    let local = Local::new(Group::new(1), 0, Steered(Rc::clone(&course)), clock.clone(), stacks);
    local.common.backtraces.set(setup.backtraces);
    local.reserve_stack().expect("a stack for the first fiber");
    let (deadlock, left) = (RefCell::new(None), RefCell::new(Vec::new()));
    let outcome = with_family(|family| {
        course.borrow_mut().stop_by(family.token());
        let on_deadlock = |fibers| {
            assert!(deadlock.borrow().is_none(), "still stuck after cancellation: {}", report(fibers));
            *deadlock.borrow_mut() = Some(fibers);
            family.token().cancel();
        };
        let park = World { park: WaitPark::new(), clock, open: setup.open };
        park.clock.call_without_outside_work(park.unparker());
        lead_family(family, local, park, Some(&on_deadlock), || {
            let outcome = catch_unwind(AssertUnwindSafe(f));
            let unstarted = course.borrow().unstarted();
            left.borrow_mut().extend(suspended().into_iter().chain(unstarted));
            outcome
        })
    });
    let course = Rc::into_inner(course).expect("the worker has ended, and its policy with it").into_inner();
    Run { outcome, deadlock: deadlock.into_inner(), left: left.into_inner(), course }
}

/// The park: to idle is to move the clock to the next timer, unless an answer from outside is under way.
struct World {
    clock: Timers,
    park: WaitPark,
    open: bool,
}

impl World {
    /// Whether there is, or will be, mail. In this order: who ends the last work outside has answered before.
    fn expects_mail(&self) -> bool {
        self.clock.has_outside_work() || self.park.is_unparked()
    }
}

impl Park for World {
    fn unparker(&self) -> Arc<dyn Unpark> {
        self.park.unparker()
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match timeout {
            Some(timeout) if !self.expects_mail() => self.clock.advance(timeout),
            _ => self.park.park(None),
        }
    }

    fn is_closed(&self) -> bool {
        !self.open && !self.expects_mail()
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
