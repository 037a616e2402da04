//! The simulator: one thread, an order that follows from a seed, a clock that moves only when
//! nothing can run, and a report when nothing ever will.
//!
//! Tests run here, since the same seed gives the same schedule; the explorer runs simulations again
//! and again. The simulator is two parameters of the worker loop of every other scheduler: a
//! *policy*, in `explore/course.rs`, that draws the next fiber, and the *park* at the end of this
//! file, which moves the clock when idle. (`plain.rs` is a whole scheduler in one file.)
#![allow(unsafe_code)] // It leads a run in a family of its own.

use crate::dump::cycles_of;
use crate::dump::parts::Cycle;
use crate::explore::{Course, Random, Steered};
use crate::run::lead::{lead_family, with_family};
use crate::run::shutdown::{Ending, Shutdown};
use crate::worker::common::{suspended, with_caller};
use crate::worker::group::Group;
use crate::worker::local::Local;
use crate::worker::roster;
use crate::worker::stuck::Stuck;
use segue_core::Cancelled;
use segue_core::scheduling::{Park, PreemptionPoints, Timers, Unpark, WaitPark};
use segue_core::unwind::__rust_begin_short_backtrace;
use segue_fiber::{StackArena, StackConfig, StackPool};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Runs programs under schedules that depend on nothing but a seed.
///
/// Its world is closed: its fibers wait for each other and for the clock. An event from another
/// thread counts as never coming, unless somebody holds an [`OutsideWork`](segue_core::OutsideWork)
/// for that, or the world is [opened](Sim::open). There is no network either: a socket works, but
/// its events count as never coming, and a report says so.
///
/// One seed is one schedule, and one series of [random](segue_core::random) numbers for each fiber.
/// To try many, and have the one that fails named: [`Explore`](crate::Explore).
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
    shutdown: Shutdown,
}

impl Sim {
    /// A simulation with the schedule that follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let (stacks, shutdown) = (StackConfig::new(), Shutdown::new());
        Self { seed, stacks, open: false, backtraces: false, preemptive: false, shutdown }
    }

    /// The fibers' stacks.
    pub fn stacks(self, stacks: StackConfig) -> Self {
        Self { stacks, ..self }
    }

    /// Lets other threads and the network take part: when no fiber can run and no timer is left,
    /// the simulation waits for them, and reports no deadlock.
    ///
    /// While a fiber waits for an event that only the world outside brings (a socket, a child's
    /// end, a signal, a lock of a file) the clock goes with the real one, in every kind of wait: by
    /// a call, with a source in a choice beside a deadline, with a merge that has such a source. So
    /// a time-out of a second around a read gives the other end a second, and does not pass at
    /// once. Otherwise the clock still jumps to the next timer when nothing can run.
    ///
    /// The order of ready fibers is still drawn from the seed, but their times of becoming ready
    /// are up to the others, so a schedule can't be replayed.
    pub fn open(self) -> Self {
        Self { open: true, ..self }
    }

    /// Lets a deadlock report say where each fiber is, call by call. Default: no.
    ///
    /// Reports of the same program are then equal only if the fibers' functions are the same in the
    /// machine code.
    pub fn backtraces(self, yes: bool) -> Self {
        Self { backtraces: yes, ..self }
    }

    /// Lets fibers be preempted where they need not wait: at the beginning of each operation, and
    /// after each spawn. See [`preemption_point`](segue_core::preemption_point).
    pub fn preemptive(self) -> Self {
        Self { preemptive: true, ..self }
    }

    /// The end, as of a scheduler ([`Runtime::shutdown`](crate::Runtime::shutdown)), but in virtual
    /// time: a grace of an hour that nobody uses takes none.
    ///
    /// # Examples
    ///
    /// ```
    /// use segue_core::{Builder, sleep};
    /// use segue_sched::{Shutdown, Sim};
    /// use std::time::Duration;
    ///
    /// let shutdown = Shutdown::new().grace(Duration::from_secs(3600));
    /// let deaf = Sim::new(7).shutdown(shutdown).run(|| Builder::new().name("deaf").spawn(|| sleep(Duration::MAX)));
    /// let cancelled = deaf.unwrap().join().unwrap().unwrap_err();
    /// assert_eq!(cancelled.to_string(), "cancelled: asked to finish, and not over after 3600s: `deaf`");
    /// ```
    pub fn shutdown(self, shutdown: Shutdown) -> Self {
        Self { shutdown, ..self }
    }

    /// Runs `f` as the first fiber, and all its descendants, on this thread.
    ///
    /// On a deadlock every fiber is cancelled, so that their stacks can be unwound in order, with a
    /// reason that says so and names the seed; and the report is returned, also if `f` panics then.
    ///
    /// # Errors
    /// [`Deadlock`] if at some point no fiber could run and no timer was left.
    ///
    /// # Panics
    /// If `f` panics; or if address space for stacks can't be had. If fibers are still stuck after
    /// they were cancelled (inside of a [`shield`](segue_core::shield)), the process ends with the
    /// report: their stacks could not be freed.
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> Result<T, Deadlock> {
        let course = Course::new(Box::new(Random::new(self.seed)), self.preemptive);
        let name = |fibers, cycles| Deadlock { seed: self.seed, fibers, cycles };
        let (mut f, mut value) = (Some(f), None);
        let run = simulate(
            course,
            &arena(self.stacks.clone()),
            Setup {
                name: format!("seed {}", self.seed),
                seed: self.seed,
                open: self.open,
                backtraces: self.backtraces,
                shutdown: self.shutdown.clone(),
            },
            &|fibers| name(fibers, Vec::new()).to_string(),
            &mut || value = f.take().map(__rust_begin_short_backtrace),
        );
        match (run.deadlock, run.outcome) {
            (Some(fibers), _) => Err(name(fibers, run.cycles)),
            (None, Ok(())) => Ok(value.expect("the first fiber was there")),
            (None, Err(payload)) => resume_unwind(payload),
        }
    }
}

/// Stacks for simulations.
pub(crate) fn arena(stacks: StackConfig) -> Arc<StackArena> {
    crate::run::lead::prepare_thread().expect("a handler for stack overflow");
    StackArena::new(stacks).expect("address space for the simulator's stacks")
}

/// The other facts about a simulation.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    /// The name that leads to this simulation again.
    pub(crate) name: String,
    /// The seed of random numbers.
    pub(crate) seed: u64,
    /// Other threads take part.
    pub(crate) open: bool,
    /// Reports say where each fiber is.
    pub(crate) backtraces: bool,
    pub(crate) shutdown: Shutdown,
}

/// The result of a simulation.
pub(crate) struct Run {
    pub(crate) outcome: thread::Result<()>,
    /// The stuck fibers, at a deadlock.
    pub(crate) deadlock: Option<Vec<Stuck>>,
    /// Those of them that wait for each other.
    pub(crate) cycles: Vec<Cycle>,
    /// The fibers that were not over when the first one was.
    pub(crate) left: Vec<Stuck>,
    /// Whether a random number was drawn.
    pub(crate) has_drawn: bool,
    pub(crate) course: Course,
}

/// Runs `f` as the first fiber of a simulation on this thread. A second deadlock, after all was
/// cancelled, ends the process with the answer of `report`.
///
/// Compiled with optimisations in programs that use this, and in no others: the way here from the
/// public functions is inlined. Without optimisations, as in most tests, compiled once, here.
#[cfg_attr(not(debug_assertions), inline)]
pub(crate) fn simulate(
    mut course: Course,
    arena: &Arc<StackArena>,
    setup: Setup,
    report: &dyn Fn(Vec<Stuck>) -> String,
    f: &mut dyn FnMut(),
) -> Run {
    let _points = course.preemptive.then(PreemptionPoints::enable);
    let clock = Timers::seeded(setup.seed);
    course.clock = Some(clock.clone());
    let settles = Rc::clone(&course.settles);
    let course = Rc::new(RefCell::new(course));
    let stacks = StackPool::new(Arc::clone(arena));
    let group = Group::new(1);
    roster::enlist(&group, "simulation", true);
    if !setup.shutdown.is_plain() {
        group.set_ending(Ending::by_fiber(setup.shutdown));
    }
    let local = Local::new(group, 0, Steered(Rc::clone(&course)), clock.clone(), stacks);
    local.common.backtraces.set(setup.backtraces);
    local.common.settles.set(settles).expect("the worker is new");
    local.reserve_stack().expect("a stack for the first fiber");
    let (deadlock, left, cycles) = (RefCell::new(None), RefCell::new(Vec::new()), RefCell::default());
    let of = Arc::clone(&local.common.group);
    let outcome = with_family(|family| {
        course.borrow_mut().stop = Some(family.token());
        let on_deadlock = |fibers| {
            assert!(deadlock.borrow().is_none(), "still stuck after cancellation: {}", report(fibers));
            *deadlock.borrow_mut() = Some(fibers);
            *cycles.borrow_mut() = cycles_of(&of);
            family.token().cancel_with(format!("the simulation came to a deadlock ({})", setup.name));
        };
        if setup.open {
            clock.open_to_the_world();
        }
        let park = World { park: WaitPark::new(), clock: clock.clone() };
        park.clock.call_without_outside_work(park.unparker());
        let body = || {
            let outcome = catch_unwind(AssertUnwindSafe(f));
            let unstarted = course.borrow().unstarted();
            left.borrow_mut().extend(suspended(None).into_iter().chain(unstarted));
            outcome
        };
        // SAFETY: the family is this call's, which leads in that once.
        unsafe { lead_family(family, local, park, Some(&on_deadlock), body) }
    });
    let course = Rc::into_inner(course).expect("the worker has ended, and its policy with it").into_inner();
    let has_drawn = clock.has_drawn();
    Run {
        outcome,
        deadlock: deadlock.into_inner(),
        cycles: cycles.into_inner(),
        left: left.into_inner(),
        has_drawn,
        course,
    }
}

/// Lets all other fibers of the simulation run until none of them is ready: each has ended, or
/// waits for another one, for the clock, or for the caller.
///
/// For tests that start something and want to look at the outcome. Time does not pass: a fiber that
/// sleeps sleeps on; [`sleep`](segue_core::sleep) lets time pass, and a `settle` afterwards lets
/// the fibers run that were due then. `settle` waits for [work outside](segue_core::outside_work),
/// which takes no time. If several fibers settle, they go on one after the other when all others
/// wait. Schedules that differ only in when the caller looks are one.
///
/// # Cancellation
/// *No effect*: a cancelled fiber does not let the others run.
///
/// # Errors
/// [`Cancelled`] if the caller was cancelled.
///
/// # Panics
/// If the caller is not a fiber of a simulation: elsewhere nobody knows which fibers are ready.
///
/// # Examples
///
/// ```
/// use segue_core::{spawn, yield_now};
/// use segue_sched::{Sim, settle};
///
/// let run = Sim::new(1).run(|| {
///     let fiber = spawn(|| (0..100).for_each(|_| yield_now().unwrap()));
///     settle().unwrap();
///     assert!(fiber.is_finished());
/// });
/// assert_eq!(run, Ok(()));
/// ```
pub fn settle() -> Result<(), Cancelled> {
    let settles = with_caller(|caller| caller.and_then(|(common, _)| common.settles.get().cloned()));
    let settles = settles.expect("`settle` is for the fibers of a simulation, `Sim` or `Explore`");
    settles.set(true);
    let settled = segue_core::yield_now();
    // The caller has not switched after a cancellation, or without a way to.
    settles.set(false);
    settled
}

/// The park: an idle simulator moves the clock to the next timer, unless an answer from outside is
/// under way, or may come from the network.
struct World {
    clock: Timers,
    park: WaitPark,
}

impl World {
    /// Whether there is, or will be, mail. In this order: the thread that ends the last work
    /// outside has answered before.
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
            Some(_) if self.expects_mail() => self.park.park(None),
            Some(timeout) if self.clock.is_open_to_the_world() && self.clock.has_kernel_waits() => {
                let began = segue_core::now();
                self.park.park(Some(timeout));
                self.clock.advance(segue_core::now().duration_since(began).min(timeout));
            }
            Some(timeout) => self.clock.advance(timeout),
            None => self.park.park(None),
        }
    }

    fn is_closed(&self) -> bool {
        !self.clock.is_open_to_the_world() && !self.expects_mail()
    }
}

/// No fiber could run, and no timer was left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The seed that leads there again.
    pub seed: u64,
    /// The stuck fibers, and each one's wait.
    pub fibers: Vec<Stuck>,
    /// Those of them that wait for each other, as far as the owners of things are known.
    pub cycles: Vec<Cycle>,
}

impl std::fmt::Display for Deadlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "deadlock (seed {}): nothing can run, and no timer is left", self.seed)?;
        self.fibers.iter().try_for_each(|stuck| writeln!(f, "  {stuck}"))?;
        self.cycles.iter().try_for_each(|cycle| write!(f, "{cycle}"))?;
        match self.fibers.iter().any(|stuck| stuck.network) {
            true => writeln!(f, "  (`Sim::open` waits for the network)"),
            false => Ok(()),
        }
    }
}

impl std::error::Error for Deadlock {}
